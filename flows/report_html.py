"""The report as one HTML page that needs nothing else: no script, no network, no fonts.

Every text is escaped by the template engine, and passes `flows.display.printable` first:
what a language model wrote can neither become markup nor turn the page's text around. The
page's own content policy forbids scripts and connections on top of that.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from flows.display import printable
from flows.report_charts import Line, bar_chart, line_chart
from flows.report_examples import ExampleKind, Examples, shortened
from labeling.noise import MAX_POSITIONS
from pipeline.records import LabeledSolution, StepLabel

MAX_STEPS_SHOWN = 40
_MAX_STEP = 2000

HEADINGS = {
    ExampleKind.BEST: "Best: right, and every prefix leads to the right answer most often",
    ExampleKind.WORST: "Worst: wrong, with the lowest MC values",
    ExampleKind.UNCERTAIN: "Most uncertain: the widest intervals",
    ExampleKind.UNDECIDED: "Undecided: the most rollouts that the grader could not decide",
    ExampleKind.REVIVED: "Revived: no correct rollout, then one after a later step",
}


@dataclass(frozen=True, slots=True)
class _Step:
    text: str
    value: float | None
    counts: str
    interval: str
    is_first_error: bool


def report_page(figures: Mapping[str, Any], examples: Examples) -> str:
    """The page as text, from a report's figures and examples."""
    threshold = float(figures["dataset"]["hard_threshold"])
    return _environment().get_template("report.html.jinja").render(
        figures,
        charts=_charts(figures),
        shown={
            HEADINGS[kind]: [
                {"solution": one, "steps": _steps(one, threshold), "left_out": _left_out(one)}
                for one in examples.shown(kind)
            ]
            for kind in ExampleKind
        },
        undecided=sorted(examples.rollouts.items()),
    )  # fmt: skip


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=_percent, number=_number, shortened=shortened)
    return environment


def _printable(value: object) -> object:
    """Every value that the template shows passes here; markup is our own charts only."""
    if value is None:
        return "–"
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(shortened(value))
    return value


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _charts(figures: Mapping[str, Any]) -> dict[str, Markup]:
    labels, positions = figures["labels"], figures["labels"]["by_position"]
    names = {"-1": "none", **{str(n): str(n) for n in range(MAX_POSITIONS)}}
    names[str(MAX_POSITIONS)] = f"{MAX_POSITIONS}+"
    flips = figures["flips"]
    return {
        "mc_values": bar_chart(labels["mc_values"], title="Steps by MC value"),
        "positions": bar_chart(
            {names[str(one["step_index"])]: float(one["mean_mc_value"]) for one in positions},
            title="Mean MC value by position of the step",
        ),
        "first_errors": bar_chart(
            {names[index]: count for index, count in labels["first_errors"].items()},
            title="Solutions by the index of their first error",
        ),
        "widths": bar_chart(
            figures["intervals"]["widths"], title="Steps by the width of the 95 % interval"
        ),
        "graded": bar_chart(
            _few_bars(figures["rollouts_per_step"]["graded"]),
            title="Steps by number of graded rollouts",
        ),
        "flips": line_chart(
            [f"k = {row['k']}" for row in flips],
            [
                Line("hard label", "one", [_of_all(row, "num_hard_flips") for row in flips]),
                Line("soft label", "two", [_of_all(row, "num_soft_flips") for row in flips]),
            ],
            title="Share of labels that change after k rollouts",
        ),
    }


def _of_all(row: Mapping[str, int], name: str) -> float:
    return row[name] / row["num_prefixes"]


def _few_bars(counts: Mapping[str, int], *, most: int = 22) -> dict[str, int]:
    """The counts as they are, or in equal ranges where there would be too many bars."""
    if not counts or int(max(counts, key=int)) < most:
        return dict(counts)
    size = math.ceil((int(max(counts, key=int)) + 1) / most)
    ranges: dict[str, int] = {}
    for number, count in counts.items():
        first = int(number) // size * size
        name = f"{first}–{first + size - 1}"
        ranges[name] = ranges.get(name, 0) + count
    return ranges


def _steps(solution: LabeledSolution, threshold: float) -> Sequence[_Step]:
    first_error = solution.first_error(threshold)
    pairs = zip(solution.steps[:MAX_STEPS_SHOWN], solution.labels, strict=False)
    return [
        _Step(
            shortened(step.strip(), limit=_MAX_STEP),
            label.mc_value if label.num_graded else None,
            _counts(label),
            "{:.2f}–{:.2f}".format(*label.interval),
            is_first_error=step_index == first_error,
        )
        for step_index, (step, label) in enumerate(pairs)
    ]


def _left_out(solution: LabeledSolution) -> int:
    return max(0, len(solution.steps) - MAX_STEPS_SHOWN)


def _counts(label: StepLabel) -> str:
    notes = [f"{label.num_correct}/{label.num_graded}"]
    if label.num_undecided:
        notes.append(f"{label.num_undecided} undecided")
    if label.num_truncated:
        notes.append(f"{label.num_truncated} truncated")
    return ", ".join(notes)
