"""The Prefect flow `refresh-labels`: `flows.refresh` as tasks, for one nightly deployment.

generate (the tasks of generate-labels) → report and what changed → gates and publishing. The
lock is held until the report is written. Labels that the gates refuse stay the current ones,
and the run ends as Failed: someone has to look. `say_what_to_do` then says what to do; what
Prefect's automations can be triggered by is in docs/prefect.md.
"""

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event

from flows.artifacts import publish_figures, publish_link
from flows.failure_hook import say_what_to_do
from flows.flow_parameters import ConfigFile, Folder, Overrides, check_generate_labels
from flows.generate_labels import run_stages
from flows.publish_dataset import publish
from flows.refresh import REPORT_PAGE, Refreshed, is_publishing_due, report_changes
from storage.dataset import current_snapshot
from storage.lock import dataset_lock
from storage.remote import is_remote

FINISHED = "stepmark.refresh.finished"
"""The event at the end of a refresh; its resource is `stepmark.dataset.<folder>`."""


@flow(
    name="refresh-labels",
    flow_run_name="refresh-labels {out}",
    validate_parameters=True,
    persist_result=False,
    on_failure=[say_what_to_do],
    on_crashed=[say_what_to_do],
)
def refresh_labels(config: ConfigFile, out: Folder, overrides: Overrides = ()) -> dict[str, Any]:
    """Label into the dataset folder `out` what is new or changed, report, and publish.

    Returns the summary of generate-labels, the snapshot before, and the publication: None
    where `publish.repo` is not set or holds these labels already.

    Args:
        config: The config file; relative paths are relative to the checkout.
        out: The dataset folder; it is continued if it exists.
        overrides: Changed keys of the config, as in publish.repo=org/name.
    """
    resolved, dataset = check_generate_labels(config=config, out=out, overrides=overrides)
    with dataset_lock(dataset):
        before = current_snapshot(dataset)
        summary = run_stages(resolved, dataset)
        refreshed = report_labels(dataset, before)
    publication = None
    if is_publishing_due(dataset, resolved.publish):
        publication = publish(dataset, resolved.publish)
    _emit_finished(dataset, refreshed, publication)
    return {**summary, "snapshot_before": before, "publication": publication}


@task(task_run_name="report labels of {out}", cache_policy=NO_CACHE, persist_result=False)
def report_labels(out: Path, before: str | None) -> Refreshed:
    """`refresh.report_changes`; what changed, and where the report is, become artifacts."""
    refreshed = report_changes(out, before)
    page = out / REPORT_PAGE
    link = str(page) if is_remote(out) else page.absolute().as_uri()
    written = "written" if refreshed.is_new_report else "as it was: nothing changed"
    publish_figures("what-changed", f"{out}: what changed", refreshed.figures())
    publish_link("report", f"{page}, {written}", link)
    figures = "; ".join(f"{name}: {value}" for name, value in refreshed.figures().items())
    get_run_logger().info("%s: %s; report %s", out, figures, written)
    return refreshed


def _emit_finished(dataset: Path, refreshed: Refreshed, publication: dict[str, Any] | None) -> None:
    """For automations, which match the resource's labels; a notification shows the payload."""
    is_published = publication is not None and bool(publication["is_new"])
    emit_event(
        FINISHED,
        resource={
            "prefect.resource.id": f"stepmark.dataset.{dataset}",
            "prefect.resource.name": str(dataset),
            "stepmark.labels": "changed" if refreshed.has_new_labels else "unchanged",
            "stepmark.published": "yes" if is_published else "no",
        },
        payload={
            "dataset": str(dataset),
            "snapshot": refreshed.snapshot,
            "what_changed": refreshed.figures(),
            "commit": publication and publication["commit"],
            "tag": publication and publication["tag"],
        },
    )
