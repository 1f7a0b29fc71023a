"""The Prefect flow `generate-labels`: the stages of `flows.stages` as tasks.

Tasks hand on the dataset's path only; everything else is read from its folder. The flow
holds the dataset's lock while it runs: that, not Prefect's concurrency limit, is what keeps
two runs apart. A run that was cancelled or killed is continued by the next one.
"""

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from flows import stages
from flows.artifacts import (
    ProgressArtifact,
    note_sampling,
    publish_figures,
    publish_rejected_rows,
)
from flows.cost_display import cost_figures, model_figures
from flows.display import label_figures
from flows.flow_parameters import ConfigFile, Folder, Overrides, check_generate_labels
from flows.interruptible import run_interruptible
from flows.run_config import RunConfig, config_from_json
from flows.sampling import draw_missing
from flows.selection import rejected_rows
from pipeline.errors import EngineError
from storage.dataset import stored_labels
from storage.lock import dataset_lock

PROGRESS_SECONDS = 5.0
"""Between updates of the progress artifact; Prefect's server records few a second."""


@flow(
    name="generate-labels",
    flow_run_name="generate-labels {out}",
    validate_parameters=True,
    persist_result=False,
)
def generate_labels(config: ConfigFile, out: Folder, overrides: Overrides = ()) -> dict[str, Any]:
    """Label the problems of a config into the dataset folder `out`.

    Returns the dataset's path, the config's digest and the counts of the manifest.

    Args:
        config: The config file; relative paths are relative to the checkout.
        out: The dataset folder; it is continued if it exists.
        overrides: Changed keys of the config, as in problems.limit=100.
    """
    resolved, dataset = check_generate_labels(config=config, out=out, overrides=overrides)
    with dataset_lock(dataset):
        return run_stages(resolved, dataset)


def run_stages(config: RunConfig, dataset: Path) -> dict[str, Any]:
    """The stages in their order, each a task; for a flow that holds the dataset's lock."""
    num_problems = prepare_problems(config, dataset)
    get_run_logger().info("%d problems to label in %s", num_problems, dataset)
    regrade_stored(dataset)
    sample_rollouts(dataset)
    counts = snapshot_labels(dataset)
    get_run_logger().info("%d labelled solutions of %s", counts["labeled_solutions"], dataset)
    return finish(dataset, counts)


def is_engine_failure(_task: object, _run: TaskRun, state: State[Any]) -> bool:
    """Only a dead engine is worth a retry: bad configs, files and locks stay bad."""
    return isinstance(state.data, EngineError)


@task(task_run_name="prepare problems of {out}", cache_policy=NO_CACHE, persist_result=False)
def prepare_problems(config: RunConfig, out: Path) -> int:
    """`stages.prepare_problems`; what it rejects becomes an artifact."""
    num_problems = stages.prepare_problems(config, out)
    rejected = rejected_rows(out)
    if rejected:
        get_run_logger().warning("%d rows are no usable problems", len(rejected))
    publish_rejected_rows("rejected-rows", str(out), rejected)
    return num_problems


@task(task_run_name="regrade rollouts of {out}", cache_policy=NO_CACHE, persist_result=False)
def regrade_stored(out: Path) -> None:
    """`stages.begin_run`: stored verdicts of another grader version are made anew."""
    report = stages.begin_run(_own_config(out), out)
    if report.num_regraded:
        flips = ", ".join(f"{n} {name}" for name, n in report.summary()["verdict_flips"].items())
        get_run_logger().info(
            "%d stored rollouts graded anew; flips: %s", report.num_regraded, flips or "none"
        )


@task(
    task_run_name="sample rollouts of {out}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=2,
    retry_delay_seconds=[10, 60],
    retry_condition_fn=is_engine_failure,
)
def sample_rollouts(out: Path) -> None:
    """`sampling.sample_rollouts`, with progress. A retry draws only what is not stored yet."""
    artifact = ProgressArtifact("sampling-progress", f"Rollouts of {out}")
    run_interruptible(
        draw_missing(
            _own_config(out),
            out,
            on_progress=lambda progress: note_sampling(artifact, progress),
            begins_run=False,
        ),
        meanwhile=artifact.publish,
        every_seconds=PROGRESS_SECONDS,
    )
    artifact.publish()


@task(task_run_name="snapshot labels of {out}", cache_policy=NO_CACHE, persist_result=False)
def snapshot_labels(out: Path) -> dict[str, int]:
    """`stages.snapshot_labels`; readers see the labels after `finish`."""
    return stages.snapshot_labels(_own_config(out), out)


@task(task_run_name="finish {out}", cache_policy=NO_CACHE, persist_result=False)
def finish(out: Path, counts: dict[str, int]) -> dict[str, Any]:
    """`stages.finish`; label statistics and cost become artifacts. Returns the flow's summary."""
    manifest = stages.finish(_own_config(out), out, counts=counts)
    labels = {**model_figures(manifest), **label_figures(stored_labels(out))}
    publish_figures("label-statistics", f"{out}: labels", labels)
    publish_figures("cost", f"{out}: cost", cost_figures(manifest))
    return {
        "dataset": str(out),
        "snapshot": manifest["snapshot"],
        "config_digest": manifest["config_digest"],
        "sampling_digest": manifest["sampling_digest"],
        "counts": manifest["counts"],
        "cost": manifest["cost"],
    }


def _own_config(out: Path) -> RunConfig:
    return config_from_json(out / "config.json")
