r"""Boxed answers: `\boxed{..}`, `\fbox{..}`, `\framebox{..}` and the ways models misspell them.

The last box counts, with the neighbours that `extract_joins` joins to it. Boxes that the text
takes back do not count. A box that is not closed is no answer, unless all that is missing is
its own brace. At most `MAX_BOXES` boxes from the end are looked at, each scanned once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from grading.extract_joins import MAX_BOXES, Box, joined_contents
from grading.extract_scope import is_retracted


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
        if not is_lenient and is_retracted(text, box.start, box.end):
            taken_back.add(box.content)
        elif box.content not in taken_back:
            return BoxedAnswer(_content(text, box, boxes), last.end or len(text))
    return None if last is None else BoxedAnswer(None, last.end or len(text))


_OPENER = re.compile(
    r"(?P<slashes>\\*)(?:begin)?(?:boxed|b?box|fbox|framebox)(?:\[[^\]\n]{0,60}\]){0,2}\s{0,4}"
    r"(?:(?P<brace>\\{0,2}\{)"
    r"|(?P<bare>[-+]?\$?\d[\d,./]*%?|[A-Za-z](?![A-Za-z])|\([^()\n]{1,200}\)))"
)
_BEGIN = re.compile(r"\\(begin|end)\{boxed\}")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_ESCAPED_BRACE = re.compile(r"\\[{}]")
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
            _OPENER.match(text, place) if not word and text[place : place + 6] == "boxed{" else None
        )
    while slash > 0 and word[slash - 1] == "\\":
        slash -= 1
    return _OPENER.match(text, start + slash)


def _read_box(text: str, match: re.Match[str]) -> Box | None:
    bare = match["bare"]
    if bare is not None:
        bare = bare.rstrip(".,")
        return Box(match.start(), match.start("bare"), match.start("bare") + len(bare), bare)
    inside = match.end()
    is_escaped = match["brace"] == "\\{"
    end = _closing_brace(text, inside, len(text), is_escaped=is_escaped)
    if end is None:
        return Box(match.start(), inside, None, "")
    content = text[inside:end].strip()
    if len(match["slashes"]) % 2 == 0:
        content = content.replace("\\\\", "\\")
    return Box(match.start(), inside, end + (2 if is_escaped else 1), content)


def _closing_brace(text: str, start: int, stop: int, *, is_escaped: bool = False) -> int | None:
    depth = 1
    for match in (_ESCAPED_BRACE if is_escaped else _BRACE).finditer(text, start, stop):
        sign = match[0][-1] if is_escaped else match[0]
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return None


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
    opened = [match[0] for match in _BRACE.finditer(inner)]
    is_balanced = opened.count("{") == opened.count("}")
    return inner.strip() if is_balanced or is_lenient else ""


# -- what a box says ----------------------------------------------------------------------


def _content(text: str, box: Box, earlier: Iterator[Box]) -> str:
    ahead = list(islice(earlier, 3))
    outer = box
    for other in ahead:
        if (other.end or 0) > (box.end or 0):
            outer = other
    if outer is not box:
        return _unboxed(outer.content)
    content = joined_contents(text, box, chain(ahead, earlier)) if ahead else box.content
    return _with_surroundings(text, box, content)


def _unboxed(content: str) -> str:
    for _ in range(MAX_BOXES):
        match = _OPENER.search(content)
        if match is None or match["brace"] is None:
            break
        end = _closing_brace(content, match.end(), len(content))
        if end is None:
            break
        content = content[: match.start()] + content[match.end() : end] + content[end + 1 :]
    return content.strip()


_SIGN_BEFORE = re.compile(r"(?:^|[=$(\[,:{&]|[A-Za-z]{2})\s*[-−]$")
_TERM = re.compile(r"[\w.,]+|\\\w+(?:\{[^{}]*\})*")
_FACTOR = re.compile(
    r"\s?(?:\\pi(?![A-Za-z])|\\sqrt\s?(?:\{[^{}]{1,20}\}|\d)|\^\s?(?:\{[^{}]{1,12}\}|\d|\\circ)"
    r"|\\(?:times|cdot)\s?10\s?\^\s?(?:\{-?\d{1,3}\}|\d))"
)
"""Constants and powers; a letter behind a box may be what the box is the coefficient of."""
_FORMULA_STOP = re.compile(r"\s*[.,;]?\s*(?:\$|\\\)|\\\]|\Z|\n)")
_SUFFIX = re.compile(
    r"(?P<base>_(?:\d{1,2}|\{\d{1,2}\}))"
    r"|[\s$]{0,3}(?:\\\)|\\\])?\s?(?P<percent>\\?%|(?:percent|pct|per cent)\b)"
)


def _negated(content: str, before: str) -> str:
    """With the minus before its box; a dash before a negative number is no second minus."""
    if _TERM.fullmatch(content):
        return f"-{content}"
    is_second = content[:1] in ("-", "−") and _TERM.fullmatch(content[1:].strip())
    return content[1:].strip() if is_second and before.rstrip()[-1:] in ("=", "(") else content


def _with_surroundings(text: str, box: Box, content: str) -> str:
    """A minus before the box, a percent sign or a number's base after it."""
    if box.content != content or not content:
        return content
    if text[box.start - 1 : box.start] in ("-", "−") and _SIGN_BEFORE.search(
        text[max(0, box.start - 8) : box.start]
    ):
        content = _negated(content, text[: box.start - 1])
    factor = _FACTOR.match(text, box.end or 0)
    if factor is not None and _FORMULA_STOP.match(text, factor.end()):
        return content + factor[0] if _TERM.fullmatch(content) else f"({content}){factor[0]}"
    suffix = _SUFFIX.match(text, box.end or 0)
    if suffix is None:
        return content
    if suffix["base"] is not None:
        return content + suffix["base"] if content.isalnum() else content
    return content if "%" in content else content + "\\%"
