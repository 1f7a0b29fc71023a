"""What a flow run shows on Prefect's pages: progress, label statistics, what was left out.

A server that does not answer costs the picture, never the run: that is logged.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, cast
from uuid import UUID

import httpx
from prefect.artifacts import (
    create_link_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.exceptions import PrefectException

from flows.sampling import Progress

if TYPE_CHECKING:
    from train.trainer import TrainReport

logger = logging.getLogger(__name__)

_MAX_REASONS = 50


class ProgressArtifact:
    """A bar on the run's page; `publish` shows the latest of what `note` was told."""

    def __init__(self, key: str, description: str) -> None:
        self._description = description
        self._latest: tuple[float, str] | None = None
        self._artifact_id = _publish(
            lambda: create_progress_artifact(0.0, key=key, description=description)
        )

    def note(self, percent: float, detail: str) -> None:
        """Keep for the next `publish`; from any thread."""
        self._latest = (percent, f"{self._description}: {detail}")

    def publish(self) -> None:
        """Show the latest note, if there is a new one."""
        latest, self._latest = self._latest, None
        artifact_id = self._artifact_id
        if latest is not None:
            logger.info("%s", latest[1])
        if latest is not None and artifact_id is not None:
            _publish(lambda: update_progress_artifact(artifact_id, latest[0], latest[1]))


def note_sampling(artifact: ProgressArtifact, progress: Progress) -> None:
    """Problems done, of all; rollouts and tokens of this run."""
    percent = 100 * progress.num_done / progress.num_problems if progress.num_problems else 100.0
    rate = progress.num_tokens / progress.seconds if progress.seconds else 0.0
    artifact.note(
        percent,
        f"{progress.num_done}/{progress.num_problems} problems, {progress.num_rollouts} rollouts, "
        f"{rate:,.0f} tokens/s",
    )


def publish_figures(key: str, description: str, figures: Mapping[str, object]) -> None:
    """A table of two columns."""
    table = [{"figure": name, "value": str(value)} for name, value in figures.items()]
    _publish(lambda: create_table_artifact(table, key=key, description=description))


def publish_rejected_rows(key: str, dataset: str, rejected: Sequence[Mapping[str, object]]) -> None:
    """How many rows were no usable problems, by reason, with the first row of each."""
    counts = Counter(str(one["reason"]) for one in rejected)
    first_rows: dict[str, object] = {}
    for one in rejected:
        first_rows.setdefault(str(one["reason"]), one["row"])
    table = [
        {"reason": reason, "rows": count, "first row": first_rows[reason]}
        for reason, count in counts.most_common(_MAX_REASONS)
    ]
    description = f"{dataset}: {len(rejected)} rejected rows; all are in selection.json"
    _publish(lambda: create_table_artifact(table, key=key, description=description))


def publish_link(key: str, description: str, link: str) -> None:
    """A link, with its address as the text: browsers do not open files from a server's page."""
    _publish(lambda: create_link_artifact(link, key=key, description=description))


def publish_gates(key: str, description: str, gates: Sequence[Mapping[str, object]]) -> None:
    """The quality gates, as `GateError` and a publication hold them."""
    table = [
        {
            "gate": gate["name"],
            "found": gate["found"],
            "asked for": gate["limit"],
            "": "met" if gate["is_met"] else "NOT MET",
        }
        for gate in gates
    ]
    _publish(lambda: create_table_artifact(table, key=key, description=description))


def publish_text_of_run(key: str, text: str, flow_run_id: UUID) -> None:
    """Markdown on a run's page, also from a process that does not run it, such as a hook's."""
    artifact = ArtifactCreate(key=key, type="markdown", data=text, flow_run_id=flow_run_id)
    with get_client(sync_client=True) as client:
        _publish(lambda: client.create_artifact(artifact).id)


def publish_train_report(key: str, prm: str, report: "TrainReport") -> None:
    """The report's figures, and those of the validation questions."""
    figures = asdict(report)
    validation = figures.pop("validation") or {}
    figures.pop("config")
    figures |= {f"validation {name}": value for name, value in validation.items()}
    publish_figures(key, f"{prm}: training", figures)


def _publish(publish: Callable[[], object]) -> UUID | None:
    try:
        # Prefect's signature allows a coroutine too, for callers in an event loop
        return cast("UUID", publish())
    except (httpx.HTTPError, PrefectException) as error:
        logger.warning("an artifact was not published: %s", error)
        return None
