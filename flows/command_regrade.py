"""`stepmark regrade`: the verdicts of stored rollouts anew, without sampling."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from flows.regrade_report import RegradeReport

SHOWN_EXAMPLES = 5


def regrade(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder that generate wrote.")],
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write counts and examples here.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Only say what would change.")] = False,
) -> None:
    """Grade stored rollouts again where the grader has changed, and label anew. No model runs.

    Only rollouts of another grader version, or graded against another gold answer, are
    looked at. `stepmark generate` does the same before it samples, for its own rollouts.
    """
    from rich.console import Console

    from flows.stages import regrade_dataset
    from storage.dataset import dataset_path
    from storage.files import write_json

    folder = dataset_path(dataset)
    report = regrade_dataset(folder, dry_run=dry_run)
    _show(Console(), report, dry_run=dry_run)
    if json_ is not None:
        write_json(json_, report.as_json())


def _show(console: "Console", report: "RegradeReport", *, dry_run: bool) -> None:
    from flows.display import figures_table, printable

    if not report.num_regraded and not report.num_without_prefix:
        console.print("All verdicts are the present grader's: nothing to regrade.")
        return
    figures = {
        "rollouts graded anew": f"{report.num_regraded:,}",
        "left: their prefix is in no stored solution": f"{report.num_without_prefix:,}",
        "verdicts flipped": f"{report.verdict_flips.total():,}",
        **{f"  {name}": f"{n:,}" for name, n in sorted(report.verdict_flips.items())},
        "hard labels flipped": f"{report.label_flips.total():,}",
        **{f"  {name}": f"{n:,}" for name, n in sorted(report.label_flips.items())},
        "first errors changed": f"{report.num_first_errors_changed:,}",
        "seconds": f"{report.seconds:,.1f}",
    }
    console.print(figures_table("Would be regraded" if dry_run else "Regraded", figures))
    for one in report.verdict_examples[:SHOWN_EXAMPLES]:
        where = "the solution" if one.step_index < 0 else f"after step {one.step_index}"
        console.print(
            printable(
                f"{one.problem_id}, {where}: answer {one.new_answer!r}, gold {one.gold_answer!r}: "
                f"{one.old_verdict} ({one.old_reason}) -> {one.new_verdict} ({one.new_reason})"
            ),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    for label in report.label_examples[:SHOWN_EXAMPLES]:
        console.print(
            printable(
                f"{label.problem_id}, step {label.step_index}: {label.old_counts} -> "
                f"{label.new_counts}: {' '.join(label.step.split())}"
            ),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
