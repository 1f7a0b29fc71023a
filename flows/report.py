"""The noise report of a dataset: figures for a machine, and a page for a person.

One pass over the labels and one over the journal, each in bounded memory (besides the ids of
the problems and, where given, the human labels). Nothing is loaded that runs a model. Labels
are those of the snapshot; rollouts are what is stored now, which is more while a run draws.
What each figure means is in docs/report.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flows.ledger import CostLedger, as_json
from flows.report_examples import ExampleKind, Examples
from flows.report_figures import (
    Figures,
    human_figures,
    intervals_figures,
    label_noise_figures,
    revived_figures,
    rollouts_figures,
    rollouts_per_step_figures,
)
from flows.report_html import report_page
from flows.run_config import RunConfig, check_config, config_from_json
from flows.selection import decontamination_of
from flows.stored import root_rollouts
from labeling.agreement import Agreement, HumanLabels
from labeling.flips import FlipCurve, prefix_outcomes
from labeling.noise import LabelNoise
from labeling.rollout_noise import RolloutNoise, root_id_of
from pipeline.errors import ConfigError, DataError
from pipeline.records import Problem, Rollout
from storage.dataset import read_manifest, stored_labels
from storage.files import write_json, write_whole
from storage.journal import grouped_rollouts

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Report:
    """`figures` is JSON: numbers, texts, lists; `examples` are for the page."""

    figures: Figures
    examples: Examples


def write_report(
    path: Path, *, html: Path | None = None, json: Path | None = None, human: Path | None = None
) -> Figures:
    """Write the report of the dataset `path` and return its figures.

    By default into the dataset folder, as `report.html` and `report.json`. `human` is a
    dataset folder with human labels. Raises DataError where there are no labels, where a
    file is damaged, or where a target cannot be written (targets are replaced whole), and
    ConfigError where there is no folder `human`.
    """
    report = collect_report(path, human=human)
    page = report_page(report.figures, report.examples)
    write_whole(
        html or path / "report.html",
        lambda temporary: temporary.write_text(page, encoding="utf-8"),
    )
    write_json(json or path / "report.json", report.figures)
    return report.figures


def collect_report(path: Path, *, human: Path | None = None) -> Report:
    """All figures and examples of the dataset `path`; errors as `write_report`."""
    manifest = read_manifest(path)
    config = _config_of(path, manifest)
    threshold = config.labels.hard_threshold
    agreement = Agreement(_human_labels(human), threshold) if human else None
    labels, examples = LabelNoise(threshold), Examples()
    problem_ids: set[str] = set()
    for solution in stored_labels(path):
        problem_ids.add(solution.problem.problem_id)
        examples.tell(solution, labels.tell(solution))
        if agreement:
            agreement.tell(solution)
    rollouts, flips = _read_journal(path, manifest, config, problem_ids, examples)
    figures: Figures = {
        "report_version": REPORT_VERSION,
        "dataset": _dataset(path, manifest, config, rollouts),
        "labels": {"problems": len(problem_ids), **label_noise_figures(labels)},
        "intervals": intervals_figures(labels, target=config.allocation.max_interval_width),
        "rollouts_per_step": rollouts_per_step_figures(labels),
        "flips": [asdict(row) for row in flips.rows()],
        "revived": revived_figures(labels),
        "rollouts": rollouts_figures(rollouts),
        "cost": _cost(path, manifest),
        "human": human_figures(agreement) if agreement else None,
        "decontamination": _decontamination(path),
        "examples": {
            kind.value: [one.solution_id for one in examples.shown(kind)] for kind in ExampleKind
        },
    }
    return Report(figures, examples)


def _config_of(path: Path, manifest: Mapping[str, object]) -> RunConfig:
    """The config that the labels were made with; the defaults for an imported dataset."""
    config = manifest.get("config")
    if isinstance(config, dict):
        return check_config(config, origin=f"{path / 'manifest.json'}, config")
    own = path / "config.json"
    return config_from_json(own) if own.exists() else RunConfig()


def _human_labels(path: Path) -> HumanLabels:
    if not path.is_dir():
        raise ConfigError(f"--human {path}: there is no such folder; `stepmark import` makes one")
    labels = HumanLabels()
    for solution in stored_labels(path):
        labels.tell(solution)
    if not labels.num_steps:
        raise DataError(f"{path} has no labelled step; give a folder that `stepmark import` wrote")
    return labels


def _read_journal(
    path: Path,
    manifest: Mapping[str, object],
    config: RunConfig,
    problem_ids: set[str],
    examples: Examples,
) -> tuple[RolloutNoise, FlipCurve]:
    """The rollouts that the labels were made from: of their problems and models."""
    completer = str(manifest.get("sampling_digest", ""))
    generator = str(manifest.get("generator_digest") or completer)
    noise, flips = RolloutNoise(), FlipCurve(config.labels.hard_threshold)
    if not completer:
        return noise, flips
    groups = grouped_rollouts(path, sampling_digests={completer, generator})
    for problem_id, rollouts in groups:
        if problem_id not in problem_ids:
            continue
        root_id = root_id_of(problem_id)
        for rollout in rollouts:
            noise.tell(rollout, root_id=root_id)
            examples.tell_rollout(rollout)
        for outcomes in _outcomes(problem_id, rollouts, config, completer, generator):
            flips.tell(outcomes)
    return noise, flips


def _outcomes(
    problem_id: str, rollouts: list[Rollout], config: RunConfig, completer: str, generator: str
) -> Iterator[list[bool]]:
    problem = Problem(problem_id, "", "", "", "")  # a tree needs no more than the id
    solutions = None
    if generator != completer:
        theirs = [one for one in rollouts if one.sampling_digest == generator]
        solutions = root_rollouts(problem, theirs)
        rollouts = [one for one in rollouts if one.sampling_digest == completer]
    return prefix_outcomes(
        problem,
        rollouts,
        steps=config.steps,
        allocation=config.allocation,
        solutions=solutions,
        counts_all=config.refresh.tops_up,
    )


def _dataset(
    path: Path, manifest: Mapping[str, Any], config: RunConfig, rollouts: RolloutNoise
) -> Figures:
    names = ("completer", "generator", "config_digest", "sampling_digest", "generator_digest")
    return {
        "folder": path.absolute().name,
        **{name: manifest.get(name) for name in names},
        "snapshot": manifest.get("snapshot"),
        "schema_version": manifest.get("schema_version"),
        "grader_version": manifest.get("grader_version"),
        "grader_versions_of_rollouts": dict(sorted(rollouts.grader_versions.items())),
        "hard_threshold": config.labels.hard_threshold,
        "policy": config.allocation.policy.value if manifest.get("config") else None,
        "reuse": config.allocation.reuse if manifest.get("config") else None,
        "first_rollout_at": rollouts.first_at or None,
        "last_rollout_at": rollouts.last_at or None,
        "finished_at": manifest.get("finished_at"),
        "counts": manifest.get("counts"),
    }


def _cost(path: Path, manifest: Mapping[str, Any]) -> Figures:
    cost = manifest.get("cost")
    has_ledger = (path / "cost.json").exists()
    return {
        **(dict(cost) if isinstance(cost, dict) else {}),
        "runs": [as_json(run) for run in CostLedger(path).runs] if has_ledger else [],
    }


def _decontamination(path: Path) -> Figures | None:
    return decontamination_of(path) if (path / "selection.json").exists() else None
