"""Proofs by bounds (`grading.bounds`) that two trees differ; never that they are equal.

Two constants whose bounds are apart are different, however large: a tower of powers is
never computed, and towers are compared by iterated logarithms. Two expressions with letters
are different if they are at one point where both have bounds, letters being real and an
unknown function some smooth one, so that `f(x)` and `f(y)` differ.
"""

from grading import intervals
from grading.bounds import HUGE, MAX_WORK, Bounds
from grading.effort import spend, steps_left
from grading.exact import exact_value
from grading.intervals import Interval, UndefinedError
from grading.sampling import Point, free_names, holds_cases, points
from grading.tokens import UnreadableError
from grading.tree import Node, Op

_MAX_LEVEL = 9


def are_different(first: Node, second: Node) -> bool:
    """Whether the two are proved to differ; False proves nothing."""
    names = sorted(free_names(first) | free_names(second))
    budget = given = min(MAX_WORK, steps_left()) - len(names)
    is_apart = False
    for point in points(names) if budget > 0 else ():
        bounds = Bounds(point, budget)
        try:
            if intervals.are_apart(bounds.of(first), bounds.of(second)) and _is_fair(
                first, second, point, budget
            ):
                is_apart = True
        except (UndefinedError, UnreadableError, ZeroDivisionError):
            pass
        budget = bounds.budget - len(names)
        if is_apart or budget <= 0:
            break
    spend(given - budget)
    if is_apart:
        return True
    return not names and (_differ_by_zero(first, second) or _differ_in_logarithms(first, second))


def are_disproportional(first: Node, second: Node, positive: bool) -> bool:
    """Whether the quotient is proved not to be one constant (or, if so asked, not positive)."""
    names = sorted(free_names(first) | free_names(second))
    quotient = Node(Op.DIV, (first, second))
    budget = given = min(MAX_WORK, steps_left()) - len(names)
    is_apart = False
    seen: list[Interval] = []
    for point in points(names) if budget > 0 else ():
        bounds = Bounds(point, budget)
        try:
            value = bounds.of(quotient)
        except (UndefinedError, UnreadableError, ZeroDivisionError):
            value = None
        budget = bounds.budget - len(names)
        if value is not None:
            is_apart = any(intervals.are_apart(value, v) for v in seen)
            is_apart |= positive and value[1] < 0
            seen.append(value)
        if is_apart or budget <= 0:
            break
    spend(given - budget)
    return is_apart


def _is_fair(first: Node, second: Node, point: Point, budget: int) -> bool:
    r"""Whether a point with negative letters counts: not where they must have one sign.

    `\sqrt{a/b}` and `\sqrt{ab}/b` differ where both letters are negative, but neither has a
    value where one is: such letters stand for positive quantities. An absolute value among
    them says that they do not.
    """
    if holds_cases(first) or holds_cases(second):
        return True
    negative = [name for name, (_, high) in point.items() if high < 0]
    if len(negative) < 2:
        return True
    for name in negative:
        low, high = point[name]
        bounds = Bounds({**point, name: (-high, -low)}, budget)
        try:
            for tree in (first, second):
                bounds.of(tree)
        except (UndefinedError, UnreadableError, ZeroDivisionError):
            return False
    return True


def bounds_of(node: Node) -> Interval | None:
    """Bounds of a constant; None where it has no real value or none that can be bounded."""
    bounds = Bounds({}, MAX_WORK)
    try:
        return bounds.of(node)
    except (UndefinedError, UnreadableError, ZeroDivisionError):
        return None
    finally:
        spend(MAX_WORK - bounds.budget)


def _differ_by_zero(first: Node, second: Node) -> bool:
    """Whether one is zero and the other is not, though too small for a float."""
    for zero, other in ((first, second), (second, first)):
        try:
            if exact_value(zero) == 0:
                return _is_nonzero(other)
        except UnreadableError:
            continue
    return False


def _differ_in_logarithms(first: Node, second: Node) -> bool:
    """Whether iterated logarithms of two numbers that no float holds are apart."""
    bounds = Bounds({}, MAX_WORK)
    try:
        if min(bounds.of(first)[0], bounds.of(second)[0]) < HUGE:
            return False
        for level in range(1, _MAX_LEVEL):
            left, right = bounds.iterated_log(first, level), bounds.iterated_log(second, level)
            if intervals.are_apart(left, right):
                return True
            if max(left[1], right[1]) < HUGE:
                return False
    except (UndefinedError, UnreadableError, ZeroDivisionError):
        pass
    return False


def _is_nonzero(node: Node) -> bool:
    if node.op in (Op.MUL, Op.DIV):
        return all(map(_is_nonzero, node.args))
    if node.op in (Op.NEG, Op.POW, Op.ROOT, Op.PCT):
        return _is_nonzero(node.args[0])
    bounds = bounds_of(node)
    return bounds is not None and (bounds[0] > 0 or bounds[1] < 0)
