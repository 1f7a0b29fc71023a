r"""Vectors by unit vectors, `3\mathbf{i} - 2\mathbf{j}`, against their components."""

import re

from grading.tree import Node, Op

__all__ = ["components", "names_unit_vectors"]


def names_unit_vectors(text: str) -> bool:
    r"""Whether i, j or k is marked as a vector; a plain i is the imaginary unit."""
    return _MARKED.search(text) is not None


def components(node: Node, num_components: int) -> Node | None:
    """The tuple of the factors of i, j and k; None where it is no sum of such terms."""
    letters = "ijk"[:num_components]
    factors: dict[str, Node] = {}
    for term in node.args if node.op is Op.ADD else (node,):
        found = _term(term)
        if found is None or found[0] not in letters or found[0] in factors:
            return None
        factors[found[0]] = found[1]
    return Node(Op.TUPLE, tuple(factors.get(letter, _ZERO) for letter in letters))


_MARKED = re.compile(
    r"\\(?:mathbf|boldsymbol|bm|hat|vec|bold|mathbfit|overrightarrow|widehat)\s?"
    r"\{?\s?\\?(?:[ijk]|[ij]math)(?![A-Za-z])"
)
_ZERO = Node(Op.NUM, value="0")
_UNIT = Node(Op.NUM, value="1")


def _term(term: Node) -> tuple[str, Node] | None:
    """Letter and factor of `-2j`."""
    if term.op is Op.NEG:
        inner = _term(term.args[0])
        return None if inner is None else (inner[0], Node(Op.NEG, (inner[1],)))
    if term.op is Op.SYM:
        return term.value, _UNIT
    if term.op is not Op.MUL or term.args[-1].op is not Op.SYM:
        return None
    *rest, last = term.args
    factor = rest[0] if len(rest) == 1 else Node(Op.MUL, tuple(rest))
    return last.value, factor
