"""Rigorous bounds of a tree's value at a point, by interval arithmetic.

Letters are real, odd roots of negative numbers are real, and an unknown function is some
fixed smooth function of its arguments. Sums are bounded block by block, integrals strip by
strip. No value that is not real has bounds.
"""

import itertools
import math
from fractions import Fraction

from grading import intervals
from grading.calculus import derivative
from grading.exact import exact_value, integer_value, square_size
from grading.intervals import Interval, UndefinedError
from grading.sampling import Point, call_scales
from grading.tokens import UnreadableError
from grading.tree import Node, Op

MAX_WORK = 10_000
"""Nodes visited for one pair."""
_EXACT_TERMS = 32
_SERIES_COST = 1_000
_MAX_EXPONENT = 10**15
_STRIPS = 64
HUGE = 1e300

_CONSTANTS: dict[str, Interval] = {
    "\\pi": intervals.widened(math.pi, math.pi),
    "e": intervals.widened(math.e, math.e),
}


class Bounds:
    """Bounds of trees at one point; letters may also range over an interval."""

    def __init__(self, point: Point, budget: int) -> None:
        self._point = dict(point)
        self._whole = _whole_letters(point)
        self.budget = budget

    def of(self, node: Node) -> Interval:
        """Bounds of the value.

        Raises:
            UndefinedError: none, or over the budget.
        """
        self.budget -= 1
        if self.budget < 0:
            raise UndefinedError
        op = node.op
        if op is Op.NUM:
            return _number(node)
        if op is Op.SYM:
            return self._letter(node.value)
        if op is Op.ADD:
            return intervals.total([self.of(arg) for arg in node.args])
        if op is Op.MUL:
            return intervals.product([self.of(arg) for arg in node.args])
        if op is Op.NEG:
            low, high = self.of(node.args[0])
            return -high, -low
        if op is Op.DIV:
            return intervals.quotient(self.of(node.args[0]), self.of(node.args[1]))
        if op is Op.POW:
            return self._power(*node.args)
        if op is Op.ROOT:
            return self._root(*node.args)
        if op is Op.FUNC:
            return self._function(node)
        return self._rare(node)

    def _letter(self, name: str) -> Interval:
        bounds = self._point.get(name) or _CONSTANTS.get(name)
        if bounds is None:
            raise UndefinedError
        return bounds

    def _power(self, base: Node, exponent: Node) -> Interval:
        known = self._rational(exponent)
        if known is not None and known.denominator == 1 and abs(known) < _MAX_EXPONENT:
            return intervals.integer_power(self.of(base), known.numerator)
        bounds = self.of(base)
        if bounds[0] < 0 and known is not None and known.denominator % 2 == 1:
            index = known.denominator
            return intervals.integer_power(intervals.root(bounds, index), known.numerator)
        return intervals.power(bounds, self.of(exponent))

    def _rational(self, node: Node) -> Fraction | None:
        """Its exact value, where the letters in it stand at whole numbers."""
        self.budget -= _exact_cost(node)
        if self.budget < 0:
            raise UndefinedError
        try:
            return exact_value(node, self._whole)
        except UnreadableError:
            return None

    def _root(self, radicand: Node, index: Node) -> Interval:
        degree = self._rational(index)
        if degree is None or degree.denominator != 1 or not 0 < degree < _MAX_EXPONENT:
            return self._power(radicand, Node(Op.DIV, (Node(Op.NUM, value="1"), index)))
        return intervals.root(self.of(radicand), degree.numerator)

    def _function(self, node: Node) -> Interval:
        argument = node.args[0]
        if node.value == "det":
            return self._determinant(argument)
        function = intervals.FUNCTIONS.get(node.value)
        if function is None:
            raise UndefinedError
        if argument.op is Op.DEG:
            in_degrees = self.of(argument.args[0])
            return function(
                intervals.quotient(
                    intervals.product([in_degrees, _CONSTANTS["\\pi"]]), (180.0, 180.0)
                )
            )
        return function(self.of(argument))

    def iterated_log(self, node: Node, level: int) -> Interval:
        """Bounds of the logarithm of the logarithm ... of a huge positive number."""
        if level == 0:
            return self.of(node)
        if node.op is Op.POW and self.of(node.args[0])[0] > 1:
            base, exponent = node.args
            base_log = self.iterated_log(base, 1)
            if level == 1:
                return intervals.product([self.of(exponent), base_log])
            if self.of(exponent)[0] < HUGE or level == 2:
                result = intervals.total(
                    [self.iterated_log(exponent, 1), intervals.logarithm(base_log)]
                )
                return _repeated_log(result, level - 2)
            if not 1e-100 < base_log[0] <= base_log[1] < 1e100:
                raise UndefinedError
            # Beside so huge an exponent the base changes a logarithm by less than log 2.
            return intervals.total([self.iterated_log(exponent, level - 1), (-0.7, 0.7)])
        if node.op is Op.FUNC and node.value == "exp":
            return self.iterated_log(node.args[0], level - 1)
        if node.op is Op.FACT and self.of(node.args[0])[1] < HUGE:
            return _repeated_log(intervals.log_factorial(self.of(node.args[0])), level - 1)
        return _repeated_log(self.of(node), level)

    def _rare(self, node: Node) -> Interval:
        if node.op is Op.SERIES:
            return self._series(node)
        if node.op is Op.INTEGRAL and len(node.args) == 4:
            return self._integral(*node.args)
        if node.op is Op.DERIVATIVE:
            slope = derivative(node)
            if slope is None:
                raise UndefinedError
            return self.of(slope)
        if node.op is Op.FACT:
            return self._factorial(node.args[0])
        if node.op is Op.BINOM:
            return self._binomial(*node.args)
        if node.op is Op.NARY and node.value in ("gcd", "lcm"):
            value = exact_value(node)
            if value is None:
                raise UndefinedError
            return _fraction(value)
        return self._plain(node, [self.of(arg) for arg in node.args])

    def _plain(self, node: Node, args: list[Interval]) -> Interval:
        if node.op is Op.ABS:
            return intervals.absolute(args[0])
        if node.op is Op.LOG:
            return intervals.quotient(*map(intervals.logarithm, args))
        if node.op is Op.PCT:
            return intervals.quotient(args[0], (100.0, 100.0))
        if node.op is Op.DEG:
            return args[0]
        if node.op is Op.MOD:
            return intervals.remainder(*args)
        if node.op is Op.NARY:
            pick = max if node.value == "max" else min
            return pick(low for low, _ in args), pick(high for _, high in args)
        if node.op is Op.CALL:
            return _some_function(node.value, args)
        raise UndefinedError

    def _factorial(self, argument: Node) -> Interval:
        known = self._rational(argument)
        if known is not None and known.denominator == 1 and 0 <= known <= 20:
            value = float(math.factorial(known.numerator))
            return value, value
        return intervals.factorial(self.of(argument))

    def _binomial(self, upper: Node, lower: Node) -> Interval:
        count = self._rational(lower)
        top = self.of(upper)
        if count is not None and count.denominator == 1 and 0 <= count <= 20:
            steps = [(-float(k), -float(k)) for k in range(count.numerator)]
            factors = [intervals.total([top, step]) for step in steps]
            scale = float(math.factorial(count.numerator))
            return intervals.quotient(intervals.product([(1.0, 1.0), *factors]), (scale, scale))
        bottom = self.of(lower)
        rest = intervals.total([top, intervals.negated(bottom)])
        parts = [intervals.log_factorial(part) for part in (top, bottom, rest)]
        return intervals.exponential(
            intervals.total([parts[0], *map(intervals.negated, parts[1:])])
        )

    def _determinant(self, matrix: Node) -> Interval:
        size = square_size(matrix)
        if size is None or size > 12:
            raise UndefinedError
        cells = [self.of(cell) for cell in matrix.args]
        rows = [cells[row * size : (row + 1) * size] for row in range(size)]
        return intervals.determinant(rows)

    # -- over a range ---------------------------------------------------------------

    def _within(self, name: str, bounds: Interval, node: Node) -> Interval:
        outer = self._point.get(name)
        self._set(name, bounds)
        try:
            return self.of(node)
        finally:
            self._set(name, outer)

    def _set(self, name: str, bounds: Interval | None) -> None:
        self._whole.pop(name, None)
        if bounds is None:
            del self._point[name]
            return
        self._point[name] = bounds
        self._whole.update(_whole_letters({name: bounds}))

    def _series(self, node: Node) -> Interval:
        term, index, low_node, high_node = node.args
        low, high = integer_value(low_node), integer_value(high_node)
        if low is None or high is None or not 0 < high - low + 1 < _MAX_EXPONENT:
            raise UndefinedError
        parts: list[Interval] = []
        start = low
        while start <= high:
            length = 1 if start - low < _EXACT_TERMS else max((start - low) // 8, 1)
            stop = min(start + length - 1, high)
            value = self._within(index.value, (float(start), float(stop)), term)
            count = float(stop - start + 1)
            if node.value == "sum":
                parts.append(intervals.product([value, (count, count)]))
            else:
                parts.append(intervals.integer_power(value, stop - start + 1))
            start = stop + 1
        return intervals.total(parts) if node.value == "sum" else intervals.product(parts)

    def _integral(self, body: Node, name: Node, low_node: Node, high_node: Node) -> Interval:
        low, high = self.of(low_node), self.of(high_node)
        if not (math.isfinite(low[0]) and math.isfinite(high[1])):
            raise UndefinedError
        if low[0] != low[1] or high[0] != high[1] or low[1] >= high[0]:
            raise UndefinedError
        edges = [low[0] + (high[0] - low[0]) * k / _STRIPS for k in range(_STRIPS)]
        edges.append(high[0])
        strips = [
            intervals.product(
                [
                    self._within(name.value, (left, right), body),
                    intervals.widened(right - left, right - left),
                ]
            )
            for left, right in itertools.pairwise(edges)
        ]
        return intervals.total(strips)


def _exact_cost(node: Node) -> int:
    """Nodes that its exact value visits; sums are taken to be long."""
    if node.op is Op.SERIES:
        return _SERIES_COST
    return sum(map(_exact_cost, node.args), 1 if node.args else 0)


def _repeated_log(value: Interval, times: int) -> Interval:
    for _ in range(times):
        value = intervals.logarithm(value)
    return value


def _whole_letters(point: Point) -> dict[str, Fraction]:
    return {name: Fraction(low) for name, (low, high) in point.items() if low == high == int(low)}


def _number(node: Node) -> Interval:
    digits = node.value
    value = float(digits)
    if len(digits) < 16 and digits.isdecimal():
        return value, value
    return intervals.widened(value, value)


def _fraction(value: Fraction) -> Interval:
    try:
        approximate = value.numerator / value.denominator
    except OverflowError:
        return intervals.WHOLE
    return intervals.widened(approximate, approximate)


def _some_function(name: str, args: list[Interval]) -> Interval:
    """A smooth function that the name alone fixes, different in each argument."""
    offset, waves = call_scales(name, len(args))
    terms: list[Interval] = [(offset, offset)]
    for argument, (weight, scale, phase) in zip(args, waves, strict=True):
        angle = intervals.total([intervals.product([argument, (scale, scale)]), (phase, phase)])
        terms.append(intervals.product([intervals.sine(angle), (weight, weight)]))
    return intervals.total(terms)
