"""Where trees are tried out: their free letters, the points, and stand-ins for functions."""

import random
import zlib
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product

from grading.tree import Node, Op

Point = dict[str, tuple[float, float]]
"""Low and high end of each letter's value."""

SCALES = (
    (1.0, 3.0), (-3.0, -1.0), (0.0, 1.0), (0.0, 0.0625), (-1.0, 0.0), (4.0, 40.0), (-40.0, -4.0),
    (-3.0, 3.0), (-40.0, 40.0),
)  # fmt: skip
"""Ranges that letters are drawn from in turn: functions with narrow domains need the small
ones, those by cases the negative and the large ones."""


def free_names(node: Node) -> frozenset[str]:
    """The letters that can take a value: not the constants, not a bound index."""
    if node.op is Op.SYM:
        return frozenset() if node.value in CONSTANT_NAMES else frozenset((node.value,))
    names = frozenset[str]().union(*map(free_names, node.args)) if node.args else frozenset[str]()
    if node.op in (Op.SERIES, Op.LIMIT) or (node.op is Op.INTEGRAL and len(node.args) == 4):
        outer = (free_names(arg) for arg in node.args[2:])
        return frozenset[str]().union(names - {node.args[1].value}, *outer)
    return names


CONSTANT_NAMES = frozenset(("\\pi", "e", "i"))
_INDETERMINATES = frozenset("xyz")


def divides_whole_letters(*trees: Node) -> bool:
    r"""Whether letters stand in a `gcd`, `lcm` or remainder, where they are whole numbers.

    Only x, y and z there are taken for the letters of polynomials: `\gcd(x, y) = 1`.
    """
    divided = frozenset[str]().union(*map(_divided_names, trees))
    return not divided <= _INDETERMINATES


def _divided_names(node: Node) -> frozenset[str]:
    if node.op is Op.MOD or (node.op is Op.NARY and node.value in ("gcd", "lcm")):
        return free_names(node)
    return frozenset[str]().union(*map(_divided_names, node.args)) if node.args else frozenset()


def call_scales(name: str, num_args: int) -> tuple[float, list[tuple[float, float, float]]]:
    """An offset, then weight, scale and phase of a sine of each argument of a function.

    This stands for an unknown function; all fixed by the name, all exact as floats.
    """
    waves = [
        (float(position), 0.5 + _spread(name, 2 * position), _spread(name, 2 * position + 1))
        for position in range(1, num_args + 1)
    ]
    return 1.0 + _spread(name, 0), waves


def points(names: list[str]) -> Iterator[Point]:
    """One point a scale, and one of whole numbers; a single empty one without letters."""
    if not names:
        yield {}
        return
    for index, (low, high) in enumerate(SCALES):
        yield {name: (value := low + (high - low) * _spread(name, index), value) for name in names}
    # Whole numbers serve powers of negative bases and indices.
    yield {name: (float(2 + position), float(2 + position)) for position, name in enumerate(names)}


def is_sign_safe(node: Node) -> bool:
    """Whether an identity for positive letters holds for all: no roots, absolute values, cases
    or logarithms of what holds a letter, so that the value is analytic in the letters.
    """
    if not node.args or not free_names(node):
        return True
    is_analytic = node.op in _ANALYTIC or (node.op is Op.FUNC and node.value in _ENTIRE)
    if node.op is Op.POW:
        base, exponent = node.args
        is_whole = exponent.op is Op.NUM and exponent.value.isdecimal()
        is_analytic = is_whole or _is_minus_whole(exponent) or _is_positive_constant(base)
    return is_analytic and all(map(is_sign_safe, node.args))


def holds_cases(node: Node) -> bool:
    """Whether it says itself that signs matter: an absolute value, a largest, a sign."""
    is_choice = node.op is Op.NARY and node.value in ("max", "min")
    is_sign = node.op is Op.FUNC and node.value == "sgn"
    return node.op is Op.ABS or is_choice or is_sign or any(map(holds_cases, node.args))


def sign_patterns(names: Sequence[str]) -> list[dict[str, int]]:
    """Signs of the letters: every pattern of up to six letters, else up to two negative ones."""
    if len(names) <= MAX_PATTERN_LETTERS:
        signs = product((1, -1), repeat=len(names))
        return [dict(zip(names, pattern, strict=True)) for pattern in signs]
    negative = [(), *((name,) for name in names), *combinations(names, 2)]
    patterns = [{name: -1 if name in chosen else 1 for name in names} for chosen in negative]
    return patterns[:_MAX_PATTERNS]


def cases_points(
    names: Sequence[str], landmarks: Sequence[Fraction], generator: random.Random
) -> Iterator[dict[str, Fraction]]:
    """Points for trees that are not sign-safe: each pattern of signs at several sizes, one size
    or a mixture; all letters around each landmark; sizes up to 10**12.
    """
    for signs in sign_patterns(names):
        for size in (*_SIZES, None, None):
            yield {
                name: sign * _drawn(generator, size or generator.choice(_SIZES))
                for name, sign in signs.items()
            }
    for landmark in landmarks:
        for center in (landmark, -landmark):
            yield {name: _drawn(generator, (center - 1, center + 1)) for name in names}
    for power in _LADDER:
        size = (Fraction(10**power, 2), Fraction(10**power))
        for sign in (1, -1):
            yield {name: sign * _drawn(generator, size) for name in names}
        if len(names) > 1:
            yield {
                name: generator.choice((1, -1))
                * _drawn(generator, generator.choice((size, *_SIZES)))
                for name in names
            }


MAX_PATTERN_LETTERS = 6
_MAX_PATTERNS = 64
_SIZES = (
    (Fraction(1), Fraction(3)), (Fraction(0), Fraction(1)), (Fraction(4), Fraction(40)),
)  # fmt: skip
_LADDER = (2, 3, 4, 6, 8, 10, 12)
_ANALYTIC = frozenset(
    (Op.ADD, Op.MUL, Op.DIV, Op.NEG, Op.PCT, Op.DEG, Op.CALL, Op.DERIVATIVE, Op.BINOM)
)
_ENTIRE = frozenset(("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "exp"))


def _drawn(generator: random.Random, ends: tuple[Fraction, Fraction]) -> Fraction:
    low, high = ends
    return low + (high - low) * Fraction(generator.randint(1, 9972), 9973)


def _is_minus_whole(node: Node) -> bool:
    return node.op is Op.NEG and node.args[0].op is Op.NUM and node.args[0].value.isdecimal()


def _is_positive_constant(node: Node) -> bool:
    return node.op is Op.NUM or (node.op is Op.SYM and node.value in ("e", "\\pi"))


def _spread(name: str, index: int) -> float:
    """A number between 0 and 1, fixed by the name and the index: a multiple of 2**-24."""
    return (zlib.crc32(f"{name} {index}".encode()) >> 8 | 1) / 2**24
