"""Arithmetic on closed intervals of floats, rounded outwards: every result holds the truth.

A value too large for a float lies in an interval that ends at infinity; one too small, in
an interval that ends at zero. `UndefinedError` where a function has no real value on the
interval, or none that is certain.
"""

import math
from collections.abc import Callable

Interval = tuple[float, float]
"""Low and high end, both inclusive; infinite ends stand for "no bound"."""

WHOLE: Interval = (-math.inf, math.inf)
_MAX = 1.7976931348623157e308
_TINY = 5e-324
_SLACK = 1e-15
"""Relative; the C library's functions err by less than 3e-16."""


class UndefinedError(Exception):
    """No real value, or none that this arithmetic can bound."""


def widened(low: float, high: float, slack: float = _SLACK) -> Interval:
    """The interval, its ends moved outwards past the rounding error of one operation."""
    if low != low:
        low = -math.inf
    elif low == math.inf:
        low = _MAX
    else:
        low -= abs(low) * slack + _TINY
    if high != high:
        high = math.inf
    elif high == -math.inf:
        high = -_MAX
    else:
        high += abs(high) * slack + _TINY
    return low, high


def are_apart(first: Interval, second: Interval) -> bool:
    """Whether no number lies in both."""
    return first[1] < second[0] or second[1] < first[0]


def total(terms: list[Interval]) -> Interval:
    """The sum."""
    low, high = terms[0]
    for term in terms[1:]:
        bottom, top = low + term[0], high + term[1]
        # A sum that comes out as zero is exact, so a sign survives.
        low = widened(bottom, bottom)[0] if bottom else bottom
        high = widened(top, top)[1] if top else top
    return low, high


def product(factors: list[Interval]) -> Interval:
    """The product."""
    result = factors[0]
    for factor in factors[1:]:
        result = _times(result, factor)
    return result


def _times(first: Interval, second: Interval) -> Interval:
    if first[0] >= 0 and second[0] >= 0:
        low, high = widened(_finite(first[0] * second[0]), _finite(first[1] * second[1]))
        return max(low, 0.0), high
    ends = [_finite(a * b) for a in first for b in second]
    return widened(min(ends), max(ends))


def _finite(value: float) -> float:
    """Zero times "no bound" is zero: the other factor is some real number."""
    return 0.0 if value != value else value


def negated(value: Interval) -> Interval:
    """The negative."""
    return -value[1], -value[0]


def quotient(upper: Interval, lower: Interval) -> Interval:
    """The quotient; no bound where the divisor may be zero."""
    low, high = lower
    if low <= 0 <= high:
        if low == high:
            raise UndefinedError
        return WHOLE
    inverse = widened(1 / high, 1 / low)
    if upper == (1.0, 1.0):
        return inverse
    ends = [_finite(a / b) if abs(b) != math.inf else 0.0 for a in upper for b in lower]
    return widened(min(ends), max(ends))


def absolute(value: Interval) -> Interval:
    """The absolute value."""
    low, high = value
    if low >= 0:
        return value
    return (-high, -low) if high <= 0 else (0.0, max(-low, high))


def integer_power(base: Interval, exponent: int) -> Interval:
    """A power with a known integer exponent."""
    if exponent < 0:
        return quotient((1.0, 1.0), integer_power(base, -exponent))
    if exponent == 0:
        if base[0] <= 0 <= base[1]:
            raise UndefinedError
        return 1.0, 1.0
    if exponent % 2 == 0:
        base = absolute(base)
    low, high = (_integer_power(end, exponent) for end in base)
    return widened(low, high)


def _integer_power(base: float, exponent: int) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf if base > 0 or exponent % 2 == 0 else -math.inf


def power(base: Interval, exponent: Interval) -> Interval:
    """A power of a base that is not negative; a base of zero is taken as a limit."""
    low, high = base
    if low < 0 or (high == 0 and exponent[0] <= 0):
        raise UndefinedError
    ends = [_float_power(a, b) for a in base for b in exponent]
    if low < 1 < high or exponent[0] < 0 < exponent[1]:
        ends.append(1.0)
    bottom, top = widened(min(ends), max(ends))
    return max(bottom, 0.0), top


def _float_power(base: float, exponent: float) -> float:
    if base == 0:
        return 0.0 if exponent > 0 else 1.0 if exponent == 0 else math.inf
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def root(radicand: Interval, index: int) -> Interval:
    """A real root, of odd index also of a negative number."""
    low, high = radicand
    if low < 0:
        if index % 2 == 0:
            raise UndefinedError
        if high <= 0:
            return negated(root(negated(radicand), index))
        return -root((0.0, -low), index)[1], root((0.0, high), index)[1]
    if index == 2:
        bottom, top = widened(math.sqrt(low), math.sqrt(high))
        return max(bottom, 0.0), top
    return power(radicand, widened(1 / index, 1 / index))


def exponential(value: Interval) -> Interval:
    """The exponential function."""
    low, high = (_float_exp(end) for end in value)
    low, high = widened(low, high)
    return max(low, 0.0), high


def _float_exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def logarithm(value: Interval) -> Interval:
    """The natural logarithm of a positive number."""
    low, high = value
    if high <= 0 or low < 0:
        raise UndefinedError
    return widened(math.log(low) if low else -math.inf, math.log(high))


def factorial(value: Interval) -> Interval:
    """The gamma function one further on, from 1 upwards, where it rises."""
    low, high = value
    if low < 1:
        raise UndefinedError
    return _float_factorial(low)[0], _float_factorial(high)[1]


def _float_factorial(value: float) -> Interval:
    if value > 1e300:
        return _MAX, math.inf
    return exponential(log_factorial((value, value)))


def log_factorial(value: Interval) -> Interval:
    """The logarithm of `factorial`."""
    low, high = value
    if low < 1 or high > 1e300:
        raise UndefinedError
    # Relative slack is none where the logarithm is zero.
    return widened(math.lgamma(low + 1) - 1e-13, math.lgamma(high + 1) + 1e-13, 1e-13)


def floor(value: Interval) -> Interval:
    """The integer part."""
    return _float_floor(value[0]), _float_floor(value[1])


def _float_floor(value: float) -> float:
    return float(math.floor(value)) if abs(value) < 1e300 else value


def sign(value: Interval) -> Interval:
    """-1, 0 or 1."""
    low, high = value
    return float((low > 0) - (low < 0)), float((high > 0) - (high < 0))


def remainder(dividend: Interval, modulus: Interval) -> Interval:
    """What is left of the dividend, with the modulus's sign."""
    quotients = floor(quotient(dividend, modulus))
    if quotients[0] == quotients[1] and abs(quotients[0]) < 1e300:
        return total([dividend, negated(product([modulus, quotients]))])
    return min(modulus[0], 0.0), max(modulus[1], 0.0)


def sine(value: Interval) -> Interval:
    """The sine of an angle in radians."""
    return _wave(value, math.sin, peak=math.pi / 2)


def cosine(value: Interval) -> Interval:
    """The cosine of an angle in radians."""
    return _wave(value, math.cos, peak=0.0)


def _wave(value: Interval, function: Callable[[float], float], *, peak: float) -> Interval:
    low, high = value
    if not -1e6 < low <= high < 1e6 or high - low > 6:
        return -1.0, 1.0
    ends = (function(low), function(high))
    bottom, top = widened(min(ends) - 1e-16, max(ends) + 1e-16)
    if _holds_multiple(low, high, peak):
        top = 1.0
    if _holds_multiple(low, high, peak + math.pi):
        bottom = -1.0
    return max(bottom, -1.0), min(top, 1.0)


def _holds_multiple(low: float, high: float, offset: float) -> bool:
    """Whether offset + 2 pi k, or nearly, is in the interval."""
    first = math.ceil((low - offset) / math.tau - 1e-9)
    return first <= (high - offset) / math.tau + 1e-9


def tangent(value: Interval) -> Interval:
    """The tangent of an angle in radians, which rises between poles."""
    low, high = value
    if cosine(value)[0] <= 0 <= cosine(value)[1]:
        return WHOLE
    return widened(math.tan(low), math.tan(high), 1e-14)


def determinant(rows: list[list[Interval]]) -> Interval:
    """By elimination; the rows are used up."""
    result: Interval = (1.0, 1.0)
    for column in range(len(rows)):
        pivot = max(
            range(column, len(rows)), key=lambda row: _distance_from_zero(rows[row][column])
        )
        if _distance_from_zero(rows[pivot][column]) <= 0:
            raise UndefinedError
        if pivot != column:
            rows[column], rows[pivot] = rows[pivot], rows[column]
            result = negated(result)
        top = rows[column]
        result = _times(result, top[column])
        for row in rows[column + 1 :]:
            factor = negated(quotient(row[column], top[column]))
            row[column:] = [
                total([cell, _times(factor, above)])
                for cell, above in zip(row[column:], top[column:], strict=True)
            ]
    return result


def _distance_from_zero(value: Interval) -> float:
    low, high = value
    return max(low, -high)


def rising(function: Callable[[float], float], low: float, high: float) -> "IntervalFunction":
    """A rising function with a domain that includes its ends."""

    def apply(value: Interval) -> Interval:
        if not low <= value[0] <= value[1] <= high:
            raise UndefinedError
        return widened(_or_infinite(function, value[0]), _or_infinite(function, value[1]), 1e-14)

    return apply


def _or_infinite(function: Callable[[float], float], argument: float) -> float:
    try:
        return function(argument)
    except (OverflowError, ValueError):
        return math.copysign(math.inf, argument)


def _reciprocal(function: "IntervalFunction") -> "IntervalFunction":
    return lambda value: quotient((1.0, 1.0), function(value))


def _hyperbolic_cosine(value: Interval) -> Interval:
    low, high = absolute(value)
    return rising(math.cosh, 0.0, math.inf)((low, high))


IntervalFunction = Callable[[Interval], Interval]
FUNCTIONS: dict[str, IntervalFunction] = {
    "sin": sine,
    "cos": cosine,
    "tan": tangent,
    "cot": _reciprocal(tangent),
    "sec": _reciprocal(cosine),
    "csc": _reciprocal(sine),
    "arcsin": rising(math.asin, -1.0, 1.0),
    "arccos": lambda value: negated(rising(lambda x: -math.acos(x), -1.0, 1.0)(value)),
    "arctan": rising(math.atan, -math.inf, math.inf),
    "sinh": rising(math.sinh, -math.inf, math.inf),
    "cosh": _hyperbolic_cosine,
    "tanh": rising(math.tanh, -math.inf, math.inf),
    "arcsinh": rising(math.asinh, -math.inf, math.inf),
    "arccosh": rising(math.acosh, 1.0, math.inf),
    "arctanh": rising(math.atanh, -1.0, 1.0),
    "coth": _reciprocal(rising(math.tanh, -math.inf, math.inf)),
    "sech": _reciprocal(_hyperbolic_cosine),
    "csch": _reciprocal(rising(math.sinh, -math.inf, math.inf)),
    "exp": exponential,
    "ln": logarithm,
    "floor": floor,
    "ceil": lambda value: negated(floor(negated(value))),
    "sgn": sign,
    "re": lambda value: value,
    "conj": lambda value: value,
    "im": lambda _: (0.0, 0.0),
}
