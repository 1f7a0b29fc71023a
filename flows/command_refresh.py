"""The command `stepmark refresh`."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli_options import ConfigOption, SetOption


def refresh(
    config: ConfigOption,
    out: Annotated[
        Path, typer.Option(help="The dataset: a folder, or s3://…; continued if there.")
    ],
    set_: SetOption = None,
) -> None:
    """Generate, then report, compare with the labels before, and publish: a night's work.

    The report is written, and publish.repo is sent the labels, only where they changed. Labels
    that the gates refuse stay the current ones, and the command ends with 1.
    """
    from rich.console import Console

    from flows.command_publish import show_publication
    from flows.cost_display import cost_figures, notes
    from flows.diff_display import diff_tables
    from flows.display import figures_table
    from flows.progress import sampling_progress
    from flows.publish import publish
    from flows.refresh import REPORT_PAGE, is_publishing_due
    from flows.refresh import refresh as run
    from flows.run_config import load_config
    from flows.wrapping import Figures
    from storage.dataset import dataset_path, read_manifest

    console = Console(soft_wrap=True)
    resolved, folder = load_config(config, set_ or ()), dataset_path(out)
    with sampling_progress("labelling") as on_progress:
        refreshed = run(resolved, folder, on_progress=on_progress)
    if refreshed.diff is None:
        console.print(figures_table("What changed", refreshed.figures()))
    else:
        title = f"What changed: {refreshed.before} → {refreshed.snapshot}"
        for table in diff_tables(refreshed.diff, title=title):
            console.print(table)
    manifest = read_manifest(folder)
    console.print(figures_table("Cost", cost_figures(manifest)))
    for note in notes(manifest):
        console.print(Figures(note))
    written = "written" if refreshed.is_new_report else "as it was: nothing changed"
    console.print(f"Report: {folder / REPORT_PAGE}, {written}", markup=False, highlight=False)
    if is_publishing_due(folder, resolved.publish):
        with console.status("publishing"):
            publication = publish(folder, resolved.publish)
        show_publication(console, publication)
    else:
        repo = resolved.publish.repo
        why = f"{repo} was sent these labels before" if repo else "publish.repo is not set"
        console.print(f"Nothing to publish: {why}.", markup=False, highlight=False)
