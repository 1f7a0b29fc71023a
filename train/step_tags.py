"""The texts of foreign PRMs: a tag token after every step, whose output is the step's score.

Qwen2.5-Math-PRM (arXiv 2501.07301, its model card; Qwen2.5-Math-7B-PRM800K has the same form):
the chat template with the system prompt of the card, steps one after the other, `<extra_0>` after
each. Math-Shepherd (arXiv 2312.08935, the card of `math-shepherd-mistral-7b-prm`): the question,
then `Step 1: … ки`, a line break, `Step 2: … ки`.

The white space around a step is left out: these models read their own separators. Tags are placed
here and counted by place, so a step that spells one has no score more, and its letters never
become the tag's token: it is encoded in pieces there. Scores under a causal model do not depend on
later steps, as in `train.encode`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipeline.errors import DataError
from train.config import QUESTION
from train.encode import (
    EncodedSteps,
    FilledTemplate,
    Spans,
    StepEncoder,
    clipped,
    control_tokens,
    encode_cut,
    fill,
    require_content,
)

QWEN_TAG = "<extra_0>"
QWEN_SYSTEM = r"Please reason step by step, and put your final answer within \boxed{}."
SHEPHERD_TAG = "ки"
_SHEPHERD_STEP = re.compile(r"Step \d+:")


@dataclass(frozen=True, slots=True)
class StepTag:
    """What stands after every step, and the one token that it is to the model.

    `is_control`: the token is no text, so what stands before it and after it is encoded apart.
    """

    text: str
    token_id: int
    is_control: bool


def qwen_prm_encoder(tokenizer: Any, *, max_length: int) -> StepEncoder:
    """How Qwen2.5-Math-PRM reads a question and steps.

    Raises DataError for a tokenizer without `<extra_0>` or without a chat template.
    """
    token_id = tokenizer.get_vocab().get(QWEN_TAG)
    if token_id is None:
        raise DataError(
            f"the tokenizer {tokenizer.name_or_path} has no {QWEN_TAG}, the step tag of "
            "Qwen2.5-Math-PRM; take the tokenizer that belongs to the PRM"
        )
    if not tokenizer.chat_template:
        raise DataError(
            f"the tokenizer {tokenizer.name_or_path} has no chat template, which "
            "Qwen2.5-Math-PRM reads; take the tokenizer that belongs to the PRM"
        )
    template = tokenizer.apply_chat_template(
        [{"role": "system", "content": QWEN_SYSTEM}, {"role": "user", "content": QUESTION}],
        tokenize=False,
        add_generation_prompt=True,
    )
    tag = StepTag(QWEN_TAG, token_id, is_control=True)
    return partial(_encode_qwen, tokenizer, template, tag, max_length)


def math_shepherd_encoder(tokenizer: Any, *, max_length: int) -> StepEncoder:
    """How the Math-Shepherd PRM reads a question and steps.

    Steps are numbered, but for those that begin `Step 1:` themselves. Raises DataError for a
    tokenizer that has no token `ки`.
    """
    token_ids = tokenizer(SHEPHERD_TAG, add_special_tokens=False)["input_ids"]
    if len(token_ids) != 1 or token_ids[0] == tokenizer.unk_token_id:
        raise _no_shepherd(tokenizer, f"{SHEPHERD_TAG!r} is {len(token_ids)} tokens, not one")
    tag = StepTag(f" {SHEPHERD_TAG}", token_ids[0], is_control=False)
    return partial(_encode_shepherd, tokenizer, tag, max_length)


def math_shepherd_judgements(tokenizer: Any) -> tuple[int, int]:
    """The ids of `+` and `-`, as the card finds them. Raises DataError where they are no tokens."""
    token_ids = tokenizer("+ -", add_special_tokens=False)["input_ids"]
    if len(token_ids) != 2 or tokenizer.unk_token_id in token_ids or len(set(token_ids)) != 2:
        raise _no_shepherd(tokenizer, f"'+ -' has the token ids {token_ids}, not one each")
    return token_ids[0], token_ids[1]


def encode_tagged(
    tokenizer: Any, prompt: FilledTemplate, steps: Sequence[str], *, tag: StepTag, max_length: int
) -> EncodedSteps:
    """The prompt and the steps, as they are, with the tag after each; a step's position is that
    of its tag.
    """
    text, tags = _tagged(prompt.text, steps, tag.text)
    ends = {end for _, end in tags}
    known = control_tokens(tokenizer)
    controls = {(start, end): known[prompt.text[start:end]] for start, end in prompt.controls}
    placed = tags if tag.is_control else []
    while True:
        ids, spans, num_cuts = encode_cut(
            tokenizer,
            text,
            sorted(ends),
            controls=controls | dict.fromkeys(placed, tag.token_id),
            reserved={*known.values(), tag.token_id},
            reserved_ends=ends,
        )
        positions = {
            spans[index][1]: index for index, token_id in enumerate(ids) if token_id == tag.token_id
        }
        # A step's last letters can draw the tag into another token: there it is put by its id.
        lost = [span for span in tags if span[1] not in positions]
        if not lost:
            break
        placed = [*placed, *lost]
    return clipped(
        tokenizer,
        ids,
        [positions[end] for _, end in tags],
        max_length=max_length,
        num_cuts=num_cuts,
    )


def _encode_qwen(
    tokenizer: Any,
    template: str,
    tag: StepTag,
    max_length: int,
    question: str,
    steps: Sequence[str],
) -> EncodedSteps:
    require_content(steps)
    prompt = fill(tokenizer, template, question)
    stripped = [step.strip() for step in steps]
    return encode_tagged(tokenizer, prompt, stripped, tag=tag, max_length=max_length)


def _encode_shepherd(
    tokenizer: Any, tag: StepTag, max_length: int, question: str, steps: Sequence[str]
) -> EncodedSteps:
    require_content(steps)
    laid_out: list[str] = []
    for index, step in enumerate(step.strip() for step in steps):
        numbered = step if _SHEPHERD_STEP.match(step) else f"Step {index + 1}: {step}"
        laid_out.append(f"\n{numbered}" if index else numbered)
    prompt = FilledTemplate(f"{question.strip()} ")
    return encode_tagged(tokenizer, prompt, laid_out, tag=tag, max_length=max_length)


def _tagged(prompt: str, steps: Sequence[str], tag: str) -> tuple[str, Spans]:
    pieces, tags, length = [prompt], list[tuple[int, int]](), len(prompt)
    for step in steps:
        pieces += [step, tag]
        length += len(step) + len(tag)
        tags.append((length - len(tag), length))
    return "".join(pieces), tags


def _no_shepherd(tokenizer: Any, reason: str) -> DataError:
    return DataError(
        f"the tokenizer {tokenizer.name_or_path} is none of a Math-Shepherd PRM: {reason}; "
        "--prm-kind math-shepherd is for models that answer + or - at the tag ки"
    )
