r"""Sets of real numbers in one canonical form: a union of disjoint intervals and points.

Evaluates unions, intersections, differences, complements and set-builders whose ends the
caller can order. A set is a rising sequence of cuts: a cut lies just before or just after an
end, so `[a, b)` runs from the cut before a to the cut before b, and union and complement
need no rule about open and closed ends. Sets of pairs, of complex numbers, or with letters
among their ends have no such form; callers compare those by shape.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from grading.exact import exact_value
from grading.polynomial_roots import rational_roots
from grading.relations import is_equation, rational_number, region_of
from grading.tree import Node, Op


class IncomparableError(Exception):
    """Two ends whose order this tier cannot tell."""


Order = Callable[[Node, Node], int]
"""-1, 0 or 1; raises `IncomparableError`."""

SET_LIKE = frozenset(
    (Op.INTERVAL, Op.UNION, Op.INTERSECTION, Op.SET_MINUS, Op.SET_BUILDER, Op.NUMBERS)
)


def canonical_set(node: Node, order: Order) -> Node | None:
    """The set as a SET of points, an INTERVAL, or a UNION of both in rising order.

    None where it is no set of reals. The empty set is a SET without members.

    Raises:
        IncomparableError: the order of two ends is not known.
    """
    cuts = _cuts_of(node, order)
    return None if cuts is None else _as_node(cuts, order)


_Cut = tuple[Node, int]
"""An end, and 0 just before it or 1 just after it."""
_Span = tuple[_Cut, _Cut]

_INFINITY = Node(Op.INF)
_MINUS_INFINITY = Node(Op.NEG, (_INFINITY,))
_BOTTOM: _Cut = (_MINUS_INFINITY, 1)
_TOP: _Cut = (_INFINITY, 0)
_MAX_INTEGERS = 1_000
_MAX_SPANS = 400
_NOT_REAL = frozenset((Op.TUPLE, Op.SET, Op.LIST, Op.MATRIX, Op.WORD, Op.ELLIPSIS, Op.REL))


def _cuts_of(node: Node, order: Order) -> list[_Span] | None:
    if node.op in (Op.INTERVAL, Op.TUPLE):
        return _interval_cuts(node, order)
    if node.op in (Op.SET, Op.LIST):
        return _point_cuts(node.args, order)
    if node.op is Op.UNION:
        return _united(node.args, order)
    if node.op is Op.INTERSECTION:
        return _intersected(node.args, order)
    if node.op is Op.SET_MINUS:
        return _without(node.args[0], node.args[1], order)
    if node.op is Op.SET_BUILDER:
        region = _builder_region(node)
        return None if region is None else _cuts_of(region, order)
    return None


def _interval_cuts(node: Node, order: Order) -> list[_Span] | None:
    if len(node.args) != 2 or any(end.op in _NOT_REAL for end in node.args):
        return None
    low, high = node.args
    brackets = node.value or "()"
    sign = order(low, high)
    if sign > 0 or (sign == 0 and brackets != "[]"):
        return None
    is_left_open = brackets[0] == "(" or low == _MINUS_INFINITY
    is_right_closed = brackets[1] == "]" and high != _INFINITY
    span = ((low, int(is_left_open)), (high, int(is_right_closed)))
    return [span] if _cut_order(span[0], span[1], order) < 0 else []


def _point_cuts(members: Sequence[Node], order: Order) -> list[_Span] | None:
    if len(members) > _MAX_SPANS or any(member.op in _NOT_REAL for member in members):
        return None
    return _merged([((member, 0), (member, 1)) for member in members], order)


def _united(parts: Sequence[Node], order: Order) -> list[_Span] | None:
    spans: list[_Span] = []
    for part in parts:
        cuts = _cuts_of(part, order)
        if cuts is None or len(spans) + len(cuts) > _MAX_SPANS:
            return None
        spans.extend(cuts)
    return _merged(spans, order)


def _intersected(parts: Sequence[Node], order: Order) -> list[_Span] | None:
    regions = [part for part in parts if part.op is not Op.NUMBERS]
    missing: list[_Span] = []
    for part in regions:
        cuts = _cuts_of(part, order)
        if cuts is None or len(missing) > _MAX_SPANS:
            return None
        missing.extend(_complement(cuts))
    spans = _complement(_merged(missing, order)) if regions else []
    numbers = [part for part in parts if part.op is Op.NUMBERS]
    if not numbers:
        return spans
    if not regions or any(part.value not in ("Z", "Z+", "N*", "N+") for part in numbers):
        return None
    lowest = None if all(part.value == "Z" for part in numbers) else 1
    return _integer_cuts(spans, lowest)


def _without(whole: Node, removed: Node, order: Order) -> list[_Span] | None:
    inside, outside = _cuts_of(whole, order), _cuts_of(removed, order)
    if inside is None or outside is None:
        return None
    return _complement(_merged([*_complement(inside), *outside], order))


def _integer_cuts(spans: Iterable[_Span], lowest: int | None) -> list[_Span] | None:
    found: list[_Span] = []
    for low, high in spans:
        first, last = exact_value(low[0]), exact_value(high[0])
        if first is None and lowest is not None and low == _BOTTOM:
            first = Fraction(lowest)
        if first is None or last is None:
            return None
        start = math.floor(first) + 1 if low[1] else math.ceil(first)
        end = math.floor(last) if high[1] else math.ceil(last) - 1
        start = start if lowest is None else max(start, lowest)
        if end - start > _MAX_INTEGERS:
            return None
        found.extend(
            ((_integer(value), 0), (_integer(value), 1)) for value in range(start, end + 1)
        )
    return found


def _integer(value: int) -> Node:
    digits = Node(Op.NUM, value=str(abs(value)))
    return Node(Op.NEG, (digits,)) if value < 0 else digits


def _builder_region(node: Node) -> Node | None:
    member, *conditions = node.args
    parts: list[Node] = []
    if member.op is Op.REL and member.value == "in":
        parts.append(member.args[1])
        member = member.args[0]
    if member.op is not Op.SYM:
        return None
    for condition in conditions:
        region = region_of(condition, member) or _solutions(condition, member)
        if region is None:
            return None
        parts.append(region)
    return parts[0] if len(parts) == 1 else Node(Op.INTERSECTION, tuple(parts))


def _solutions(condition: Node, member: Node) -> Node | None:
    """The rational roots of an equation in the member alone, where it has no others."""
    if not is_equation(condition) or len(condition.args) != 2:
        return None
    roots = rational_roots(condition, member.value)
    return None if roots is None else Node(Op.SET, tuple(map(rational_number, roots)))


# -- cuts ---------------------------------------------------------------------------------


def _cut_order(first: _Cut, second: _Cut, order: Order) -> int:
    return order(first[0], second[0]) or first[1] - second[1]


def _merged(spans: Sequence[_Span], order: Order) -> list[_Span]:
    """Disjoint spans that do not touch, in rising order."""

    def by_low(first: _Span, second: _Span) -> int:
        return _cut_order(first[0], second[0], order)

    merged: list[_Span] = []
    for span in sorted(spans, key=functools.cmp_to_key(by_low)):
        if merged and _cut_order(span[0], merged[-1][1], order) <= 0:
            if _cut_order(span[1], merged[-1][1], order) > 0:
                merged[-1] = (merged[-1][0], span[1])
        else:
            merged.append(span)
    return merged


def _complement(spans: Sequence[_Span]) -> list[_Span]:
    gaps: list[_Span] = []
    low = _BOTTOM
    for span in spans:
        if span[0] != low:
            gaps.append((low, span[0]))
        low = span[1]
    if low != _TOP:
        gaps.append((low, _TOP))
    return gaps


def _as_node(spans: Sequence[_Span], order: Order) -> Node:
    parts = [_span_node(low, high, order) for low, high in spans]
    if all(part.op is Op.SET for part in parts):
        return Node(Op.SET, tuple(part.args[0] for part in parts))
    return parts[0] if len(parts) == 1 else Node(Op.UNION, tuple(parts))


def _span_node(low: _Cut, high: _Cut, order: Order) -> Node:
    if order(low[0], high[0]) == 0:
        return Node(Op.SET, (low[0],))
    brackets = ("(" if low[1] else "[") + ("]" if high[1] else ")")
    return Node(Op.INTERVAL, (low[0], high[0]), brackets)
