"""The Prefect flow `train-prm`: a PRM from a dataset's labels, in one task."""

from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE

from flows.artifacts import ProgressArtifact, publish_train_report
from flows.flow_parameters import ConfigFile, Folder, Overrides, check_train_prm
from storage.dataset import labels_path
from train.config import TrainConfig

PROGRESS_SECONDS = 5.0
"""Between updates of the progress artifact."""


@flow(
    name="train-prm",
    flow_run_name="train-prm {dataset} to {out}",
    validate_parameters=True,
    persist_result=False,
)
def train_prm_flow(
    dataset: Folder, out: Folder, config: ConfigFile | None = None, overrides: Overrides = ()
) -> dict[str, Any]:
    """Train a PRM on the labels of `dataset` into the folder `out`.

    Returns the report that is also in `out`, with the PRM's path.

    Args:
        dataset: The dataset folder that generate-labels wrote.
        out: The folder of the PRM; an earlier PRM in it is replaced.
        config: The config file; by default the dataset's own config.
        overrides: Changed keys of the config, as in train.epochs=3.
    """
    resolved, folder, prm = check_train_prm(
        dataset=dataset, out=out, config=config, overrides=overrides
    )
    return train(folder, prm, resolved.train, step_method=resolved.steps.method)


@task(task_run_name="train {out}", cache_policy=NO_CACHE, persist_result=False)
def train(
    dataset: Path, out: Path, config: TrainConfig, *, step_method: str | None = None
) -> dict[str, Any]:
    """`train.trainer.train_prm`, with progress; the report becomes an artifact."""
    from train.trainer import train_prm

    artifact = ProgressArtifact("training-progress", f"PRM {out}")
    published = monotonic()

    def on_progress(num_done: int, num_updates: int) -> None:
        nonlocal published
        artifact.note(100 * num_done / max(num_updates, 1), f"{num_done}/{num_updates} updates")
        if num_done == num_updates or monotonic() - published >= PROGRESS_SECONDS:
            artifact.publish()
            published = monotonic()

    report = train_prm(
        labels_path(dataset), out, config, step_method=step_method, on_progress=on_progress
    )
    publish_train_report("training-report", str(out), report)
    get_run_logger().info("%s: last epoch's loss %.4f", out, report.train_loss)
    return {"prm": str(out), **asdict(report)}
