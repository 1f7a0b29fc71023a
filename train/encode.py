"""From text to token ids and step positions: the same code for training and for scoring.

The text is the filled template and then the steps as they are, joined by nothing. A
step's position is the index of its last token, the token whose output is its score. A
token that reaches from one piece into the next (`.` and the line break after it are one
token to many tokenizers) would show a step what follows it, and make the score of a
prefix depend on whether more text follows: there the text is cut and the two sides are
encoded apart, and `num_cut_tokens` counts it. So under a causal model the score of step
*i* is the same for the whole solution and for its prefix of *i* + 1 steps.

Questions and steps are text: a `<|im_end|>` written in one is encoded letter by letter,
and only the template's own control tokens (`fill` finds them) become such.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from pipeline.errors import DataError
from train.config import fill_template, template_pieces


@dataclass(frozen=True, slots=True)
class EncodedSteps:
    """Token ids, at most `max_length`, and the position in them of each step that fits.

    `step_positions` never falls from one step to the next; it has one entry a step that
    ends within `max_length`: `num_lost_steps` at the end have none.
    """

    input_ids: tuple[int, ...]
    step_positions: tuple[int, ...]
    num_lost_steps: int
    num_cut_tokens: int


StepEncoder = Callable[[str, Sequence[str]], EncodedSteps]
"""(question, steps) to what a model reads; raises DataError for a step of white space only."""


@dataclass(frozen=True, slots=True)
class FilledTemplate:
    """The text before the first step, and where the template itself has control tokens.

    `controls` are the spans of those in `text`, in order.
    """

    text: str
    controls: tuple[tuple[int, int], ...] = ()


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """Special tokens that stand for no text: all but the one for unknown letters."""
    return {
        token.content: token_id
        for token_id, token in tokenizer.added_tokens_decoder.items()
        if token.special and token_id != tokenizer.unk_token_id
    }


def fill(tokenizer: Any, template: str, question: str) -> FilledTemplate:
    """Put the question into the template, and find the template's own control tokens."""
    names = sorted(control_tokens(tokenizer), key=len, reverse=True)
    controls: list[tuple[int, int]] = []
    start = 0
    for piece in template_pieces(template) if names else ():
        matches = re.finditer("|".join(map(re.escape, names)), piece)
        controls += [(start + match.start(), start + match.end()) for match in matches]
        start += len(piece) + len(question)
    return FilledTemplate(fill_template(template, question), tuple(controls))


def encode_steps(
    tokenizer: Any, prompt: FilledTemplate | str, steps: Sequence[str], *, max_length: int
) -> EncodedSteps:
    """Encode a prompt and its steps with a fast tokenizer. A `str` prompt is only text.

    A step that the tokenizer gives no token (it drops some control characters) has the
    position of the step before. Raises DataError for a step of white space only, and
    where neither the prompt nor the first step has a token.
    """
    require_content(steps)
    if isinstance(prompt, str):
        prompt = FilledTemplate(prompt)
    text = prompt.text + "".join(steps)
    ends = list(accumulate((len(step) for step in steps), initial=len(prompt.text)))
    known = control_tokens(tokenizer)
    ids, spans, num_cuts = encode_cut(
        tokenizer,
        text,
        ends,
        controls={(start, end): known[text[start:end]] for start, end in prompt.controls},
        reserved=set(known.values()),
    )
    positions = _last_tokens(spans, ends)[1:]
    if -1 in positions:
        raise DataError(f"the tokenizer {tokenizer.name_or_path} gives no token to {text[:80]!r}")
    return clipped(tokenizer, ids, positions, max_length=max_length, num_cuts=num_cuts)


def require_content(steps: Sequence[str]) -> None:
    """Raise DataError for a step of white space only."""
    for step_index, step in enumerate(steps):
        if not step.strip():
            raise DataError(f"step {step_index} is {step!r}: a step needs content to be scored")


def clipped(
    tokenizer: Any, ids: Sequence[int], positions: Sequence[int], *, max_length: int, num_cuts: int
) -> EncodedSteps:
    """What fits of `ids`, after the token that begins a text where the tokenizer has one."""
    opening = _opening_ids(tokenizer)
    kept = [len(opening) + position for position in positions]
    kept = [position for position in kept if position < max_length]
    return EncodedSteps(
        input_ids=tuple([*opening, *ids][:max_length]),
        step_positions=tuple(kept),
        num_lost_steps=len(positions) - len(kept),
        num_cut_tokens=num_cuts,
    )


Spans = list[tuple[int, int]]
"""Where in the text each token is: start and end (exclusive), in characters."""


def _opening_ids(tokenizer: Any) -> list[int]:
    """The one special token that begins a text, where the tokenizer has such a habit."""
    openers = (tokenizer.bos_token_id, tokenizer.cls_token_id)
    return [token_id for token_id in tokenizer("")["input_ids"][:1] if token_id in openers]


def encode_cut(
    tokenizer: Any,
    text: str,
    ends: Sequence[int],
    *,
    controls: Mapping[tuple[int, int], int],
    reserved: Set[int],
    reserved_ends: Set[int] = frozenset(),
) -> tuple[list[int], Spans, int]:
    """Ids and spans of `text`, and the number of places where it was cut.

    No token holds one of `ends` in its inside. The spans `controls`, sorted, are the tokens that
    they name, and apart from these there is none of `reserved`, unless it ends at one of
    `reserved_ends`: what spells one is cut after its first letter.
    """
    borders = {0, len(text), *(border for span in controls for border in span)}
    cuts: set[int] = set()
    while True:
        ids: list[int] = []
        spans: Spans = []
        for start, end in pairwise(sorted(borders | cuts)):
            if (control := controls.get((start, end))) is not None:
                ids.append(control)
                spans.append((start, end))
            else:
                piece_ids, piece_spans = _encode_text(tokenizer, text[start:end])
                ids += piece_ids
                spans += [(a + start, b + start) for a, b in piece_spans]
        # Unigram vocabularies hold control tokens as pieces, found in plain text too
        written = {
            start + 1
            for token_id, (start, end) in zip(ids, spans, strict=True)
            if token_id in reserved and (start, end) not in controls and end not in reserved_ends
        }
        new_cuts = (_ends_inside(spans, ends) | written) - borders - cuts
        if not new_cuts:
            return ids, spans, len(cuts)
        cuts |= new_cuts


def _encode_text(tokenizer: Any, text: str) -> tuple[list[int], Spans]:
    # not truncated and not warned of: lost steps are counted by the caller
    encoded = tokenizer(
        text,
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=True,
        truncation=False,
        verbose=False,
    )
    return encoded["input_ids"], encoded["offset_mapping"]


def _ends_inside(spans: Spans, ends: Sequence[int]) -> set[int]:
    inside: set[int] = set()
    for start, end in spans:
        inside.update(ends[bisect_right(ends, start) : bisect_left(ends, end)])
    return inside


def _last_tokens(spans: Spans, ends: Sequence[int]) -> list[int]:
    """For each piece, the index of the last token that starts before the piece's end.

    -1 where there is none, as for an empty prompt. Tokens that cover no text do not count.
    """
    positions: list[int] = []
    last, token_index = -1, 0
    for end in ends:
        while token_index < len(spans) and spans[token_index][0] < end:
            if spans[token_index][0] < spans[token_index][1]:
                last = token_index
            token_index += 1
        positions.append(last)
    return positions
