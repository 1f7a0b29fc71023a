"""`stepmark import` and `stepmark export`: foreign formats of step labels in and out.

An option that the format does not heed is refused, so that nobody takes it for done.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console

from pipeline.config import FrozenConfig
from pipeline.errors import ConfigError, StepmarkError
from storage.formats.options import ExportFormat, ImportFormat, Kept, LabelKind, Neutral

if TYPE_CHECKING:
    from flows.imported import ImportRequest
    from flows.progress import OnCount
    from pipeline.records import LabeledSolution

_Options = TypeVar("_Options", bound=FrozenConfig)

_PAIRS = (ExportFormat.STEP_DPO, ExportFormat.TRL_PREFERENCE)
_OF_IMPORTS = {
    "neutral": (ImportFormat.PRM800K,),
    "keep": (ImportFormat.PRM800K,),
    "num_rollouts": (ImportFormat.TRL_STEPWISE,),
    "separator": (ImportFormat.TRL_STEPWISE,),
}
_OF_EXPORTS = {
    "labels": (ExportFormat.TRL_STEPWISE,),
    "template": (ExportFormat.TRL_STEPWISE, *_PAIRS),
    "task": (ExportFormat.MATH_SHEPHERD,),
    **dict.fromkeys(("high", "low", "margin", "min_graded", "pairs_per_prefix"), _PAIRS),
}

_SHOWN_MALFORMED = 5
_PROGRESS_EVERY = 256


OutFolder = Annotated[Path, typer.Option("--out", help="The new dataset folder.")]
OutFile = Annotated[Path, typer.Option("--out", help="The file: .jsonl or .parquet.")]
SourceFiles = Annotated[list[Path], typer.Argument(help=".jsonl, .jsonl.gz or .parquet files.")]
Source = Annotated[ImportFormat, typer.Argument(metavar="FORMAT", help="What the files are.")]
Target = Annotated[ExportFormat, typer.Argument(metavar="FORMAT", help="What to write.")]
Dataset = Annotated[Path, typer.Argument(help="A dataset folder: generated or imported.")]
NewSplit = Annotated[str, typer.Option("--split", help="The split that the labels make.")]
OnlySplit = Annotated[str | None, typer.Option("--split", help="Only this split (default: all).")]
NeutralOption = Annotated[
    Neutral | None, typer.Option(help="PRM800K: what rating 0 counts as (default: correct).")
]
KeepOption = Annotated[
    list[Kept] | None,
    typer.Option(help="PRM800K: do not leave these out (may be given several times)."),
]
NumRollouts = Annotated[
    int | None, typer.Option(help="TRL: soft labels are shares of so many rollouts.")
]
Separator = Annotated[
    str | None, typer.Option(help="TRL: the text between two steps (default: a line break).")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first malformed row.")]
Labels = Annotated[
    LabelKind | None,
    typer.Option(help="TRL stepwise: TRL's trainer needs hard ones (default: hard)."),
]
Template = Annotated[
    str | None,
    typer.Option(help="TRL, Step-DPO: the prompt, with {question} (default: {question})."),
]
Task = Annotated[
    str | None, typer.Option(help="Math-Shepherd: GSM8K or MATH (default: by the source).")
]
High = Annotated[
    float | None, typer.Option(help="Pairs: least MC value of the chosen step (default: 0.8).")
]
Low = Annotated[
    float | None, typer.Option(help="Pairs: greatest of the rejected step (default: 0.2).")
]
Margin = Annotated[
    float | None, typer.Option(help="Pairs: least difference of the two (default: 0.5).")
]
MinGraded = Annotated[
    int | None,
    typer.Option(
        help="Pairs: least graded rollouts of each step; last steps and imported labels of "
        "one judgement have 1 (default: 8)."
    ),
]
PairsPerPrefix = Annotated[
    int | None, typer.Option(help="Pairs: at most so many, the widest ones (default: 1).")
]


def import_(
    format_: Source,
    files: SourceFiles,
    out: OutFolder,
    split: NewSplit = "train",
    neutral: NeutralOption = None,
    keep: KeepOption = None,
    num_rollouts: NumRollouts = None,
    separator: Separator = None,
    strict: Strict = False,
) -> None:
    """Make a dataset folder of labels in a foreign format: prm800k, math-shepherd,
    trl-stepwise or processbench.

    `show`, `train` and `export` read it like any other. Malformed rows are counted and listed,
    drops are counted by reason; the folder appears whole or not at all.
    """
    from flows.imported import ImportRequest
    from storage.formats.options import ImportOptions
    from storage.remote import local_path

    given = {
        "neutral": neutral,
        "keep": tuple(keep) if keep else None,
        "num_rollouts": num_rollouts,
        "separator": separator,
    }
    options = _checked(ImportOptions, _heeded(given, _OF_IMPORTS, format_))
    request = ImportRequest(tuple(files), format_, options, split=split, strict=strict)
    _import(request, local_path(out))


def export(
    dataset: Dataset,
    format_: Target,
    out: OutFile,
    split: OnlySplit = None,
    labels: Labels = None,
    template: Template = None,
    task: Task = None,
    high: High = None,
    low: Low = None,
    margin: Margin = None,
    min_graded: MinGraded = None,
    pairs_per_prefix: PairsPerPrefix = None,
) -> None:
    """Write a dataset's labels in a foreign format: trl-stepwise, math-shepherd, rlhflow,
    step-dpo or trl-preference.

    Hard labels are those of the dataset's own threshold. The last two are pairs of steps that
    follow the same steps of the same question, one of which often leads to the answer and the
    other seldom. The file appears whole or not at all.
    """
    from storage.dataset import dataset_path
    from storage.remote import local_path

    given = {
        "labels": labels,
        "template": template,
        "task": task,
        "high": high,
        "low": low,
        "margin": margin,
        "min_graded": min_graded,
        "pairs_per_prefix": pairs_per_prefix,
    }
    heeded = _heeded(given, _OF_EXPORTS, format_)
    _export(dataset_path(dataset), local_path(out), format_, heeded, split)


def _import(request: "ImportRequest", folder: Path) -> None:
    from flows.display import figures_table, label_figures, printable
    from flows.imported import import_dataset
    from flows.progress import counting_progress
    from storage.dataset import stored_labels

    try:
        with counting_progress("reading", unit="KiB") as on_progress:
            report = import_dataset(request, folder, on_progress=on_progress)
    except KeyboardInterrupt as error:
        raise _StoppedError(
            f"stopped. {folder} was not made; run the same command again"
        ) from error
    console = Console()
    console.print(figures_table(f"Imported {request.kind}", _figures(report.counts)))
    console.print(figures_table("Labels", label_figures(stored_labels(folder))))
    for row in report.malformed[:_SHOWN_MALFORMED]:
        what = printable(f"malformed: {row.file}, row {row.row}: {row.reason}")
        console.print(what, markup=False, highlight=False)
    if report.malformed:
        console.print(
            f"{report.counts['rows malformed']} rows were malformed; the first "
            f"{len(report.malformed)} are in {folder / 'selection.json'}",
            markup=False,
        )
    console.print(f"Dataset: {folder} (what was left out: manifest.json)", markup=False)


def _export(
    folder: Path, out: Path, kind: ExportFormat, heeded: Mapping[str, Any], split: str | None
) -> None:
    from flows.display import figures_table
    from flows.progress import counting_progress
    from flows.run_config import config_from_json
    from storage.dataset import stored_labels
    from storage.formats.options import ExportOptions
    from storage.formats.writing import check_suffix, write_foreign

    check_suffix(out)
    threshold = config_from_json(folder / "config.json").labels.hard_threshold
    options = _checked(ExportOptions, {**heeded, "hard_threshold": threshold})
    try:
        with counting_progress("writing", unit="solutions") as on_progress:
            stored = stored_labels(folder, split=split)
            solutions = _watched(stored, on_progress, _num_solutions(folder))
            counts = write_foreign(out, solutions, kind, options)
    except KeyboardInterrupt as error:
        raise _StoppedError(f"stopped. {out} is as it was; run the same command again") from error
    console = Console()
    console.print(figures_table(f"Exported {kind}", _figures(counts)))
    console.print(f"File: {out}", markup=False)


class _StoppedError(StepmarkError):
    """Ctrl-C, where more is known than that."""

    exit_code = 130


def _heeded(
    given: Mapping[str, Any],
    heeding: Mapping[str, tuple[ImportFormat | ExportFormat, ...]],
    kind: ImportFormat | ExportFormat,
) -> dict[str, Any]:
    """The options that were given. Raises ConfigError for one that `kind` does not heed."""
    found = {name: value for name, value in given.items() if value is not None}
    for name in found:
        if kind not in heeding[name]:
            raise ConfigError(
                f"--{name.replace('_', '-')} is only for {' and '.join(heeding[name])}, not for "
                f"{kind}; leave it away"
            )
    return found


def _checked(model: type[_Options], values: Mapping[str, Any]) -> _Options:
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = f"--{str(first['loc'][0]).replace('_', '-')}: " if first["loc"] else ""
        raise ConfigError(f"{name}{first['msg'].removeprefix('Value error, ')}") from error


def _figures(counts: Counter[str]) -> dict[str, str]:
    return {what: f"{n:,}" for what, n in sorted(counts.items()) if n}


def _num_solutions(folder: Path) -> int:
    from storage.dataset import read_manifest

    counts = read_manifest(folder).get("counts")
    return int(counts.get("labeled_solutions", 0)) if isinstance(counts, dict) else 0


def _watched(
    solutions: "Iterable[LabeledSolution]", on_progress: "OnCount", total: int
) -> "Iterator[LabeledSolution]":
    for number, solution in enumerate(solutions, start=1):
        yield solution
        if number % _PROGRESS_EVERY == 0:
            on_progress(number, total)
