r"""Sums and products with dots: `1 + 2 + \cdots + n`, `(v-a_1)(v-a_2)\cdots(v-a_n)`.

The two items before the dots and the one behind them must differ in numbers (or numbers in
subscripts) alone, which rise or fall by equal steps. Two answers are compared with the dots
written out for three values of their letter. That is no proof, but two formulas that agree
for all three and were not made for them agree.
"""

import re
from dataclasses import replace

from grading.exact import exact_value
from grading.tree import Node, Op

__all__ = ["written_out"]


def written_out(gold: Node, answer: Node) -> list[tuple[Node, Node]]:
    """Both trees without dots, once for each value of the letter that counts the items.

    Empty where neither tree has dots, or some cannot be read.
    """
    if not (_has_dots(gold) or _has_dots(answer)):
        return []
    letters = _counting_letters(gold) | _counting_letters(answer)
    letter = next((name for name in _LETTERS if name in letters), None)
    pairs: list[tuple[Node, Node]] = []
    for value in _VALUES if letter else _VALUES[:1]:
        trees = [_filled(_with_value(tree, letter or "", value)) for tree in (gold, answer)]
        if trees[0] is None or trees[1] is None:
            return []
        pairs.append((trees[0], trees[1]))
    return pairs


_LETTERS = ("n", "N", "m", "k", "r")
_VALUES = (3, 4, 5)
_MAX_ITEMS = 300
_SUBSCRIPT = re.compile(r"(?P<name>.*)_(?P<letter>[A-Za-z])(?P<shift>[+-]\d{1,3})?")
_NUMBERED = re.compile(r"(?P<name>.*)_(?P<number>\d{1,4})")


def _has_dots(node: Node) -> bool:
    return any(arg.op is Op.ELLIPSIS or _has_dots(arg) for arg in node.args)


def _counting_letters(node: Node) -> set[str]:
    """Letters of the tree, those in subscripts too."""
    if node.op is not Op.SYM:
        return set[str]().union(*map(_counting_letters, node.args)) if node.args else set()
    subscript = _SUBSCRIPT.fullmatch(node.value)
    return {node.value if subscript is None else subscript["letter"]}


def _with_value(node: Node, letter: str, value: int) -> Node:
    """The tree with a number for the letter, whole numbers added and multiplied."""
    if node.op is Op.SYM:
        subscript = _SUBSCRIPT.fullmatch(node.value)
        if subscript is not None and subscript["letter"] == letter:
            number = value + int(subscript["shift"] or 0)
            return Node(Op.SYM, value=f"{subscript['name']}_{number}")
        return Node(Op.NUM, value=str(value)) if node.value == letter else node
    if not node.args:
        return node
    node = replace(node, args=tuple(_with_value(arg, letter, value) for arg in node.args))
    if node.op in (Op.ADD, Op.MUL):
        known = exact_value(node)
        if known is not None and known.denominator == 1 and known >= 0:
            return Node(Op.NUM, value=str(known.numerator))
    return node


def _filled(node: Node) -> Node | None:
    """The tree with the items that dots stand for; None where they cannot be told."""
    args: list[Node] = []
    for arg in node.args:
        filled = _filled(arg)
        if filled is None:
            return None
        args.append(filled)
    places = [place for place, arg in enumerate(args) if arg.op is Op.ELLIPSIS]
    if not places:
        return replace(node, args=tuple(args)) if args else node
    place = places[0]
    if node.op not in (Op.ADD, Op.MUL) or len(places) > 1 or not 2 <= place < len(args) - 1:
        return None
    items = _items(args[place - 2], args[place - 1], args[place + 1])
    if items is None:
        return None
    return replace(node, args=(*args[:place], *items, *args[place + 2 :]))


def _items(first: Node, second: Node, last: Node) -> list[Node] | None:
    """The items behind the second one up to the last one, included."""
    counts = _counts(first, second, last)
    if counts is None or len(counts) != 1:
        return None
    count = counts.pop()
    return [_item(first, second, index) for index in range(2, count + 1)]


def _counts(first: Node, second: Node, last: Node) -> set[int] | None:
    """How many steps lie between first and last, by each number that changes."""
    names, numbers = zip(*map(_numbered, (first, second, last)), strict=True)
    if None not in numbers:
        if len(set(names)) > 1:
            return None
        start, following, end = numbers
        if start == following:
            return set() if start == end else None
        count, rest = divmod(end - start, following - start)
        return {count} if not rest and 1 <= count <= _MAX_ITEMS else None
    shapes = {(node.op, node.value, len(node.args)) for node in (first, second, last)}
    if len(shapes) > 1:
        return None
    counts: set[int] = set()
    for parts in zip(first.args, second.args, last.args, strict=True):
        found = _counts(*parts)
        if found is None:
            return None
        counts |= found
    return counts


def _item(first: Node, second: Node, index: int) -> Node:
    (name, start), (_, following) = _numbered(first), _numbered(second)
    if start is not None and following is not None:
        number = start + index * (following - start)
        return Node(first.op, value=f"{name}{number}")
    pairs = zip(first.args, second.args, strict=True)
    return replace(first, args=tuple(_item(*pair, index) for pair in pairs))


def _numbered(node: Node) -> tuple[str, int | None]:
    """A whole number, or a name and the number in its subscript."""
    if node.op is Op.NUM and node.value.isdecimal() and len(node.value) < 10:
        return "", int(node.value)
    match = _NUMBERED.fullmatch(node.value) if node.op is Op.SYM else None
    return ("", None) if match is None else (f"{match['name']}_", int(match["number"]))
