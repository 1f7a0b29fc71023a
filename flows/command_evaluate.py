"""The command `stepmark evaluate`: what a PRM's scores are worth. See docs/evaluate.md."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from flows.cli_options import SetOption
from pipeline.errors import ConfigError
from pipeline.samplers.interrupts import interrupts_deferred

if TYPE_CHECKING:
    from flows.run_config import RunConfig
    from flows.scored_evaluation import NamedScorer, Scorers
    from search.evaluate import SearchReport
    from search.known_steps import KnownSteps
    from search.scoring import ScorerRole
    from search.step_report import StepReport

PrmOption = Annotated[str, typer.Option(help="A PRM folder that train wrote.")]
CandidatesConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="Best-of-N on the problems that this config's evaluate section names.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Dataset folder of the candidates; default: PRM folder + -candidates."),
]
DatasetOption = Annotated[
    Path | None, typer.Option(help="Step figures on this dataset: generated or imported.")
]
SplitOption = Annotated[str | None, typer.Option(help="Only this split of --dataset.")]
ProcessBench = Annotated[
    list[Path] | None,
    typer.Option(help="Step figures on ProcessBench files (jsonl, Parquet); may be repeated."),
]
OrmOption = Annotated[
    str | None, typer.Option(help="An ORM folder, to stand beside best-of-N by the PRM.")
]
CompareOption = Annotated[
    str | None, typer.Option(help="A second PRM, compared on the same steps and candidates.")
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(help="A step below it counts as wrong; default: chosen on held-out problems."),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write all figures here.")]
PlotsOption = Annotated[Path | None, typer.Option(help="Write plots (PNG, SVG) into this folder.")]


def evaluate(
    prm: PrmOption,
    config: CandidatesConfig = None,
    out: OutOption = None,
    dataset: DatasetOption = None,
    split: SplitOption = None,
    processbench: ProcessBench = None,
    orm: OrmOption = None,
    compare: CompareOption = None,
    threshold: ThresholdOption = None,
    json_: JsonOption = None,
    plots: PlotsOption = None,
    set_: SetOption = None,
) -> None:
    """Say what the PRM's scores are worth: on steps of known truth, and in best-of-N.

    With --dataset or --processbench: step AUC, Brier score, calibration, first errors. With
    --config: best-of-N on unseen problems beside majority vote, pass@1 and pass@N, and, of demo
    problems, the step figures against exact truth. Intervals are 95 % bootstraps over problems.
    """
    request = _Request(
        prm, config, out, dataset, split, tuple(processbench or ()), orm, compare, threshold, json_,
        plots, tuple(set_ or ()),
    )  # fmt: skip
    _check(request)
    _evaluate(request, Console())


@dataclass(frozen=True, slots=True)
class _Request:
    prm: str
    config: Path | None
    out: Path | None
    dataset: Path | None
    split: str | None
    process_bench: tuple[Path, ...]
    orm: str | None
    compare: str | None
    threshold: float | None
    json: Path | None
    plots: Path | None
    overrides: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """What was asked for, for the file of figures."""
        return {
            "prm": self.prm,
            "orm": self.orm,
            "second-prm": self.compare,
            "config": _text(self.config),
            "set": list(self.overrides),
            "dataset": _text(self.dataset),
            "split": self.split,
            "processbench": [str(file) for file in self.process_bench],
            "threshold": self.threshold,
        }


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _check(request: _Request) -> None:
    if request.config is None and request.dataset is None and not request.process_bench:
        raise ConfigError(
            "there is nothing to evaluate on: give --config (best-of-N), --dataset or "
            "--processbench (step figures), or several of them"
        )
    threshold = request.threshold
    if threshold is not None and not (math.isfinite(threshold) and 0 <= threshold <= 1):
        raise ConfigError(f"--threshold {threshold} is no number in [0, 1], as scores are")
    if request.split is not None and request.dataset is None:
        raise ConfigError("--split is a split of --dataset, which is not given")
    if request.config is None:
        for name, value in (("orm", request.orm), ("out", request.out), ("set", request.overrides)):
            if value:
                raise ConfigError(f"--{name} is about best-of-N, which needs --config")


def _evaluate(request: _Request, console: Console) -> None:
    from flows.run_config import load_config
    from flows.scored_evaluation import report_steps
    from storage.files import write_json

    config = load_config(request.config, request.overrides) if request.config else None
    groups = _read_groups(request)
    scorers = _open_scorers(request)
    folder = _candidates_folder(request) if config else None
    steps: list[StepReport] = []
    if groups:
        seed = config.seed if config else 0
        steps = report_steps(groups, scorers, threshold=request.threshold, seed=seed)
        _show_steps(steps, console)
    search = None
    if config is not None and folder is not None:
        search, exact = _best_of_n(config, folder, scorers, request.threshold, console)
        steps += exact
    lost = {role: named.num_lost_steps for role, named in scorers.items() if named.num_lost_steps}
    _show_lost_steps(lost, console)
    if request.json is not None:
        content = {
            "inputs": request.as_json(),
            "lost_steps": lost,
            "steps": [one.as_json() for one in steps],
            "best_of_n": None if search is None else search.as_json(),
        }
        write_json(request.json, content)
    if request.plots is not None:
        _write_plots(request.plots, steps, search, config)
        console.print(f"Plots: {request.plots}", markup=False, highlight=False)


def _read_groups(request: _Request) -> list["KnownSteps"]:
    from flows.known_steps import dataset_steps, process_bench_steps
    from flows.progress import counting_progress
    from storage.dataset import dataset_path

    groups: list[KnownSteps] = []
    if request.dataset is not None:
        groups += dataset_steps(dataset_path(request.dataset), split=request.split)
    if request.process_bench:
        with counting_progress("reading", unit="KiB") as on_progress:
            groups += process_bench_steps(request.process_bench, on_progress=on_progress)
    return groups


def _open_scorers(request: _Request) -> dict["ScorerRole", "NamedScorer"]:
    from flows.scored_evaluation import NamedScorer
    from search.scoring import Aggregation, ScorerRole

    with interrupts_deferred():
        from train.open_scorer import open_scorer
    scorers = {ScorerRole.PRM: NamedScorer(request.prm, open_scorer(request.prm))}
    if request.compare is not None:
        second = NamedScorer(request.compare, open_scorer(request.compare))
        scorers[ScorerRole.SECOND_PRM] = second
    if request.orm is not None:
        orm = open_scorer(request.orm)
        if orm.aggregation != Aggregation.LAST:
            raise ConfigError(
                f"--orm {request.orm}: this model's aggregation is {orm.aggregation!r}, so it is a "
                "PRM; train an ORM with --set train.objective=orm"
            )
        scorers[ScorerRole.ORM] = NamedScorer(request.orm, orm)
    return scorers


def _candidates_folder(request: _Request) -> Path:
    from storage.dataset import dataset_path

    if request.out is not None:
        return dataset_path(request.out)
    folder = Path(request.prm).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"--prm {request.prm} is no local folder: give --out for the candidates")
    return dataset_path(folder.with_name(folder.name + "-candidates"))


def _best_of_n(
    config: "RunConfig",
    folder: Path,
    scorers: "Scorers",
    threshold: float | None,
    console: Console,
) -> tuple["SearchReport", list["StepReport"]]:
    """Sample, score, show; also the step figures, where exact truth is known."""
    from flows.evaluation import compare_methods, sample_candidates
    from flows.evaluation_display import comparison_table, search_sentence, search_table
    from flows.progress import sampling_progress
    from flows.scored_evaluation import report_exact, score_by_all
    from flows.wrapping import Figures

    with sampling_progress("candidates") as on_progress:
        problems = sample_candidates(config, folder, on_progress=on_progress)
    scored = score_by_all(problems, scorers)
    exact = report_exact(scored, threshold=threshold, seed=config.seed)
    _show_steps(exact, console)
    report, aggregation = compare_methods(config, scored), config.evaluate.aggregation
    console.print(search_table(report, aggregation))
    console.print(comparison_table(report, aggregation))
    console.print(Figures(search_sentence(report, aggregation)))
    return report, exact


def _show_steps(reports: Sequence["StepReport"], console: Console) -> None:
    from flows.evaluation_display import reliability_table, step_sentences, step_table
    from flows.wrapping import Figures

    for report in reports:
        console.print(step_table(report))
        console.print(reliability_table(report))
        for sentence in step_sentences(report):
            console.print(Figures(sentence))


def _show_lost_steps(lost: Mapping["ScorerRole", int], console: Console) -> None:
    from flows.evaluation_display import SCORER_NAMES
    from flows.wrapping import Figures

    for role, num in lost.items():
        what = f"{num:,} steps end beyond the model's length and count with a score of 0"
        console.print(Figures(f"{SCORER_NAMES[role]}: {what}."))


def _write_plots(
    folder: Path,
    steps: Sequence["StepReport"],
    search: "SearchReport | None",
    config: "RunConfig | None",
) -> None:
    from flows.evaluation_plots import write_search_plots, write_step_plots

    write_step_plots(steps, folder)
    if search is not None and config is not None:
        write_search_plots(search, folder, aggregation=config.evaluate.aggregation)
