"""What the command line shows: the heat map of labelled solutions, tables, figures.

Texts come from a language model: they are shown as plain text, never as markup, with
control characters made visible, so that no escape sequence reaches the terminal.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text

from flows.evaluation import TruthAgreement
from flows.wrapping import Figures
from grading.files import GradeSummary
from grading.verdict import Verdict
from pipeline.records import LabeledSolution, StepLabel

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
        style = Style(color=colour_of(label.mc_value))
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


def label_figures(solutions: Iterable[LabeledSolution]) -> Mapping[str, str]:
    """Statistics of labels, for `figures_table`.

    Last steps have no rollouts of their own, but their solution's verdict: from the rollouts
    a step on they are left out, and the row says so.
    """
    counts: Counter[str] = Counter()
    problem_ids: set[str] = set()
    rollouts: Counter[int] = Counter()
    width = 0.0
    for solution in solutions:
        problem_ids.add(solution.problem.problem_id)
        counts["solutions"] += 1
        counts["right"] += solution.verdict is Verdict.CORRECT
        counts["steps"] += len(solution.steps)
        for label in solution.labels[:-1]:
            rollouts[label.num_graded] += 1
            if label.num_graded:
                counts["graded"] += 1
                counts[_end_of(label)] += 1
                width += label.interval[1] - label.interval[0]
    num_labels, num_graded = rollouts.total(), counts["graded"]
    mean = sum(n * times for n, times in rollouts.items()) / num_labels if num_labels else 0.0
    shares = (_share(counts[end], num_graded) for end in ("0", "between", "1"))
    none = "none: these solutions have one step each" if counts["solutions"] else "none"
    return {
        "problems": str(len(problem_ids)),
        "labelled solutions": (
            f"{counts['solutions']} ({_share(counts['right'], counts['solutions'])} correct)"
        ),
        "labelled steps": str(counts["steps"]),
        "graded rollouts a step, last ones left out": (
            f"{min(rollouts)} to {max(rollouts)}, mean {mean:.1f}" if rollouts else none
        ),
        "MC value 0 / between / 1 of these": " / ".join(shares) if num_graded else "none",
        "mean 95 % interval width of these": f"{width / num_graded:.2f}" if num_graded else "none",
    }


def _end_of(label: StepLabel) -> str:
    return {0.0: "0", 1.0: "1"}.get(label.mc_value, "between")


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
        table.add_row(Figures(name), Figures(value))
    return table


def grade_table(summary: GradeSummary) -> Table:
    """Graded rows by verdict and, under each verdict, by reason."""
    total = summary.by_reason.total()
    table = Table(title=f"{total} graded", title_justify="left", title_style="bold")
    table.add_column("verdict")
    table.add_column("reason")
    table.add_column("rows", justify="right")
    table.add_column("%", justify="right")
    for verdict in Verdict:
        reasons = Counter(
            {reason: n for (found, reason), n in summary.by_reason.items() if found is verdict}
        )
        mark = Text(f"{_MARKS[verdict]} {verdict}", _VERDICT_COLOURS[verdict])
        table.add_row(mark, "", str(reasons.total()), _percent(reasons.total(), total))
        for reason, count in reasons.most_common():
            table.add_row("", printable(reason), str(count), _percent(count, total))
        table.add_section()
    return table


def rules_sentence(summary: GradeSummary) -> str:
    """Which extraction rules found the answers, commonest first."""
    rules = ", ".join(f"{printable(rule)} {n}" for rule, n in summary.by_rule.most_common())
    return f"Answers found by rule: {rules}."


def printable(text: str) -> str:
    """`text` with control and format characters (escape sequences, bidi marks) replaced."""
    return "".join(
        "�" if _is_control(character) and character not in "\n\t" else character
        for character in text
    )


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def colour_of(value: float) -> str:
    """From red (0) over yellow to green (1); grey for NaN."""
    if math.isnan(value):
        return "bright_black"
    red = round(255 * min(1.0, 2 * (1 - value)))
    green = round(200 * min(1.0, 2 * value))
    return f"rgb({red},{green},60)"


def _ratio(label: StepLabel) -> str:
    return "  ? " if math.isnan(label.mc_value) else f"{label.mc_value:.2f}"


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}" if total else ""


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %" if total else "none"
