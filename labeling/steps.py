r"""Split a solution's text into steps without losing a character.

`"".join(split_steps(text, method)) == text`, always. The separator (white space, a step
marker) belongs to the *beginning* of the next step, so no prefix ends in white space:
text that does is tokenised differently where a model goes on. No cut falls inside
`$$…$$`, `\[…\]`, `\begin…\end` or a code fence. A piece without content of its own (no
letter or digit) and a bare `#### N` line merge into their neighbour: the answer belongs
to the step that reaches it, as in Math-Shepherd (arXiv 2312.08935, section 3.2).

Every scan is linear in the text: it is model output, and may be hostile.
"""

import re
from enum import StrEnum
from itertools import pairwise

from pipeline.config import FrozenConfig


class StepMethod(StrEnum):
    """Where steps are cut; `auto` takes markers, else blank lines, else lines."""

    AUTO = "auto"
    NEWLINE = "newline"
    BLANK_LINE = "blank-line"
    MARKER = "marker"


class StepConfig(FrozenConfig):
    """How solutions are split."""

    method: StepMethod = StepMethod.AUTO
    """Where steps are cut: `auto` takes markers ("Step 1"), else blank lines, else lines."""


def split_steps(text: str, method: StepMethod = StepMethod.AUTO) -> tuple[str, ...]:
    """The steps of `text`, in order; none for a text without content.

    Every step but the last ends in a character that is not white space.
    """
    if not _has_content(text):
        return ()
    protected = _protected_spans(text)
    gaps = [gap for gap in _gaps(text) if not _is_inside(gap.start(), protected)]
    cuts = _cuts(text, gaps, method)
    return _merge([text[a:b] for a, b in pairwise([0, *cuts, len(text)])])


_WHITE_SPACE = re.compile(r"\s+")
_MARKER = re.compile(r"(?:\*{1,2}|#{1,6} )?Step \d{1,4}\b")
_DELIMITER = re.compile(r"\\\\|\\\$|\$\$|\\\[|\\\]|\\begin\b|\\end\b|```")
_ESCAPES = {"\\\\", r"\$"}  # read so that the line break `\\[2pt]` opens no display


def _has_content(piece: str) -> bool:
    return any(character.isalnum() for character in piece)


def _gaps(text: str) -> list[re.Match[str]]:
    """Runs of white space with a line break inside the text, not at its ends."""
    return [
        gap
        for gap in _WHITE_SPACE.finditer(text)
        if "\n" in gap.group() and gap.start() > 0 and gap.end() < len(text)
    ]


def _cuts(text: str, gaps: list[re.Match[str]], method: StepMethod) -> list[int]:
    markers = [gap.start() for gap in gaps if _MARKER.match(text, gap.end())]
    blank_lines = [gap.start() for gap in gaps if gap.group().count("\n") > 1]
    lines = [gap.start() for gap in gaps]
    match method:
        case StepMethod.MARKER:
            return markers
        case StepMethod.BLANK_LINE:
            return blank_lines
        case StepMethod.NEWLINE:
            return lines
        case StepMethod.AUTO:
            return markers or blank_lines or lines


def _protected_spans(text: str) -> list[tuple[int, int]]:
    """Closed, outermost spans [start, end) that are never cut; an unclosed one is none."""
    tokens = [m for m in _DELIMITER.finditer(text) if m.group() not in _ESCAPES]
    closed_by = _closing_tokens([token.group() for token in tokens])
    spans: list[tuple[int, int]] = []
    index = 0
    while index < len(tokens):
        closing = closed_by.get(index)
        if closing is not None:
            spans.append((tokens[index].start(), tokens[closing].end()))
            index = closing
        index += 1
    return spans


def _closing_tokens(delimiters: list[str]) -> dict[int, int]:
    r"""Index of the opening delimiter → index of its closing one, in one pass.

    `\begin` nests; the others end at the next closing delimiter of their kind.
    """
    closed_by: dict[int, int] = {}
    next_at: dict[str, int] = {}
    begins: list[int] = []
    for index, delimiter in enumerate(delimiters):
        if delimiter == r"\begin":
            begins.append(index)
        elif delimiter == r"\end" and begins:
            closed_by[begins.pop()] = index
    for index in range(len(delimiters) - 1, -1, -1):
        delimiter = delimiters[index]
        closing = next_at.get(r"\]" if delimiter == r"\[" else delimiter)
        if delimiter in {r"\[", "$$", "```"} and closing is not None:
            closed_by[index] = closing
        next_at[delimiter] = index
    return closed_by


def _is_inside(position: int, spans: list[tuple[int, int]]) -> bool:
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        if spans[middle][1] <= position:
            low = middle + 1
        else:
            high = middle
    return low < len(spans) and spans[low][0] <= position


def _merge(pieces: list[str]) -> tuple[str, ...]:
    steps: list[list[str]] = []
    carried: list[str] = []  # pieces without content before the first step
    for piece in pieces:
        if _has_content(piece) and not (steps and _is_answer_line(piece)):
            steps.append([*carried, piece])
            carried = []
        elif steps:
            steps[-1].append(piece)
        else:
            carried.append(piece)
    return tuple("".join(step) for step in steps)


def _is_answer_line(piece: str) -> bool:
    """A `#### N` line by itself; a heading such as `#### Step 2` is none."""
    line = piece.strip()
    return line.startswith("####") and "\n" not in line and not _MARKER.match(line)
