"""The Prefect flow `publish-dataset`: the current labels of a dataset onto the Hub, in one task."""

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from flows.artifacts import publish_figures, publish_gates
from flows.flow_parameters import ConfigFile, Folder, Overrides, check_publish_dataset
from flows.publish import publish as run_publish
from pipeline.errors import GateError, HubError
from storage.publish_config import PublishConfig


@flow(
    name="publish-dataset",
    flow_run_name="publish-dataset {dataset}",
    validate_parameters=True,
    persist_result=False,
)
def publish_dataset(
    dataset: Folder, config: ConfigFile | None = None, overrides: Overrides = ()
) -> dict[str, Any]:
    """Publish the current labels of `dataset`, as the config's section [publish] says.

    Returns the commit, the tag, the gates and the files.

    Args:
        dataset: The dataset folder that generate-labels wrote.
        config: The config file; by default the dataset's own config.
        overrides: Changed keys of the config, as in publish.repo=org/name.
    """
    options, folder = check_publish_dataset(dataset=dataset, config=config, overrides=overrides)
    return publish(folder, options)


def is_hub_failure(_task: object, _run: TaskRun, state: State[Any]) -> bool:
    """Only the Hub may be better later: gates, configs and files stay as they are."""
    return isinstance(state.data, HubError)


@task(
    task_run_name="publish {dataset}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=2,
    retry_delay_seconds=[60, 600],
    retry_condition_fn=is_hub_failure,
)
def publish(dataset: Path, options: PublishConfig) -> dict[str, Any]:
    """`flows.publish.publish`."""
    try:
        report = run_publish(dataset, options)
    except GateError as error:
        publish_gates("gates", f"{dataset}: not published", error.gates)
        raise
    commit = report.commit
    assert commit is not None
    what = "published" if commit.is_new else "unchanged, no commit made"
    get_run_logger().info("%s: %s, commit %s, tag %s", report.repo, what, commit.commit, commit.tag)
    shown = report.as_json()
    publish_gates("gates", f"{dataset}: {what}", shown["gates"])
    publication = {"repo": report.repo, "commit": commit.commit, "tag": commit.tag, "": what}
    publish_figures("publication", f"{dataset}: publication", publication)
    return shown
