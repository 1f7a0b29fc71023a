r"""Numbers: digits in a base, repeating decimals, powers of ten, mixed numbers."""

import re
from typing import TYPE_CHECKING

from grading.grammar_brackets import choice
from grading.grammar_names import ELLIPSES
from grading.grammar_symbols import subscript
from grading.tokens import TokenKind, UnreadableError
from grading.tree import Node, Op

if TYPE_CHECKING:
    from grading.expression import Parser


def number(parser: "Parser", text: str) -> Node:
    """A number, after its digits."""
    following = parser.text
    if following == "_":
        return based_number(parser, text)
    if "E" in text or "e" in text:
        return _power_of_ten(text)
    if "." in text:
        if following in _CYCLE_MARKS:
            return _repeating(parser, text)
        if following in ELLIPSES:
            raise UnreadableError("unsupported")
        return Node(Op.NUM, value=_canonical_decimal(text))
    if following in ("\\ldots", "\\dots"):
        raise UnreadableError("unsupported")
    node = Node(Op.NUM, value=text)
    if following == "\\frac" or parser.kind is TokenKind.NUMBER:
        return _mixed(parser, node)
    if following in ("C", "P") and parser.ahead(1).kind is TokenKind.NUMBER:
        letter = parser.advance()
        return choice(letter, node, Node(Op.NUM, value=parser.advance()))
    return node


def based_number(parser: "Parser", digits: str) -> Node:
    """Digits and the base that stands in their subscript."""
    text = subscript(parser).casefold().removeprefix("_base")
    text = text.strip("_ ()")
    base = _BASE_WORDS.get(text, text)
    if not _BASE.fullmatch(base) or "." in digits:
        raise UnreadableError("unparsable")
    return Node(Op.BASED, value=f"{digits.lstrip('0') or '0'}_{base}")


_CYCLE_MARKS = frozenset(("\\overline", "\\bar", "\\dot"))
_BASE = re.compile(r"[2-9]|[12]\d|3[0-6]")
_BASE_NAMES = """
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
"""
_BASE_WORDS = {name: str(base) for base, name in enumerate(_BASE_NAMES.split(), start=2)}
_MAX_CYCLE = 50
_MAX_FIXED = 100


def _canonical_decimal(text: str) -> str:
    text = text.removesuffix(".")
    return "0" + text if text[0] == "." else text


def _power_of_ten(text: str) -> Node:
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    power = Node(Op.NUM, value=exponent.lstrip("+-").lstrip("0") or "0")
    if exponent[0] == "-":
        power = Node(Op.NEG, (power,))
    ten = Node(Op.POW, (Node(Op.NUM, value="10"), power))
    return Node(Op.MUL, (Node(Op.NUM, value=_canonical_decimal(mantissa)), ten))


def _repeating(parser: "Parser", text: str) -> Node:
    r"""`0.1\overline{6}`, `0.\dot{1}4\dot{2}`: the cycle runs from the first mark to the last."""
    whole, _, fixed = text.partition(".")
    cycle = ""
    while parser.text in _CYCLE_MARKS:
        is_dot = parser.advance() == "\\dot"
        is_group = parser.take("{")
        if parser.kind is not TokenKind.NUMBER or not parser.text.isdigit():
            raise UnreadableError("unparsable")
        if is_dot and not is_group and len(parser.text) > 1:
            cycle += parser.take_digit()
        else:
            cycle += parser.advance()
        if is_group:
            parser.expect("}")
        if is_dot and parser.kind is TokenKind.NUMBER and parser.ahead(1).text == "\\dot":
            cycle += parser.advance()
    if len(cycle) > _MAX_CYCLE or len(text) > _MAX_FIXED:
        raise UnreadableError("too-large")
    numerator = int((whole + fixed + cycle) or "0") - int((whole + fixed) or "0")
    denominator = (10 ** len(cycle) - 1) * 10 ** len(fixed)
    parts = (Node(Op.NUM, value=str(part)) for part in (numerator, denominator))
    return Node(Op.DIV, tuple(parts))


def _mixed(parser: "Parser", whole: Node) -> Node:
    r"""`2\frac{1}{2}` and `2 1/2` are two and a half; an improper fraction multiplies."""
    place = parser.mark()
    parts = _plain_fraction(parser)
    if parts is not None:
        upper, lower = parts
        if (len(upper), upper) < (len(lower), lower):
            nodes = (Node(Op.NUM, value=upper), Node(Op.NUM, value=lower))
            return Node(Op.ADD, (whole, Node(Op.DIV, nodes)))
    parser.rewind(place)
    return whole


def _plain_fraction(parser: "Parser") -> tuple[str, str] | None:
    """The digits of a fraction of two integers, taken; None leaves the place anywhere."""
    if parser.take("\\frac"):
        upper = _plain_digits(parser)
        lower = _plain_digits(parser) if upper else ""
    else:
        upper = parser.advance()
        lower = parser.advance() if parser.take("/") and parser.kind is TokenKind.NUMBER else ""
    return (upper, lower) if upper.isdigit() and lower.isdigit() else None


def _plain_digits(parser: "Parser") -> str:
    is_group = parser.take("{")
    if parser.kind is not TokenKind.NUMBER:
        return ""
    if not is_group and len(parser.text) > 1:
        return parser.take_digit()
    digits = parser.advance()
    return digits if not is_group or parser.take("}") else ""
