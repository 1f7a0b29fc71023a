"""What changed between two snapshots, in tables: for the command line and Prefect's pages.

Problem ids and values of configs may hold anything: they are shown as plain text.
"""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.display import figures_table, printable
from storage.diff import Drift, LabelDiff

_MOST_STEPS = 12
_MOST_CHARACTERS = 60


def diff_tables(diff: LabelDiff, *, title: str) -> Iterator[Table]:
    """The figures of a comparison, then what drifted by step and problem, and the config."""
    yield figures_table(escape(printable(title)), diff_figures(diff))
    if diff.drift.total:
        steps = sorted(diff.by_step.items())
        first = [(f"step {index}", drift) for index, drift in steps[:_MOST_STEPS]]
        yield _drift_table("Drift by step", [*first, *_later(steps)])
        yield _drift_table("Most drift by problem", diff.by_problem)
    if diff.config:
        table = Table(title="Config", title_justify="left", title_style="bold")
        for heading in ("key", "old", "new"):
            table.add_column(heading)
        for key, values in diff.config.items():
            table.add_row(_shown(key), *(_shown(value) for value in values))
        yield table


def diff_figures(diff: LabelDiff) -> dict[str, str]:
    """The figures in words, for a table or an artifact."""
    figures = {
        "labels": f"{diff.num_old:,} → {diff.num_new:,}",
        "added": f"{diff.num_added:,} ({diff.num_problems_added:,} problems)",
        "removed": f"{diff.num_removed:,} ({diff.num_problems_removed:,} problems)",
        "unchanged": f"{diff.num_unchanged:,}",
        "changed": f"{diff.num_changed:,}",
    }
    if diff.num_changed:
        figures |= {
            "… their counts": f"{diff.num_counts_changed:,}",
            "… their MC value": f"{diff.num_mc_value_changed:,}",
            "… their hard label": f"{diff.num_hard_label_changed:,}",
            "solutions of another verdict": f"{diff.num_verdicts_changed:,}",
        }
    if diff.drift.num_labels:
        figures["drift of the MC value"] = (
            f"mean {diff.drift.mean:.4f}, largest {diff.drift.largest:.4f}"
        )
    return figures


def _later(steps: list[tuple[int, Drift]]) -> list[tuple[str, Drift]]:
    if len(steps) <= _MOST_STEPS:
        return []
    later = Drift()
    for _, drift in steps[_MOST_STEPS:]:
        later.plus(drift)
    return [("later steps", later)]


def _drift_table(title: str, rows: list[tuple[str, Drift]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for heading in ("labels", "mean", "largest", "hard labels flipped"):
        table.add_column(heading, justify="right")
    for name, drift in rows:
        table.add_row(
            _shown(name),
            f"{drift.num_labels:,}",
            f"{drift.mean:.4f}",
            f"{drift.largest:.4f}",
            f"{drift.num_flips:,}",
        )
    return table


def _shown(value: object) -> Text:
    text = printable(" ".join(str(value).split()))
    return Text(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…")
