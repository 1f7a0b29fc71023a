r"""Matrix arithmetic on trees: sums, multiples, products, powers and transposes written out.

Cells stay scalar trees; nothing is simplified but zeros and ones of products, so that the
cells of a product with an identity matrix stay readable. Determinants are left to the
evaluators. Sizes that do not fit stay as they are: such an expression has no value.
"""

from dataclasses import replace

from grading.exact import square_size
from grading.tree import Node, Op, num_nodes

_MAX_CELLS = 400
_MAX_NODES = 20_000
_MAX_POWER = 32
_ZERO = Node(Op.NUM, value="0")
_ONE = Node(Op.NUM, value="1")


def reduced(node: Node) -> Node:
    """The tree with every matrix expression that fits written out as one matrix."""
    if not _holds_matrix(node):
        return node
    args = tuple(reduced(arg) for arg in node.args)
    node = replace(node, args=args) if args != node.args else node
    if node.op is Op.MATRIX or not any(arg.op is Op.MATRIX for arg in args):
        return node
    result = _worked_out(node)
    if result is None or len(result.args) > _MAX_CELLS or num_nodes(result) > _MAX_NODES:
        return node
    return result


def _holds_matrix(node: Node) -> bool:
    return node.op is Op.MATRIX or any(map(_holds_matrix, node.args))


def _worked_out(node: Node) -> Node | None:
    if node.op is Op.FUNC and node.value == "tr":
        return _trace(node.args[0])
    if node.op is Op.NEG:
        return _mapped(node.args[0], Node(Op.NEG, (_ONE,)))
    if node.op is Op.ADD:
        return _sum(node.args)
    if node.op is Op.MUL:
        return _product(node.args)
    if node.op is Op.DIV and node.args[1].op is not Op.MATRIX:
        return _mapped(node.args[0], Node(Op.DIV, (_ONE, node.args[1])))
    if node.op is Op.POW and node.args[0].op is Op.MATRIX:
        return _power(node.args[0], node.args[1])
    return None


def _sum(terms: tuple[Node, ...]) -> Node | None:
    first = terms[0]
    if any(term.op is not Op.MATRIX or term.value != first.value for term in terms):
        return None
    cells = zip(*(term.args for term in terms), strict=True)
    return replace(first, args=tuple(Node(Op.ADD, cell) for cell in cells))


def _product(factors: tuple[Node, ...]) -> Node | None:
    scalars = tuple(factor for factor in factors if factor.op is not Op.MATRIX)
    matrices = [factor for factor in factors if factor.op is Op.MATRIX]
    result = matrices[0]
    for matrix in matrices[1:]:
        product = _two(result, matrix)
        if product is None:
            return None
        result = product
    if not scalars:
        return result
    return _mapped(result, scalars[0] if len(scalars) == 1 else Node(Op.MUL, scalars))


def _two(left: Node, right: Node) -> Node | None:
    rows, inner = map(int, left.value.split(","))
    height, columns = map(int, right.value.split(","))
    if inner != height or rows * columns * inner > _MAX_NODES:
        return None
    cells = tuple(
        _sum_of(
            [
                _times(left.args[row * inner + k], right.args[k * columns + column])
                for k in range(inner)
            ]
        )
        for row in range(rows)
        for column in range(columns)
    )
    result = Node(Op.MATRIX, cells, f"{rows},{columns}")
    return result if num_nodes(result) <= _MAX_NODES else None


def _sum_of(terms: list[Node]) -> Node:
    left = tuple(term for term in terms if term != _ZERO)
    if not left:
        return _ZERO
    return left[0] if len(left) == 1 else Node(Op.ADD, left)


def _times(left: Node, right: Node) -> Node:
    if _ZERO in (left, right):
        return _ZERO
    if left == _ONE:
        return right
    return left if right == _ONE else Node(Op.MUL, (left, right))


def _mapped(matrix: Node, factor: Node) -> Node | None:
    if matrix.op is not Op.MATRIX:
        return None
    return replace(matrix, args=tuple(_times(factor, cell) for cell in matrix.args))


def _power(matrix: Node, exponent: Node) -> Node | None:
    if exponent.op is Op.SYM and exponent.value in ("T", "\\top"):
        return _transposed(matrix)
    inverts = exponent.op is Op.NEG
    digits = exponent.args[0] if inverts else exponent
    if digits.op is not Op.NUM or not digits.value.isdecimal() or len(digits.value) > 2:
        return None
    times = int(digits.value)
    base = _inverted(matrix) if inverts else matrix
    if base is None or square_size(base) is None or not 1 <= times <= _MAX_POWER:
        return None
    result: Node | None = base
    for _ in range(times - 1):
        result = None if result is None else _two(result, base)
    return result


def _trace(matrix: Node) -> Node | None:
    size = square_size(matrix)
    return None if size is None else _sum_of([matrix.args[k * (size + 1)] for k in range(size)])


def _transposed(matrix: Node) -> Node:
    rows, columns = map(int, matrix.value.split(","))
    cells = tuple(
        matrix.args[row * columns + column] for column in range(columns) for row in range(rows)
    )
    return Node(Op.MATRIX, cells, f"{columns},{rows}")


def _inverted(matrix: Node) -> Node | None:
    """Of one or two rows, by the adjugate; larger inverses stay as they are."""
    size = square_size(matrix)
    if size == 1:
        return replace(matrix, args=(Node(Op.DIV, (_ONE, matrix.args[0])),))
    if size != 2:
        return None
    a, b, c, d = matrix.args
    determinant = Node(Op.ADD, (Node(Op.MUL, (a, d)), Node(Op.NEG, (Node(Op.MUL, (b, c)),))))
    adjugate = (d, Node(Op.NEG, (b,)), Node(Op.NEG, (c,)), a)
    return replace(matrix, args=tuple(Node(Op.DIV, (cell, determinant)) for cell in adjugate))
