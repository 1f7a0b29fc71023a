"""`stepmark verify`: is what is stored whole, and do the labels follow from the rollouts?"""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import StepmarkError


class FindingsError(StepmarkError):
    """The dataset is not in order."""


def verify(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder that generate wrote.")],
    json_: Annotated[Path | None, typer.Option("--json", help="Write the findings here.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Make the labels of all problems again, not of some.")
    ] = False,
) -> None:
    """Check hashes, schemas and rows of a dataset, and its labels against its rollouts.

    Changes nothing. Ends with 0 where all is in order, with 1 where something was found.
    """
    from rich.console import Console

    from flows.display import figures_table, printable
    from flows.verify import verify as run
    from storage.dataset import dataset_path
    from storage.files import write_json

    console, folder = Console(soft_wrap=True, highlight=False), dataset_path(dataset)
    found = run(folder, full=full)
    if json_ is not None:
        write_json(json_, found.as_json())
    figures = {name: f"{n:,}" for name, n in found.figures.items()}
    compared = found.not_compared or f"{found.num_labels_compared:,}"
    console.print(figures_table("Looked at", {**figures, "labels made again": compared}))
    for one in found.findings:
        console.print(printable(f"{one.file}: {one.what}; {one.advice}"), markup=False)
    if found.findings:
        raise FindingsError(f"{folder}: {len(found.findings)} findings, which stand above")
    console.print("All is in order.")
