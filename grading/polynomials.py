r"""Quotients of polynomials over the rationals in generators, some of them roots.

A generator is a base to a power: a prime, a letter, `e`, `\pi`, `i`, or an opaque key; the
power is a monomial, so that `2**x` and `e**(x*y)` are generators, too. Exponents of
generators are rational: `(2, 1/2)` is the square root of two. Products of roots of primes
fold into the coefficients, so numbers in radicals have one form. Quotients are not reduced:
equality is by cross multiplication.
"""

import math
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from grading.effort import spend
from grading.primes import SURE_PRIME_LIMIT, TooManyTermsError, factors

Rational = int | Fraction
Generator = tuple[Hashable, "Monomial"]
"""Base, and the monomial in its exponent (empty for a plain base)."""
Monomial = frozenset[tuple[Generator, Rational]]
Polynomial = dict[Monomial, Rational]

UNIT: Monomial = frozenset()
MAX_TERMS = 1_000
_MAX_POWER = 4_096
_MAX_COEFFICIENT_BITS = 8_000
_MAX_WORK = 24_000
"""Products of terms that one thread may spend between two calls of `restart`."""


class _Work(threading.local):
    left = _MAX_WORK


_WORK = _Work()


def restart() -> None:
    """Give this thread its budget of work back; what was used counts as steps."""
    spend(_MAX_WORK - _WORK.left)
    _WORK.left = _MAX_WORK


@dataclass(frozen=True, slots=True)
class RootBase:
    """Base of a generator that stands for roots of a polynomial with several terms."""

    terms: frozenset[tuple[Monomial, Rational]]


@dataclass(frozen=True, slots=True)
class Quotient:
    """Upper over lower; the lower one is never the zero polynomial."""

    upper: Polynomial
    lower: Polynomial

    def key(self) -> Hashable:
        """Equal for equal forms; different forms may still be equal in value."""
        return frozenset(self.upper.items()), frozenset(self.lower.items())

    def rational(self) -> Rational | None:
        """Its value where it is a rational number."""
        if not self.upper:
            return 0
        if len(self.upper) == len(self.lower) == 1:
            (monomial, value), (lower, divisor) = *self.upper.items(), *self.lower.items()
            if monomial == lower:
                return Fraction(value) / divisor
        return None


def constant(value: Rational) -> Quotient:
    """A rational number."""
    return Quotient({UNIT: value} if value else {}, {UNIT: 1})


def generator(base: Hashable, exponent: Rational = 1, power: Monomial = UNIT) -> Quotient:
    """A base to a rational multiple of a monomial."""
    return _monomial(frozenset((((base, power), exponent),)))


def _monomial(monomial: Monomial, coefficient: Rational = 1) -> Quotient:
    """Its whole powers of roots folded."""
    return Quotient(_times({monomial: coefficient}, _UNITY, is_folded=False), {UNIT: 1})


def total(first: Quotient, second: Quotient) -> Quotient:
    """The sum."""
    if first.lower == second.lower:
        return Quotient(_added(first.upper, second.upper), first.lower)
    upper = _added(_times(first.upper, second.lower), _times(second.upper, first.lower))
    return Quotient(upper, _times(first.lower, second.lower))


def negated(value: Quotient) -> Quotient:
    """The negative."""
    return Quotient({monomial: -c for monomial, c in value.upper.items()}, value.lower)


def product(first: Quotient, second: Quotient) -> Quotient:
    """The product."""
    return Quotient(_times(first.upper, second.upper), _times(first.lower, second.lower))


def inverse(value: Quotient) -> Quotient:
    """One over the value.

    Raises:
        ZeroDivisionError: it is zero.
    """
    if not value.upper:
        raise ZeroDivisionError
    if len(value.upper) > 1:
        return Quotient(value.lower, value.upper)
    ((monomial, coefficient),) = value.upper.items()
    result = Quotient(value.lower, {UNIT: coefficient})
    for (base, power), exponent in monomial:
        result = product(result, _inverse_generator(base, power, exponent))
    return _with_unit_divisor(result)


def _with_unit_divisor(value: Quotient) -> Quotient:
    divisor = value.lower.get(UNIT)
    if divisor is None or len(value.lower) > 1 or divisor == 1:
        return value
    scale = Fraction(1) / divisor
    return Quotient({monomial: c * scale for monomial, c in value.upper.items()}, {UNIT: 1})


def _inverse_generator(base: Hashable, power: Monomial, exponent: Rational) -> Quotient:
    if isinstance(base, RootBase) and power == UNIT:
        # Roots of sums keep exponents between 0 and 1, or their products would not fold.
        whole = math.ceil(exponent)
        rest = generator(base, whole - exponent) if whole != exponent else ONE
        return Quotient(rest.upper, _power(dict(base.terms), whole))
    return generator(base, -exponent, power)


def integer_power(value: Quotient, exponent: int) -> Quotient:
    """The value to a whole power.

    Raises:
        ZeroDivisionError: zero to a power that is not positive.
    """
    if exponent <= 0 and not value.upper:
        raise ZeroDivisionError
    if exponent < 0:
        return integer_power(inverse(value), -exponent)
    if len(value.upper) == 1 and len(value.lower) == 1:
        return _monomial_power(value, exponent)
    return Quotient(_power(value.upper, exponent), _power(value.lower, exponent))


def _monomial_power(value: Quotient, exponent: int) -> Quotient:
    parts: list[Polynomial] = []
    for side in (value.upper, value.lower):
        ((monomial, coefficient),) = side.items()
        if coefficient not in (0, 1, -1) and exponent * _bits(coefficient) > _MAX_COEFFICIENT_BITS:
            raise TooManyTermsError
        raised = frozenset((gen, n * exponent) for gen, n in monomial if exponent)
        parts.append(_monomial(raised, coefficient**exponent).upper)
    return Quotient(*parts)


def root(value: Quotient, exponent: Fraction) -> Quotient | None:
    """The value to a rational power that is not whole; None where the form has none.

    Sound where the value is real: positive factors leave the root, letters do not, unless
    alone.
    """
    if not value.upper:
        return value if exponent > 0 else None
    if value.lower != {UNIT: 1}:
        value = _with_unit_divisor(value)
        if value.lower != {UNIT: 1}:
            return None
    content = _content(value.upper)
    rest: Polynomial = {monomial: c / content for monomial, c in value.upper.items()}
    outside = _number_power(content, exponent)
    if len(rest) > 1:
        inside = generator(RootBase(frozenset(rest.items())), exponent % 1)
        whole = integer_power(Quotient(rest, {UNIT: 1}), math.floor(exponent))
        return product(outside, product(inside, whole))
    ((monomial, sign),) = rest.items()
    if sign < 0:
        if exponent.denominator % 2 == 1:
            outside = outside if exponent.numerator % 2 == 0 else negated(outside)
        elif exponent.denominator == 2 and all(map(_is_positive, monomial)):
            outside = product(outside, integer_power(generator("i"), exponent.numerator))
        else:
            return None
    letters = [part for part in monomial if not _is_positive(part)]
    if letters and (len(letters) > 1 or abs(letters[0][1]) != 1 or letters[0][0][1] != UNIT):
        return None
    if letters and (letters[0][0][0] == "i" or sign < 0):
        return None
    raised = frozenset((gen, Fraction(n) * exponent) for gen, n in monomial)
    return product(outside, _monomial(raised))


def conjugate(value: Quotient) -> Quotient | None:
    """The complex conjugate, where every generator but `i` is known to be real."""
    sides: list[Polynomial] = []
    for side in (value.upper, value.lower):
        mirrored: Polynomial = {}
        for monomial, coefficient in side.items():
            if not all(_is_real(part) for part in monomial):
                return None
            is_imaginary = any(gen == _IMAGINARY for gen, _ in monomial)
            mirrored[monomial] = -coefficient if is_imaginary else coefficient
        sides.append(mirrored)
    return Quotient(*sides)


def number_power(value: Rational, power: Monomial, exponent: Rational) -> Quotient:
    """A positive rational to a rational multiple of a monomial."""
    result = ONE
    for prime, multiplicity in factors(value).items():
        result = product(result, generator(prime, multiplicity * exponent, power))
    return result


def _number_power(value: Rational, exponent: Fraction) -> Quotient:
    return number_power(value, UNIT, exponent)


def _is_positive(part: tuple[Generator, Rational]) -> bool:
    (base, power), _ = part
    return power == UNIT and (isinstance(base, int) or base in ("e", "\\pi"))


def _is_real(part: tuple[Generator, Rational]) -> bool:
    """Letters are real; their fractional powers need not be."""
    (base, power), exponent = part
    is_whole = isinstance(exponent, int) or exponent.denominator == 1
    return _is_positive(part) or (power == UNIT and isinstance(base, str) and is_whole)


def difference(first: Quotient, second: Quotient) -> Polynomial:
    """What the cross products differ by."""
    if first.lower == second.lower:
        return _added(first.upper, negated(second).upper)
    crossed = Quotient(_times(second.upper, first.lower), {UNIT: 1})
    return _added(_times(first.upper, second.lower), negated(crossed).upper)


def are_independent(polynomial: Polynomial) -> bool:
    """Whether no relation holds among the generators, so that a form that is not zero isn't 0.

    Letters, roots of primes, `i`, and one of `e` and pi.
    """
    transcendental: set[Hashable] = set()
    for monomial in polynomial:
        for (base, power), exponent in monomial:
            if power != UNIT:
                return False
            if isinstance(base, int):
                if base >= SURE_PRIME_LIMIT:
                    return False
            elif not isinstance(base, str):
                return False
            elif base in ("e", "\\pi"):
                if not isinstance(exponent, int) and exponent.denominator != 1:
                    return False
                transcendental.add(base)
    return len(transcendental) < 2


# -- polynomials ----------------------------------------------------------------------------


def _added(first: Polynomial, second: Polynomial) -> Polynomial:
    _WORK.left -= len(first) // 16
    result = dict(first)
    _add_to(result, second)
    return result


def _add_to(result: Polynomial, terms: Polynomial) -> None:
    for monomial, coefficient in terms.items():
        value = result.get(monomial, 0) + coefficient
        if value:
            result[monomial] = value
        else:
            result.pop(monomial, None)
    if len(result) > MAX_TERMS:
        raise TooManyTermsError


def _times(first: Polynomial, second: Polynomial, *, is_folded: bool = True) -> Polynomial:
    _WORK.left -= len(first) * len(second)
    if _WORK.left < 0:
        raise TooManyTermsError
    if second == _UNITY and is_folded:
        return first
    if first == _UNITY:
        return second
    result: Polynomial = {}
    for left, left_coefficient in first.items():
        for right, right_coefficient in second.items():
            monomial, scale, sums = _monomial_product(left, right)
            coefficient = left_coefficient * right_coefficient * scale
            if _bits(coefficient) > _MAX_COEFFICIENT_BITS:
                raise TooManyTermsError
            terms: Polynomial = {monomial: coefficient}
            for factor in sums:
                terms = _times(terms, factor)
            _add_to(result, terms)
    return result


_UNITY: Polynomial = {UNIT: 1}


def _bits(value: Rational) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _power(base: Polynomial, exponent: int) -> Polynomial:
    if exponent > _MAX_POWER and len(base) > 1:
        raise TooManyTermsError
    result = _UNITY
    while exponent:
        if exponent % 2:
            result = _times(result, base)
        exponent //= 2
        if exponent:
            base = _times(base, base)
    return result


def _monomial_product(
    left: Monomial, right: Monomial
) -> tuple[Monomial, Rational, list[Polynomial]]:
    """The merged generators, a coefficient, and sums whose roots came out whole."""
    exponents = dict(left)
    for gen, exponent in right:
        exponents[gen] = exponents.get(gen, 0) + exponent
    scale: Rational = 1
    sums: list[Polynomial] = []
    for gen, exponent in list(exponents.items()):
        base, power = gen
        if power == UNIT:
            exponents[gen], factor = _folded(base, exponent, sums)
            scale *= factor
    if _TURN in exponents:
        scale *= _fold_turn(exponents)
    return frozenset((gen, n) for gen, n in exponents.items() if n), scale, sums


def _folded(
    base: Hashable, exponent: Rational, sums: list[Polynomial]
) -> tuple[Rational, Rational]:
    if isinstance(base, int):
        whole = math.floor(exponent)
        if abs(whole) * base.bit_length() > _MAX_COEFFICIENT_BITS:
            raise TooManyTermsError
        return exponent - whole, Fraction(base) ** whole if whole else 1
    if base == "i":
        turns = int(exponent) % 4
        return turns % 2, -1 if turns >= 2 else 1
    if isinstance(base, RootBase) and exponent >= 1:
        whole = math.floor(exponent)
        sums.append(_power(dict(base.terms), whole))
        return exponent - whole, 1
    return exponent, 1


def _fold_turn(exponents: dict[Generator, Rational]) -> Rational:
    """Of e to i pi times n: whole and half turns are powers of i."""
    exponent = exponents[_TURN]
    quarters = math.floor(exponent * 2)
    exponents[_TURN] = exponent - Fraction(quarters, 2)
    turns = (quarters + int(exponents.pop(_IMAGINARY, 0))) % 4
    if turns % 2:
        exponents[_IMAGINARY] = 1
    return -1 if turns >= 2 else 1


def _content(polynomial: Polynomial) -> Fraction:
    values = polynomial.values()
    return Fraction(
        math.gcd(*(value.numerator for value in values)),
        math.lcm(*(value.denominator for value in values)),
    )


_IMAGINARY: Generator = ("i", UNIT)
_TURN: Generator = ("e", frozenset(((_IMAGINARY, 1), (("\\pi", UNIT), 1))))
ONE = constant(1)
