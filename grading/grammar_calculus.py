r"""Integrals, sums, products, limits and derivatives as nodes; nothing here evaluates them.

While an integrand is read, `d` and a letter are a factor 1 that names the variable and ends
the integrand: `\int x\,dx`, `\int \frac{dz}{z}`, `\int (x dx)`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from grading.grammar_names import ARROWS, GREEK
from grading.tokens import TokenKind, UnreadableError
from grading.tree import Node, Op

if TYPE_CHECKING:
    from grading.expression import Parser

DIFFERENTIAL = Node(Op.NUM, value="1")
"""The factor that `dx` leaves; recognised by identity."""


def without_differential(factors: list[Node]) -> list[Node]:
    """The other factors; 1 where there is none."""
    return [factor for factor in factors if factor is not DIFFERENTIAL] or [DIFFERENTIAL]


def at_differential(parser: "Parser") -> bool:
    """Whether `dx` comes next, inside an integrand whose variable is still open."""
    if parser.differential != "" or parser.text != "d":
        return False
    following = parser.ahead(1)
    return following.kind is TokenKind.LETTER or following.text in GREEK


def without_stop(parser: "Parser", read: Callable[[], Node]) -> Node:
    """Read a denominator, which the differential in its numerator does not end."""
    found = parser.differential
    parser.differential = None
    node = read()
    parser.differential = found
    return node


def derivative(parser: "Parser") -> Node | None:
    r"""`{d}{dx} f`, `{d^2 y}{dx^2}` after `\frac`; None, and nothing taken, where it is none."""
    place = parser.mark()
    head = _derivative_head(parser)
    if head is None:
        parser.rewind(place)
        return None
    function, variable, order = head
    operand = Node(Op.SYM, value=function) if function else parser.product()
    return Node(Op.DERIVATIVE, (operand, Node(Op.SYM, value=variable)), order)


def slash_derivative(parser: "Parser") -> Node | None:
    """`dy/dx` after its first `d`; None, and nothing taken, where it is none."""
    texts = [parser.ahead(place).text for place in (0, 1, 2, 3)]
    is_derivative = texts[1] == "/" and texts[2] == "d"
    if not is_derivative or parser.ahead(3).kind is not TokenKind.LETTER:
        return None
    for _ in texts:
        parser.advance()
    symbols = (Node(Op.SYM, value=texts[0]), Node(Op.SYM, value=texts[3]))
    return Node(Op.DERIVATIVE, symbols, "1")


_DIMENSIONS = {"\\int": 1, "\\iint": 2, "\\iiint": 3}
_CONSTANTS = frozenset(("e", "i", "\\pi"))


def _derivative_head(parser: "Parser") -> tuple[str, str, str] | None:
    parser.expect("{")
    sign = parser.advance()
    order = _order(parser)
    function = ""
    if parser.kind is TokenKind.LETTER or parser.text in GREEK:
        function = parser.advance()
    if not (order and parser.take("}") and parser.take("{") and parser.take(sign)):
        return None
    if parser.kind is not TokenKind.LETTER and parser.text not in GREEK:
        return None
    variable = parser.advance()
    if _order(parser) != order or not parser.take("}"):
        return None
    return function, variable, order


def _order(parser: "Parser") -> str:
    """The order after `^`, "1" without one, "" where it is none."""
    if not parser.take("^"):
        return "1"
    is_group = parser.take("{")
    if parser.kind not in (TokenKind.NUMBER, TokenKind.LETTER):
        return ""
    order = parser.advance()
    return order if not is_group or parser.take("}") else ""


def _limits(parser: "Parser") -> tuple[Node | None, Node | None]:
    bounds: dict[str, Node | None] = {"_": None, "^": None}
    while parser.text in bounds:
        sign = parser.advance()
        is_empty = parser.ahead(1).text == "}" and parser.take("{") and parser.take("}")
        if not is_empty:
            bounds[sign] = parser.argument()
    return bounds["_"], bounds["^"]


def _integral(parser: "Parser", command: str) -> Node:
    outer = parser.differential
    parser.differential = None
    low, high = _limits(parser)
    if (low is None) is not (high is None):
        raise UnreadableError("unsupported")
    parser.differential = ""
    node = parser.sum()
    if node.op is Op.SET and len(node.args) == 1:
        node = node.args[0]
    for index in range(_DIMENSIONS[command]):
        if index:
            parser.differential = ""
            if not at_differential(parser):
                raise UnreadableError("unsupported")
            parser.atom()
        variable = parser.differential or _only_letter(node)
        parser.differential = None
        if node is DIFFERENTIAL and parser.starts_factor():
            node = parser.product()
        bounds = () if low is None or high is None else (low, high)
        node = Node(Op.INTEGRAL, (node, Node(Op.SYM, value=variable), *bounds))
    parser.differential = outer
    return node


def _only_letter(node: Node) -> str:
    names = _names(node) - _CONSTANTS
    if len(names) == 1:
        return names.pop()
    if "x" in names:
        return "x"
    raise UnreadableError("unsupported")


def _names(node: Node) -> set[str]:
    if node.op is Op.SYM:
        return {node.value}
    return set[str]().union(*(_names(arg) for arg in node.args))


def _series(parser: "Parser", command: str) -> Node:
    index: Node | None = None
    low: Node | None = None
    high: Node | None = None
    while parser.text in ("_", "^"):
        if parser.advance() == "^":
            high = parser.argument()
        else:
            if not parser.take("{"):
                raise UnreadableError("unsupported")
            index = parser.atom()
            if not parser.take("="):
                raise UnreadableError("unsupported")
            low = parser.sum()
            parser.expect("}")
    if index is None or low is None or high is None or index.op is not Op.SYM:
        raise UnreadableError("unsupported")
    return Node(Op.SERIES, (parser.signed(), index, low, high), command[1:])


def _limit(parser: "Parser", _: str) -> Node:
    if not (parser.take("_") and parser.take("{")):
        raise UnreadableError("unsupported")
    variable = parser.atom()
    if parser.text not in ARROWS or variable.op is not Op.SYM:
        raise UnreadableError("unsupported")
    parser.advance()
    parser.is_target = True
    target = parser.sum()
    parser.is_target = False
    side = ""
    if parser.take("^"):
        is_group = parser.take("{")
        side = parser.advance()
        if is_group:
            parser.expect("}")
    parser.expect("}")
    return Node(Op.LIMIT, (parser.signed(), variable, target), side)


CALCULUS_HANDLERS: dict[str, Callable[["Parser", str], Node]] = {
    **dict.fromkeys(_DIMENSIONS, _integral),
    "\\sum": _series,
    "\\prod": _series,
    "\\lim": _limit,
}
