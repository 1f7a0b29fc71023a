"""The command `stepmark diff`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pipeline.errors import ConfigError


def diff(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder that generate wrote.")],
    old: Annotated[
        str | None, typer.Argument(help="A snapshot's id; default: the one before NEW.")
    ] = None,
    new: Annotated[
        str | None, typer.Argument(help="A snapshot's id; default: the current one.")
    ] = None,
    with_: Annotated[
        Path | None,
        typer.Option("--with", help="Another dataset: compare the current labels of both."),
    ] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Compare two snapshots of a dataset's labels: added, removed, changed, and by how much.

    Snapshots stand in the folder `snapshots`; the newest labels.keep_snapshots are kept.
    """
    from flows.diff_display import diff_tables
    from storage.dataset import dataset_path, labels_path
    from storage.diff import compared_folders, diff_labels
    from storage.files import write_json

    folder = dataset_path(dataset)
    if with_ is None:
        before, after = compared_folders(folder, old, new)
    elif old is not None:
        raise ConfigError("--with compares the current labels of two datasets: give no snapshots")
    else:
        before, after = labels_path(folder), labels_path(dataset_path(with_))
    found = diff_labels(before, after)
    console = Console()
    for table in diff_tables(found, title=f"{before} → {after}"):
        console.print(table)
    if json_ is not None:
        write_json(json_, {"old": str(before), "new": str(after), **found.as_json()})
