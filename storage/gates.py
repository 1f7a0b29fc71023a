"""The quality gates: what labels must be like to be published, and whether they are.

Every gate is checked, so that one refusal names all reasons. That the files are those of the
manifest is a gate that nobody can pass by force.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from storage.dataset import MANIFEST, SNAPSHOT_MANIFEST, SNAPSHOTS, label_files, read_manifest
from storage.files import file_hash
from storage.journal import live_parts
from storage.label_figures import LabelFigures
from storage.publish_config import GateConfig

INTEGRITY = "integrity"


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate, what was found, what is asked for, and whether the one meets the other."""

    name: str
    found: str
    limit: str
    is_met: bool

    @property
    def can_be_forced(self) -> bool:
        """Damaged files are not published, whoever asks."""
        return self.name != INTEGRITY


@dataclass(frozen=True, slots=True)
class LastPublished:
    """The drift from the labels last published, over those that are in both.

    `mean` is None where it cannot be told, and `why` says why. `shared` is the share of the
    labels last published that are in both.
    """

    snapshot: str
    mean: float | None
    why: str = "which was published, is not there any more"
    shared: float = 1.0


def check_gates(
    figures: LabelFigures, last: LastPublished | None, config: GateConfig
) -> list[Gate]:
    """The gates on the labels' figures; `last` is None where none were published before."""
    gates = [
        _at_least("min_labels", figures.num_labels, config.min_labels),
        _at_least("min_problems", figures.num_problems, config.min_problems),
        _at_most("max_undecided_share", figures.undecided_share, config.max_undecided_share),
        _at_most("max_truncated_share", figures.truncated_share, config.max_truncated_share),
    ]
    return [*gates, _drift(last, config.max_drift)]


def check_integrity(path: Path, folder: Path, *, with_rollouts: bool) -> Gate:
    """Whether the label files in `folder`, the current snapshot of the dataset `path`, and the
    journal where it is published, are those that the manifests name, byte for byte.
    """
    of_dataset = _listed(read_manifest(path))
    here = f"{SNAPSHOTS}/{folder.name}/"
    wrong = _differences(
        folder, _listed(read_manifest(folder)), {f.name for f in label_files(folder)}
    )
    current = {
        name.removeprefix(here): of for name, of in of_dataset.items() if name.startswith(here)
    }
    if not wrong and current != _listed(read_manifest(folder)):
        wrong = [f"{MANIFEST} and {here}{SNAPSHOT_MANIFEST} name other files"]
    if with_rollouts:
        listed = {name: of for name, of in of_dataset.items() if name.startswith("rollouts/")}
        there = {f"rollouts/{part.name}" for part in live_parts(path)}
        wrong += _differences(path, listed, there)
    found = "; ".join(wrong) if wrong else "all files are as they were written"
    return Gate(INTEGRITY, found, "the manifest's files", is_met=not wrong)


def refusal(gates: list[Gate]) -> str:
    """The gates that are not met, in words; empty where all are."""
    unmet = [gate for gate in gates if not gate.is_met]
    reasons = [f"{gate.name}: {gate.found} (asked for: {gate.limit})" for gate in unmet]
    advice: list[str] = []
    if any(not gate.can_be_forced for gate in unmet):
        advice.append("look at the files with `stepmark verify`")
    if any(gate.can_be_forced for gate in unmet):
        advice.append("the limits are in [publish.gates], and --force passes them")
    return f"{'; '.join(reasons)}. {'; '.join(advice).capitalize()}" if reasons else ""


def _drift(last: LastPublished | None, limit: float) -> Gate:
    name = "max_drift"
    if limit >= 1:
        return Gate(name, "not compared", _shown(limit), is_met=True)
    if last is None:
        return Gate(name, "nothing was published before", _shown(limit), is_met=True)
    if last.mean is None:
        found = f"unknown: snapshot {last.snapshot}, {last.why}"
        return Gate(name, found, _shown(limit), is_met=False)
    found = f"{last.mean:.4f} over {last.shared:.1%} of the labels published last"
    return Gate(name, found, _shown(limit), last.mean <= limit)


def _at_least(name: str, found: int, limit: int) -> Gate:
    return Gate(name, f"{found:,}", f"at least {limit:,}", found >= limit)


def _at_most(name: str, found: float, limit: float) -> Gate:
    return Gate(name, f"{found:.4f}", _shown(limit), found <= limit)


def _shown(limit: float) -> str:
    return f"at most {limit:g}"


def _listed(manifest: Mapping[str, object]) -> dict[str, dict[str, object]]:
    files = manifest.get("files")
    return cast("dict[str, dict[str, object]]", files) if isinstance(files, dict) else {}


def _differences(
    root: Path, listed: Mapping[str, Mapping[str, object]], there: set[str]
) -> list[str]:
    """What of the files `there` is not as listed; names are relative to `root`."""
    wrong = [f"{name} is not in the manifest" for name in sorted(there - listed.keys())]
    for name in sorted(listed):
        if name not in there:
            wrong.append(f"{name} is missing")
        elif file_hash(root / name) != listed[name].get("sha256"):
            wrong.append(f"{name} is not what the manifest's hash says")
    return wrong
