r"""The symbolic tier: are two scalar trees equal? The only importer of sympy and mpmath.

"Different" is settled by evaluating both at random points with 100 and with 200 digits;
"equal" needs a proof by sympy, on trees built from its constructors: no text reaches a
parser or `eval`.
Where the points agree and no proof is found the verdict is undecided, never correct.
Letters are real; odd roots of negative numbers are real; `i` and `e` are the constants;
`\log` without a base is the natural one. Runs inside worker processes (`grading.worker`),
which are killed at the deadline: nothing here watches a clock.
"""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import sympy

from grading.exact import exact_value
from grading.structure import Comparison, exact_scalars
from grading.tokens import UnreadableError
from grading.tree import Node, Op
from grading.verdict import Verdict

_DIGITS = (100, 200)
"""Both precisions must show a difference: one that shrinks with more digits is rounding."""
_REFUTED = mpmath.mpf(10) ** -30
_AGREED = mpmath.mpf(10) ** -50
_STABLE = mpmath.mpf(10) ** -3
_POINTS = 12
_POINTS_NEEDED = 3
_MAX_EXPONENT = 10**6
"""Bits of magnitude that a number may reach while a tree is evaluated."""


def symbolic_scalars(gold: Node, answer: Node) -> Verdict:
    """Equal, different or unproven.

    Raises:
        UnreadableError: `too-large` where a value has no affordable size.
    """
    verdict = exact_scalars(gold, answer)
    if verdict is not Verdict.UNDECIDED:
        return verdict
    names = sorted(_names(gold) | _names(answer))
    samples = _evaluate_pairs(gold, answer, names)
    agreements = 0
    for (rough_left, rough_right), (left, right) in samples:
        rough, difference = rough_left - rough_right, left - right
        size = max(abs(left), abs(right))
        if abs(difference) > _REFUTED * size and _is_stable(rough, difference):
            return Verdict.INCORRECT
        agreements += abs(difference) <= _AGREED * max(size, abs(rough))
    if agreements < (_POINTS_NEEDED if names else 1):
        return Verdict.UNDECIDED
    return _proved(_to_sympy(gold) - _to_sympy(answer))


def symbolic_proportional(first: Node, second: Node, positive: bool) -> Verdict:
    """Whether first/second is one nonzero (positive) constant, so that both relations agree."""
    names = sorted(_names(first) | _names(second))
    samples = _evaluate_pairs(first, second, names)
    quotients: list[Any] = []
    for (rough_left, rough_right), (left, right) in samples:
        if 0 in (rough_left, rough_right, left, right):
            continue
        if _is_stable(rough_left, left) and _is_stable(rough_right, right):
            quotients.append(left / right)
    if len(quotients) < _POINTS_NEEDED:
        return Verdict.UNDECIDED
    if any(abs(q - quotients[0]) > _REFUTED * abs(quotients[0]) for q in quotients):
        return Verdict.INCORRECT
    if positive and not (mpmath.im(quotients[0]) == 0 and mpmath.re(quotients[0]) > 0):
        return Verdict.INCORRECT
    quotient = sympy.simplify(_to_sympy(first) / _to_sympy(second))
    return Verdict.CORRECT if quotient.is_number else Verdict.UNDECIDED


SYMBOLIC = Comparison(scalars=symbolic_scalars, proportional=symbolic_proportional)


def _names(node: Node) -> frozenset[str]:
    if node.op is Op.SYM:
        return frozenset() if node.value in _CONSTANTS else frozenset((node.value,))
    return frozenset[str]().union(*(_names(arg) for arg in node.args))


def _holds_imaginary(node: Node) -> bool:
    return (node.op is Op.SYM and node.value == "i") or any(map(_holds_imaginary, node.args))


# -- evaluation at points -----------------------------------------------------------------


class _NoValueError(Exception):
    """The tree has no value at this point: a pole, or outside the real domain."""


_Pair = tuple[Any, Any]


def _is_stable(rough: Any, fine: Any) -> bool:
    return bool(abs(rough - fine) <= _STABLE * abs(fine))


def _evaluate_pairs(first: Node, second: Node, names: list[str]) -> list[tuple[_Pair, _Pair]]:
    """Both trees at up to `_POINTS` seeded points where both are defined, at each precision."""
    generator = random.Random(0)
    is_real = bool(names) and not (_holds_imaginary(first) or _holds_imaginary(second))
    samples: list[tuple[_Pair, _Pair]] = []
    for index in range(_POINTS if names else 1):
        point = {name: _random_value(generator, signed=index % 3 > 0) for name in names}
        evaluator = _Evaluator(point, is_real=is_real)
        try:
            rough, fine = (_pair_at(digits, evaluator, first, second) for digits in _DIGITS)
        except (_NoValueError, ZeroDivisionError):
            continue
        samples.append((rough, fine))
    return samples


def _pair_at(digits: int, evaluator: "_Evaluator", first: Node, second: Node) -> _Pair:
    with mpmath.workdps(digits):
        return evaluator.value(first), evaluator.value(second)


def _random_value(generator: random.Random, *, signed: bool) -> Fraction:
    size = Fraction(generator.randint(101, 2999), 997)
    return -size if signed and generator.random() < 0.5 else size


class _Evaluator:
    """mpmath value of a tree at one point; refuses sizes it cannot afford."""

    def __init__(self, point: dict[str, Fraction], *, is_real: bool) -> None:
        self._point = point
        self._is_real = is_real

    def value(self, node: Node) -> Any:
        result = self._value(node)
        if not mpmath.isfinite(result):
            raise _NoValueError
        return result

    def _value(self, node: Node) -> Any:
        if node.op is Op.NUM:
            exact = exact_value(node)
            assert exact is not None
            return _as_mpf(exact)
        if node.op is Op.SYM:
            known = _CONSTANTS.get(node.value)
            return known[0]() if known else _as_mpf(self._point[node.value])
        if node.op is Op.FUNC:
            return self._function(node)
        operation = _OPERATIONS.get(node.op)
        if operation is None:
            raise UnreadableError("unsupported")
        return operation(self, [self.value(arg) for arg in node.args])

    def _function(self, node: Node) -> Any:
        argument = node.args[0]
        value = self.value(argument.args[0] if argument.op is Op.DEG else argument)
        if argument.op is Op.DEG:
            value = value * mpmath.pi / 180
        if node.value == "ln":
            return self.logarithm([value])
        if node.value in ("exp", "sinh", "cosh", "tanh"):
            _refuse_large(abs(value) * 2)
        else:
            _refuse_large(mpmath.mag(value) * 100 if value else 0)
        result = _FUNCTIONS[node.value][0](value)
        if self._is_real and mpmath.im(result) != 0:
            raise _NoValueError
        return result

    def quotient(self, args: list[Any]) -> Any:
        return args[0] / args[1]

    def product(self, args: list[Any]) -> Any:
        return mpmath.fprod(args)

    def magnitude(self, args: list[Any]) -> Any:
        return abs(args[0])

    def power(self, args: list[Any]) -> Any:
        base, exponent = args
        if base == 0:
            if mpmath.re(exponent) <= 0:
                raise _NoValueError
            return mpmath.mpf(0)
        _refuse_large(abs(exponent) * max(abs(mpmath.log(abs(base), 2)), 1))
        if mpmath.im(base) == 0 and mpmath.re(base) < 0 and not mpmath.isint(exponent):
            return self._negative_power(base, exponent)
        return base**exponent

    def _negative_power(self, base: Any, exponent: Any) -> Any:
        for index in (3, 5, 7, 9):
            multiple = exponent * index
            if abs(multiple - mpmath.nint(multiple)) < mpmath.mpf(10) ** (10 - mpmath.mp.dps):
                numerator = int(mpmath.nint(multiple))
                return (-1) ** numerator * (-base) ** (mpmath.mpf(numerator) / index)
        if self._is_real:
            raise _NoValueError
        return base**exponent

    def root(self, args: list[Any]) -> Any:
        radicand, index = args
        if index == 0:
            raise _NoValueError
        return self.power([radicand, 1 / index]) if radicand else mpmath.mpf(0)

    def logarithm(self, args: list[Any]) -> Any:
        value = args[0]
        if value == 0 or (self._is_real and mpmath.re(value) < 0):
            raise _NoValueError
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


def _as_mpf_constant(constant: Any) -> Any:
    """The constant at the working precision."""
    return +constant


def _imaginary_unit() -> Any:
    return mpmath.mpc(0, 1)


def _refuse_large(bits: Any) -> None:
    if bits > _MAX_EXPONENT:
        raise UnreadableError("too-large")


_Operation = Callable[[_Evaluator, list[Any]], Any]
_OPERATIONS: dict[Op, _Operation] = {
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
}
_CONSTANTS: dict[str, tuple[Callable[..., Any], Any]] = {
    "\\pi": (lambda: _as_mpf_constant(mpmath.pi), sympy.pi),
    "e": (lambda: _as_mpf_constant(mpmath.e), sympy.E),
    "i": (_imaginary_unit, sympy.I),
}
_FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "sin": (mpmath.sin, sympy.sin), "cos": (mpmath.cos, sympy.cos), "tan": (mpmath.tan, sympy.tan),
    "cot": (mpmath.cot, sympy.cot), "sec": (mpmath.sec, sympy.sec), "csc": (mpmath.csc, sympy.csc),
    "arcsin": (mpmath.asin, sympy.asin), "arccos": (mpmath.acos, sympy.acos),
    "arctan": (mpmath.atan, sympy.atan), "sinh": (mpmath.sinh, sympy.sinh),
    "cosh": (mpmath.cosh, sympy.cosh), "tanh": (mpmath.tanh, sympy.tanh),
    "exp": (mpmath.exp, sympy.exp), "ln": (mpmath.log, sympy.log),
}  # fmt: skip


# -- proof ----------------------------------------------------------------------------------


def _proved(difference: Any) -> Verdict:
    """Letters are taken positive here: the points have covered the other signs."""
    for attempt in (_as_built, sympy.expand, sympy.sqrtdenest, _combined, sympy.simplify):
        if attempt(difference) == 0:
            return Verdict.CORRECT
    if difference.equals(0) is True:
        return Verdict.CORRECT
    return Verdict.UNDECIDED


def _as_built(difference: Any) -> Any:
    return difference


def _combined(difference: Any) -> Any:
    return sympy.expand(sympy.cancel(sympy.together(sympy.expand_func(difference))))


def _to_sympy(node: Node) -> Any:
    exact = exact_value(node) if node.op is Op.NUM or not _names(node) else None
    if exact is not None and not _holds_degree(node):
        return sympy.Rational(exact.numerator, exact.denominator)
    if node.op is Op.SYM:
        known = _CONSTANTS.get(node.value)
        return known[1] if known else sympy.Symbol(node.value, positive=True)
    if node.op is Op.FUNC:
        argument = node.args[0]
        scale = sympy.pi / 180 if argument.op is Op.DEG else sympy.Integer(1)
        return _FUNCTIONS[node.value][1](_to_sympy(argument) * scale)
    args = [_to_sympy(arg) for arg in node.args]
    return _BUILDERS[node.op](*args)


def _holds_degree(node: Node) -> bool:
    return node.op is Op.DEG or any(map(_holds_degree, node.args))


def _quotient(upper: Any, lower: Any) -> Any:
    return upper / lower


def _negated(value: Any) -> Any:
    return -value


def _hundredth(value: Any) -> Any:
    return value / 100


def _sympy_root(radicand: Any, index: Any) -> Any:
    is_odd = index.is_Integer and index % 2 == 1
    return (
        -sympy.root(-radicand, index)
        if is_odd and radicand.is_negative
        else sympy.root(radicand, index)
    )


def _sympy_power(base: Any, exponent: Any) -> Any:
    if exponent.is_Rational and exponent.q % 2 == 1 and exponent.q > 1 and base.is_negative:
        return (-1) ** exponent.p * sympy.Pow(-base, exponent)
    return sympy.Pow(base, exponent)


_BUILDERS: dict[Op, Callable[..., Any]] = {
    Op.ADD: sympy.Add,
    Op.MUL: sympy.Mul,
    Op.DIV: _quotient,
    Op.NEG: _negated,
    Op.PCT: _hundredth,
    Op.DEG: _as_built,
    Op.ABS: sympy.Abs,
    Op.POW: _sympy_power,
    Op.ROOT: _sympy_root,
    Op.LOG: sympy.log,
    Op.FACT: sympy.factorial,
    Op.BINOM: sympy.binomial,
}
