"""Derivatives and substitution on trees, without a computer algebra system.

Covers the elementary functions; anything else (integer parts, unknown functions, sums with
the variable in their bounds) has no derivative here.
"""

from collections.abc import Callable
from dataclasses import replace

from grading.tree import Node, Op, num_nodes

_MAX_ORDER = 6
_MAX_NODES = 2_000


def derivative(node: Node) -> Node | None:
    """The tree of an `Op.DERIVATIVE` worked out; None where no rule covers it."""
    body, variable = node.args
    if body.op is Op.SYM and body != variable:
        return None  # `dy/dx`: y is a function of x.
    order = int(node.value) if node.value.isdecimal() and len(node.value) < 3 else 1
    if order > _MAX_ORDER:
        return None
    result: Node | None = body
    for _ in range(order):
        result = _slope(result, variable)
        if result is None or num_nodes(result) > _MAX_NODES:
            return None
    return result


def substituted(node: Node, name: str, value: Node) -> Node:
    """The tree with a free letter replaced."""
    if node.op is Op.SYM:
        return value if node.value == name else node
    if bound_name(node) == name:
        term, variable, *rest = node.args
        return replace(node, args=(term, variable, *(substituted(e, name, value) for e in rest)))
    if not node.args:
        return node
    return replace(node, args=tuple(substituted(arg, name, value) for arg in node.args))


def bound_name(node: Node) -> str | None:
    """The letter that the node binds in its first argument; None where it binds none.

    A derivative and an integral without ends bind nothing: their value depends on it.
    """
    binds = node.op in (Op.SERIES, Op.LIMIT) or (node.op is Op.INTEGRAL and len(node.args) == 4)
    return node.args[1].value if binds else None


def holds_name(node: Node, name: str) -> bool:
    """Whether the letter occurs, bound or free."""
    return (node.op is Op.SYM and node.value == name) or any(
        holds_name(arg, name) for arg in node.args
    )


def number(value: int) -> Node:
    """The tree of an integer."""
    digits = Node(Op.NUM, value=str(abs(value)))
    return digits if value >= 0 else Node(Op.NEG, (digits,))


def _slope(node: Node, variable: Node) -> Node | None:
    if node == variable:
        return number(1)
    if not holds_name(node, variable.value):
        return number(0)
    if node.op is Op.ADD:
        terms = [_slope(term, variable) for term in node.args]
        known = [term for term in terms if term is not None]
        return Node(Op.ADD, tuple(known)) if len(known) == len(terms) else None
    if node.op is Op.MUL:
        return _product_slope(node.args, variable)
    if node.op is Op.NEG:
        inner = _slope(node.args[0], variable)
        return None if inner is None else Node(Op.NEG, (inner,))
    if node.op is Op.DIV:
        upper, lower = node.args
        return _slope(Node(Op.MUL, (upper, _power(lower, number(-1)))), variable)
    if node.op is Op.ROOT:
        return _power_slope(node.args[0], Node(Op.DIV, (number(1), node.args[1])), variable)
    if node.op is Op.POW:
        return _power_slope(node.args[0], node.args[1], variable)
    if node.op is Op.LOG:
        upper, lower = (Node(Op.FUNC, (arg,), "ln") for arg in node.args)
        return _slope(Node(Op.DIV, (upper, lower)), variable)
    rule = _RULES.get(node.value) if node.op is Op.FUNC else None
    if rule is None or node.args[0].op is Op.DEG:
        return None
    return _chained(rule(node.args[0]), node.args[0], variable)


def _chained(outer: Node, inner: Node, variable: Node) -> Node | None:
    slope = _slope(inner, variable)
    return None if slope is None else Node(Op.MUL, (outer, slope))


def _product_slope(factors: tuple[Node, ...], variable: Node) -> Node | None:
    terms: list[Node] = []
    for position, factor in enumerate(factors):
        slope = _slope(factor, variable)
        if slope is None:
            return None
        terms.append(Node(Op.MUL, (*factors[:position], slope, *factors[position + 1 :])))
    return Node(Op.ADD, tuple(terms))


def _power_slope(base: Node, exponent: Node, variable: Node) -> Node | None:
    if not holds_name(exponent, variable.value):
        lowered = Node(Op.ADD, (exponent, number(-1)))
        return _chained(Node(Op.MUL, (exponent, _power(base, lowered))), base, variable)
    logarithm = Node(Op.MUL, (exponent, Node(Op.FUNC, (base,), "ln")))
    return _chained(_power(base, exponent), logarithm, variable)


def _power(base: Node, exponent: Node) -> Node:
    return Node(Op.POW, (base, exponent))


def _function(name: str, argument: Node) -> Node:
    return Node(Op.FUNC, (argument,), name)


def _reciprocal(node: Node) -> Node:
    return Node(Op.DIV, (number(1), node))


def _one_plus_square(argument: Node, sign: int) -> Node:
    square = _power(argument, number(2))
    return Node(Op.ADD, (number(1), square if sign > 0 else Node(Op.NEG, (square,))))


def _root(node: Node) -> Node:
    return Node(Op.ROOT, (node, number(2)))


_RULES: dict[str, Callable[[Node], Node]] = {
    "sin": lambda a: _function("cos", a),
    "cos": lambda a: Node(Op.NEG, (_function("sin", a),)),
    "tan": lambda a: _power(_function("cos", a), number(-2)),
    "cot": lambda a: Node(Op.NEG, (_power(_function("sin", a), number(-2)),)),
    "sec": lambda a: Node(Op.MUL, (_function("sec", a), _function("tan", a))),
    "csc": lambda a: Node(
        Op.NEG, (Node(Op.MUL, (_function("csc", a), _function("cot", a))),)
    ),
    "arcsin": lambda a: _reciprocal(_root(_one_plus_square(a, -1))),
    "arccos": lambda a: Node(Op.NEG, (_reciprocal(_root(_one_plus_square(a, -1))),)),
    "arctan": lambda a: _reciprocal(_one_plus_square(a, 1)),
    "sinh": lambda a: _function("cosh", a),
    "cosh": lambda a: _function("sinh", a),
    "tanh": lambda a: _power(_function("cosh", a), number(-2)),
    "arcsinh": lambda a: _reciprocal(_root(_one_plus_square(a, 1))),
    "exp": lambda a: _function("exp", a),
    "ln": _reciprocal,
}  # fmt: skip
