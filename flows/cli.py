"""The command `stepmark`.

Exit codes: 0 done, 1 the run failed, 2 bad usage or configuration, 130 interrupted.
Errors go to stderr in one paragraph; `--debug` adds the traceback.
"""

import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flows import (
    command_diff,
    command_dpo,
    command_evaluate,
    command_formats,
    command_plan,
    command_publish,
    command_refresh,
    command_regrade,
    command_report,
    command_solve,
    command_verify,
)
from flows.cli_options import ConfigOption, SetOption
from pipeline.errors import ConfigError, DataError, EngineError, StepmarkError
from pipeline.samplers.interrupts import interrupts_deferred

if TYPE_CHECKING:
    from flows.run_config import RunConfig

app = typer.Typer(
    name="stepmark",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Training data for process reward models by Monte-Carlo rollouts.\n\n"
        "The usual order: generate labels into a folder, look at them, train a PRM on them, "
        "and see whether it picks better solutions:\n\n"
        "    stepmark generate --config configs/demo.toml --out out/mine\n\n"
        "    stepmark show out/mine\n\n"
        "    stepmark train out/mine --out out/mine-prm\n\n"
        "    stepmark evaluate --prm out/mine-prm --config configs/demo.toml --json out/table.json"
    ),
)

INTERRUPTED = 130


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(help="Show tracebacks and library logs.")] = False,
) -> None:
    """Options of all commands."""
    if debug:
        os.environ["STEPMARK_DEBUG"] = "1"
        logging.basicConfig(level=logging.INFO)
    else:
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
        for chatty in ("HF_HUB_VERBOSITY", "DATASETS_VERBOSITY"):  # read when they are imported
            os.environ.setdefault(chatty, "error")  # what matters of it is in our own error


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the dataset and the PRM.")] = Path(
        "out/demo"
    ),
    config: ConfigOption = Path("configs/demo.toml"),
    set_: SetOption = None,
) -> None:
    """Run the main job on the bundled tiny model: labels, PRM, best-of-N table.

    Needs no GPU and no network, and takes some minutes. Labelling and training run as
    Prefect flows on a temporary Prefect server that ends with the command.
    """
    from flows.demo import run_demo
    from flows.run_config import load_config

    run_demo(load_config(config, set_ or ()), config, set_ or (), out, console=Console())


@app.command()
def generate(
    config: ConfigOption,
    out: Annotated[
        Path, typer.Option(help="The dataset: a folder, or s3://…; continued if there.")
    ],
    set_: SetOption = None,
) -> None:
    """Label problems: solutions, steps, rollouts, grades, labels in Parquet.

    Stop it at any time with Ctrl-C: the same command goes on where it stopped.
    """
    from flows.progress import sampling_progress
    from flows.run_config import load_config
    from flows.stages import generate as run
    from storage.dataset import dataset_path

    console = Console()
    resolved, folder = load_config(config, set_ or ()), dataset_path(out)
    with sampling_progress("labelling") as on_progress:
        manifest = run(resolved, folder, on_progress=on_progress)
    _show_summary(console, folder, manifest)


@app.command()
def train(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder that generate wrote.")],
    out: Annotated[Path, typer.Option(help="Folder for the PRM.")],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Default: the dataset's own config.")
    ] = None,
    set_: SetOption = None,
) -> None:
    """Train a PRM on a dataset's labels; writes a folder that from_pretrained loads."""
    from flows.progress import training_progress
    from flows.run_config import load_config
    from storage.dataset import dataset_path, labels_path
    from storage.remote import local_path

    console = Console()
    folder, out = dataset_path(dataset), local_path(out)
    resolved = load_config(config, set_ or ()) if config else _own_config(folder, set_ or ())
    labels = labels_path(folder)
    with interrupts_deferred():  # imports torch: after what can be refused at once
        from train.trainer import is_main_process, train_prm

    with training_progress() as on_progress:
        report = train_prm(
            labels,
            out,
            resolved.train,
            step_method=resolved.steps.method,
            on_progress=on_progress,
        )
    if not is_main_process():  # of several, under a launcher, one speaks
        return
    console.print(
        f"{report.num_train_solutions} solutions, {report.num_train_steps} labelled steps, "
        f"{report.num_updates} updates in {report.seconds:.0f} s; lost to truncation: "
        f"{report.num_lost_steps} steps; without label: {report.num_unlabelled_steps} steps."
    )
    console.print(
        f"Steps of true hard label: {100 * report.num_good_steps / report.num_train_steps:.1f} %, "
        f"mean soft label {report.mean_target:.3f}; steps that several solutions share: "
        f"{report.num_duplicate_steps}."
    )
    if report.resumed_at:
        console.print(f"Went on after update {report.resumed_at}, from a checkpoint.")
    if report.validation is not None:
        auc = report.validation.auc
        console.print(
            f"Validation: loss {report.validation.loss:.4f}, step AUC "
            f"{'none' if auc is None else f'{auc:.3f}'}, agreement with hard labels "
            f"{100 * report.validation.agreement:.1f} % of {report.validation.num_steps} steps."
        )
    console.print(f"PRM: {out}", markup=False)


@app.command()
def show(
    dataset: Annotated[Path, typer.Argument(help="A dataset folder that generate wrote.")],
    problem: Annotated[str | None, typer.Option(help="Only this problem id.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Solutions to show.")] = 3,
) -> None:
    """Show labelled solutions as a heat map: each step coloured by its ratio, with counts.

    Red steps lead nowhere, green ones to the right answer; beside each stand the ratio and
    correct/graded rollouts.
    """
    from flows.display import figures_table, label_figures, solution_panel
    from storage.dataset import dataset_path, read_labels

    console, folder = Console(), dataset_path(dataset)
    solutions = read_labels(folder)
    threshold = _own_config(folder, ()).labels.hard_threshold
    chosen = [s for s in solutions if problem is None or s.problem.problem_id == problem]
    if not chosen:
        of_problem = f" of the problem {problem!r}" if problem is not None else ""
        raise ConfigError(f"{dataset} has no labelled solution{of_problem}")
    for solution in chosen[:limit]:
        console.print(solution_panel(solution, hard_threshold=threshold))
    console.print(figures_table("Labels", label_figures(chosen)))


@app.command()
def grade(
    input_: Annotated[Path, typer.Option("--input", help="jsonl rows: id, gold, prediction.")],
    output: Annotated[Path, typer.Option("--output", help="jsonl rows: id, verdict, reason, …")],
    profile: Annotated[str, typer.Option(help="auto, gsm8k or math.")] = "auto",
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes for hard pairs.")] = 1,
) -> None:
    """Grade answers in a file, in order, and say what came out by verdict, reason and rule.

    Optional keys of a row: form = answer (a bare expression) or response (a whole text, the
    default); prediction_gen = {prefix, unit, count, suffix}.
    The output appears whole, at the end, or not at all.
    """
    from flows.display import grade_table, rules_sentence
    from flows.progress import counting_progress
    from grading.config import GradingConfig, GradingProfile
    from grading.files import GradeInputError, grade_file, is_standard_output
    from grading.pool import GraderStartError

    if profile not in list(GradingProfile):
        raise ConfigError(f"--profile {profile!r} is none of {', '.join(GradingProfile)}")
    if not input_.exists() or input_.is_dir():
        raise ConfigError(f"--input {input_}: there is no such file")
    config = GradingConfig(profile=GradingProfile(profile), workers=workers)
    try:
        with counting_progress("grading", unit="rows") as on_progress:
            summary = grade_file(input_, output, config=config, on_progress=on_progress)
    except GradeInputError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise DataError(f"{input_} cannot be graded into {output}: {error}") from error
    except GraderStartError as error:
        raise EngineError(str(error)) from error
    except KeyboardInterrupt as error:
        raise _StoppedError(
            f"stopped. {output} is as it was; run the same command again"
        ) from error
    console = Console(stderr=is_standard_output(output))
    console.print(grade_table(summary))
    if summary.by_rule:
        console.print(rules_sentence(summary), highlight=False)


app.command(name="report")(command_report.report)
app.command(name="verify")(command_verify.verify)
app.command(name="import")(command_formats.import_)
app.command(name="export")(command_formats.export)


app.command()(command_diff.diff)
app.command()(command_dpo.dpo)
app.command()(command_evaluate.evaluate)
app.command()(command_plan.plan)
app.command()(command_publish.publish)
app.command()(command_refresh.refresh)
app.command()(command_regrade.regrade)
app.command()(command_solve.solve)


class _StoppedError(StepmarkError):
    """Ctrl-C, where more is known than that."""

    exit_code = INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    # A worker or a shell that ends us with SIGTERM gets the same clean stop as Ctrl-C; a
    # script's background jobs are started with SIGINT ignored.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _as_interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows only ASCII
    errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        status = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except StepmarkError as error:
        if os.environ.get("STEPMARK_DEBUG"):
            raise
        errors.print(f"stepmark: {error}")
        return error.exit_code
    except typer.TyperException as error:  # bad usage
        message = error.format_message()
        if message:  # none where a bare `stepmark` has shown its help
            errors.print(f"stepmark: {message} See `stepmark --help`.")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except Exception as error:  # the command line's boundary: a fault of ours, in one paragraph
        if os.environ.get("STEPMARK_DEBUG"):
            raise
        errors.print(f"stepmark: {_unexpected(error)}")
        return StepmarkError.exit_code
    if status == INTERRUPTED:  # typer, too, returns it for Ctrl-C
        errors.print(
            "stepmark: stopped. Sampled rollouts are kept, a PRM in training only to its last "
            "checkpoint (train.save_steps); run the same command again to go on."
        )
    return status if isinstance(status, int) else 0


def _unexpected(error: Exception) -> str:
    from storage.remote import is_transport_error

    what = " ".join(f"{type(error).__name__}: {error}".split())
    if is_transport_error(error):
        return (
            f"the object store does not answer: {what}. What was finished is kept; look at the "
            "endpoint, the login and the bucket's name, then run the same command again."
        )
    return (
        f"this is a fault of stepmark's: {what}. What was finished is kept; `stepmark --debug …` "
        "shows where it happened."
    )


def _as_interrupt(_: int, __: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


def _own_config(folder: Path, overrides: Sequence[str]) -> "RunConfig":
    from flows.run_config import config_from_json

    return config_from_json(folder / "config.json", overrides)


def _show_summary(console: Console, folder: Path, manifest: dict[str, object]) -> None:
    from flows.cost_display import cost_figures, model_figures, notes
    from flows.display import figures_table, label_figures
    from flows.selection import rejected_rows
    from flows.wrapping import Figures
    from storage.dataset import labels_path, stored_labels

    labels = {**model_figures(manifest), **label_figures(stored_labels(folder))}
    console.print(figures_table("Labels", labels))
    console.print(figures_table("Cost", cost_figures(manifest)))
    for note in notes(manifest):
        console.print(Figures(note))
    rejected = rejected_rows(folder)
    if rejected:
        first = f"row {rejected[0]['row']}: {rejected[0]['reason']}"
        console.print(
            f"{len(rejected)} rows were no usable problems ({first}); all are in "
            f"{folder / 'selection.json'}",
            markup=False,
        )
    console.print(
        f"Dataset: {folder} (labels in {labels_path(folder)}, counts in manifest.json)",
        markup=False,
    )


if __name__ == "__main__":  # `accelerate launch -m flows.cli train …`
    main()
