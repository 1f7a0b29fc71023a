r"""Boxed answers: `\boxed{..}`, `\fbox{..}`, `\framebox{..}` and the ways models misspell them.

The last box counts, with the neighbours that `extract_joins` joins to it. Boxes that the text
takes back do not count. A box that is not closed is no answer, unless all that is missing is
its own brace. At most `MAX_BOXES` boxes from the end are looked at, each scanned once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from grading.extract_box_syntax import BRACE, OPENER, closing_brace, unboxed
from grading.extract_continuation import with_continuation
from grading.extract_joins import MAX_BOXES, Box, joined_contents
from grading.extract_lone_box import lone_box
from grading.extract_retraction import correction, is_retracted
from grading.extract_surroundings import formula_around, is_commented_out, with_signs


@dataclass(frozen=True, slots=True)
class BoxedAnswer:
    """`answer` is None where boxes hold nothing that counts; `end`: the last box's end."""

    answer: str | None
    end: int


def boxed_answer(
    text: str, *, is_lenient: bool = False, is_truncated: bool = False
) -> BoxedAnswer | None:
    r"""The answer of the last box that counts; None where there is no box at all.

    `is_lenient`: for trusted texts, where a box at the end need not be closed and nothing is
    taken back. `is_truncated`: cut off, so that an unclosed box may lack more than its brace.
    """
    lone = lone_box(text)
    if lone is not None:
        return BoxedAnswer(*lone)
    if "{boxed}" in text:
        text = _BEGIN.sub(_same_length, text)
    boxes = _boxes_from_end(text)
    taken_back: set[str] = set()
    last: Box | None = None
    for box in boxes:
        last = last or box
        if box.end is None:
            if box is not last:
                break
            unclosed = "" if is_truncated else _unclosed_content(text, box, is_lenient=is_lenient)
            return BoxedAnswer(unclosed, len(text))
        if _PLACEHOLDER.fullmatch(box.content):
            continue
        if is_lenient:
            return BoxedAnswer(_content(text, box, boxes), last.end or len(text))
        if "%" in text and is_commented_out(text, box.start):
            continue
        if is_retracted(text, box.start, box.end):
            taken_back.add(box.content)
        elif box.content not in taken_back:
            return BoxedAnswer(_counted(text, box, boxes), last.end or len(text))
    return None if last is None else BoxedAnswer(None, last.end or len(text))


_BEGIN = re.compile(r"\\(begin|end)\{boxed\}")
_MAX_CANDIDATES = 5_000
_PLACEHOLDER = re.compile(
    r"[\s.…?_]*(?:\\l?dots|(?:your |final |the )*answer|\\text\{answer\})?\s*"
)


def _same_length(match: re.Match[str]) -> str:
    r"""`\begin{boxed}` as a box, in as many characters, so that places stay."""
    return ("\\boxed{" if match[1] == "begin" else "}").ljust(len(match[0]))


def _boxes_from_end(text: str) -> Iterator[Box]:
    """Boxes from the last to earlier ones; an unclosed box ends the listing."""
    place, count = len(text), 0
    for _ in range(_MAX_CANDIDATES):
        if count >= MAX_BOXES:
            return
        place = text.rfind("box", 0, place)
        if place < 0:
            return
        match = _opener_at(text, place)
        if match is None:
            continue
        count += 1
        place = match.start()
        box = _read_box(text, match)
        if box is None:
            continue
        yield box
        if box.end is None:
            return


def _opener_at(text: str, place: int) -> re.Match[str] | None:
    start = place
    while (
        start > 0 and place - start < 12 and (text[start - 1].isalpha() or text[start - 1] == "\\")
    ):
        start -= 1
    word = text[start:place]
    slash = word.rfind("\\")
    if slash < 0:
        # A lost backslash; "mailbox {" is none.
        return (
            OPENER.match(text, place) if not word and text[place : place + 6] == "boxed{" else None
        )
    while slash > 0 and word[slash - 1] == "\\":
        slash -= 1
    return OPENER.match(text, start + slash)


def _read_box(text: str, match: re.Match[str]) -> Box | None:
    bare = match["bare"]
    if bare is not None:
        bare = bare.rstrip(".,")
        return Box(match.start(), match.start("bare"), match.start("bare") + len(bare), bare)
    inside = match.end()
    is_escaped = match["brace"] == "\\{"
    end = closing_brace(text, inside, len(text), is_escaped=is_escaped)
    if end is None:
        return Box(match.start(), inside, None, "")
    content = text[inside:end].strip()
    if len(match["slashes"]) % 2 == 0:
        content = content.replace("\\\\", "\\")
    return Box(match.start(), inside, end + (2 if is_escaped else 1), content)


_FORMULA_END = re.compile(r"\s*(?:\$|\\\)|\\\])")


def _unclosed_content(text: str, box: Box, *, is_lenient: bool) -> str | None:
    r"""What an unclosed box holds where only its own brace is missing, else "".

    Its last group is closed and ends the text (`\boxed{\frac{3}{4}`), or its formula is.
    """
    content = text[box.inside : box.inside + 2_000]
    whole = len(text) - box.inside <= 2_000
    closer = _FORMULA_END.search(content)
    if closer is not None:
        inner = content[: closer.start()]
    elif whole and (is_lenient or content.rstrip(" \n.").endswith("}")):
        inner = content.rstrip(" \n.")
    else:
        return ""
    opened = [match[0] for match in BRACE.finditer(inner)]
    is_balanced = opened.count("{") == opened.count("}")
    return inner.strip() if is_balanced or is_lenient else ""


# -- what a box says ----------------------------------------------------------------------


def _counted(text: str, box: Box, earlier: Iterator[Box]) -> str:
    """What the last box says where it is corrected, or an operand of its formula."""
    end = box.end or len(text)
    if (corrected := correction(text, end)) is not None:
        return corrected
    whole = formula_around(text, box)
    if whole is None and (continued := with_continuation(text, box)) is not None:
        return continued
    with_sign = with_signs(text, box, box.content) if whole else box.content
    if whole is None or with_sign != box.content:
        return _content(text, box, earlier)
    return whole


def _content(text: str, box: Box, earlier: Iterator[Box]) -> str:
    ahead = list(islice(earlier, 3))
    outer = box
    for other in ahead:
        if (other.end or 0) > (box.end or 0):
            outer = other
    if outer is not box:
        return unboxed(outer.content)
    content = joined_contents(text, box, chain(ahead, earlier)) if ahead else box.content
    return with_signs(text, box, content)
