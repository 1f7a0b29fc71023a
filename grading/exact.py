"""Exact rational value of a tree, under a budget of bits; no floats decide anything here.

Covers arithmetic, exact roots and logarithms, factorials, binomials, integer parts, `gcd`,
`lcm`, `max`, `min`, remainders (with the modulus's sign, by residues where the dividend is
too large to write down), sums and products over small ranges, and determinants of small
matrices. Letters have no value, save the index of a sum.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from grading.effort import spend
from grading.tokens import UnreadableError
from grading.tree import Node, Op, num_nodes

MAX_BITS = 20_000
"""Bits of any number on the way; a power, factorial or binomial is estimated first."""
_MAX_DIGITS = 4_000
_MAX_SERIES_NODES = 15_000
"""Nodes evaluated in all sums and products of one tree."""
_MAX_DETERMINANT = 12
_MAX_ROOT_DEGREE = 64
_MAX_LOG_INDEX = 6


def exact_value(node: Node, letters: dict[str, Fraction] | None = None) -> Fraction | None:
    """The rational number that the tree denotes; None where it is none, or undefined.

    A percent is a hundredth and a degree sign is dropped. `letters` gives values to letters.

    Raises:
        UnreadableError: `too-large`, before anything large is computed.
    """
    if node.op is Op.NUM:
        return _number(node.value)
    evaluation = _Evaluation(letters or {})
    try:
        return evaluation.value(node)
    except (_NotRationalError, ZeroDivisionError):
        return None
    finally:
        spend(_MAX_SERIES_NODES - evaluation.nodes_left)


def integer_value(node: Node) -> int | None:
    """The integer that the tree denotes; None where it is none.

    Raises:
        UnreadableError: `too-large`.
    """
    value = exact_value(node)
    return value.numerator if value is not None and value.denominator == 1 else None


class _NotRationalError(Exception):
    pass


class _Evaluation:
    """One evaluation: the values of the indices in scope, and what is left of the budget."""

    def __init__(self, indices: dict[str, Fraction]) -> None:
        self._indices = indices
        self.nodes_left = _MAX_SERIES_NODES

    def value(self, node: Node) -> Fraction:
        if node.op is Op.NUM:
            return _number(node.value)
        operation = _OPERATIONS.get(node.op)
        if operation is not None:
            return operation([self.value(arg) for arg in node.args])
        if node.op is Op.SYM and node.value in self._indices:
            return self._indices[node.value]
        if node.op is Op.FUNC:
            return self._function(node)
        if node.op is Op.NARY:
            return _nary(node.value, [self.value(arg) for arg in node.args])
        if node.op is Op.MOD:
            return self._remainder(node)
        if node.op is Op.SERIES:
            return self._series(node)
        raise _NotRationalError

    def _function(self, node: Node) -> Fraction:
        if node.value == "det":
            return self._determinant(node.args[0])
        function = _FUNCTIONS.get(node.value)
        if function is None:
            raise _NotRationalError
        return function(self.value(node.args[0]))

    def _remainder(self, node: Node) -> Fraction:
        modulus = self.value(node.args[1])
        try:
            dividend = self.value(node.args[0])
        except UnreadableError:
            if modulus.denominator != 1 or modulus == 0:
                raise
            return Fraction(self._residue(node.args[0], modulus.numerator))
        return dividend - modulus * (dividend // modulus)

    def _residue(self, node: Node, modulus: int) -> int:
        """Python's remainder of an integer built by sums, products, powers and factorials."""
        if node.op is Op.NEG:
            return -self._residue(node.args[0], modulus) % modulus
        if node.op in (Op.ADD, Op.MUL):
            parts = [self._residue(arg, modulus) for arg in node.args]
            return (sum(parts) if node.op is Op.ADD else math.prod(parts)) % modulus
        if node.op is Op.POW:
            exponent = self.value(node.args[1])
            if exponent.denominator != 1 or exponent < 0:
                raise _NotRationalError
            return pow(self._residue(node.args[0], modulus), exponent.numerator, modulus)
        if node.op is Op.FACT:
            argument = self.value(node.args[0])
            if argument.denominator == 1 and argument >= abs(modulus):
                return 0
        value = self.value(node)
        if value.denominator != 1:
            raise _NotRationalError
        return value.numerator % modulus

    def _series(self, node: Node) -> Fraction:
        term, index, *ends = node.args
        low, high = (self.value(end) for end in ends)
        if low.denominator != 1 or high.denominator != 1 or high < low - 1:
            raise _NotRationalError
        total = Fraction(0 if node.value == "sum" else 1)
        if (high - low + 1) * num_nodes(term) > self.nodes_left:
            raise UnreadableError("too-large")
        outer = self._indices
        self._indices = dict(outer)
        size = num_nodes(term)
        for position in range(low.numerator, high.numerator + 1):
            self.nodes_left -= size
            if self.nodes_left < 0:
                raise UnreadableError("too-large")
            self._indices[index.value] = Fraction(position)
            value = self.value(term)
            total = _bounded(total + value if node.value == "sum" else total * value)
        self._indices = outer
        return total

    def _determinant(self, matrix: Node) -> Fraction:
        size = square_size(matrix)
        if size is None:
            raise _NotRationalError
        if size > _MAX_DETERMINANT:
            raise UnreadableError("too-large")
        cells = [self.value(cell) for cell in matrix.args]
        return _determinant([cells[row * size : (row + 1) * size] for row in range(size)])


def square_size(node: Node) -> int | None:
    """The number of rows of a square matrix; None for anything else."""
    if node.op is not Op.MATRIX:
        return None
    rows, columns = node.value.split(",")
    return int(rows) if rows == columns else None


def _number(digits: str) -> Fraction:
    if len(digits) > _MAX_DIGITS:
        raise UnreadableError("too-large")
    return Fraction(int(digits)) if digits.isdecimal() else Fraction(digits)


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > MAX_BITS:
        raise UnreadableError("too-large")
    return value


def _sum(terms: list[Fraction]) -> Fraction:
    total = terms[0]
    for term in terms[1:]:
        total = _bounded(total + term)
    return total


def _product(factors: list[Fraction]) -> Fraction:
    total = factors[0]
    for factor in factors[1:]:
        total = _bounded(total * factor)
    return total


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        index = exponent.denominator
        if index > _MAX_ROOT_DEGREE:
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
    if index.denominator != 1 or not 2 <= index <= _MAX_ROOT_DEGREE:
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


def _logarithm(value: Fraction, base: Fraction) -> Fraction:
    """An exact rational logarithm: base**p == value**q, guessed by floats and verified."""
    if value <= 0 or base <= 0 or base == 1:
        raise _NotRationalError
    ratio = _float_log(value) / _float_log(base)
    for index in range(1, _MAX_LOG_INDEX + 1):
        exponent = round(ratio * index)
        if abs(ratio * index - exponent) > 1e-9:
            continue
        if _bits(base) * abs(exponent) + _bits(value) * index > MAX_BITS:
            continue
        if base**exponent == value**index:
            return Fraction(exponent, index)
    raise _NotRationalError


def _float_log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _factorial(value: Fraction) -> Fraction:
    if value.denominator != 1 or value < 0:
        raise _NotRationalError
    if value > 3_000:
        raise UnreadableError("too-large")
    return _bounded(Fraction(math.factorial(value.numerator)))


def _double_factorial(value: Fraction) -> Fraction:
    if value.denominator != 1 or value < -1:
        raise _NotRationalError
    if value > 3_000:
        raise UnreadableError("too-large")
    return _bounded(Fraction(math.prod(range(value.numerator, 0, -2))))


def _binomial(upper: Fraction, lower: Fraction) -> Fraction:
    if upper.denominator != 1 or lower.denominator != 1 or upper < 0 or lower < 0:
        raise _NotRationalError
    if upper > MAX_BITS // 2:
        raise UnreadableError("too-large")
    return _bounded(Fraction(math.comb(upper.numerator, lower.numerator)))


def _determinant(rows: list[list[Fraction]]) -> Fraction:
    """By elimination; the rows are used up."""
    result = Fraction(1)
    for column in range(len(rows)):
        pivot = next((row for row in range(column, len(rows)) if rows[row][column]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != column:
            rows[column], rows[pivot] = rows[pivot], rows[column]
            result = -result
        top = rows[column]
        result = _bounded(result * top[column])
        for row in rows[column + 1 :]:
            factor = row[column] / top[column]
            if factor:
                row[column:] = [
                    _bounded(cell - factor * above)
                    for cell, above in zip(row[column:], top[column:], strict=True)
                ]
    return result


def _nary(name: str, values: list[Fraction]) -> Fraction:
    if name in ("max", "min"):
        return max(values) if name == "max" else min(values)
    numerators = [value.numerator for value in values]
    denominators = [value.denominator for value in values]
    if name == "gcd":
        return _bounded(Fraction(math.gcd(*numerators), math.lcm(*denominators)))
    if name == "lcm":
        return _bounded(Fraction(math.lcm(*numerators), math.gcd(*denominators)))
    raise _NotRationalError


def _certain(argument: int, result: int) -> Callable[[Fraction], Fraction]:
    """A function whose only rational value here is `result`, at `argument`."""

    def function(value: Fraction) -> Fraction:
        if value != argument:
            raise _NotRationalError
        return Fraction(result)

    return function


def _unchanged(value: Fraction) -> Fraction:
    return value


_FUNCTIONS: dict[str, Callable[[Fraction], Fraction]] = {
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "sgn": lambda value: Fraction((value > 0) - (value < 0)),
    "double-factorial": _double_factorial,
    "re": _unchanged,
    "conj": _unchanged,
    "im": lambda _: Fraction(0),
    "ln": _certain(1, 0),
    "exp": _certain(0, 1),
    "sin": _certain(0, 0),
    "tan": _certain(0, 0),
    "cos": _certain(0, 1),
    "sec": _certain(0, 1),
}
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
    Op.LOG: lambda args: _logarithm(args[0], args[1]),
    Op.FACT: lambda args: _factorial(args[0]),
    Op.BINOM: lambda args: _binomial(args[0], args[1]),
}
