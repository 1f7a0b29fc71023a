r"""`\begin{...}` environments: matrices, determinants, systems of equations, cases."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from grading.grammar_names import MATRICES, SYSTEMS
from grading.tokens import TokenKind, UnreadableError
from grading.tree import Node, Op

if TYPE_CHECKING:
    from grading.expression import Parser


def table_handler(text: str) -> Callable[["Parser", str], Node]:
    r"""What reads after `\begin{name}`.

    Raises:
        UnreadableError: the token starts nothing: `unsupported` for a command, else
            `unparsable`.
    """
    if text.startswith("\\begin{"):
        name = text[7:]
        if name in MATRICES:
            return _matrix
        if name.rstrip("*") in SYSTEMS:
            return _system
    raise UnreadableError("unsupported" if text[0] == "\\" else "unparsable")


def _matrix(parser: "Parser", text: str) -> Node:
    rows = _rows(parser, text[7:])
    if len({len(row) for row in rows}) != 1:
        raise UnreadableError("unparsable")
    if _is_system(rows):
        return _conjunction(rows)
    cells = tuple(cell for row in rows for cell in row)
    matrix = Node(Op.MATRIX, cells, f"{len(rows)},{len(rows[0])}")
    return Node(Op.FUNC, (matrix,), "det") if text.endswith("vmatrix") else matrix


def _system(parser: "Parser", text: str) -> Node:
    rows = _rows(parser, text[7:])
    if _is_system(rows):
        return _conjunction(rows)
    if len(rows) == len(rows[0]) == 1:
        return rows[0][0]
    if "cases" not in text or {len(row) for row in rows} != {2}:
        raise UnreadableError("unsupported")
    return Node(Op.CALL, tuple(cell for row in rows for cell in row), "cases")


def _rows(parser: "Parser", name: str) -> list[list[Node]]:
    outer = parser.enter()
    end = f"\\end{{{name}"
    rows: list[list[Node]] = [[_cell(parser)]]
    while not parser.take(end):
        if parser.take("&"):
            rows[-1].append(_cell(parser))
        elif not parser.take("\\\\"):
            raise UnreadableError("unparsable")
        elif parser.text != end:
            rows.append([_cell(parser)])
    parser.leave(outer)
    return rows


def _cell(parser: "Parser") -> Node:
    if parser.kind is TokenKind.WORD and parser.text[1:].casefold() in _CONDITION_WORDS:
        parser.advance()
    node = parser.sequence()
    if parser.text == "," or parser.text == ";":
        parser.advance()
    return node


def _is_system(rows: list[list[Node]]) -> bool:
    return all(len(row) == 1 and row[0].op is Op.REL for row in rows)


def _conjunction(rows: list[list[Node]]) -> Node:
    if len(rows) == 1:
        return rows[0][0]
    return Node(Op.LIST, tuple(row[0] for row in rows), "and")


_CONDITION_WORDS = frozenset(("if", "for", "when", "where"))
