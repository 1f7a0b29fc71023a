r"""Fractions, roots, binomials and named functions with their arguments."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from grading.grammar_calculus import at_differential, derivative, without_stop
from grading.grammar_names import FUNCTIONS, INVERTIBLE, N_ARY
from grading.tokens import TokenKind, UnreadableError
from grading.tree import Node, Op

if TYPE_CHECKING:
    from grading.expression import Parser

_OPENERS = frozenset(("(", "{", "[", "|", "\\{", "\\lfloor", "\\lceil"))
_ARGUMENT_ENDS = FUNCTIONS.keys() | N_ARY.keys() | {"(", "{", "[", "|", "\\{"}


def _fraction(parser: "Parser", _: str) -> Node:
    if parser.text == "{" and parser.ahead(1).text in ("d", "\\partial"):
        derived = derivative(parser)
        if derived is not None:
            return derived
    upper = parser.argument()
    if parser.differential:
        return Node(Op.DIV, (upper, without_stop(parser, parser.argument)))
    return Node(Op.DIV, (upper, parser.argument()))


def _binomial(parser: "Parser", _: str) -> Node:
    return Node(Op.BINOM, (parser.argument(), parser.argument()))


def _root(parser: "Parser", _: str) -> Node:
    index = Node(Op.NUM, value="2")
    if parser.text == "[":
        parser.advance()
        index = parser.sum()
        parser.expect("]")
    return Node(Op.ROOT, (parser.atom(), index))


def _function(parser: "Parser", command: str) -> Node:
    name = FUNCTIONS[command]
    base = Node(Op.NUM, value="10") if command == "\\lg" else None
    exponent: Node | None = None
    while parser.text in ("_", "^"):
        if parser.text == "^" and exponent is None:
            parser.advance()
            exponent = parser.exponent()
        elif parser.text == "_" and command == "\\log" and base is None:
            parser.advance()
            base = _logarithm_base(parser)
        else:
            raise UnreadableError("unsupported")
    argument = _function_argument(parser)
    if exponent == _MINUS_ONE and name in INVERTIBLE:
        return Node(Op.FUNC, (argument,), "arc" + name)
    node = _applied(name, argument) if base is None else Node(Op.LOG, (argument, base))
    return node if exponent is None else Node(Op.POW, (node, exponent))


def _logarithm_base(parser: "Parser") -> Node:
    """`log_10 x` has base 10 although TeX would take one digit; `log_28` is log 8 in base 2."""
    if parser.kind is TokenKind.NUMBER and parser.text.isdigit() and len(parser.text) > 1:
        following = parser.ahead(1)
        if following.kind is not TokenKind.END and following.text not in _AFTER_VALUE:
            return Node(Op.NUM, value=parser.advance())
    return parser.argument()


def _applied(name: str, argument: Node) -> Node:
    if name == "abs":
        return Node(Op.ABS, (argument,))
    if name == "cis":
        sine = Node(Op.MUL, (Node(Op.SYM, value="i"), Node(Op.FUNC, (argument,), "sin")))
        return Node(Op.ADD, (Node(Op.FUNC, (argument,), "cos"), sine))
    return Node(Op.FUNC, (argument,), name)


def _function_argument(parser: "Parser") -> Node:
    """A bracket group, or the factors up to the next bracket, function or operator."""
    if parser.text in _OPENERS:
        node = parser.atom()
        if node.op is Op.SET and len(node.args) == 1:
            return node.args[0]
        if node.op in (Op.SET, Op.TUPLE, Op.LIST, Op.INTERVAL):
            raise UnreadableError("unsupported")
        return node
    factors = [parser.signed_factor()]
    while (
        parser.starts_factor() and parser.text not in _ARGUMENT_ENDS and not at_differential(parser)
    ):
        factors.append(parser.power())
    return factors[0] if len(factors) == 1 else Node(Op.MUL, tuple(factors))


def _n_ary(parser: "Parser", command: str) -> Node:
    if parser.text not in _OPENERS:
        raise UnreadableError("unsupported" if parser.text in ("_", "^") else "unparsable")
    node = parser.atom()
    is_list = node.op in (Op.TUPLE, Op.SET, Op.LIST, Op.INTERVAL)
    args = node.args if is_list else (node,)
    if not args:
        raise UnreadableError("unparsable")
    return Node(Op.NARY, args, N_ARY[command])


def _boxed(parser: "Parser", _: str) -> Node:
    return parser.argument()


_MINUS_ONE = Node(Op.NEG, (Node(Op.NUM, value="1"),))
_AFTER_VALUE = frozenset((")", "}", "]", ",", ";", "=", "+", "-", "*", "/", "&", "\\\\", "|"))

FUNCTION_HANDLERS: dict[str, Callable[["Parser", str], Node]] = {
    **dict.fromkeys(FUNCTIONS, _function),
    **dict.fromkeys(N_ARY, _n_ary),
    "\\frac": _fraction,
    "\\binom": _binomial,
    "\\sqrt": _root,
    "\\boxed": _boxed,
    "\\variable": _boxed,
    "\\infty": lambda _, __: Node(Op.INF),
    **dict.fromkeys(("\\ldots", "\\dots", "\\cdots"), lambda _, __: Node(Op.ELLIPSIS)),
}
