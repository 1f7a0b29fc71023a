"""What changed between two snapshots of labels: added, removed, changed, and how far.

A label is known by its problem, its solution and the text up to its step: where a step was
cut elsewhere, the labels from there on are removed and added. Drift is the distance of the MC
values of a label that has one in both. Both snapshots are read once, problem by problem, so
that memory holds the solutions of one problem, and figures.

Solutions carry the digest of what sampled them: after a change of the model or the sampling
all labels are new ones.
"""

import heapq
import itertools
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError, DataError
from storage.dataset import SNAPSHOTS, label_files, labels_path, read_manifest
from storage.schema import LABELS, table_batches
from storage.snapshots import list_snapshots, snapshot_path

NUM_PROBLEMS_SHOWN = 10
_ROWS_IN_MEMORY = 512
_COUNTS = (
    "num_rollouts",
    "num_reused",
    "num_correct",
    "num_incorrect",
    "num_undecided",
    "num_truncated",
)
_COLUMNS = (
    "problem_id",
    "solution_id",
    "steps",
    "mc_value",
    "hard_label",
    "verdict",
    *_COUNTS,
)
_Row = dict[str, Any]
_Problem = tuple[str, dict[str, _Row]]


@dataclass(slots=True)
class Drift:
    """The distances of MC values, each in [0, 1], and the hard labels that flipped."""

    num_labels: int = 0
    total: float = 0.0
    largest: float = 0.0
    num_flips: int = 0

    @property
    def mean(self) -> float:
        """0 where nothing was compared."""
        return self.total / self.num_labels if self.num_labels else 0.0

    def add(self, distance: float, *, flips: bool) -> None:
        """Count one label."""
        self.num_labels += 1
        self.total += distance
        self.largest = max(self.largest, distance)
        self.num_flips += flips

    def plus(self, other: "Drift") -> None:
        """Count all of `other`'s."""
        self.num_labels += other.num_labels
        self.total += other.total
        self.largest = max(self.largest, other.largest)
        self.num_flips += other.num_flips

    def as_json(self) -> dict[str, float]:
        """Its figures."""
        return {
            "labels": self.num_labels,
            "mean": self.mean,
            "max": self.largest,
            "hard_label_flips": self.num_flips,
        }


@dataclass(slots=True)
class LabelDiff:
    """The figures of a comparison. `num_changed` labels differ in at least one of the four
    ways that are counted after it; a verdict is its solution's, and counts once a solution.
    """

    num_old: int = 0
    num_new: int = 0
    num_added: int = 0
    num_removed: int = 0
    num_unchanged: int = 0
    num_changed: int = 0
    num_counts_changed: int = 0
    num_mc_value_changed: int = 0
    num_hard_label_changed: int = 0
    num_verdicts_changed: int = 0
    num_problems_added: int = 0
    num_problems_removed: int = 0
    drift: Drift = field(default_factory=Drift)
    by_step: dict[int, Drift] = field(default_factory=dict)
    by_problem: list[tuple[str, Drift]] = field(default_factory=list)
    """The problems of the largest mean drift, those of none left out."""
    config: dict[str, tuple[object, object]] = field(default_factory=dict)
    """The keys of the config that differ, with the old and the new value."""

    @property
    def is_empty(self) -> bool:
        """Whether all labels are as they were."""
        return not (self.num_added or self.num_removed or self.num_changed)

    def as_json(self) -> dict[str, object]:
        """For a file or a gate."""
        return {
            "labels": {
                "old": self.num_old,
                "new": self.num_new,
                "added": self.num_added,
                "removed": self.num_removed,
                "unchanged": self.num_unchanged,
                "changed": self.num_changed,
                "counts_changed": self.num_counts_changed,
                "mc_value_changed": self.num_mc_value_changed,
                "hard_label_changed": self.num_hard_label_changed,
            },
            "solutions": {"verdict_changed": self.num_verdicts_changed},
            "problems": {"added": self.num_problems_added, "removed": self.num_problems_removed},
            "drift": self.drift.as_json(),
            "drift_by_step": [
                {"step_index": step, **drift.as_json()}
                for step, drift in sorted(self.by_step.items())
            ],
            "drift_by_problem": [
                {"problem_id": problem_id, **drift.as_json()}
                for problem_id, drift in self.by_problem
            ],
            "config": {
                key: {"old": old, "new": new} for key, (old, new) in sorted(self.config.items())
            },
        }


def compared_folders(
    path: Path, old: str | None = None, new: str | None = None
) -> tuple[Path, Path]:
    """The folders of two snapshots of a dataset, by their ids.

    By default `new` is the current one, and `old` the one before `new`. Raises ConfigError where
    a snapshot is not there.
    """
    after = labels_path(path) if new is None else snapshot_path(path, new)
    if old is not None:
        return snapshot_path(path, old), after
    found = list_snapshots(path)
    earlier = found[: found.index(after.name)] if after.name in found else []
    if not earlier:
        raise ConfigError(
            f"{path} has no snapshot before {after.name}, so there is nothing to compare yet"
        )
    return path / SNAPSHOTS / earlier[-1], after


def diff_labels(old: Path, new: Path) -> LabelDiff:
    """Compare the label files in the folders `old` and `new`, and the configs beside them.

    Raises DataError for a damaged file, and for one that is not in the order of the problems.
    """
    diff = LabelDiff(config=config_changes(read_manifest(old), read_manifest(new)))
    most = diff.by_problem
    for problem_id, before, after in _aligned(_problems(old), _problems(new)):
        diff.num_problems_added += not before
        diff.num_problems_removed += not after
        drift = Drift()
        for solution_id in before | after:
            _compare(before.get(solution_id), after.get(solution_id), diff, drift)
        diff.drift.plus(drift)
        if drift.total:
            most.append((problem_id, drift))
            most.sort(key=lambda one: (-one[1].mean, one[0]))
            del most[NUM_PROBLEMS_SHOWN:]
    return diff


def config_changes(
    old: Mapping[str, object], new: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """The keys, as in `sampling.max_tokens`, of two manifests' configs whose values differ.

    A key that one of them does not have is None there.
    """
    before, after = dict(_flat(old.get("config"))), dict(_flat(new.get("config")))
    keys = sorted(before.keys() | after.keys())
    pairs = {key: (before.get(key), after.get(key)) for key in keys}
    return {key: (one, other) for key, (one, other) in pairs.items() if one != other}


def _compare(before: _Row | None, after: _Row | None, diff: LabelDiff, drift: Drift) -> None:
    old_steps = before["steps"] if before else []
    new_steps = after["steps"] if after else []
    diff.num_old += len(old_steps)
    diff.num_new += len(new_steps)
    num_shared = _num_equal(old_steps, new_steps)
    diff.num_removed += len(old_steps) - num_shared
    diff.num_added += len(new_steps) - num_shared
    if not before or not after:
        return
    is_new_verdict = before["verdict"] != after["verdict"]
    diff.num_verdicts_changed += is_new_verdict
    for step in range(num_shared):
        is_last = step == max(len(old_steps), len(new_steps)) - 1
        is_changed = _compare_label(before, after, step, diff, drift)
        is_changed = is_changed or (is_last and is_new_verdict)
        diff.num_changed += is_changed
        diff.num_unchanged += not is_changed


def _compare_label(before: _Row, after: _Row, step: int, diff: LabelDiff, drift: Drift) -> bool:
    has_other_counts = any(before[name][step] != after[name][step] for name in _COUNTS)
    old, new = before["mc_value"][step], after["mc_value"][step]
    is_flipped = before["hard_label"][step] != after["hard_label"][step]
    if old is not None and new is not None:
        for one in (drift, diff.by_step.setdefault(step, Drift())):
            one.add(abs(old - new), flips=is_flipped)
    diff.num_counts_changed += has_other_counts
    diff.num_mc_value_changed += old != new
    diff.num_hard_label_changed += is_flipped
    return has_other_counts or old != new or is_flipped


def _num_equal(one: list[str], other: list[str]) -> int:
    """The number of steps from the first that are the same."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _aligned(
    old: Iterator[_Problem], new: Iterator[_Problem]
) -> Iterator[tuple[str, dict[str, _Row], dict[str, _Row]]]:
    """Each problem of either, in order, with its solutions in both by their ids."""
    tagged = heapq.merge(
        ((problem_id, False, rows) for problem_id, rows in old),
        ((problem_id, True, rows) for problem_id, rows in new),
        key=operator.itemgetter(0, 1),
    )
    for problem_id, group in itertools.groupby(tagged, key=operator.itemgetter(0)):
        sides = {is_new: rows for _, is_new, rows in group}
        yield problem_id, sides.get(False, {}), sides.get(True, {})


def _problems(folder: Path) -> Iterator[_Problem]:
    """The problems of all splits, in order, with their rows by solution."""
    rows = heapq.merge(*(_rows(file) for file in label_files(folder)), key=_problem_id)
    for problem_id, group in itertools.groupby(rows, key=_problem_id):
        yield problem_id, {row["solution_id"]: row for row in group}


_problem_id = operator.itemgetter("problem_id")


def _rows(file: Path) -> Iterator[_Row]:
    last = ""
    for table in table_batches(file, LABELS, num_rows=_ROWS_IN_MEMORY, columns=_COLUMNS):
        for row in table.to_pylist():
            _check(row, file)
            if row["problem_id"] < last:
                raise DataError(
                    f"{file}: problem {row['problem_id']!r} comes after {last!r}, so the labels "
                    "are not in the order of the problems; make them again"
                )
            last = row["problem_id"]
            yield row


def _check(row: _Row, file: Path) -> None:
    num_steps = len(row["steps"] or ())
    lists = {name: row[name] for name in ("mc_value", "hard_label", *_COUNTS)}
    wrong = [name for name, listed in lists.items() if len(listed or ()) != num_steps]
    wrong += [name for name in ("problem_id", "solution_id", "verdict") if row[name] is None]
    if wrong or not num_steps:
        raise DataError(
            f"{file}: of solution {row['solution_id']!r} {', '.join(wrong) or 'steps'} cannot be "
            "used (missing, or not one value a step); make the labels again"
        )


def _flat(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, value
