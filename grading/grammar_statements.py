r"""Lists and relations: what stands between values.

`x=1 or x=2`, `p=5, q=2; p=7, q=2`, chains `a<b<=c`, congruences, `\forall x>0, ...`, `\neg`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from grading.grammar_brackets import real_line
from grading.grammar_names import NEGATED, RELATIONS
from grading.tokens import TokenKind, UnreadableError
from grading.tree import Node, Op

if TYPE_CHECKING:
    from grading.expression import Parser


def relation_chain(parser: "Parser", left: Node) -> Node:
    """`a < b <= c` and its like, or a congruence."""
    operands = [left]
    operators: list[str] = []
    while (operator := RELATIONS.get(parser.text)) is not None:
        if parser.is_angle and operator == ">":
            break
        if parser.is_set and operator == "divides":
            break
        parser.advance()
        if operator in ("<", ">") and parser.take("="):
            operator += "="
        operators.append(operator)
        operand = parser.union()
        operands.append(_named_set(operand) if operator in ("in", "notin") else operand)
    if not operators:
        return left
    node = Node(Op.REL, tuple(operands), " ".join(operators))
    return _congruence(parser, node) if operators[-1] in _CONGRUENCES else node


def mapping(parser: "Parser", left: Node) -> Node:
    r"""`f: x \mapsto x^2` is `f(x) = x^2`."""
    is_named = left.op is Op.RATIO and [arg.op for arg in left.args] == [Op.SYM, Op.SYM]
    if not is_named:
        raise UnreadableError("unsupported")
    parser.advance()
    function, variable = left.args
    return Node(Op.REL, (Node(Op.CALL, (variable,), function.value), parser.union()), "=")


def is_condition(parser: "Parser") -> bool:
    r"""Whether a bracket comes next that states a condition: `(k \in \mathbb{Z})`."""
    return parser.ahead(1).kind is TokenKind.LETTER and parser.ahead(2).text in _CONDITIONS


def residue(parser: "Parser") -> Node:
    r"""The modulus of `\pmod 5`, `(\mod 5)`."""
    is_bracketed = parser.take("(")
    parser.advance()
    if not is_bracketed:
        return parser.argument()
    modulus = parser.sum()
    parser.expect(")")
    return modulus


_CONDITIONS = RELATIONS.keys() - {"="}
_SET_LETTERS = frozenset("NZQC")
_CONGRUENCES = frozenset(("equiv", "not-equiv", "="))


def _congruence(parser: "Parser", node: Node) -> Node:
    *_, last = node.args
    if parser.text == "\\pmod" or (parser.text == "(" and parser.ahead(1).text == "\\mod"):
        modulus = residue(parser)
    elif node.value != "=" and last.op is Op.MOD:
        last, modulus = last.args
    else:
        return node
    if len(node.args) != 2:
        raise UnreadableError("unsupported")
    sign = "not" if node.value == "not-equiv" else ""
    return Node(Op.CONGRUENT, (node.args[0], last, modulus), sign)


def _named_set(node: Node) -> Node:
    r"""`x \in R`: the letters of the number sets after a membership sign."""
    if node.op is not Op.SYM:
        return node
    if node.value == "R":
        return real_line()
    return Node(Op.NUMBERS, value=node.value) if node.value in _SET_LETTERS else node


def _negation(parser: "Parser") -> Node:
    parser.advance()
    parser.descend()
    node = parser.relation()
    parser.depth -= 1
    operator = NEGATED.get(node.value) if node.op is Op.REL else None
    if operator is None:
        raise UnreadableError("unsupported")
    return Node(Op.REL, node.args, operator)


def _quantified(parser: "Parser") -> Node:
    name = parser.advance()[1:]
    parser.descend()
    outer = parser.enter(is_set=True)
    parts = [parser.relation()]
    parser.leave(outer)
    if parser.text in (",", ":", ";", "|", "\\mid"):
        parser.advance()
        parts.append(parser.relation())
    parser.depth -= 1
    return Node(Op.CALL, tuple(parts), name)


STATEMENT_HANDLERS: dict[str, Callable[["Parser"], Node]] = {
    "\\neg": _negation,
    "\\forall": _quantified,
    "\\exists": _quantified,
}
