"""Forms of powers, exponentials, logarithms and trigonometric values (`grading.normal_form`).

Each rule holds where both sides are defined, letters being real; what no rule covers becomes
an opaque generator, named by the forms of its arguments.
"""

import math
from collections.abc import Callable, Hashable
from fractions import Fraction

from grading import polynomials as poly
from grading.polynomials import Quotient
from grading.primes import TooManyTermsError, factors

HALF = Fraction(1, 2)
_MAX_CHOICES = 10


def rational_power(base: Quotient, exponent: Fraction) -> Quotient:
    """A base to a known power."""
    if exponent.denominator == 1:
        if abs(exponent) > poly.MAX_TERMS and len(base.upper) > 1:
            raise TooManyTermsError
        return poly.integer_power(base, exponent.numerator)
    result = poly.root(base, exponent) or root_of_squares(base, exponent)
    return opaque("power", base, poly.constant(exponent)) if result is None else result


def root_of_squares(base: Quotient, exponent: Fraction) -> Quotient | None:
    """A square root of even powers of letters: absolute values."""
    if exponent.denominator != 2 or len(base.upper) != 1 or base.lower != {poly.UNIT: 1}:
        return None
    ((monomial, coefficient),) = base.upper.items()
    if coefficient <= 0:
        return None
    result = poly.number_power(coefficient, poly.UNIT, exponent)
    for (letter, power), times in monomial:
        if power != poly.UNIT or not isinstance(letter, str) or letter == "i" or times % 2:
            return None
        size = opaque("abs", poly.generator(letter))
        result = poly.product(result, poly.integer_power(size, int(times * exponent)))
    return result


def symbolic_power(base: Quotient, exponent: Quotient) -> Quotient:
    """A base to a sum of monomials: a product of powers, for bases where that is sound."""
    number = base.rational()
    letter = single_letter(base)
    if (letter is None) if number is None else number <= 0:
        return opaque("power", base, exponent)
    result = poly.ONE
    for monomial, coefficient in exponent.upper.items():
        if number is not None:
            factor = poly.number_power(number, monomial, coefficient)
        else:
            factor = poly.generator(letter, coefficient, monomial)
        result = poly.product(result, factor)
    return result


def single_letter(form: Quotient) -> str | None:
    """The letter, or `e` or pi, that the form is; None where it is anything else."""
    if len(form.upper) != 1 or form.lower != {poly.UNIT: 1}:
        return None
    ((monomial, coefficient),) = form.upper.items()
    if coefficient != 1 or len(monomial) != 1:
        return None
    (((base, power), exponent),) = monomial
    if power != poly.UNIT or exponent != 1 or not isinstance(base, str) or base == "i":
        return None
    return base


def part_of(name: str, form: Quotient) -> Quotient | None:
    """Real part, imaginary part and conjugate of what is made of reals and `i`."""
    if name not in ("re", "im", "conj"):
        return None
    mirrored = poly.conjugate(form)
    if mirrored is None or name == "conj":
        return mirrored
    if name == "re":
        return poly.product(poly.total(form, mirrored), poly.constant(HALF))
    gap = poly.total(form, poly.negated(mirrored))
    return poly.product(gap, poly.product(poly.constant(-HALF), poly.generator("i")))


def exponential(exponent: Quotient) -> Quotient:
    """The exponential function, as a power of `e`."""
    known = exponent.rational()
    base = poly.generator("e")
    if known is not None:
        return rational_power(base, Fraction(known))
    if exponent.lower != {poly.UNIT: 1}:
        return opaque("power", base, exponent)
    return symbolic_power(base, exponent)


def logarithm(form: Quotient) -> Quotient:
    """Logarithms of positive numbers in those of primes; powers of e undone."""
    if len(form.upper) != 1 or form.lower != {poly.UNIT: 1}:
        return opaque("ln", form)
    ((monomial, coefficient),) = form.upper.items()
    result = poly.constant(0)
    if coefficient <= 0:
        return opaque("ln", form)
    for prime, times in factors(coefficient).items():
        logarithm = poly.generator(("ln", prime))
        result = poly.total(result, poly.product(poly.constant(times), logarithm))
    left = dict(monomial)
    for (base, power), exponent in monomial:
        if power != poly.UNIT or not (isinstance(base, int) or base == "e"):
            continue
        del left[(base, power)]
        logarithm = poly.ONE if base == "e" else poly.generator(("ln", base))
        result = poly.total(result, poly.product(poly.constant(exponent), logarithm))
    if not left:
        return result
    rest = Quotient({frozenset(left.items()): 1}, {poly.UNIT: 1})
    return poly.total(result, opaque("ln", rest))


def special_angle(name: str, form: Quotient) -> Quotient | None:
    """Sine, cosine and tangent at multiples of pi/6 and pi/4."""
    turns = poly.product(form, poly.inverse(poly.generator("\\pi"))).rational()
    if turns is None or name not in _PHASES or (Fraction(turns) * 12).denominator != 1:
        return None
    twelfths = int(Fraction(turns) * 12)
    sine, cosine = _sine(twelfths), _sine(twelfths + 6)
    if sine is None or cosine is None:
        return None
    upper, lower = _PHASES[name](sine, cosine)
    return poly.product(upper, poly.inverse(lower))


def _sine(twelfths: int) -> Quotient | None:
    twelfths %= 24
    if twelfths > 12:
        positive = _sine(twelfths - 12)
        return None if positive is None else poly.negated(positive)
    square = _SINE_SQUARES.get(min(twelfths, 12 - twelfths))
    if square is None:
        return None
    return poly.constant(0) if square == 0 else rational_power(poly.constant(square), HALF)


def undominated(
    name: str, forms: list[Quotient], bounds: list[tuple[float, float] | None]
) -> list[Quotient]:
    """What is left of the arguments of `max` or `min` without those that another one beats.

    Raises:
        TooManyTermsError: too many arguments.
    """
    if len(forms) > _MAX_CHOICES:
        raise TooManyTermsError
    sign = 1 if name == "max" else -1
    left: list[int] = []
    for position, form in enumerate(forms):
        own, beaten = bounds[position], False
        for other, rival in enumerate(forms):
            if other == position:
                continue
            gap, theirs = poly.total(rival, poly.negated(form)).rational(), bounds[other]
            if gap is not None:
                beaten |= sign * gap > 0 or (gap == 0 and other in left)
            elif own and theirs:
                beaten |= own[1] < theirs[0] if sign > 0 else theirs[1] < own[0]
        if not beaten:
            left.append(position)
    return [forms[position] for position in left]


def opaque(name: str, *args: Quotient) -> Quotient:
    """A function of which nothing is known but its arguments' forms."""
    key: tuple[Hashable, ...] = (name, *(arg.key() for arg in args))
    return poly.generator(key)


_SINE_SQUARES = {
    0: Fraction(0), 2: Fraction(1, 4), 3: Fraction(1, 2), 4: Fraction(3, 4), 6: Fraction(1),
}  # fmt: skip
_PHASES: dict[str, Callable[[Quotient, Quotient], tuple[Quotient, Quotient]]] = {
    "sin": lambda sine, _: (sine, poly.ONE),
    "cos": lambda _, cosine: (cosine, poly.ONE),
    "tan": lambda sine, cosine: (sine, cosine),
    "cot": lambda sine, cosine: (cosine, sine),
    "sec": lambda _, cosine: (poly.ONE, cosine),
    "csc": lambda sine, _: (poly.ONE, sine),
}
WHOLE_VALUES: dict[str, Callable[[Fraction], Fraction]] = {
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "sgn": lambda value: Fraction((value > 0) - (value < 0)),
    "re": lambda value: value,
    "conj": lambda value: value,
    "im": lambda _: Fraction(0),
}
