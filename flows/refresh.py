"""`stepmark refresh`: a night's work on a dataset, after which its labels are those of the config.

Label what is new or changed (`stages.generate`), write the report where it does not speak of
the current labels, compare them with those before; then, where `publish.repo` is set and does
not hold them yet, publish. Each part looks at what is there, so a night that was cut short is
made up for by the next one, and one with nothing new samples, reports and publishes nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.diff_display import diff_figures
from flows.publish import publish_settings
from flows.report import REPORT_VERSION, write_report
from flows.run_config import RunConfig
from flows.sampling import OnProgress
from flows.stages import generate_while_locked
from pipeline.errors import DataError
from storage.dataset import SNAPSHOTS, current_snapshot, read_manifest
from storage.diff import LabelDiff, diff_labels
from storage.lock import dataset_lock
from storage.publish_config import PublishConfig
from storage.published import read_published

REPORT_PAGE, REPORT_FIGURES = "report.html", "report.json"


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The current snapshot, the one that was current before (None for the first labels), what
    changed between them (None where that cannot be told), and whether the report was written.
    """

    snapshot: str
    before: str | None
    diff: LabelDiff | None
    is_new_report: bool

    @property
    def has_new_labels(self) -> bool:
        """Whether a snapshot was made."""
        return self.snapshot != self.before

    def figures(self) -> dict[str, str]:
        """What changed, in words."""
        if not self.has_new_labels:
            return {"labels": f"unchanged, snapshot {self.snapshot}"}
        if self.before is None:
            return {"labels": f"the first, snapshot {self.snapshot}"}
        if self.diff is None:
            return {
                "labels": f"snapshot {self.before} → {self.snapshot}",
                "compared": f"no: {self.before} is not kept (labels.keep_snapshots)",
            }
        return {"snapshot": f"{self.before} → {self.snapshot}", **diff_figures(self.diff)}


def refresh(config: RunConfig, out: Path, *, on_progress: OnProgress) -> Refreshed:
    """Label the config's problems into `out`, and report; publishes nothing.

    Raises as `stages.generate` and `write_report`.
    """
    with dataset_lock(out):
        before = current_snapshot(out)
        generate_while_locked(config, out, on_progress=on_progress)
        return report_changes(out, before)


def report_changes(out: Path, before: str | None) -> Refreshed:
    """Write the report where it is not of the current labels; compare them with snapshot `before`.

    Under `dataset_lock`, after a finished run. Raises as `write_report`.
    """
    manifest = read_manifest(out)
    snapshot = str(manifest["snapshot"])
    is_due = not _is_reported(out, manifest)
    if is_due:
        write_report(out)
    earlier = out / SNAPSHOTS / str(before)
    is_comparable = before is not None and before != snapshot and earlier.is_dir()
    diff = diff_labels(earlier, out / SNAPSHOTS / snapshot) if is_comparable else None
    return Refreshed(snapshot, before, diff, is_due)


def is_publishing_due(out: Path, config: PublishConfig) -> bool:
    """Whether `publish.repo` is set and was not sent the current labels with these settings.

    As far as `published.json` knows: the Hub is not asked. Gates are no settings: they say
    what may be published, not how.
    """
    if config.repo is None:
        return False
    try:
        last = read_published(out).get(config.repo)
    except DataError:  # publishing says what is wrong with it
        return True
    if last is None or last["snapshot"] != current_snapshot(out):
        return True
    return last.get("settings") != publish_settings(config)


def _is_reported(out: Path, manifest: Mapping[str, Any]) -> bool:
    try:
        figures = json.loads((out / REPORT_FIGURES).read_text(encoding="utf-8"))
        told, version = figures["dataset"], figures["report_version"]
        is_same = all(told[name] == manifest.get(name) for name in ("snapshot", "config_digest"))
    except (OSError, ValueError, TypeError, KeyError):  # none yet, or none of ours: write it
        return False
    return is_same and version == REPORT_VERSION and (out / REPORT_PAGE).exists()
