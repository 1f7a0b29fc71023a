"""Two trees tried at the same points: refutation and close agreement.

The points are those of `grading.sampling`: of every scale, of every pattern of signs where a
sign may matter, whole ones. A point counts where both trees have a value there.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath

from grading.evaluate import NoValueError, values_at
from grading.sampling import SCALES, cases_points, holds_cases, is_sign_safe, sign_patterns
from grading.tokens import UnreadableError
from grading.tree import Node, Op

_DIGITS = (100, 200)
"""Both precisions must show a difference: one that shrinks with more digits is rounding."""
_REFUTED = mpmath.mpf(10) ** -30
_AGREED = mpmath.mpf(10) ** -50
_AGREED_CLOSELY = mpmath.mpf(10) ** -150
_STABLE = mpmath.mpf(10) ** -3
_NUM_WHOLE = 5
_NUM_CASES_ROUNDS = 4
WHOLE_SCALE = -1
"""The scale of samples at whole numbers."""

Point = dict[str, Fraction]


@dataclass(frozen=True, slots=True)
class Sample:
    """Two values at one point, at low and at high precision; scale and round by index."""

    rough: tuple[Any, Any]
    fine: tuple[Any, Any]
    is_clean: bool
    scale: int
    round: int

    @property
    def differs(self) -> bool:
        """Whether the difference is far above the rounding error and stays with precision."""
        rough, fine = self.rough[0] - self.rough[1], self.fine[0] - self.fine[1]
        size = max(abs(self.fine[0]), abs(self.fine[1]))
        return bool(abs(fine) > _REFUTED * size) and _is_stable(rough, fine)

    @property
    def agrees(self) -> bool:
        """Whether there is no difference to 50 digits."""
        size = max(abs(self.fine[0]), abs(self.fine[1]), abs(self.rough[0] - self.rough[1]))
        return bool(abs(self.fine[0] - self.fine[1]) <= _AGREED * size)

    @property
    def agrees_closely(self) -> bool:
        """Whether there is no difference to 150 digits, and no term can have hidden."""
        size = max(abs(self.fine[0]), abs(self.fine[1]))
        return self.is_clean and bool(abs(self.fine[0] - self.fine[1]) <= _AGREED_CLOSELY * size)

    @property
    def quotient(self) -> Any:
        """First over second; None where one is zero or not known well."""
        if 0 in (*self.rough, *self.fine):
            return None
        if all(_is_stable(r, f) for r, f in zip(self.rough, self.fine, strict=True)):
            return self.fine[0] / self.fine[1]
        return None


def samples(
    first: Node,
    second: Node,
    names: list[str],
    *,
    rounds: int,
    reach: int = 0,
    landmarks: Sequence[Fraction] = (),
) -> Iterator[Sample]:
    """Both trees at seeded points where both are defined, scale by scale, `rounds` times.

    `reach`: where more than 0, further scales out to it on both sides. Trees whose form may
    change with a sign are tried with every pattern of signs and around `landmarks`, too.

    Raises:
        UnreadableError: `too-large`, `unsupported`.
    """
    is_real = bool(names) and not (_holds_imaginary(first) or _holds_imaginary(second))
    is_safe = is_sign_safe(first) and is_sign_safe(second)
    cases = None if is_safe else landmarks
    for place, point in _drawn_points(names, rounds, reach, cases):
        sample = _sample(first, second, point, is_real=is_real, place=place)
        if sample is not None and not (sample.differs and not _is_fair(first, second, point)):
            yield sample
    for point in _whole_points(names, is_safe=is_safe):
        sample = _sample(first, second, point, is_real=is_real, place=(WHOLE_SCALE, rounds))
        if sample is not None:
            yield sample


def _drawn_points(
    names: list[str], rounds: int, reach: int, landmarks: Sequence[Fraction] | None
) -> Iterator[tuple[tuple[int, int], Point]]:
    """Points with their scale and round; those of `cases_points` where there are landmarks."""
    generator = random.Random(0)
    if not names:
        yield (0, 0), {}
        return
    near, end = Fraction(reach, 2), Fraction(reach)
    far = [(near, end), (-end, -near)] if reach else []
    scales = [*((Fraction(low), Fraction(high)) for low, high in SCALES), *far]
    for turn in range(rounds):
        for index, (low, high) in enumerate(scales):
            yield (
                (index, turn),
                {
                    name: low + (high - low) * Fraction(generator.randint(1, 9972), 9973)
                    for name in names
                },
            )
        if landmarks is not None and turn < _NUM_CASES_ROUNDS:
            for point in cases_points(names, landmarks, generator):
                yield (len(scales), turn), point


def _whole_points(names: list[str], *, is_safe: bool) -> Iterator[Point]:
    """Whole numbers serve powers of negative bases, and indices."""
    if not names:
        return
    patterns = sign_patterns(names)
    for step in range(_NUM_WHOLE):
        for signs in patterns[:1] if is_safe else patterns:
            yield {
                name: signs[name] * Fraction(2 + step * (k + 1) + k) for k, name in enumerate(names)
            }


def _is_fair(first: Node, second: Node, point: Point) -> bool:
    """As in `grading.estimate`: letters that must have one sign are positive."""
    if holds_cases(first) or holds_cases(second):
        return True
    negative = [name for name, value in point.items() if value < 0]
    flipped = ({**point, name: -point[name]} for name in negative)
    return len(negative) < 2 or all(
        _sample(first, second, other, is_real=True, place=(0, 0)) is not None for other in flipped
    )


def _sample(
    first: Node, second: Node, point: Point, *, is_real: bool, place: tuple[int, int]
) -> Sample | None:
    values: list[tuple[Any, Any]] = []
    is_clean = True
    try:
        for digits in _DIGITS:
            with mpmath.workdps(digits):
                (left, right), was_clean = values_at((first, second), point, is_real=is_real)
                values.append((left, right))
                is_clean &= was_clean
    except UnreadableError as error:
        if error.reason == "too-large" and point:
            return None
        raise
    except (NoValueError, ZeroDivisionError, ValueError):
        return None
    return Sample(values[0], values[1], is_clean, *place)


def _is_stable(rough: Any, fine: Any) -> bool:
    return bool(abs(rough - fine) <= _STABLE * abs(fine))


def _holds_imaginary(node: Node) -> bool:
    return (node.op is Op.SYM and node.value == "i") or any(map(_holds_imaginary, node.args))
