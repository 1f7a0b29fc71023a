"""Solutions of demo problems: the right one, and those of a weak student.

The bundled language model learns from the texts of a *weak student*, as real models
learn from texts of people who err. The student slips only where people are known to:

- `BORROW`: in a column of a subtraction, the smaller digit is taken from the larger
  one (Brown & Burton 1978, "Diagnostic models for procedural bugs").
- `CARRY`: the carry of an addition is forgotten (the same source).
- `COMPARISON`: "A has 7 fewer than B" is read as "B has 7 fewer than A" (Lewis &
  Mayer 1987, the consistency effect).
- `FRACTION`: of "one part in 3" the number 3 is taken away.

Sometimes the student notices within the line and corrects it ("31 eggs, no, 56-27=29
eggs."); a line once ended stands, and its result is carried on, so that an early slip
ruins the answer. Problems and gold answers hold no slip.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from pipeline.demo.problems import MAX_VALUE, DemoProblem, Event, EventKind


class Slip(StrEnum):
    """What a weak student does wrong in one place."""

    CARRY = "carry"
    BORROW = "borrow"
    COMPARISON = "comparison"
    FRACTION = "fraction"


SLIP_RATES = {Slip.CARRY: 0.20, Slip.BORROW: 0.42, Slip.COMPARISON: 0.90, Slip.FRACTION: 0.67}
"""The probability of each slip where there is an occasion for it."""

CORRECTION_RATE = 0.4
"""The probability that a wrong line is corrected before it ends."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of arithmetic: `expression` such as `12+35`, and the value written.

    `retracted` is what stood there before a correction, such as `12+35=37`.
    """

    owner: str
    expression: str
    value: int
    retracted: str | None = None

    @property
    def equation(self) -> str:
        """The line's arithmetic, such as `12+35=47`."""
        return f"{self.expression}={self.value}"


SlipDraw = Callable[[Slip], bool]


def reference_lines(problem: DemoProblem) -> tuple[Line, ...]:
    """The right solution's lines, in order."""
    lines: list[Line] = []
    for event in problem.events:
        value = lines[-1].value if lines else problem.start
        lines += _event_lines(event, value, _never)
    return tuple(lines)


def student_lines(problem: DemoProblem, rng: random.Random) -> tuple[Line, ...]:
    """The lines of a weak student, who slips at `SLIP_RATES`.

    A draw in which a value leaves 0..MAX_VALUE is drawn again.
    """
    while True:
        lines: list[Line] = []
        for event in problem.events:
            lines += _student_event(event, lines[-1].value if lines else problem.start, rng)
        if all(0 <= line.value <= MAX_VALUE and "=-" not in str(line.retracted) for line in lines):
            return tuple(lines)


def solution_text(lines: tuple[Line, ...], thing: str) -> str:
    """A solution's text: a line of arithmetic a step, then `#### N`."""
    body = "\n".join(f"{line.owner} has {_written(line, thing)}." for line in lines)
    return f" {body}\n#### {lines[-1].value}"


def _written(line: Line, thing: str) -> str:
    before = f"{line.retracted} {thing}, no, " if line.retracted else ""
    return f"{before}{line.equation} {thing}"


def _never(_: Slip) -> bool:
    return False


def _student_event(event: Event, value: int, rng: random.Random) -> list[Line]:
    right = list(_event_lines(event, value, _never))
    written = list(_event_lines(event, value, lambda slip: rng.random() < SLIP_RATES[slip]))
    wrong_at = next((i for i, line in enumerate(written) if line != right[i]), None)
    if wrong_at is None or rng.random() >= CORRECTION_RATE:
        return written
    right[wrong_at] = replace(right[wrong_at], retracted=written[wrong_at].equation)
    return right


def _event_lines(event: Event, value: int, slips: SlipDraw) -> Iterator[Line]:
    owner, amount = event.owner, event.amount
    match event.kind:
        case EventKind.GAIN | EventKind.MORE | EventKind.TOGETHER:
            yield _add(owner, value, amount, slips)
        case EventKind.LOSE | EventKind.FEWER:
            yield _subtract(owner, value, amount, slips)
        case EventKind.INVERSE_FEWER:
            write = _subtract if slips(Slip.COMPARISON) else _add
            yield write(owner, value, amount, slips)
        case EventKind.INVERSE_MORE:
            write = _add if slips(Slip.COMPARISON) else _subtract
            yield write(owner, value, amount, slips)
        case EventKind.PACKS:
            product = amount * event.size
            yield Line(owner, f"{amount}*{event.size}", product)
            yield _add(owner, value, product, slips)
        case EventKind.TIMES:
            yield Line(owner, f"{value}*{amount}", value * amount)
        case EventKind.SHARE:
            yield Line(owner, f"{value}/{amount}", value // amount)
        case EventKind.FRACTION:
            if slips(Slip.FRACTION):
                yield Line(owner, f"{value}-{amount}", value - amount)
            else:
                part = value // amount
                yield Line(owner, f"{value}/{amount}", part)
                yield _subtract(owner, value, part, slips)


def _add(owner: str, left: int, right: int, slips: SlipDraw) -> Line:
    value = left + right
    if left % 10 + right % 10 >= 10 and slips(Slip.CARRY):
        value -= 10
    return Line(owner, f"{left}+{right}", value)


def _subtract(owner: str, left: int, right: int, slips: SlipDraw) -> Line:
    value = left - right
    if left % 10 < right % 10 and slips(Slip.BORROW):
        value = (left // 10 - right // 10) * 10 + (right % 10 - left % 10)
    return Line(owner, f"{left}-{right}", value)
