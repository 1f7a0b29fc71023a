"""What `stepmark evaluate` shows: accuracy against N, comparisons, step figures, calibration."""

from collections.abc import Sequence

from rich.table import Table

from flows.display import printable
from search.calibration import ReliabilityBin
from search.evaluate import Baseline, Comparison, Method, SearchReport
from search.known_steps import Truth
from search.resampling import Estimate
from search.scoring import Aggregation, ScorerRole
from search.step_figures import Figure
from search.step_report import StepReport, Threshold

SCORER_NAMES = {
    ScorerRole.PRM: "PRM",
    ScorerRole.ORM: "ORM",
    ScorerRole.SECOND_PRM: "second PRM",
}
BASELINE_NAMES = {
    Baseline.MAJORITY_VOTE: "majority vote",
    Baseline.ORM: "ORM",
    Baseline.SECOND_PRM: "second PRM",
}
TRUTH_NAMES = {
    Truth.EXACT: "exact step truth",
    Truth.LABELS: "the dataset's labels",
    Truth.PROCESS_BENCH: "ProcessBench's first errors",
}
FIGURE_NAMES = {
    Figure.AUC: "step AUC",
    Figure.BRIER: "Brier score",
    Figure.ECE: "ECE",
    Figure.SOFT_ERROR: "MSE to soft labels",
    Figure.SOFT_ECE: "ECE to soft labels",
    Figure.ACCURACY: "steps on the right side, %",
    Figure.ERRONEOUS: "first error found, %",
    Figure.CORRECT: "no error in correct ones, %",
    Figure.F1: "first-error F1, %",
}
IN_PERCENT = {Figure.ACCURACY, Figure.ERRONEOUS, Figure.CORRECT, Figure.F1}


def method_name(scorer: ScorerRole | None, method: Method, aggregation: Aggregation | None) -> str:
    """A row's name; the PRM goes without saying."""
    whose = "" if scorer in (None, ScorerRole.PRM) else f"{SCORER_NAMES[scorer]} "
    return f"{whose}{method}, {aggregation}" if aggregation else f"{whose}{method}"


def search_table(report: SearchReport, aggregation: Aggregation) -> Table:
    """Accuracy in percent against N with 95 % intervals: the PRM's rows by aggregation, the
    second PRM's only by `aggregation`.
    """
    ns = sorted({row.n for row in report.rows})
    table = _table(f"Accuracy on {report.num_problems} problems, % (95 % interval)")
    table.add_column("method")
    for n in ns:
        table.add_column(f"N = {n}", justify="right")
    cells: dict[str, dict[int, str]] = {}
    for row in report.rows:
        if row.scorer is not ScorerRole.SECOND_PRM or row.aggregation is aggregation:
            name = method_name(row.scorer, row.method, row.aggregation)
            cell = f"{100 * row.accuracy:.1f} ({100 * row.low:.1f}–{100 * row.high:.1f})"
            cells.setdefault(name, {})[row.n] = cell
    for name, by_n in cells.items():
        table.add_row(name, *(by_n.get(n, "") for n in ns))
    return table


def comparison_table(report: SearchReport, aggregation: Aggregation) -> Table:
    """Methods by `aggregation`, and the ORM's, at the largest N against each baseline, paired."""
    n = max(row.n for row in report.rows)
    table = _table(f"At N = {n}, paired (95 % interval)")
    table.add_column("method", min_width=len("weighted-vote,"))
    table.add_column("against")
    for column in ("points", "accuracy ÷", "wrong picks ÷"):
        table.add_column(column, justify="right")
    for one in report.comparisons:
        if one.n == n and (one.aggregation is aggregation or one.scorer is ScorerRole.ORM):
            table.add_row(
                method_name(one.scorer, one.method, one.aggregation),
                BASELINE_NAMES[one.baseline],
                f"{100 * one.difference:+.1f} "
                f"({100 * one.difference_low:+.1f} to {100 * one.difference_high:+.1f})",
                _interval(one.ratio, one.ratio_low, one.ratio_high),
                _interval(one.wrong_ratio, one.wrong_ratio_low, one.wrong_ratio_high),
            )
    return table


def search_sentence(report: SearchReport, aggregation: Aggregation) -> str:
    """Whether the PRM beats the majority vote at the largest N, said plainly."""
    n = max(row.n for row in report.rows)
    best = report.row(Method.BEST_OF_N, n=n, aggregation=aggregation)
    majority = report.row(Method.MAJORITY_VOTE, n=n)
    comparison = _of_the_prm(report, n, aggregation)
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


def step_table(report: StepReport) -> Table:
    """Every figure with its interval; a column a scorer, and the paired difference."""
    table = _table(_step_title(report))
    table.add_column("figure (95 % interval)")
    for one in report.scorers:
        table.add_column(SCORER_NAMES[one.scorer], justify="right")
    if report.differences:
        table.add_column("difference", justify="right")
    for figure in report.scorers[0].figures:
        cells = [_cell(one.figures[figure], figure) for one in report.scorers]
        if report.differences:
            cells.append(_cell(report.differences[figure], figure, sign="+"))
        table.add_row(FIGURE_NAMES[figure], *cells)
    return table


def reliability_table(report: StepReport) -> Table:
    """The filled bins of the PRM's reliability plot."""
    filled = [one for one in report.scorers[0].bins if one.num_steps]
    table = _table(f"Calibration of the PRM, {printable(report.name)}")
    has_soft = any(one.mean_soft_label is not None for one in filled)
    for column in ("score", "steps", "mean score", "share right"):
        table.add_column(column, justify="right")
    if has_soft:
        table.add_column("mean soft label", justify="right")
    for one in filled:
        cells = _bin_cells(one)
        table.add_row(*(cells if has_soft else cells[:-1]))
    return table


def step_sentences(report: StepReport) -> list[str]:
    """What the figures rest on: the threshold, what is left out, why something is missing."""
    said = [_threshold_sentence(one.threshold, SCORER_NAMES[one.scorer]) for one in report.scorers]
    left_out = {
        "steps of unknown truth": report.num_unknown_steps,
        "solutions whose first error is unknown": report.num_undetermined,
        **report.notes,
    }
    named = ", ".join(f"{n:,} {printable(what)}" for what, n in left_out.items() if n)
    if named:
        said.append(f"Left out: {named}.")
    threshold_reasons = {one.threshold.reason for one in report.scorers}
    reasons: dict[str, list[str]] = {}
    for one in report.scorers:
        for figure, estimate in one.figures.items():
            if estimate.reason and estimate.reason not in threshold_reasons:
                reasons.setdefault(estimate.reason, []).append(FIGURE_NAMES[figure])
    for reason, names in reasons.items():
        said.append(f"{', '.join(dict.fromkeys(names))}: {reason}.")
    return said


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold")


def _of_the_prm(report: SearchReport, n: int, aggregation: Aggregation) -> Comparison:
    wanted = (ScorerRole.PRM, Method.BEST_OF_N, aggregation, n, Baseline.MAJORITY_VOTE)
    return next(
        one
        for one in report.comparisons
        if (one.scorer, one.method, one.aggregation, one.n, one.baseline) == wanted
    )


def _step_title(report: StepReport) -> str:
    share = 100 * report.num_right_steps / report.num_steps if report.num_steps else 0.0
    return (
        f"{printable(report.name)}: {report.num_steps:,} steps ({share:.1f} % right) of "
        f"{report.num_solutions:,} solutions, {report.num_problems:,} problems, against "
        f"{TRUTH_NAMES[report.truth]}"
    )


def _threshold_sentence(threshold: Threshold, name: str) -> str:
    tested = (
        f"{threshold.tested.num_problems:,} problems ({threshold.tested.num_solutions:,} "
        f"solutions, {threshold.tested.num_erroneous:,} with an error)"
    )
    if threshold.value is None:
        return f"{name}: {threshold.reason}."
    if threshold.held_out_f1 is None:
        return f"{name}: threshold {threshold.value:.4g}, as given; tested on all {tested}."
    return (
        f"{name}: threshold {threshold.value:.4g}, the best of {threshold.held_out.num_problems:,} "
        f"held-out problems ({threshold.held_out.num_solutions:,} solutions; F1 there "
        f"{100 * threshold.held_out_f1:.1f} %); tested on the other {tested}."
    )


def _cell(estimate: Estimate, figure: Figure, *, sign: str = "") -> str:
    scale, form = (100.0, f"{sign}.1f") if figure in IN_PERCENT else (1.0, f"{sign}.3f")
    if estimate.value is None:
        return "none"
    value = format(scale * estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return value
    low, high = (format(scale * bound, form) for bound in (estimate.low, estimate.high))
    return f"{value} ({low} to {high})" if sign else f"{value} ({low}–{high})"


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "none"
    if low is None or high is None:
        return f"{value:.3f}"
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _bin_cells(one: ReliabilityBin) -> Sequence[str]:
    means = (one.mean_score, one.share_right, one.mean_soft_label)
    return [
        f"{one.low:.1f}–{one.high:.1f}",
        f"{one.num_steps:,}",
        *("" if mean is None else f"{mean:.3f}" for mean in means),
    ]
