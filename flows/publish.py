"""`stepmark publish`: the current labels of a dataset onto the Hub.

Check the files, make the ones to publish in a temporary folder, ask the quality gates, write the
card, make one commit, and put down in `published.json` what was published. Nothing in the
dataset is changed before that. A snapshot is never written to again, so no lock is held, but
for reading the rollouts.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from flows.display import printable
from flows.selection import Purpose, check_purpose
from pipeline.errors import ConfigError, DataError, GateError
from pipeline.records import LabeledSolution
from storage.card import CardFacts, dataset_card
from storage.dataset import (
    MANIFEST,
    SNAPSHOTS,
    current_snapshot,
    label_files,
    labels_path,
    read_manifest,
    split_of,
)
from storage.diff import diff_labels
from storage.gates import Gate, LastPublished, check_gates, check_integrity, refusal
from storage.hub import PublishedCommit, check_repo, publish_files
from storage.hub_files import HubFiles, write_hub_files
from storage.lock import dataset_lock
from storage.problem_config import check_split_name
from storage.publish_config import PublishConfig
from storage.published import Record, note_published, read_published

_EXAMPLE_STEPS, _EXAMPLE_LETTERS = 20, 400


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file of the repo: `new`, `changed`, `same` or `gone` against what was published last."""

    name: str
    num_bytes: int
    change: str


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What was published, or would be. `commit` is None after a dry run; `last` is the record
    of the publish before, from this dataset to this repo.
    """

    repo: str
    snapshot: str
    private: bool
    gates: tuple[Gate, ...]
    changes: tuple[FileChange, ...]
    card: str
    trl_counts: Mapping[str, int]
    last: Record | None
    commit: PublishedCommit | None

    def as_json(self) -> dict[str, Any]:
        """For a file or a flow's result; without the card."""
        commit = self.commit
        return {
            "repo": self.repo,
            "snapshot": self.snapshot,
            "private": self.private,
            "gates": _rows(self.gates),
            "files": [asdict(change) for change in self.changes],
            "trl": dict(self.trl_counts),
            "commit": commit and commit.commit,
            "tag": commit and commit.tag,
            "is_new": commit and commit.is_new,
            "added": commit and list(commit.added),
            "deleted": commit and list(commit.deleted),
        }


def publish(
    path: Path, config: PublishConfig, *, dry_run: bool = False, force: bool = False
) -> PublishReport:
    """Publish the current snapshot of the dataset `path` to `config.repo`.

    `force` passes the gates but for integrity; a `dry_run` asks neither them nor the Hub, and
    says what they would be asked. Raises ConfigError, DataError, GateError with all reasons,
    and HubError.
    """
    repo = config.repo
    if repo is None:
        raise ConfigError("say where to publish: --repo ORG/NAME, or publish.repo in the config")
    check_repo(repo)
    check_purpose(path, Purpose.LABELS)
    snapshot, manifest = _snapshot(path)
    last = read_published(path).get(repo)
    with tempfile.TemporaryDirectory(prefix="stepmark-publish-") as staging, _held(path, config):
        integrity = check_integrity(path, snapshot, with_rollouts=config.with_rollouts)
        if not integrity.is_met and not dry_run:
            reason = f"{path} was not published: {refusal([integrity])}"
            raise GateError(reason, _rows([integrity]))
        made = write_hub_files(
            path,
            snapshot,
            Path(staging),
            hard_threshold=float(manifest["config"]["labels"]["hard_threshold"]),
            rollout_digests=_digests(manifest) if config.with_rollouts else frozenset(),
        )
        gates = [integrity, *check_gates(made.figures, _drift(path, snapshot, last), config.gates)]
        unmet = [gate for gate in gates if not (gate.is_met or (force and gate.can_be_forced))]
        if unmet and not dry_run:
            raise GateError(f"{path} was not published: {refusal(unmet)}", _rows(gates))
        facts = CardFacts(
            repo, snapshot.name, manifest, made.figures, made.splits, _example(made.example), config
        )
        commit = None if dry_run else _send(facts, made, config)
        if commit is not None:
            note_published(path, repo, _record(made, commit, snapshot, config))
        return PublishReport(
            repo=repo,
            snapshot=snapshot.name,
            private=config.private,
            gates=tuple(gates),
            changes=tuple(_changes(made, last)),
            card=commit.card if commit else dataset_card(facts, None),
            trl_counts=made.trl_counts,
            last=last,
            commit=commit,
        )


def publish_settings(config: PublishConfig) -> dict[str, Any]:
    """The settings that what is published follows from: not the gates, not the patience."""
    return config.model_dump(mode="json", exclude={"gates", "patience_seconds"})


def _snapshot(path: Path) -> tuple[Path, Mapping[str, Any]]:
    """The folder of the current labels, and its manifest with the config that made them."""
    folder = labels_path(path)
    if current_snapshot(path) is None:
        raise ConfigError(
            f"{path} has labels of an earlier stepmark, which kept no snapshots: run "
            "`stepmark generate` again; nothing is sampled for that"
        )
    manifest = cast("Mapping[str, Any]", read_manifest(folder))
    try:
        float(manifest["config"]["labels"]["hard_threshold"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{folder / MANIFEST} does not hold the config of a run; run `stepmark generate` again"
        ) from error
    for file in label_files(folder):
        check_split_name(split_of(file), origin=str(file))
    return folder, manifest


def _rows(gates: Iterable[Gate]) -> list[dict[str, Any]]:
    return [asdict(gate) for gate in gates]


def _held(path: Path, config: PublishConfig) -> contextlib.AbstractContextManager[None]:
    """A run that compacts the journal would take files away while it is read."""
    return dataset_lock(path) if config.with_rollouts else contextlib.nullcontext()


def _digests(manifest: Mapping[str, Any]) -> frozenset[str]:
    return frozenset({str(manifest["sampling_digest"]), str(manifest["generator_digest"])})


def _drift(path: Path, snapshot: Path, last: Record | None) -> LastPublished | None:
    if last is None:
        return None
    before = str(last["snapshot"])
    folder = path / SNAPSHOTS / before
    if not folder.is_dir():
        return LastPublished(before, None)
    if _label_hashes(folder) != last.get("labels"):  # ids begin again in a folder made anew
        return LastPublished(before, None, "is not the one that was published: it was made anew")
    if before == snapshot.name:
        return LastPublished(before, 0.0)
    diff = diff_labels(folder, snapshot)
    if not diff.drift.num_labels:
        return LastPublished(before, None, "no label in common with what was published last")
    shared = (diff.num_old - diff.num_removed) / diff.num_old
    return LastPublished(before, diff.drift.mean, shared=shared)


def _label_hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each label file of a snapshot, as its manifest has them."""
    files = cast("Mapping[str, Mapping[str, Any]]", read_manifest(folder).get("files") or {})
    return {name: str(file["sha256"]) for name, file in files.items()}


def _send(facts: CardFacts, made: HubFiles, config: PublishConfig) -> PublishedCommit:
    return publish_files(
        facts.repo,
        made.files,
        card=lambda earlier: dataset_card(facts, earlier),
        private=config.private,
        message=f"Labels of snapshot {facts.snapshot}",
        day=datetime.now(UTC).date().isoformat(),
        patience_seconds=config.patience_seconds,
    )


def _record(
    made: HubFiles, commit: PublishedCommit, snapshot: Path, config: PublishConfig
) -> Record:
    return {
        "commit": commit.commit,
        "tag": commit.tag,
        "snapshot": snapshot.name,
        "labels": _label_hashes(snapshot),
        "private": config.private,
        "published_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": publish_settings(config),
        "files": {
            file.name: {"sha256": file.sha256, "bytes": file.num_bytes} for file in made.files
        },
    }


def _changes(made: HubFiles, last: Record | None) -> list[FileChange]:
    before: Mapping[str, Any] = last["files"] if last else {}
    found: list[FileChange] = []
    for file in made.files:
        if file.name not in before:
            change = "new"
        else:
            change = "same" if before[file.name]["sha256"] == file.sha256 else "changed"
        found.append(FileChange(file.name, file.num_bytes, change))
    names = {file.name for file in made.files}
    gone = [name for name in before if name not in names]
    return [*found, *(FileChange(name, int(before[name]["bytes"]), "gone") for name in gone)]


def _example(solution: LabeledSolution | None) -> tuple[str, ...]:
    """A labelled solution in lines: the question, then each step with its counts."""
    if solution is None:
        return ()
    pairs = list(zip(solution.steps, solution.labels, strict=True))[:_EXAMPLE_STEPS]
    return (
        f"Question: {_line(solution.problem.question)}",
        f"Gold answer: {_line(solution.problem.gold_answer)}",
        "",
        *(f"{label.num_correct:>3}/{label.num_graded:<3} {_line(step)}" for step, label in pairs),
    )


def _line(text: str) -> str:
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= _EXAMPLE_LETTERS else f"{shown[:_EXAMPLE_LETTERS]}…"
