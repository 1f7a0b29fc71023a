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
    from search.best_of_n import ProblemCandidates
    from search.evaluate import SearchReport
    from search.known_steps import KnownSteps
    from search.scoring import ScorerRole, StepScorer
    from search.step_report import StepReport

PrmOption = Annotated[str, typer.Option(help="A PRM folder that train wrote.")]
CandidatesConfig = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Best-of-N on this config's [evaluate] problems."),
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
    from storage.files import write_json

    config = load_config(request.config, request.overrides) if request.config else None
    groups = _read_groups(request)
    scorers = _open_scorers(request)
    candidates_folder = _candidates_folder(request) if request.config else None
    seed = 0 if config is None else config.seed
    steps = _step_reports(groups, scorers, request, seed=seed) if groups else []
    _show_steps(steps, console)
    search = None
    if config is not None and candidates_folder is not None:
        scored = _scored_candidates(config, candidates_folder, scorers)
        exact = _exact_reports(scored, request, seed=seed)
        _show_steps(exact, console)
        steps += exact
        search = _compare_methods(config, scored, console)
    if request.json is not None:
        content = {
            "inputs": request.as_json(),
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


def _open_scorers(request: _Request) -> dict["ScorerRole", tuple[str, "StepScorer"]]:
    """Each role's source and scorer."""
    from search.scoring import Aggregation, ScorerRole

    with interrupts_deferred():
        from train.open_scorer import open_scorer
    scorers: dict[ScorerRole, tuple[str, StepScorer]] = {
        ScorerRole.PRM: (request.prm, open_scorer(request.prm))
    }
    if request.compare is not None:
        scorers[ScorerRole.SECOND_PRM] = (request.compare, open_scorer(request.compare))
    if request.orm is not None:
        orm = open_scorer(request.orm)
        if orm.aggregation != Aggregation.LAST:
            raise ConfigError(
                f"--orm {request.orm}: this model's aggregation is {orm.aggregation!r}, so it is a "
                "PRM; train an ORM with --set train.objective=orm"
            )
        scorers[ScorerRole.ORM] = (request.orm, orm)
    return scorers


def _step_reports(
    groups: Sequence["KnownSteps"],
    scorers: Mapping["ScorerRole", tuple[str, "StepScorer"]],
    request: _Request,
    *,
    seed: int,
) -> list["StepReport"]:
    from flows.evaluation_display import SCORER_NAMES
    from flows.known_steps import is_held_out
    from flows.progress import counting_progress
    from search.known_steps import score_known
    from search.scoring import ScorerRole
    from search.step_report import step_report

    scored: dict[ScorerRole, list[KnownSteps]] = {}
    for role, (source, scorer) in scorers.items():
        if role is ScorerRole.ORM:  # it judges whole solutions
            continue
        what = f"{SCORER_NAMES[role]} scores steps"
        with counting_progress(what, unit="solutions") as on_progress:
            scored[role] = score_known(groups, scorer=scorer, name=source, on_progress=on_progress)
    return [
        step_report(
            {role: of_role[index] for role, of_role in scored.items()},
            is_held_out=is_held_out,
            threshold=request.threshold,
            seed=seed,
        )
        for index in range(len(groups))
    ]


def _scored_candidates(
    config: "RunConfig",
    folder: Path,
    scorers: Mapping["ScorerRole", tuple[str, "StepScorer"]],
) -> dict["ScorerRole", list["ProblemCandidates"]]:
    from flows.evaluation import sample_candidates
    from flows.evaluation_display import SCORER_NAMES
    from flows.progress import counting_progress, sampling_progress
    from search.best_of_n import score_candidates

    with sampling_progress("candidates") as on_sampled:
        problems = sample_candidates(config, folder, on_progress=on_sampled)
    scored: dict[ScorerRole, list[ProblemCandidates]] = {}
    for role, (source, scorer) in scorers.items():
        what = f"{SCORER_NAMES[role]} scores candidates"
        with counting_progress(what, unit="solutions") as on_progress:
            scored[role] = score_candidates(
                problems, scorer=scorer, name=source, on_progress=on_progress
            )
    return scored


def _candidates_folder(request: _Request) -> Path:
    from storage.dataset import dataset_path

    if request.out is not None:
        return dataset_path(request.out)
    folder = Path(request.prm).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"--prm {request.prm} is no local folder: give --out for the candidates")
    return dataset_path(folder.with_name(folder.name + "-candidates"))


def _exact_reports(
    scored: Mapping["ScorerRole", Sequence["ProblemCandidates"]], request: _Request, *, seed: int
) -> list["StepReport"]:
    from flows.known_steps import candidate_steps, is_held_out
    from search.scoring import ScorerRole
    from search.step_report import step_report

    groups = {
        role: group
        for role, problems in scored.items()
        if role is not ScorerRole.ORM and (group := candidate_steps(problems)) is not None
    }
    if not groups:
        return []
    report = step_report(groups, is_held_out=is_held_out, threshold=request.threshold, seed=seed)
    return [report]


def _show_steps(reports: Sequence["StepReport"], console: Console) -> None:
    from flows.evaluation_display import reliability_table, step_sentences, step_table
    from flows.wrapping import Figures

    for report in reports:
        console.print(step_table(report))
        for scorer in report.scorers:
            console.print(reliability_table(report, scorer))
        for sentence in step_sentences(report):
            console.print(Figures(sentence))


def _compare_methods(
    config: "RunConfig",
    scored: Mapping["ScorerRole", Sequence["ProblemCandidates"]],
    console: Console,
) -> "SearchReport":
    from flows.evaluation import compare_methods
    from flows.evaluation_display import comparison_table, search_sentence, search_table
    from flows.wrapping import Figures

    report = compare_methods(config, scored)
    console.print(search_table(report))
    console.print(comparison_table(report))
    console.print(Figures(search_sentence(report, config.evaluate.aggregation)))
    return report


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
