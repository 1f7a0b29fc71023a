"""Exact rational value of a tree, under a budget of bits; no floats anywhere."""

import math
from collections.abc import Callable
from fractions import Fraction

from grading.tokens import UnreadableError
from grading.tree import Node, Op

MAX_BITS = 20_000
"""Bits of any number on the way; a power, factorial or binomial is estimated first."""
_MAX_DIGITS = 4_000


def exact_value(node: Node) -> Fraction | None:
    """The rational number that the tree denotes; None where it is none, or undefined.

    A percent is a hundredth and a degree sign is dropped.

    Raises:
        UnreadableError: `too-large`, before anything large is computed.
    """
    try:
        return _value(node)
    except ZeroDivisionError:
        return None


class _NotRationalError(Exception):
    pass


def _value(node: Node) -> Fraction | None:
    try:
        return _evaluate(node)
    except _NotRationalError:
        return None


def _evaluate(node: Node) -> Fraction:
    if node.op is Op.NUM:
        if len(node.value) > _MAX_DIGITS:
            raise UnreadableError("too-large")
        return Fraction(node.value)
    operation = _OPERATIONS.get(node.op)
    if operation is None:
        raise _NotRationalError
    return operation([_evaluate(arg) for arg in node.args])


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > MAX_BITS:
        raise UnreadableError("too-large")
    return value


def _sum(terms: list[Fraction]) -> Fraction:
    total = Fraction(0)
    for term in terms:
        total = _bounded(total + term)
    return total


def _product(factors: list[Fraction]) -> Fraction:
    total = Fraction(1)
    for factor in factors:
        total = _bounded(total * factor)
    return total


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        index = exponent.denominator
        if index > 64:
            raise _NotRationalError
        return _power(_root(base, Fraction(index)), Fraction(exponent.numerator))
    if base in (0, 1, -1):
        if base == 0 and exponent <= 0:
            raise ZeroDivisionError
        return base if exponent % 2 or base != -1 else Fraction(1)
    if _bits(base) * abs(exponent.numerator) > MAX_BITS:
        raise UnreadableError("too-large")
    return base**exponent.numerator


def _root(radicand: Fraction, index: Fraction) -> Fraction:
    """An exact real root; odd roots of negative numbers are negative."""
    if index.denominator != 1 or not 2 <= index <= 64:
        raise _NotRationalError
    degree = index.numerator
    if radicand < 0:
        if degree % 2 == 0:
            raise _NotRationalError
        return -_root(-radicand, index)
    upper = _integer_root(radicand.numerator, degree)
    lower = _integer_root(radicand.denominator, degree)
    if upper**degree != radicand.numerator or lower**degree != radicand.denominator:
        raise _NotRationalError
    return Fraction(upper, lower)


def _integer_root(value: int, degree: int) -> int:
    if degree == 2:
        return math.isqrt(value)
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low


def _factorial(value: Fraction) -> Fraction:
    if value.denominator != 1 or value < 0:
        raise _NotRationalError
    if value > 3_000:
        raise UnreadableError("too-large")
    return _bounded(Fraction(math.factorial(value.numerator)))


def _binomial(upper: Fraction, lower: Fraction) -> Fraction:
    if upper.denominator != 1 or lower.denominator != 1 or upper < 0 or lower < 0:
        raise _NotRationalError
    if upper > MAX_BITS // 2:
        raise UnreadableError("too-large")
    return _bounded(Fraction(math.comb(upper.numerator, lower.numerator)))


_OPERATIONS: dict[Op, Callable[[list[Fraction]], Fraction]] = {
    Op.ADD: _sum,
    Op.MUL: _product,
    Op.DIV: lambda args: _bounded(args[0] / args[1]),
    Op.NEG: lambda args: -args[0],
    Op.POW: lambda args: _power(args[0], args[1]),
    Op.PCT: lambda args: args[0] / 100,
    Op.DEG: lambda args: args[0],
    Op.ABS: lambda args: abs(args[0]),
    Op.ROOT: lambda args: _root(args[0], args[1]),
    Op.FACT: lambda args: _factorial(args[0]),
    Op.BINOM: lambda args: _binomial(args[0], args[1]),
}
