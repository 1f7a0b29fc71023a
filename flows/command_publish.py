"""The command `stepmark publish`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli_options import SetOption
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from flows.publish import PublishReport
    from storage.publish_config import PublishConfig


def publish(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder that generate wrote.")],
    repo: Annotated[str | None, typer.Option(help="ORG/NAME on the Hub.")] = None,
    private: Annotated[
        bool | None, typer.Option("--private/--public", help="Private by default.")
    ] = None,
    with_rollouts: Annotated[
        bool | None, typer.Option("--with-rollouts/--without-rollouts", help="Their texts, too.")
    ] = None,
    license_: Annotated[
        str | None, typer.Option("--license", help="The Hub's name of it, such as cc-by-4.0.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show gates, files and card; do not ask the Hub.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Pass the gates but integrity.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Default: the dataset's own config.")
    ] = None,
    set_: SetOption = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Write what was done here.")] = None,
) -> None:
    """Publish the current labels as a dataset on the Hugging Face Hub, in one commit.

    Private unless told otherwise. Options go before the config's section `publish`. The token
    comes from HF_TOKEN or `hf auth login`. The same command again publishes what has changed,
    or nothing.
    """
    from rich.console import Console

    from flows.publish import publish as run
    from storage.dataset import dataset_path
    from storage.files import write_json

    folder = dataset_path(dataset)
    options = _options(
        folder,
        config,
        set_ or [],
        {"repo": repo, "private": private, "with_rollouts": with_rollouts, "license": license_},
    )
    console = Console(soft_wrap=True)
    with console.status("publishing"):
        report = run(folder, options, dry_run=dry_run, force=force)
    if json_ is not None:
        write_json(json_, report.as_json())
    show_publication(console, report)


def _options(
    folder: Path, config: Path | None, overrides: list[str], given: dict[str, object]
) -> "PublishConfig":
    from pydantic import ValidationError

    from flows.run_config import config_from_json, load_config
    from storage.publish_config import PublishConfig

    if config is None:
        section = config_from_json(folder / "config.json", overrides).publish
    else:
        section = load_config(config, overrides).publish
    wanted = {name: value for name, value in given.items() if value is not None}
    try:
        return PublishConfig.model_validate({**section.model_dump(), **wanted})
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise ConfigError(
            f"--{name} {error.errors()[0]['input']!r}: {error.errors()[0]['msg']}"
        ) from error


def show_publication(console: "Console", report: "PublishReport") -> None:
    """Gates and files in tables, and what became of it."""
    from rich.table import Table

    for title, header, rows in (
        ("Quality gates", ("gate", "found", "asked for", ""), [
            (gate.name, gate.found, gate.limit, "met" if gate.is_met else "NOT MET")
            for gate in report.gates
        ]),
        ("Files, against what was last published from here", ("file", "bytes", ""), [
            (change.name, f"{change.num_bytes:,}", change.change) for change in report.changes
        ]),
    ):  # fmt: skip
        table = Table(title=title, title_justify="left", title_style="bold")
        for name in header:
            table.add_column(name)
        for row in rows:
            table.add_row(*row)
        console.print(table, markup=False)
    if report.commit is None:
        console.print(_dry_run_text(report), markup=False, highlight=False)
        console.print("The card would be:\n", markup=False)
        console.print(report.card, markup=False, highlight=False)
        return
    commit = report.commit
    if commit.is_new:
        console.print(
            f"Published snapshot {report.snapshot} to {report.repo}: commit {commit.commit}, tag "
            f"{commit.tag}; {len(commit.added)} files new or changed, {len(commit.deleted)} "
            "deleted.",
            markup=False,
            highlight=False,
        )
    else:
        console.print(
            f"{report.repo} holds just that already (commit {commit.commit}, tag {commit.tag}): "
            "no commit was made.",
            markup=False,
            highlight=False,
        )


def _dry_run_text(report: "PublishReport") -> str:
    kind = "private" if report.private else "public"
    unmet = [gate.name for gate in report.gates if not gate.is_met]
    refused = f" It would be refused: {', '.join(unmet)}." if unmet else ""
    known = (
        f"what was published at {report.last['published_at']} as {report.last['tag']}"
        if report.last
        else "nothing, since none was published from here"
    )
    return (
        f"Nothing was published. Snapshot {report.snapshot} would go to the {kind} repo "
        f"{report.repo}. The Hub was not asked: the files are compared with {known}.{refused}"
    )
