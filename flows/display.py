"""What the command line shows: the heat map of labelled solutions, tables, figures.

Texts come from a language model: they are shown as plain text, never as markup, with
control characters made visible, so that no escape sequence reaches the terminal.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text

from flows.evaluation import TruthAgreement
from grading.verdict import Verdict
from pipeline.records import LabeledSolution, StepLabel
from search.evaluate import Method, SearchReport
from search.scoring import Aggregation

_MARKS = {Verdict.CORRECT: "✓", Verdict.INCORRECT: "✗", Verdict.UNDECIDED: "?"}
_VERDICT_COLOURS = {
    Verdict.CORRECT: "green",
    Verdict.INCORRECT: "red",
    Verdict.UNDECIDED: "yellow",
}


def solution_panel(solution: LabeledSolution, *, hard_threshold: float = 0.0) -> RenderableType:
    """A labelled solution: each step coloured from red (0) to green (1), with counts."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    first_error = solution.first_error(hard_threshold)
    for step_index, (step, label) in enumerate(zip(solution.steps, solution.labels, strict=True)):
        style = Style(color=_colour(label.mc_value))
        counts = f"{label.num_correct}/{label.num_graded}"
        if label.num_undecided:
            counts += f" ?{label.num_undecided}"
        mark = " ← first error" if step_index == first_error else ""
        grid.add_row(
            Text(_ratio(label), style),
            Text(counts, "dim"),
            Text(printable(step.strip()), style) + Text(mark, "bold red"),
        )
    verdict = solution.verdict
    title = Text(printable(solution.problem.problem_id))
    answer = printable(solution.final_answer)[:60] or "none"
    subtitle = Text(
        f"answer {answer}, gold {printable(solution.problem.gold_answer)[:60]} {_MARKS[verdict]}",
        _VERDICT_COLOURS[verdict],
    )
    question = Text(printable(solution.problem.question), "italic")
    return Panel(Group(question, Text(""), grid), title=title, subtitle=subtitle)


def label_figures(solutions: Sequence[LabeledSolution]) -> Mapping[str, str]:
    """Statistics of labels, for `figures_table`. Last steps have no rollouts of their own."""
    labels = [label for solution in solutions for label in solution.labels[:-1]]
    graded = [label for label in labels if label.num_graded]
    values = [label.mc_value for label in graded]
    right = sum(solution.verdict is Verdict.CORRECT for solution in solutions)
    rollouts = [label.num_graded for label in labels]
    widths = [label.interval[1] - label.interval[0] for label in graded]
    return {
        "problems": str(len({solution.problem.problem_id for solution in solutions})),
        "labelled solutions": f"{len(solutions)} ({_share(right, len(solutions))} correct)",
        "labelled steps": str(sum(len(solution.steps) for solution in solutions)),
        "graded rollouts a step": (
            f"{min(rollouts)} to {max(rollouts)}, mean {sum(rollouts) / len(rollouts):.1f}"
            if rollouts
            else "none"
        ),
        "MC value 0 / between / 1": " / ".join(
            _share(count, len(values))
            for count in (
                sum(value == 0 for value in values),
                sum(0 < value < 1 for value in values),
                sum(value == 1 for value in values),
            )
        ),
        "mean 95 % interval width": f"{sum(widths) / len(widths):.2f}" if widths else "none",
    }


def truth_figures(agreement: TruthAgreement) -> Mapping[str, str]:
    """The exact step check in words, for `figures_table`."""
    return {
        "hard labels that agree with exact truth": (
            f"{_share(agreement.num_agreeing, agreement.num_steps)} of {agreement.num_steps} steps "
            f"({agreement.num_false_alarms} right steps called wrong, "
            f"{agreement.num_missed} wrong steps called right)"
        )
    }


def figures_table(title: str, figures: Mapping[str, str]) -> Table:
    """Two columns: a figure's name and its value."""
    table = Table(title=title, title_justify="left", show_header=False, title_style="bold")
    for name, value in figures.items():
        table.add_row(name, value)
    return table


def search_table(report: SearchReport) -> Table:
    """Accuracy in percent against N with 95 % intervals; the PRM's rows by aggregation."""
    ns = sorted({row.n for row in report.rows})
    table = Table(
        title=f"Accuracy on {report.num_problems} problems, % (95 % interval)",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("method")
    for n in ns:
        table.add_column(f"N = {n}", justify="right")
    keys = list(dict.fromkeys((row.method, row.aggregation) for row in report.rows))
    for method, aggregation in keys:
        name = f"{method}, {aggregation}" if aggregation else str(method)
        table.add_row(name, *(_cell(report, method, aggregation, n) for n in ns))
    return table


def search_sentence(report: SearchReport, aggregation: Aggregation) -> str:
    """Whether the PRM beats the majority vote at the largest N, said plainly."""
    n = max(row.n for row in report.rows)
    best = report.row(Method.BEST_OF_N, n=n, aggregation=aggregation)
    majority = report.row(Method.MAJORITY_VOTE, n=n)
    comparison = next(
        one
        for one in report.comparisons
        if (one.method, one.aggregation, one.n) == (Method.BEST_OF_N, aggregation, n)
    )
    interval = (
        f"{100 * comparison.difference:+.1f} points, 95 % interval "
        f"{100 * comparison.difference_low:+.1f} to {100 * comparison.difference_high:+.1f}"
    )
    figures = (
        f"PRM best-of-{n} ({aggregation}) {100 * best.accuracy:.1f} %, "
        f"majority-of-{n} {100 * majority.accuracy:.1f} % ({interval}, paired)"
    )
    if comparison.difference_low > 0:
        return f"The PRM beats the majority vote: {figures}."
    if comparison.difference > 0:
        return f"The PRM is ahead of the majority vote, but not beyond doubt: {figures}."
    return (
        f"The PRM does not beat the majority vote here: {figures}. Its scores rank these "
        "candidates no better than counting answers does; more labelled problems or more "
        "epochs are the first things to try."
    )


def printable(text: str) -> str:
    """`text` with control and format characters (escape sequences, bidi marks) replaced."""
    return "".join(
        "�" if _is_control(character) and character not in "\n\t" else character
        for character in text
    )


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _colour(value: float) -> str:
    if math.isnan(value):
        return "bright_black"
    red = round(255 * min(1.0, 2 * (1 - value)))
    green = round(200 * min(1.0, 2 * value))
    return f"rgb({red},{green},60)"


def _ratio(label: StepLabel) -> str:
    return "  ? " if math.isnan(label.mc_value) else f"{label.mc_value:.2f}"


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %" if total else "none"


def _cell(report: SearchReport, method: Method, aggregation: Aggregation | None, n: int) -> str:
    try:
        row = report.row(method, n=n, aggregation=aggregation)
    except KeyError:
        return ""
    return f"{100 * row.accuracy:.1f} ({100 * row.low:.1f}–{100 * row.high:.1f})"
