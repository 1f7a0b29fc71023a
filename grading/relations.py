r"""Relations and plus-minus signs rewritten so that shapes can be compared.

Pure functions from tree to tree: `\pm` as two values, an inequality as an interval, a
named list as named items, an equation as the expression that it sets to zero.
"""

from dataclasses import replace

from grading.tree import COLLECTIONS, SEQUENCES, Node, Op

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def expand_plus_minus(node: Node) -> Node:
    r"""`\pm` stands for two values, all signs of one item switching together."""
    if node.op in SEQUENCES:
        items: list[Node] = []
        for item in node.args:
            items.extend(_two_values(item))
        return replace(node, args=tuple(items)) if len(items) != len(node.args) else node
    values = _two_values(node)
    return values[0] if len(values) == 1 else Node(Op.LIST, values)


def _two_values(node: Node) -> tuple[Node, ...]:
    if node.op in COLLECTIONS or not _contains_plus_minus(node):
        return (node,)
    if node.op is Op.REL:
        last = _two_values(node.args[-1])
        return tuple(replace(node, args=(*node.args[:-1], value)) for value in last)
    return (_signed_copy(node, "+"), _signed_copy(node, "-"))


def _contains_plus_minus(node: Node) -> bool:
    return node.op is Op.PM or any(_contains_plus_minus(arg) for arg in node.args)


def _signed_copy(node: Node, sign: str) -> Node:
    args = tuple(_signed_copy(arg, sign) for arg in node.args)
    if node.op is not Op.PM:
        return replace(node, args=args)
    return args[0] if node.value == sign else Node(Op.NEG, args)


def is_membership(node: Node) -> bool:
    """Whether the relation says that something lies in a set."""
    return node.op is Op.REL and node.value == "in"


def is_equation(node: Node) -> bool:
    """Whether it is a chain of equations."""
    return node.op is Op.REL and set(node.value.split()) == {"="}


def is_name(node: Node) -> bool:
    """A letter, a product of letters (`AB`, `f(x)`), or a ratio of named lengths."""
    if node.op in (Op.MUL, Op.RATIO):
        return all(is_name(arg) for arg in node.args)
    return node.op is Op.SYM


def zero_form(relation: Node) -> Node:
    """Left minus right, for a relation of two operands."""
    return Node(Op.ADD, (relation.args[0], Node(Op.NEG, (relation.args[1],))))


def upward(relation: Node) -> Node:
    """The same inequality chain with `<` and `<=` only, where it points one way."""
    operators = relation.value.split()
    if not all(operator in (">", ">=") for operator in operators):
        return relation
    flipped = " ".join(_FLIPPED[operator] for operator in reversed(operators))
    return Node(Op.REL, tuple(reversed(relation.args)), flipped)


def free_name(relation: Node) -> Node | None:
    """The only letter that is an operand by itself; None where not exactly one."""
    names = [arg for arg in relation.args if arg.op is Op.SYM]
    return names[0] if len(names) == 1 else None


def interval_of(relation: Node) -> Node | None:
    """The interval of one letter between bounds: `0<x<5`, `x>=2`, `2<=x`; else None."""
    name = free_name(relation)
    chain = upward(relation)
    operators = chain.value.split()
    if name is None or not set(operators) <= {"<", "<="} or len(chain.args) > 3:
        return None
    position = chain.args.index(name)
    if len(chain.args) == 3 and position != 1:
        return None
    infinity = Node(Op.INF)
    low, left = Node(Op.NEG, (infinity,)), "("
    high, right = infinity, ")"
    if position > 0:
        low, left = chain.args[position - 1], "[" if operators[position - 1] == "<=" else "("
    if position < len(operators):
        high, right = chain.args[position + 1], "]" if operators[position] == "<=" else ")"
    return Node(Op.INTERVAL, (low, high), left + right)


def set_of(relation: Node) -> Node | None:
    """The set in which the relation puts its letter; None where it states none."""
    return relation.args[1] if is_membership(relation) else interval_of(relation)


def name_first(node: Node) -> Node:
    """`5=x` as `x=5`; `n=2,3,4` with every item named: `n=2`, `n=3`, `n=4`."""
    if is_equation(node) and is_name(node.args[-1]) and not is_name(node.args[0]):
        return Node(Op.REL, tuple(reversed(node.args)), node.value)
    if node.op is not Op.LIST or not is_equation(node.args[0]):
        return node
    first = node.args[0]
    if len(first.args) != 2 or any(item.op is Op.REL for item in node.args[1:]):
        return node
    named = tuple(Node(Op.REL, (first.args[0], item), "=") for item in node.args[1:])
    return Node(Op.LIST, (first, *named))
