r"""What stands after an atom: exponents, subscripts, factorials, percent and degree signs."""

from typing import TYPE_CHECKING

from grading.grammar_brackets import choice
from grading.grammar_numbers import based_number
from grading.grammar_symbols import call, is_call, is_choice, subscript, symbol
from grading.tokens import TokenKind, UnreadableError
from grading.tree import Node, Op

if TYPE_CHECKING:
    from grading.expression import Parser


def suffixed(parser: "Parser", node: Node) -> Node:
    """Exponents, subscripts, factorials, percent and degree signs after an atom."""
    for _ in range(_MAX_SUFFIXES):
        text = parser.text
        if text == "!":
            parser.advance()
            if parser.take("!"):
                node = Node(Op.FUNC, (node,), "double-factorial")
            else:
                node = Node(Op.FACT, (node,))
        elif text == "%":
            parser.advance()
            node = Node(Op.PCT, (node,))
        elif text == "°":
            parser.advance()
            node = _degrees(parser, node)
        elif text == "^":
            if parser.is_target and _is_side(parser):
                return node
            node = _raised(parser, node)
        elif text == "_":
            node = _with_subscript(parser, node)
        else:
            return node
    return node


_MAX_SUFFIXES = 6
_EXPONENT_MARKS = frozenset(("\\circ", "°", "\\prime", "'", "*", "\\top"))
_MINUS_ONE = Node(Op.NEG, (Node(Op.NUM, value="1"),))
_T = Node(Op.SYM, value="T")


def _is_side(parser: "Parser") -> bool:
    """Whether a sign alone stands in the exponent: `a^+`, `a^{-}`."""
    first, second, third = (parser.ahead(place).text for place in (1, 2, 3))
    if first == "{":
        return second in ("+", "-") and third == "}"
    return first in ("+", "-") and second == "}"


def _raised(parser: "Parser", base: Node) -> Node:
    parser.advance()
    if (mark := _mark_exponent(parser)) is not None:
        return _marked(parser, base, mark)
    if base.op is Op.SYM and (order := _derivative_order(parser)):
        name = f"{base.value}^({order})"
        return call(parser, name) if parser.text == "(" else Node(Op.SYM, value=name)
    exponent = parser.exponent()
    if base.op is Op.SYM and parser.text == "(" and exponent == _MINUS_ONE:
        is_inverse = is_call(parser, base.value, has_primes=False)
        return call(parser, base.value + "^-1") if is_inverse else Node(Op.POW, (base, exponent))
    if base.op is Op.SYM and parser.text == "_" and "_" not in base.value:
        if base.value in ("C", "P", "A"):
            place = parser.mark()
            parser.advance()
            total = parser.argument()
            if is_choice(base.value, total, exponent):
                return choice(base.value, total, exponent)
            parser.rewind(place)
        base = Node(Op.SYM, value=base.value + subscript(parser))
    if base.op in (Op.MATRIX, Op.TUPLE) and exponent == _T:
        return _transposed(base)
    return Node(Op.POW, (base, exponent))


def _derivative_order(parser: "Parser") -> str:
    """The order in `f^{(4)}`, taken; "" where the exponent is another."""
    texts = [parser.ahead(place).text for place in range(5)]
    order = parser.ahead(2)
    is_order = order.kind in (TokenKind.NUMBER, TokenKind.LETTER)
    if not is_order or (texts[0], texts[1], texts[3], texts[4]) != ("{", "(", ")", "}"):
        return ""
    for _ in texts:
        parser.advance()
    return order.text


def _mark_exponent(parser: "Parser") -> str | None:
    r"""The sign of an exponent that is no power: `^\circ`, `^{\prime}`, `^*`, `^\top`."""
    text = parser.text
    if text in _EXPONENT_MARKS:
        return parser.advance()
    if text == "{" and parser.ahead(1).text in _EXPONENT_MARKS:
        closer = 2
        while parser.ahead(closer).text in ("\\prime", "'"):
            closer += 1
        if parser.ahead(closer).text == "}":
            parser.advance()
            marks = [parser.advance() for _ in range(closer - 1)]
            parser.advance()
            return "'" * len(marks) if marks[0] in ("\\prime", "'") else marks[0]
    return None


def _marked(parser: "Parser", base: Node, mark: str) -> Node:
    if mark in ("\\circ", "°"):
        return _degrees(parser, base)
    if mark == "\\top":
        return _transposed(base)
    if mark == "*":
        if base.op is Op.NUM:
            # Of a real number a star is a mark of something else, such as a footnote.
            raise UnreadableError("unsupported")
        return Node(Op.FUNC, (base,), "conj")
    if base.op is not Op.SYM:
        raise UnreadableError("unsupported")
    return symbol(parser, base.value + ("'" if mark == "\\prime" else mark))


def _degrees(parser: "Parser", node: Node) -> Node:
    """Degrees, with minutes and seconds."""
    parts = [node]
    scale = 60
    while parser.kind is TokenKind.NUMBER and parser.ahead(1).text == "'" and scale <= 3600:
        part = Node(Op.NUM, value=parser.advance())
        while parser.take("'"):
            pass
        parts.append(Node(Op.DIV, (part, Node(Op.NUM, value=str(scale)))))
        scale *= 60
    return Node(Op.DEG, (parts[0] if len(parts) == 1 else Node(Op.ADD, tuple(parts)),))


def _with_subscript(parser: "Parser", node: Node) -> Node:
    if node.op is Op.SYM and "_" not in node.value:
        return Node(Op.SYM, value=node.value + subscript(parser))
    if node.op is Op.NUM or node.op is Op.WORD:
        return based_number(parser, node.value.upper())
    raise UnreadableError("unparsable")


def _transposed(node: Node) -> Node:
    if node.op is Op.TUPLE:
        return Node(Op.MATRIX, node.args, f"{len(node.args)},1")
    if node.op is not Op.MATRIX:
        return Node(Op.POW, (node, _T))
    num_rows, num_columns = map(int, node.value.split(","))
    cells = tuple(
        node.args[row * num_columns + column]
        for column in range(num_columns)
        for row in range(num_rows)
    )
    return Node(Op.MATRIX, cells, f"{num_columns},{num_rows}")
