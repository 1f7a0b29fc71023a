"""Plots of an evaluation as PNG and SVG: calibration, and accuracy against N.

Figures are made with matplotlib's object interface (no pyplot, no display, no global state).
The same report gives the same bytes. All text in them is our own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flows.evaluation_display import SCORER_NAMES, TRUTH_NAMES, method_name
from search.evaluate import Method, SearchReport
from search.scoring import Aggregation, ScorerRole
from search.step_report import StepReport
from storage.files import write_whole

_METADATA: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}}
_DOTS_PER_INCH = 150
_DODGE = 0.035
"""Of a doubling of N, between two lines."""

_Key = tuple[ScorerRole | None, Method, Aggregation | None]


def write_step_plots(reports: Sequence[StepReport], folder: Path) -> list[Path]:
    """`reliability-<name>.png` and `.svg` for each report; returns the files."""
    return [
        file
        for report in reports
        for file in _write(_reliability(report), folder, f"reliability-{report.name}")
    ]


def write_search_plots(
    report: SearchReport, folder: Path, *, aggregation: Aggregation
) -> list[Path]:
    """`accuracy-against-n.png` and `.svg`; returns the files.

    `aggregation` is the one by which methods are compared; the second panel has all.
    """
    return _write(_accuracy(report, aggregation), folder, "accuracy-against-n")


def _reliability(report: StepReport) -> Figure:
    figure = Figure(figsize=(5.5, 7.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    upper.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="calibrated")
    for index, scorer in enumerate(report.scorers):
        name, colour = SCORER_NAMES[scorer.scorer], f"C{index}"
        filled = [one for one in scorer.bins if one.num_steps]
        means = [one.mean_score for one in filled]
        shares = [one.share_right for one in filled]
        upper.plot(means, shares, marker="o", color=colour, label=f"{name}, share right")
        soft = [one for one in filled if one.mean_soft_label is not None]
        if soft:
            means = [one.mean_score for one in soft]
            labels = [one.mean_soft_label for one in soft]
            label = f"{name}, mean soft label"
            upper.plot(means, labels, marker="s", ls=":", color=colour, label=label)
        middles = [(one.low + one.high) / 2 for one in scorer.bins]
        counts = [one.num_steps for one in scorer.bins]
        lower.step(middles, counts, where="mid", color=colour, label=name)
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="share right")
    upper.set_title(f"{report.num_steps:,} steps against {TRUTH_NAMES[report.truth]}")
    figure.legend(*upper.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    lower.set(xlabel="score", ylabel="steps", ylim=(0, None))
    return figure


def _accuracy(report: SearchReport, aggregation: Aggregation) -> Figure:
    figure = Figure(figsize=(10, 6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    keys = list(dict.fromkeys((row.scorer, row.method, row.aggregation) for row in report.rows))
    _draw(left, report, [key for key in keys if _is_method(key, aggregation)])
    _draw(right, report, [key for key in keys if key[0] is ScorerRole.PRM])
    chance = report.row(Method.RANDOM_PICK, n=1).accuracy
    for axes, title in ((left, "methods"), (right, "the PRM's aggregations")):
        axes.axhline(100 * chance, color="grey", linestyle="--", linewidth=1, label="pass@1")
        ns = sorted({row.n for row in report.rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ns, labels=[str(n) for n in ns])
        axes.minorticks_off()
        axes.set(xlabel="N", title=title)
        axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    left.set_ylabel(f"accuracy on {report.num_problems:,} problems, %")
    return figure


def _is_method(key: _Key, aggregation: Aggregation) -> bool:
    """Whether a line is one of the methods that are compared; chance is drawn by itself."""
    scorer, method, how = key
    return method is not Method.RANDOM_PICK and (
        how in (None, aggregation) or scorer is ScorerRole.ORM
    )


def _draw(axes: Axes, report: SearchReport, keys: Sequence[_Key]) -> None:
    """A line for each key with its intervals, side by side so that none hides another."""
    for index, key in enumerate(keys):
        own = [row for row in report.rows if (row.scorer, row.method, row.aggregation) == key]
        rows = sorted(own, key=lambda row: row.n)
        beside = 2 ** (_DODGE * (index - (len(keys) - 1) / 2))
        axes.errorbar(
            [row.n * beside for row in rows],
            [100 * row.accuracy for row in rows],
            yerr=[
                [100 * max(0.0, row.accuracy - row.low) for row in rows],  # rounded alike
                [100 * max(0.0, row.high - row.accuracy) for row in rows],
            ],
            marker="o",
            markersize=4,
            elinewidth=1,
            label=method_name(*key),
        )


def _write(figure: Figure, folder: Path, name: str) -> list[Path]:
    files: list[Path] = []
    for kind, metadata in _METADATA.items():
        file = folder / f"{name}.{kind}"
        with mpl.rc_context({"svg.hashsalt": "stepmark"}):
            write_whole(
                file,
                lambda temporary, kind=kind, metadata=metadata: figure.savefig(
                    temporary, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata
                ),
            )
        files.append(file)
    return files
