"""`stepmark demo`: labels, PRM, best-of-N table, on the bundled parts.

Labelling and training run as the same Prefect flows that a deployment runs, on a
temporary Prefect server whose files lie in the output folder.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from flows.display import (
    figures_table,
    label_figures,
    solution_panel,
    truth_figures,
)
from flows.evaluation import evaluate, truth_agreement
from flows.evaluation_display import search_sentence, search_table
from flows.progress import sampling_progress
from flows.run_config import RunConfig
from flows.wrapping import Figures
from pipeline.records import LabeledSolution
from storage.dataset import read_labels
from storage.files import write_json

NUM_SHOWN = 3


def run_demo(
    config: RunConfig, config_path: Path, overrides: Sequence[str], out: Path, *, console: Console
) -> None:
    """Run the main job of `config` into `out` and show the result.

    `config_path` and `overrides` are what `config` was loaded from: flows take those.
    """
    dataset, prm = out / "dataset", out / "prm"
    _use_temporary_server(out / "prefect")
    from flows.generate_labels import generate_labels
    from flows.train_prm import train_prm_flow

    logging.getLogger("flows").setLevel(logging.INFO)  # the flows' progress
    console.rule("1. Label: solutions, steps, rollouts, grades")
    generate_labels(config=str(config_path), overrides=tuple(overrides), out=str(dataset))
    solutions = read_labels(dataset)
    for solution in pick_shown(solutions):
        console.print(solution_panel(solution))
    console.print(figures_table("Labels", label_figures(solutions)))
    if config.problems.source == "demo":
        agreement = truth_agreement(solutions, threshold=config.labels.hard_threshold)
        console.print(figures_table("Against exact truth", truth_figures(agreement)))

    console.rule("2. Train a PRM on the labels")
    train_prm_flow(dataset=str(dataset), out=str(prm), overrides=tuple(overrides))

    console.rule("3. Let the PRM pick solutions of unseen problems")
    from train.scorer import PrmScorer

    with sampling_progress("candidates") as on_progress:
        report = evaluate(
            config, out / "candidates", scorer=PrmScorer.load(prm), on_progress=on_progress
        )
    write_json(out / "best_of_n.json", report.as_json())
    console.print(search_table(report, config.evaluate.aggregation))
    console.print(Figures(search_sentence(report, config.evaluate.aggregation)))
    console.print(f"Everything is in {out}: dataset/, prm/, candidates/, best_of_n.json")


def pick_shown(solutions: Sequence[LabeledSolution]) -> list[LabeledSolution]:
    """A few solutions that show something: errors at different steps, and a right one."""
    shown: dict[int, LabeledSolution] = {}
    for solution in solutions:
        is_new = solution.problem not in [other.problem for other in shown.values()]
        if is_new and 2 <= len(solution.steps) <= 6:
            shown.setdefault(solution.first_error(), solution)
    errors = [shown[index] for index in sorted(shown, reverse=True) if index >= 0]
    right = [shown[-1]] if -1 in shown else []
    return (right + errors)[:NUM_SHOWN]


def _use_temporary_server(home: Path) -> None:
    """Point Prefect at files of ours, before it is imported."""
    home = home.resolve()
    home.mkdir(parents=True, exist_ok=True)  # without it Prefect's server cannot start
    os.environ.pop("PREFECT_API_URL", None)
    os.environ |= {
        "PREFECT_HOME": str(home),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "results"),
        "PREFECT_SERVER_MEMO_STORE_PATH": str(home / "memo.toml"),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "DO_NOT_TRACK": "1",
    }
