"""Small questions about the shapes of trees."""

from grading.tree import COLLECTIONS, SEQUENCES, Node, Op

_ARITHMETIC = frozenset((Op.ADD, Op.MUL, Op.DIV, Op.NEG, Op.POW, Op.PCT))
INTERVAL_LIKE = frozenset((Op.INTERVAL, Op.TUPLE))


def holds(node: Node, op: Op) -> bool:
    """Whether the node, or an item of a list, is of this kind."""
    return node.op is op or (node.op in SEQUENCES and any(arg.op is op for arg in node.args))


def holds_collection(node: Node) -> bool:
    """Whether arithmetic is done on a collection, as in the negative of an interval.

    Functions do not count: the determinant of a matrix and the largest of a set are numbers.
    """
    if node.op in _ARITHMETIC:
        return any(map(holds_collection, node.args))
    return node.op in COLLECTIONS


def holds_word(node: Node) -> bool:
    """Whether words stand anywhere in the tree."""
    return node.op is Op.WORD or any(map(holds_word, node.args))


def parts(node: Node) -> tuple[Node, ...]:
    """The parts of a union or intersection; else the node itself."""
    return node.args if node.op in (Op.UNION, Op.INTERSECTION) else (node,)


def brackets(node: Node) -> str:
    """An interval's brackets; a pair stands for an open one."""
    return node.value if node.op is Op.INTERVAL else "()"


def rows_of(node: Node) -> Node | None:
    """A list of rows of one width as a matrix; None for anything else."""
    rows = [_items_of(row) for row in _items_of(node)]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths == {0}:
        return None
    cells = tuple(cell for row in rows for cell in row)
    return Node(Op.MATRIX, cells, f"{len(rows)},{widths.pop()}")


def _items_of(node: Node) -> tuple[Node, ...]:
    """A list of two in square brackets looks like an interval."""
    is_list = node.op in (Op.LIST, Op.TUPLE) or (node.op is Op.INTERVAL and node.value == "[]")
    return node.args if is_list else ()


def with_quotients(node: Node) -> Node:
    """The tree with every ratio of two as a quotient."""
    return as_quotient(Node(node.op, tuple(map(with_quotients, node.args)), node.value))


def is_clock_time(ratio: Node) -> bool:
    """Zero parts and leading zeros belong to times, which do not scale."""
    return any(
        part.op is Op.NUM and (part.value.startswith("0") or part.value.strip("0.") == "")
        for part in ratio.args
    )


def as_quotient(node: Node) -> Node:
    """A ratio of two as a quotient."""
    return Node(Op.DIV, node.args) if node.op is Op.RATIO and len(node.args) == 2 else node


def without(node: Node, op: Op) -> Node:
    """What a percent or degree sign stands behind."""
    return node.args[0] if node.op is op else node


def sign_outside(node: Node) -> Node:
    """A negative percentage or angle as the percentage or angle of a negative."""
    if node.op is not Op.NEG or node.args[0].op not in (Op.PCT, Op.DEG):
        return node
    inner = node.args[0]
    return Node(inner.op, (Node(Op.NEG, inner.args),))


def in_radians(node: Node) -> Node:
    """A degree's value in radians."""
    if node.op is not Op.DEG:
        return node
    product = Node(Op.MUL, (node.args[0], Node(Op.SYM, value="\\pi")))
    return Node(Op.DIV, (product, Node(Op.NUM, value="180")))
