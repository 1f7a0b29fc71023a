"""The command `stepmark report`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def report(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder that generate wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="The page; default: report.html in the dataset folder.")
    ] = None,
    json_: Annotated[
        Path | None,
        typer.Option("--json", help="The figures; default: report.json in the dataset folder."),
    ] = None,
    human: Annotated[
        Path | None,
        typer.Option(help="A folder of human labels that import wrote, to compare with."),
    ] = None,
) -> None:
    """Write how noisy the labels are: a page to read and its figures as JSON.

    Label distribution, interval widths, how labels change with the number of rollouts, dead
    steps that come alive later, undecided and truncated rollouts, cost, examples. Nothing is
    sampled, and no model is loaded.
    """
    from flows.report import write_report
    from storage.dataset import dataset_path

    folder = dataset_path(dataset)
    figures = write_report(
        folder, html=out, json=json_, human=None if human is None else dataset_path(human)
    )
    console = Console()
    labels, revived = figures["labels"], figures["revived"]
    console.print(
        f"{labels['labels']:,} labels of {labels['solutions']:,} solutions; "
        f"{figures['intervals']['wider_than_target']:,} intervals are wider than "
        f"{figures['intervals']['target_width']}, {revived['steps']:,} of {labels['dead']:,} dead "
        f"steps come alive later, {figures['rollouts']['by_verdict']['undecided']:,} of "
        f"{figures['rollouts']['rollouts']:,} rollouts are undecided.",
        highlight=False,
    )
    console.print(
        f"Report: {out or folder / 'report.html'} (figures in {json_ or folder / 'report.json'})",
        markup=False,
        highlight=False,
    )
