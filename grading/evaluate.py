"""High-precision value of a scalar tree at a point (mpmath).

Everything that has a number at a point is covered, save limits and integrals; a definite
integral or an endless sum has no value here. Where no `i` occurs and there are letters, a
value that is not real is none. An evaluation also tells whether it was *clean*: every
intermediate value of ordinary size, so that no term can hide below the precision.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath

from grading.calculus import derivative
from grading.exact import exact_value, integer_value, square_size
from grading.sampling import CONSTANT_NAMES, call_scales
from grading.tokens import UnreadableError
from grading.tree import Node, Op

_MAX_EXPONENT = 10**6
"""Bits of magnitude that a number may reach while a tree is evaluated."""
_CLEAN_BITS = 50
"""A clean intermediate value lies between 2**-50 and 2**50, or is zero."""
_MAX_TERMS = 500
_MAX_DETERMINANT = 12


def values_at(
    trees: Sequence[Node], point: dict[str, Fraction], *, is_real: bool
) -> tuple[list[Any], bool]:
    """Their values at mpmath's present precision; whether every value on the way was clean.

    Raises:
        NoValueError: none at this point.
        UnreadableError: `too-large`, `unsupported`.
    """
    evaluator = _Evaluator(point, is_real=is_real)
    return [evaluator.value(tree) for tree in trees], evaluator.is_clean


class NoValueError(Exception):
    """The tree has no value at this point: a pole, or outside the real domain."""


class _Evaluator:
    """mpmath value of a tree at one point; refuses sizes it cannot afford."""

    def __init__(self, point: dict[str, Fraction], *, is_real: bool) -> None:
        self._point = point
        self._is_real = is_real
        self.is_clean = True

    def value(self, node: Node) -> Any:
        result = self._value(node)
        if not mpmath.isfinite(result):
            raise NoValueError
        if result and abs(mpmath.mag(result)) > _CLEAN_BITS:
            self.is_clean = False
        return result

    def _value(self, node: Node) -> Any:
        if node.op is Op.NUM:
            exact = exact_value(node)
            assert exact is not None
            return _as_mpf(exact)
        if node.op is Op.SYM:
            return self._letter(node.value)
        if node.op is Op.FUNC:
            return self._function(node)
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node)
        operation = _OPERATIONS.get(node.op)
        if operation is None:
            raise UnreadableError("unsupported")
        return operation(self, [self.value(arg) for arg in node.args])

    def _letter(self, name: str) -> Any:
        if name in CONSTANT_NAMES:
            make, args = _CONSTANTS[name]
            return make(*args)
        if name not in self._point:
            raise NoValueError
        return _as_mpf(self._point[name])

    def _function(self, node: Node) -> Any:
        argument = node.args[0]
        if node.value == "det":
            return self._determinant(argument)
        value = self.value(argument.args[0] if argument.op is Op.DEG else argument)
        if argument.op is Op.DEG:
            value = value * mpmath.pi / 180
        if node.value == "ln":
            return self.logarithm([value])
        if node.value in ("exp", "sinh", "cosh", "tanh"):
            _refuse_large(abs(value) * 2)
        else:
            _refuse_large(mpmath.mag(value) * 100 if value else 0)
        function = _FUNCTIONS.get(node.value)
        if function is None:
            raise UnreadableError("unsupported")
        result = function(value)
        if self._is_real and mpmath.im(result) != 0:
            raise NoValueError
        return result

    def _determinant(self, matrix: Node) -> Any:
        size = square_size(matrix)
        if size is None or size > _MAX_DETERMINANT:
            raise UnreadableError("unsupported")
        cells = [self.value(cell) for cell in matrix.args]
        return mpmath.det(mpmath.matrix([cells[k * size : (k + 1) * size] for k in range(size)]))

    def choice(self, node: Node) -> Any:
        if node.value in ("gcd", "lcm"):
            exact = exact_value(node)
            if exact is None:
                raise UnreadableError("unsupported")
            return _as_mpf(exact)
        values = [self.value(arg) for arg in node.args]
        if any(mpmath.im(value) != 0 for value in values):
            raise NoValueError
        values = [mpmath.re(value) for value in values]
        return max(values) if node.value == "max" else min(values)

    def call(self, node: Node) -> Any:
        values = [self.value(arg) for arg in node.args]
        offset, waves = call_scales(node.value, len(values))
        terms = [
            weight * mpmath.sin(value * scale + phase)
            for value, (weight, scale, phase) in zip(values, waves, strict=True)
        ]
        return mpmath.fsum([mpmath.mpf(offset), *terms])

    def series(self, node: Node) -> Any:
        term, index, low_node, high_node = node.args
        low, high = integer_value(low_node), integer_value(high_node)
        if low is None or high is None or not 0 <= high - low + 1 <= _MAX_TERMS:
            raise UnreadableError("unsupported")
        outer = self._point
        values: list[Any] = []
        for position in range(low, high + 1):
            self._point = {**outer, index.value: Fraction(position)}
            values.append(self.value(term))
        self._point = outer
        return mpmath.fsum(values) if node.value == "sum" else mpmath.fprod(values)

    def slope(self, node: Node) -> Any:
        tree = derivative(node)
        if tree is None:
            raise UnreadableError("unsupported")
        return self.value(tree)

    def quotient(self, args: list[Any]) -> Any:
        return args[0] / args[1]

    def product(self, args: list[Any]) -> Any:
        return mpmath.fprod(args)

    def magnitude(self, args: list[Any]) -> Any:
        return abs(args[0])

    def remainder(self, args: list[Any]) -> Any:
        if any(mpmath.im(arg) != 0 for arg in args):
            raise NoValueError
        return args[0] - args[1] * _real_floor(args[0] / args[1])

    def power(self, args: list[Any]) -> Any:
        base, exponent = args
        if base == 0:
            if mpmath.re(exponent) <= 0:
                raise NoValueError
            return mpmath.mpf(0)
        _refuse_large(abs(exponent) * max(abs(mpmath.log(abs(base), 2)), 1))
        is_real = mpmath.im(base) == 0 and mpmath.im(exponent) == 0
        if is_real and mpmath.re(base) < 0 and not mpmath.isint(exponent):
            return self._negative_power(base, exponent)
        return base**exponent

    def _negative_power(self, base: Any, exponent: Any) -> Any:
        for index in (3, 5, 7, 9):
            multiple = exponent * index
            if abs(multiple - mpmath.nint(multiple)) < mpmath.mpf(10) ** (10 - mpmath.mp.dps):
                numerator = int(mpmath.nint(multiple))
                return (-1) ** numerator * (-base) ** (mpmath.mpf(numerator) / index)
        if self._is_real:
            raise NoValueError
        return base**exponent

    def root(self, args: list[Any]) -> Any:
        radicand, index = args
        if index == 0:
            raise NoValueError
        return self.power([radicand, 1 / index]) if radicand else mpmath.mpf(0)

    def logarithm(self, args: list[Any]) -> Any:
        value = args[0]
        if value == 0 or (self._is_real and mpmath.re(value) < 0):
            raise NoValueError
        result = mpmath.log(value)
        if len(args) == 1:
            return result
        base = mpmath.log(args[1]) if args[1] else mpmath.mpf(0)
        return result / base

    def factorial(self, args: list[Any]) -> Any:
        _refuse_large(abs(args[0]) * 300)
        return mpmath.gamma(args[0] + 1)

    def binomial(self, args: list[Any]) -> Any:
        _refuse_large((abs(args[0]) + abs(args[1])) * 300)
        return mpmath.binomial(*args)


def _as_mpf(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def _refuse_large(bits: Any) -> None:
    if bits > _MAX_EXPONENT:
        raise UnreadableError("too-large")


def _real_floor(value: Any) -> Any:
    """A value that is whole up to rounding errors counts as whole."""
    if mpmath.im(value) != 0:
        raise NoValueError
    value = mpmath.re(value)
    nearest = mpmath.nint(value)
    if abs(value - nearest) < mpmath.mpf(10) ** (-mpmath.mp.dps // 2):
        return nearest
    return mpmath.floor(value)


def _sign(value: Any) -> Any:
    """Of a value that is not zero beyond doubt."""
    if abs(value) < mpmath.mpf(10) ** (-mpmath.mp.dps // 2):
        raise NoValueError
    return mpmath.sign(value)


def _arccot(value: Any) -> Any:
    """Books differ about the value for negative arguments."""
    if mpmath.im(value) != 0 or mpmath.re(value) <= 0:
        raise NoValueError
    return mpmath.acot(value)


_SPECIAL: dict[Op, Callable[[_Evaluator, Node], Any]] = {
    Op.NARY: _Evaluator.choice,
    Op.CALL: _Evaluator.call,
    Op.SERIES: _Evaluator.series,
    Op.DERIVATIVE: _Evaluator.slope,
}
_OPERATIONS: dict[Op, Callable[[_Evaluator, list[Any]], Any]] = {
    Op.ADD: lambda _, args: mpmath.fsum(args),
    Op.MUL: _Evaluator.product,
    Op.DIV: _Evaluator.quotient,
    Op.NEG: lambda _, args: -args[0],
    Op.PCT: lambda _, args: args[0] / 100,
    Op.DEG: lambda _, args: args[0],
    Op.ABS: _Evaluator.magnitude,
    Op.POW: _Evaluator.power,
    Op.ROOT: _Evaluator.root,
    Op.LOG: _Evaluator.logarithm,
    Op.FACT: _Evaluator.factorial,
    Op.BINOM: _Evaluator.binomial,
    Op.MOD: _Evaluator.remainder,
}
_CONSTANTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "\\pi": (mpmath.mpf, (mpmath.pi,)),
    "e": (mpmath.mpf, (mpmath.e,)),
    "i": (mpmath.mpc, (0, 1)),
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "cot": mpmath.cot,
    "sec": mpmath.sec, "csc": mpmath.csc, "arcsin": mpmath.asin, "arccos": mpmath.acos,
    "arctan": mpmath.atan, "arccot": _arccot, "arcsec": mpmath.asec, "arccsc": mpmath.acsc,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh, "coth": mpmath.coth,
    "sech": mpmath.sech, "csch": mpmath.csch, "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh, "arctanh": mpmath.atanh, "exp": mpmath.exp,
    "double-factorial": mpmath.fac2, "floor": _real_floor,
    "ceil": lambda value: -_real_floor(-value), "sgn": _sign,
    "re": mpmath.re, "im": mpmath.im, "conj": mpmath.conj, "arg": mpmath.arg,
}  # fmt: skip
