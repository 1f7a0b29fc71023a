"""Solutions of demo problems: the right one, and those of a weak student.

The bundled language model learns from the texts of a *weak student*, as real models
learn from texts of people who err. The student slips only where people are known to:

- `BORROW`: in a column of a subtraction, the smaller digit is taken from the larger
  one (Brown & Burton 1978, "Diagnostic models for procedural bugs").
- `CARRY`: the carry of an addition is forgotten (the same source).
- `COMPARISON`: "A has 7 fewer than B" is read as "B has 7 fewer than A" (Lewis &
  Mayer 1987, the consistency effect).
- `FRACTION`: of "one part in 3" the number 3 is taken away.

Attention comes and goes, event by event. A *careful* student writes whole sentences
("Ana has 56-27=29 eggs.") and seldom slips; a *hasty* one writes the bare arithmetic
("56-27=29.") and slips at most occasions. A slip's result is carried on, so that an early
slip ruins the answer. Problems and gold answers hold no slip.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from pipeline.demo.problems import MAX_VALUE, DemoProblem, Event, EventKind


class Slip(StrEnum):
    """What a weak student does wrong in one place."""

    CARRY = "carry"
    BORROW = "borrow"
    COMPARISON = "comparison"
    FRACTION = "fraction"


class Style(StrEnum):
    """How a student writes about one event."""

    CAREFUL = "careful"
    HASTY = "hasty"


HASTY_SHARE = 0.5
"""The share of events that are dealt with hastily, each on its own."""

SLIP_RATES = {
    Style.CAREFUL: {
        Slip.CARRY: 0.005,
        Slip.BORROW: 0.01,
        Slip.COMPARISON: 0.01,
        Slip.FRACTION: 0.01,
    },
    Style.HASTY: {
        Slip.CARRY: 0.15,
        Slip.BORROW: 0.85,
        Slip.COMPARISON: 0.95,
        Slip.FRACTION: 0.95,
    },
}
"""The probability of each slip where there is an occasion for it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of arithmetic: `expression` such as `12+35`, and the value written."""

    owner: str
    expression: str
    value: int
    style: Style = Style.CAREFUL


Slips = Callable[[Slip], bool]
"""Whether a slip is made where there is an occasion for it."""


def reference_lines(problem: DemoProblem) -> tuple[Line, ...]:
    """The right solution's lines, in order."""
    return _write_lines(problem, lambda: Style.CAREFUL, lambda _style, _slip: False)


def student_lines(
    problem: DemoProblem, rng: random.Random, *, hasty_share: float = HASTY_SHARE
) -> tuple[Line, ...]:
    """The lines of a student: a style is drawn for each event, slips at its `SLIP_RATES`.

    A draw in which a value leaves 0..MAX_VALUE is drawn again.
    """

    def draw_style() -> Style:
        return Style.HASTY if rng.random() < hasty_share else Style.CAREFUL

    def draw_slip(style: Style, slip: Slip) -> bool:
        return rng.random() < SLIP_RATES[style][slip]

    while True:
        lines = _write_lines(problem, draw_style, draw_slip)
        if all(0 <= line.value <= MAX_VALUE for line in lines):
            return lines


def solution_text(lines: tuple[Line, ...], thing: str) -> str:
    """A solution's text: a line of arithmetic a step, then `#### N`."""
    steps = [_step_text(line, thing) for line in lines]
    return f" {chr(10).join(steps)}\n#### {lines[-1].value}"


def _step_text(line: Line, thing: str) -> str:
    match line.style:
        case Style.CAREFUL:
            return f"{line.owner} has {line.expression}={line.value} {thing}."
        case Style.HASTY:
            return f"{line.expression}={line.value}."


def _write_lines(
    problem: DemoProblem,
    draw_style: Callable[[], Style],
    draw_slip: Callable[[Style, Slip], bool],
) -> tuple[Line, ...]:
    lines: list[Line] = []
    for event in problem.events:
        style = draw_style()
        value = lines[-1].value if lines else problem.start
        new = _event_lines(event, value, partial(draw_slip, style))
        lines += [replace(line, style=style) for line in new]
    return tuple(lines)


def _event_lines(event: Event, value: int, slips: Slips) -> Iterator[Line]:
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


def _add(owner: str, left: int, right: int, slips: Slips) -> Line:
    value = left + right
    if left % 10 + right % 10 >= 10 and slips(Slip.CARRY):
        value -= 10
    return Line(owner, f"{left}+{right}", value)


def _subtract(owner: str, left: int, right: int, slips: Slips) -> Line:
    value = left - right
    if left % 10 < right % 10 and slips(Slip.BORROW):
        value = (left // 10 - right // 10) * 10 + (right % 10 - left % 10)
    return Line(owner, f"{left}-{right}", value)
