"""The command `stepmark dpo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flows.cli_options import SetOption

if TYPE_CHECKING:
    from train.dpo_report import DpoReport


def dpo(
    pairs: Annotated[
        Path, typer.Argument(help="Pairs that `export DATASET step-dpo` wrote: .jsonl, .parquet.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the trained language model.")],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="That of the labels: its prompt, and dpo.")
    ] = None,
    set_: SetOption = None,
) -> None:
    """Train the model that wrote the steps on pairs of them (Step-DPO, by TRL).

    The steps follow the config's prompt, which is to be that of the labels. Writes a folder that
    from_pretrained loads, and that model.name takes.
    """
    from flows.progress import training_progress
    from flows.run_config import config_of, load_config
    from flows.step_dpo import step_dpo
    from storage.remote import local_path

    overrides = set_ or ()
    resolved = load_config(config, overrides) if config else config_of(overrides)
    out = local_path(out)
    with training_progress() as on_progress:
        report = step_dpo(resolved, pairs, out, on_progress=on_progress)
    from train.step_dpo import is_main_process

    if is_main_process():  # of several, under a launcher, one speaks
        _show(report, out)


def _show(report: "DpoReport", out: Path) -> None:
    console = Console(highlight=False)
    last = report.epochs[-1]
    console.print(
        f"{report.num_train_pairs:,} of {report.num_pairs:,} pairs of {report.num_questions:,} "
        f"questions, {report.num_updates:,} updates in {report.seconds:.0f} s; longer than the "
        f"maximum length: {report.num_too_long:,}."
    )
    console.print(
        f"Last epoch: loss {last.loss:.4f}, margin of the rewards {last.margin:+.3f}, "
        f"{100 * last.accuracy:.1f} % of the pairs told apart."
    )
    if report.resumed_at:
        console.print(f"Went on after update {report.resumed_at}, from a checkpoint.")
    if report.validation is not None:
        kept = report.validation
        console.print(
            f"Questions kept apart: loss {kept.loss:.4f}, margin {kept.margin:+.3f} (chosen "
            f"{kept.chosen_reward:+.3f}, rejected {kept.rejected_reward:+.3f}), "
            f"{100 * kept.accuracy:.1f} % of {kept.num_pairs} pairs told apart."
        )
    console.print(f"Model: {out}", markup=False)
