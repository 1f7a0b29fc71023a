"""Lists: items and their separators as one node."""

from itertools import groupby

from grading.tree import Node, Op

SEPARATORS = frozenset((",", ";", "\\lor", "\\land", "\\and"))


def listed(items: list[Node], separators: list[str]) -> Node:
    """One LIST; where separators of two strengths stand, a LIST of TUPLEs.

    The stronger is the semicolon, then "or", then "and" — but "and" or "or" before the last
    item of a comma list only ends it.
    """
    kinds = set(separators)
    if kinds == {","} or kinds == {";"}:
        return _list(items, "")
    words = kinds & _WORDS.keys()
    if ";" not in kinds and len(kinds - {","}) == 1 and not words & set(separators[:-1]):
        return _list(items, _WORDS[separators[-1]])
    if len(kinds) == 1:
        return _list(items, _WORDS[separators[0]])
    strongest = next(kind for kind in _STRONGEST if kind in kinds)
    groups = _split(items, separators, strongest)
    parts = [group[0] if len(group) == 1 else Node(Op.TUPLE, tuple(group)) for group in groups]
    return Node(Op.LIST, tuple(parts), _WORDS.get(strongest, ""))


_WORDS = {"\\lor": "or", "\\land": "land", "\\and": "and"}
_STRONGEST = (";", "\\lor", "\\and", "\\land", ",")


def _list(items: list[Node], value: str) -> Node:
    first, last = items[0], items[-1]
    if last.op is Op.CONGRUENT or (first.op is Op.REL and first.value == "equiv"):
        items = _congruences(items)
    return Node(Op.LIST, tuple(items), value)


def _congruences(items: list[Node]) -> list[Node]:
    r"""`x \equiv 1, 3 \pmod 8` is two congruences."""
    first, last = items[0], items[-1]
    if first.op is not Op.REL or first.value != "equiv" or last.op is not Op.MOD:
        return items
    name, modulus = first.args[0], last.args[1]
    residues = [first.args[1], *items[1:-1], last.args[0]]
    return [Node(Op.CONGRUENT, (name, value, modulus)) for value in residues]


def _split(items: list[Node], separators: list[str], at: str) -> list[list[Node]]:
    labels = [0]
    for separator in separators:
        labels.append(labels[-1] + (separator == at))
    pairs = zip(labels, items, strict=True)
    return [[item for _, item in group] for _, group in groupby(pairs, key=lambda pair: pair[0])]
