"""Sums and products as nodes, with the readings that depend on all terms or factors."""

from grading.grammar_calculus import DIFFERENTIAL, without_differential
from grading.tree import Node, Op


def product_of(factors: list[Node]) -> Node:
    """A product; a brace set of one item beside other factors is a bracket."""
    if any(factor.op is Op.SET or factor is DIFFERENTIAL for factor in factors):
        factors = without_differential(factors)
        if len(factors) > 1:
            factors = [
                factor.args[0] if factor.op is Op.SET and len(factor.args) == 1 else factor
                for factor in factors
            ]
    return factors[0] if len(factors) == 1 else Node(Op.MUL, tuple(factors))


def with_sign(sign: str, node: Node) -> Node:
    """A term with the sign before it."""
    if sign == "+":
        return node
    if sign == "-":
        return Node(Op.NEG, (node,))
    return Node(Op.PM, (node,), "+" if sign == "\\pm" else "-")


def sum_of(terms: list[Node]) -> Node:
    """A sum in which a capital I beside numbers is the imaginary unit, as sympy prints it."""
    if not any(map(_holds_capital_i, terms)) or all(map(_holds_capital_i, terms)):
        return Node(Op.ADD, tuple(terms))
    unit = Node(Op.SYM, value="i")
    return Node(Op.ADD, tuple(_replaced(term, unit) for term in terms))


def flattened(op: Op, parts: list[Node]) -> Node:
    """One node of the parts, and of theirs where they are of this kind."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.args if part.op is op else (part,))
    return Node(op, tuple(flat))


def calculates_with_ratio(node: Node) -> bool:
    """Whether a ratio is an operand, so that its colon must be a division sign."""
    is_arithmetic = node.op in _ARITHMETIC
    return is_arithmetic and any(
        arg.op is Op.RATIO or calculates_with_ratio(arg) for arg in node.args
    )


_ARITHMETIC = frozenset((Op.RATIO, Op.ADD, Op.MUL, Op.DIV, Op.NEG, Op.POW, Op.ROOT))


def _holds_capital_i(node: Node) -> bool:
    if node.op in (Op.NEG, Op.MUL):
        return any(map(_holds_capital_i, node.args))
    return node.op is Op.SYM and node.value == "I"


def _replaced(node: Node, unit: Node) -> Node:
    if node.op in (Op.NEG, Op.MUL):
        return Node(node.op, tuple(_replaced(arg, unit) for arg in node.args), node.value)
    return unit if node.op is Op.SYM and node.value == "I" else node
