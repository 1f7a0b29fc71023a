r"""Equations that restate what was asked: `\gcd(a, b) = 42`, `100m + n = 42`, `r^2 = 42`.

A model that writes one as its answer gives the value of the left side. An equation that may
have been left unsolved states none: a polynomial that holds x, y or z (`x + y = 5`) or equals
zero, one in a single letter that is more than its power (`2n = 10`), or a number added to or
multiplied with what holds one letter (`3\sqrt{x} = 6`). Notation that the grammar does not
know (`\max f`, `(f \circ g)(2)`, `\mathbb{E}[X]`) may stand on the left, too.
"""

import re

from grading.latex import is_balanced
from grading.relations import letters_of
from grading.sampling import free_names
from grading.tree import COLLECTIONS, Node, Op

__all__ = ["is_arithmetic", "restates", "value_after_unread"]


def restates(left: Node, value: Node, gold: Node) -> bool:
    """Whether `left = value` gives the value of what was asked, the gold answer being `gold`.

    Sums, integrals and limits are worked out, so that they may equal letters as well.
    """
    if _holds_any(left, _WORKED_OUT):
        is_open = not is_arithmetic(left) or bool(free_names(value))
        return gold.op not in COLLECTIONS and is_open
    if not _is_constant(value) or not _is_constant(gold):
        return False
    is_zero = value == _ZERO and _is_polynomial(left)
    return _is_quantity(left) and not is_zero and not _may_be_unsolved(left)


def is_arithmetic(node: Node) -> bool:
    """Whether it has a value of its own: no letters, no unknown function."""
    return not free_names(node) and not _holds_any(node, _UNKNOWN)


def value_after_unread(text: str) -> str | None:
    r"""`42` of `\max f = 42`; None where what stands before the sign is no known quantity."""
    name, sign, value = text.strip("$ ").rpartition("=")
    if not sign or not value.strip() or name.rstrip()[-1:] in "<>!=:":
        return None
    is_known = _QUANTITY.match(name.strip()) is not None and _COMPARED.search(name) is None
    return value.strip() if is_known and is_balanced(name) and is_balanced(value) else None


_SCALING = frozenset((Op.ADD, Op.MUL, Op.DIV))
_ZERO = Node(Op.NUM, value="0")
_UNKNOWN = frozenset((Op.CALL,))
_WORKED_OUT = frozenset((Op.SERIES, Op.INTEGRAL, Op.LIMIT))
_NO_NUMBERS = COLLECTIONS | {
    Op.WORD, Op.REL, Op.CALL, Op.BASED, Op.INF, Op.SET_BUILDER, Op.NUMBERS, Op.CONGRUENT,
    Op.INTERSECTION, Op.SET_MINUS, Op.ELLIPSIS, Op.PM,
}  # fmt: skip
_NO_QUANTITIES = (_NO_NUMBERS - {Op.CALL}) | {Op.RATIO}
_COORDINATES = frozenset("xyz")
_POLYNOMIAL = frozenset((Op.NUM, Op.SYM, Op.ADD, Op.MUL, Op.NEG, Op.POW, Op.DIV))
_QUANTITY = re.compile(
    r"\\(?:max|min|sup|inf|lim|limsup|liminf|mathbb\s?\{?[EP]\}?|operatorname\s?\{[A-Za-z]{1,20}\}"
    r"|Pr|Var)(?![A-Za-z])"
    r"|\(\s?[a-zA-Z]\s?\\circ\s?[a-zA-Z]\s?\)\s?\("
)
_COMPARED = re.compile(r"[<>]|\\(?:le|ge|leq|geq|ne|neq|approx|text)(?![A-Za-z])|,\s|;")


def _is_constant(node: Node) -> bool:
    return not free_names(node) and not _holds_any(node, _NO_NUMBERS)


def _is_open(node: Node) -> bool:
    return bool(letters_of(node)) or _holds_any(node, _UNKNOWN)


def _is_quantity(left: Node) -> bool:
    return _is_open(left) and not _holds_any(left, _NO_QUANTITIES)


def _may_be_unsolved(left: Node) -> bool:
    letters = letters_of(left)
    is_scaled = left.op in _SCALING and not all(map(_is_open, left.args))
    if is_scaled and len(letters) == 1:
        return True
    if not _is_polynomial(left):
        return False
    if letters & _COORDINATES or left.op is Op.NEG:
        return True
    is_power = left.op is Op.POW and left.args[0].op is Op.SYM
    return len(letters) == 1 and not is_power


def _is_polynomial(node: Node) -> bool:
    if node.op is Op.POW and node.args[1].op is not Op.NUM:
        return False
    if node.op is Op.DIV and free_names(node.args[1]):
        return False
    return node.op in _POLYNOMIAL and all(map(_is_polynomial, node.args))


def _holds_any(node: Node, ops: frozenset[Op]) -> bool:
    return node.op in ops or any(_holds_any(arg, ops) for arg in node.args)
