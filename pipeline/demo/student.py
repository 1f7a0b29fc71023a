"""Solutions of demo problems: the right one, and those of a weak student.

The bundled language model learns from the texts of a *weak student*, as real models
learn from texts of people who err. The student slips only where people are known to:

- `BORROW`: in a column of a subtraction, the smaller digit is taken from the larger
  one (Brown & Burton 1978, "Diagnostic models for procedural bugs").
- `CARRY`: the carry of an addition is forgotten (the same source).
- `COMPARISON`: "A has 7 fewer than B" is read as "B has 7 fewer than A" (Lewis &
  Mayer 1987, the consistency effect).
- `FRACTION`: of "one part in 3" the number 3 is taken away.

There are two kinds of writers, as in any corpus. A *careful* one writes whole sentences
("Ana has 56-27=29 eggs.") and seldom slips; a *hasty* one writes the bare arithmetic
("56-27=29.") and slips at most occasions. A slip's result is carried on, so that an early
slip ruins the answer. Problems and gold answers hold no slip.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from pipeline.demo.problems import MAX_VALUE, DemoProblem, Event, EventKind


class Slip(StrEnum):
    """What a weak student does wrong in one place."""

    CARRY = "carry"
    BORROW = "borrow"
    COMPARISON = "comparison"
    FRACTION = "fraction"


class Style(StrEnum):
    """How a student writes."""

    CAREFUL = "careful"
    HASTY = "hasty"


HASTY_SHARE = 0.6
"""The share of solutions by hasty writers."""

SLIP_RATES = {
    Style.CAREFUL: {
        Slip.CARRY: 0.02,
        Slip.BORROW: 0.03,
        Slip.COMPARISON: 0.05,
        Slip.FRACTION: 0.03,
    },
    Style.HASTY: {
        Slip.CARRY: 0.20,
        Slip.BORROW: 0.60,
        Slip.COMPARISON: 0.95,
        Slip.FRACTION: 0.90,
    },
}
"""The probability of each slip where there is an occasion for it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of arithmetic: `expression` such as `12+35`, and the value written."""

    owner: str
    expression: str
    value: int


SlipDraw = Callable[[Slip], bool]


def reference_lines(problem: DemoProblem) -> tuple[Line, ...]:
    """The right solution's lines, in order."""
    return _write_lines(problem, lambda _: False)


def student_lines(problem: DemoProblem, style: Style, rng: random.Random) -> tuple[Line, ...]:
    """The lines of a student, who slips at the `SLIP_RATES` of the style.

    A draw in which a value leaves 0..MAX_VALUE is drawn again.
    """
    rates = SLIP_RATES[style]
    while True:
        lines = _write_lines(problem, lambda slip: rng.random() < rates[slip])
        if all(0 <= line.value <= MAX_VALUE for line in lines):
            return lines


def draw_style(rng: random.Random) -> Style:
    """Hasty with probability `HASTY_SHARE`."""
    return Style.HASTY if rng.random() < HASTY_SHARE else Style.CAREFUL


def solution_text(lines: tuple[Line, ...], thing: str, style: Style = Style.CAREFUL) -> str:
    """A solution's text: a line of arithmetic a step, then `#### N`."""
    match style:
        case Style.CAREFUL:
            steps = [f"{line.owner} has {line.expression}={line.value} {thing}." for line in lines]
        case Style.HASTY:
            steps = [f"{line.expression}={line.value}." for line in lines]
    return f" {chr(10).join(steps)}\n#### {lines[-1].value}"


def _write_lines(problem: DemoProblem, slips: SlipDraw) -> tuple[Line, ...]:
    lines: list[Line] = []
    for event in problem.events:
        lines += _event_lines(event, lines[-1].value if lines else problem.start, slips)
    return tuple(lines)


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
