r"""One value said twice: `\frac{1}{2} (or 0.5)`, `3/4 or 0.75`, `1.5 hours (or 90 minutes)`.

Where all readings that "or" joins are equal, exactly, by declared rounding or after a conversion
of units, the text states one answer and the first reading counts. Else they are two answers.
"""

import re
from fractions import Fraction

from grading.effort import limited_to
from grading.expression import parse_body
from grading.normalize import clean_answer, join_thousands
from grading.structure import EXACT
from grading.tokens import UnreadableError
from grading.tree import Node, Op
from grading.units import unit_ratio
from grading.verdict import Verdict

__all__ = ["restated"]


def restated(text: str) -> str | None:
    """The first of two or more spellings of one value that "or" joins; None for other texts."""
    if len(text) > _MAX_CHARS or "or" not in text:
        return None
    parts = _OR.split(text)
    if not 2 <= len(parts) <= _MAX_PARTS:
        return None
    first, *others = (_LONE_DOLLAR.sub("", part.strip(_IDLE)) for part in parts)
    if not all(map(_HAS_VALUE.search, (first, *others))):
        return None
    reading = _reading(first)
    if reading is None:
        return None
    for other in others:
        second = _reading(other.rstrip(")") if other.count("(") < other.count(")") else other)
        if second is None or not _is_same(reading, second):
            return None
    return first


_MAX_CHARS, _MAX_PARTS = 200, 4
_IDLE = " *,.;"
_LONE_DOLLAR = re.compile(r"\A\$(?!\d)|\$\Z")
_OR = re.compile(
    r"[\s$,*]*\(?\s*(?:\\(?:text|mbox|textrm|mathrm)\s?\{\s*,?\s*\(?or\s*\}|\\?(?<![A-Za-z\\])or(?![A-Za-z]))"
    r"(?:\s+(?:equivalently|simply|about|approximately|roughly|exactly)\b)?[\s,$*]*"
)
_HAS_VALUE = re.compile(r"\d|\\pi|\\sqrt")


def _reading(text: str) -> tuple[Node, str] | None:
    """Tree and unit; None where the text is no value."""
    try:
        clean = clean_answer(text)
        tree = parse_body(join_thousands(clean.body))
    except (UnreadableError, RecursionError):
        return None
    is_value = not clean.condition and not clean.choice and tree.op is not Op.WORD
    return (tree, clean.unit) if is_value else None


def _is_same(first: tuple[Node, str], second: tuple[Node, str]) -> bool:
    ratio = unit_ratio(first[1], second[1]) if first[1] and second[1] else Fraction(1)
    if ratio is None:
        return False
    other = second[0] if ratio == 1 else _times(ratio, second[0])
    try:
        with limited_to(EXACT.num_steps):
            return Verdict.CORRECT in (
                EXACT.compare(first[0], other),
                EXACT.compare(other, first[0]),
            )
    except (UnreadableError, RecursionError):
        return False


def _times(factor: Fraction, tree: Node) -> Node:
    upper = Node(Op.MUL, (Node(Op.NUM, value=str(factor.numerator)), tree))
    return Node(Op.DIV, (upper, Node(Op.NUM, value=str(factor.denominator))))
