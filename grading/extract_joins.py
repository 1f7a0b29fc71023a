r"""Neighbouring boxes that form one answer: `\boxed{2} and \boxed{3}`.

Boxes belong together where one sentence lists them: by comma, "and", "or", a few words among
these, the bullets of a list, or directly side by side in one formula. Anything that reads as a
step from one result to the next ("so", "but", "=") parts them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from grading.expression import parse_body
from grading.normalize import clean_answer, join_thousands
from grading.structure import EXACT
from grading.tokens import UnreadableError
from grading.tree import Node
from grading.verdict import Verdict

MAX_BOXES = 40
"""As many boxes side by side are no list of answers: the last one counts alone."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box at `text[start:end]`, its content from `inside` on; `end` None: not closed."""

    start: int
    inside: int
    end: int | None
    content: str


def joined_contents(text: str, last: Box, earlier: Iterator[Box]) -> str:
    """The content of the last box with those of its neighbours to the left.

    Boxes in a row with nothing that joins or parts them are no single answer: a list.
    """
    boxes, contents, connectors = [last], [last.content], list[str]()
    for box in earlier:
        if box.end is None or box.end > boxes[-1].start:
            break
        is_case = _is_other_case(text, box.end, boxes[-1].start)
        connector = " or " if is_case else _connector(text, box.end, boxes[-1].start)
        if connector is None:
            if not _IN_A_ROW.fullmatch(text, box.end, boxes[-1].start):
                break
            connector = _ROW if "\n" not in text[box.end : boxes[-1].start] else _ROWS
        if connector == "≈":
            contents[-1], boxes[-1] = box.content, box
            continue
        boxes.append(box)
        contents.append(box.content)
        connectors.append(connector)
    num_joined = _num_joined(contents, connectors)
    if num_joined < 0:
        return ""
    boxes, contents = boxes[:num_joined], contents[:num_joined]
    connectors = [", " if item in (_ROW, _ROWS) else item for item in connectors[: num_joined - 1]]
    if len(boxes) == 1 or len(boxes) >= MAX_BOXES - 2:
        return contents[0]
    names = [_name_before(text, box) for box in boxes]
    return _without_repeats(contents[::-1], connectors[::-1], names[::-1])


_MAX_JOIN = 100
_ROW, _ROWS = "row", "rows"
_IN_A_ROW = re.compile(r"[\s.;$]{0,12}")
_MARKUP = re.compile(
    r"\$+|\\[()\[\],;:! ]|\\q?quad(?![a-z])|\\\\|~|&|\*\*|\\(?:text|textbf|mbox|textrm|mathrm)\s?\{"
    r"|\\(?:left|right|hspace\{[^{}]*\})|[{}]"
)
_NAME = re.compile(
    r"(?P<name>(?<![A-Za-z])[A-Za-z](?:_\{?\w{1,3}\}?)?(?:\([^()]{1,5}\))?)\s*=[\s$\\(\[]*$"
)
_LOGIC = {"\\land": " and ", "\\wedge": " and ", "\\lor": " or ", "\\vee": " or "}
_WORD = re.compile(r"[^\W\d_]+|[^\s\w]|\d+", re.UNICODE)
_BULLET = re.compile(r"[.,;]?\s*\n\s*(?:[-*•]|\d{1,2}[.)]|\([a-z\d]\)|[a-z]\))\s*")
_SEPARATOR = re.compile(r"\s*(?:([+|~*–—-])\1+|[|])\s*")
_NEXT_CASE = re.compile(
    r"[\s.;,$)*]{0,6}(?:and |or |but )?(?:otherwise|(?:if|when|for|option|possibility|scenario)\b"
    r"[^.\n:,]{0,60})[:,][\s$(*]{0,6}",
    re.IGNORECASE,
)
_CASE = re.compile(
    r"\b(?:if|when|for|option|possibility|scenario)\b[^.\n:,]{1,60}[:,][^.\n:]{0,60}\Z", re.I
)
"""Boxes for different cases are no single answer."""
_AND_WORDS = "and et und e y i и а og och en 和 与 及 と 및 와 과 以及 également"
_OR_WORDS = "or ou oder o или 或 または 또는 或者"
_AND, _OR = frozenset(_AND_WORDS.split()), frozenset(_OR_WORDS.split())
_COMMAS = frozenset(",;，、；")
_HARMLESS = frozenset("()\"'’`/-–")
_NO_LIST = """
    but so not then thus hence therefore giving gives which since because wait actually instead
    rather no answer final finally result total get gets obtain means correct wrong yielding yields
    we let must should equals implies check verify simplifies becomes sum product difference
"""
_BLOCKERS = frozenset(_NO_LIST.split())
_NEXT_SUBJECT = re.compile(
    r",?\s?(?:[a-z]{2,12} )?(?:and|while) (?!(?:We|So|Then|Thus|It|This|That|He|She)\b)[A-Z][a-z]+"
    r" (?:gets|has|receives|earns|pays|is|scores|takes|needs|obtains|makes)"
)
"""Two people's or things' values in one sentence."""
_MAX_WORDS, _MAX_WORDS_AT_COMMA = 6, 2


def _num_joined(contents: list[str], connectors: list[str]) -> int:
    """How many of the boxes from the last one on are one answer; -1 where no one is the answer.

    Two in a row in one line, and three in a row at all, are a list.
    """
    places = [place for place, item in enumerate(connectors) if item in (_ROW, _ROWS)]
    num_different = len(set(contents))
    if not places:
        return len(contents)
    if len(contents) >= MAX_BOXES - 2:
        return -1 if num_different > _MAX_REPEATED else 1
    is_list = num_different > _MAX_REPEATED or (num_different > 1 and _ROWS not in connectors)
    return len(contents) if is_list else places[0] + 1


_MAX_REPEATED = 2


def _is_other_case(text: str, start: int, stop: int) -> bool:
    """Whether the boxes before `start` and at `stop` are the values of two cases or options."""
    if stop - start > _MAX_JOIN or _NEXT_CASE.fullmatch(text, start, stop) is None:
        return False
    return _CASE.search(text[max(0, start - _MAX_JOIN) : start]) is not None


def _connector(text: str, start: int, stop: int) -> str | None:
    """How the text between two boxes joins them: ", ", " or ", a union sign; None if not."""
    between = text[start:stop]
    if len(between) > _MAX_JOIN:
        return None
    if not between:
        return ", "
    if "\n" in between:
        if _BULLET.fullmatch(between):
            return ", "
        if "\n\n" in between:
            return None
    if "\\" in between:
        if between.strip(" $\n") in ("\\cup", "\\approx"):
            return " \\cup " if "cup" in between else "≈"
        for command, word in _LOGIC.items():
            between = between.replace(command, word)
    if _SEPARATOR.fullmatch(between) or _NEXT_SUBJECT.fullmatch(between.strip(" $")):
        return ", "
    if between.strip(" $") == ":":
        return ":"
    bare = _MARKUP.sub(" ", between)
    named = _NAME.search(bare)
    words = _WORD.findall(bare[: named.start()] if named else bare)
    if not words:
        is_bare = named is None and not (set("$()[]") & set(between))
        return ", " if is_bare and _is_in_formula(text, start) else None
    return _connector_of([word.casefold() for word in words])


def _connector_of(words: list[str]) -> str | None:
    if words == ["≈"]:
        return "≈"
    num_others = 0
    kinds = {"or": False, "and": False, "comma": False}
    for word in words:
        if word in _OR:
            kinds["or"] = True
        elif word in _AND:
            kinds["and"] = True
        elif word in _COMMAS:
            kinds["comma"] = True
        elif word in _BLOCKERS or not (word.isalnum() or word in _HARMLESS):
            return None
        elif word.isalnum():
            num_others += 1
    has_word = kinds["or"] or kinds["and"]
    if num_others > (_MAX_WORDS if has_word else _MAX_WORDS_AT_COMMA):
        return None
    if not has_word and not kinds["comma"]:
        return None
    return " or " if kinds["or"] else ", "


def _is_in_formula(text: str, place: int) -> bool:
    paragraph = text[max(0, place - 2_000) : place].rpartition("\n\n")[2]
    if any(
        paragraph.rfind(opener) > paragraph.rfind(closer)
        for opener, closer in (("\\[", "\\]"), ("\\(", "\\)"), ("\\begin{", "\\end{"))
    ):
        return True
    num_dollars = paragraph.count("$") - paragraph.count("\\$")
    return num_dollars % 2 == 1 or paragraph.count("$$") % 2 == 1


def _name_before(text: str, box: Box) -> str | None:
    match = _NAME.search(text[max(0, box.start - 24) : box.start])
    return None if match is None else match["name"]


def _without_repeats(contents: list[str], connectors: list[str], names: list[str | None]) -> str:
    """Two spellings of one value in neighbouring boxes are one answer; the last one stays.

    A name before a box stays where every box has one.
    """
    kept: list[str] = []
    shown: list[str] = []
    has_names = all(name is not None for name in names) and len(set(names)) == len(names)
    for index in range(len(contents) - 1, -1, -1):
        content = contents[index]
        if not has_names and any(_is_same(other, content) for other in kept):
            continue
        if kept:
            shown.insert(0, connectors[index])
        kept.append(content)
        shown.insert(0, f"{names[index]} = {content}" if has_names else content)
    return "".join(shown)


def _is_same(left: str, right: str) -> bool:
    if left == right:
        return True
    if len(left) > _MAX_COMPARED or len(right) > _MAX_COMPARED:
        return False
    first, second = _reading(left), _reading(right)
    if first is None or second is None or first[1] != second[1]:
        return False
    try:
        return EXACT.compare(first[0], second[0]) is Verdict.CORRECT
    except (UnreadableError, RecursionError):
        return False


_MAX_COMPARED = 200


@lru_cache(maxsize=MAX_BOXES)
def _reading(content: str) -> tuple[Node, str] | None:
    """Tree and unit, once for all pairs of a list; None where there is none."""
    try:
        cleaned = clean_answer(content)
        return parse_body(join_thousands(cleaned.body)), cleaned.unit
    except (UnreadableError, RecursionError):
        return None
