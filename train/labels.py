"""Read a folder of label files, and check every row before it is trained on.

The columns are those of the labels table (README, "Data"); only the ones in `_COLUMNS`
are needed here. Rows are streamed: no copy of the data is made in a cache.
"""

import glob
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import load_dataset
from datasets.exceptions import DatasetsError

from grading.verdict import Verdict
from pipeline.errors import ConfigError, DataError

BATCH_ROWS = 1000
"""Rows of Parquet in memory at once while reading."""

SCHEMA_VERSION = "1"
"""The version of `storage.schema` that is read here."""
VERSION_KEY = b"stepmark_schema_version"

_LISTS = ("steps", "num_correct", "num_incorrect", "mc_value", "hard_label")
_COLUMNS = ("problem_id", "question", "solution_id", *_LISTS)


@dataclass(frozen=True, slots=True)
class LabeledRow:
    """What training needs of one row of the labels. Lists are as long as `steps`.

    `mc_values` holds None for a step without any graded rollout.
    """

    problem_id: str
    question: str
    solution_id: str
    steps: tuple[str, ...]
    mc_values: tuple[float | None, ...]
    hard_labels: tuple[bool, ...]
    num_correct: tuple[int, ...]
    num_graded: tuple[int, ...]
    verdict: Verdict | None
    """The solution's own; None where the labels have no such column."""


def read_labels(labels_path: Path, *, split: str) -> Iterator[LabeledRow]:
    """The rows of a split, checked: those of the files `<split>-*.parquet`.

    Raises DataError for missing labels or columns, for files of another schema version and
    for a row that cannot be used, with the number of the row (from 0), and ConfigError for
    a split that is not there.
    """
    files: defaultdict[str, list[str]] = defaultdict(list)
    label_files = sorted(labels_path.glob("[!.]*.parquet"))
    for file in label_files:
        files[file.name.partition("-")[0].removesuffix(".parquet")].append(glob.escape(str(file)))
    if not files:
        raise DataError(
            f"{labels_path} has no Parquet files; make labels first with `stepmark generate`"
        )
    if split not in files:
        raise ConfigError(
            f"{labels_path} has no split {split!r}, only {sorted(files)}; name one of these as "
            "train.split, or label more problems: a split without a problem has no file"
        )
    for file in label_files:
        _check_version(file)
    try:
        # the default batch is the first row group, and fails where that is empty
        rows = load_dataset(
            "parquet",
            data_files={split: files[split]},
            split=split,
            streaming=True,
            batch_size=BATCH_ROWS,
        )
        for row_index, row in enumerate(rows):
            yield _checked(row, f"{labels_path}, split {split}, row {row_index}")
    except (OSError, ValueError, DatasetsError) as error:
        raise DataError(f"{labels_path} cannot be read as Parquet: {error}") from error


def _check_version(file: Path) -> None:
    """Labels of others than stepmark have no version, and are judged by their columns."""
    try:
        with file.open("rb") as stream:
            metadata = pq.read_schema(stream).metadata or {}
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file} cannot be read as Parquet: {error}") from error
    version = metadata.get(VERSION_KEY)
    if version is not None and version.decode(errors="replace") != SCHEMA_VERSION:
        raise DataError(
            f"{file} has schema version {version.decode(errors='replace')}, this stepmark reads "
            f"version {SCHEMA_VERSION}; train with the stepmark that wrote it, or make the labels "
            "again"
        )


def _checked(row: dict[str, Any], place: str) -> LabeledRow:
    missing = [name for name in _COLUMNS if name not in row]
    if missing:
        raise DataError(f"{place}: no column {', '.join(missing)}; this is no labels table")
    empty = [name for name in _COLUMNS if row[name] is None]
    if empty:
        raise DataError(f"{place}: {', '.join(empty)} is null; make the labels again")
    place = f"{place} (solution {row['solution_id']})"
    lengths = {name: len(row[name]) for name in _LISTS}
    if len(set(lengths.values())) != 1:
        raise DataError(f"{place}: the lists have different lengths: {lengths}")
    if not row["steps"]:
        raise DataError(f"{place}: the solution has no steps")
    for step_index, step in enumerate(row["steps"]):
        if step is None or not step.strip():
            raise DataError(f"{place}: step {step_index} is {step!r}, without content")
    return LabeledRow(
        problem_id=row["problem_id"],
        question=row["question"],
        solution_id=row["solution_id"],
        steps=tuple(row["steps"]),
        mc_values=tuple(_mc_value(row, step, place) for step in range(len(row["steps"]))),
        hard_labels=tuple(_hard_label(row, step, place) for step in range(len(row["steps"]))),
        num_correct=tuple(row["num_correct"]),
        num_graded=tuple(
            correct + incorrect
            for correct, incorrect in zip(row["num_correct"], row["num_incorrect"], strict=True)
        ),
        verdict=_verdict(row, place),
    )


def _mc_value(row: dict[str, Any], step_index: int, place: str) -> float | None:
    value: float | None = row["mc_value"][step_index]
    num_correct, num_incorrect = row["num_correct"][step_index], row["num_incorrect"][step_index]
    if None not in (num_correct, num_incorrect) and min(num_correct, num_incorrect) >= 0:
        is_missing = value is None or math.isnan(value)
        num_graded = num_correct + num_incorrect
        if is_missing and num_graded == 0:
            return None
        if value is not None and num_graded > 0 and 0 <= value <= 1:
            return float(value)
    raise DataError(
        f"{place}: step {step_index} has mc_value {value} with {num_correct} correct and "
        f"{num_incorrect} incorrect rollouts; it must lie in [0, 1], and be NaN or null "
        "exactly where no rollout is graded"
    )


def _hard_label(row: dict[str, Any], step_index: int, place: str) -> bool:
    label: bool | None = row["hard_label"][step_index]
    if label is None:
        raise DataError(f"{place}: hard_label of step {step_index} is null; make the labels again")
    return bool(label)


def _verdict(row: dict[str, Any], place: str) -> Verdict | None:
    if row.get("verdict") is None:
        return None
    try:
        return Verdict(row["verdict"])
    except ValueError as error:
        known = ", ".join(Verdict)
        raise DataError(f"{place}: verdict {row['verdict']!r} is none of {known}") from error
