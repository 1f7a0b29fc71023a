"""Rationals in powers of primes, by trial division; what is left counts as one prime.

The remainder is a prime for certain only below `SURE_PRIME_LIMIT`.
"""

import math
from fractions import Fraction

_SMALL_PRIME_LIMIT = 1_000
SURE_PRIME_LIMIT = _SMALL_PRIME_LIMIT**2
"""What is left of a number after division by small primes is a prime below this."""
_MAX_BITS = 8_000


class TooManyTermsError(Exception):
    """Over the budget of a normal form."""


def _primes_below(limit: int) -> list[int]:
    return [n for n in range(2, limit) if all(n % k for k in range(2, math.isqrt(n) + 1))]


_SMALL_PRIMES = _primes_below(_SMALL_PRIME_LIMIT)


def factors(value: int | Fraction) -> dict[int, int]:
    """Small primes, and what is left, of a positive rational, with their multiplicities."""
    value = Fraction(value)
    found: dict[int, int] = {}
    for number, sign in ((value.numerator, 1), (value.denominator, -1)):
        if number.bit_length() > _MAX_BITS:
            raise TooManyTermsError
        left = number
        for prime in _SMALL_PRIMES:
            if prime * prime > left:
                break
            while left % prime == 0:
                left //= prime
                found[prime] = found.get(prime, 0) + sign
        if left > 1:
            square = math.isqrt(left)
            base, times = (square, 2) if square * square == left else (left, 1)
            found[base] = found.get(base, 0) + sign * times
    return found
