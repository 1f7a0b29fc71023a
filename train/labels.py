"""Read `<dataset>/labels` and turn each row into an encoded, labelled solution.

The columns are those of the labels table (README, "Data"); only the ones in `_COLUMNS`
are needed here. Rows are streamed: no copy of the data is made in a cache.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import load_dataset
from datasets.exceptions import DatasetsError

from pipeline.errors import ConfigError, DataError
from train.config import TrainConfig
from train.encode import EncodedSteps, encode_steps, fill

BATCH_ROWS = 1000
"""Rows of Parquet in memory at once while reading."""

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


@dataclass(frozen=True, slots=True)
class EncodedSolution:
    """An encoded row. `targets` and `hard_labels` are as long as `step_positions`."""

    encoded: EncodedSteps
    targets: tuple[float | None, ...]
    hard_labels: tuple[bool, ...]

    @property
    def num_targets(self) -> int:
        """Steps that have a position and a target."""
        return sum(target is not None for target in self.targets)


@dataclass(frozen=True, slots=True)
class EncodedLabels:
    """All solutions, divided by question, and what was left out.

    `num_skipped_solutions` had no step with both a position and a target.
    """

    train: tuple[EncodedSolution, ...]
    validation: tuple[EncodedSolution, ...]
    num_problems: int
    num_skipped_solutions: int
    num_steps: int
    num_lost_steps: int
    num_unlabelled_steps: int
    num_cut_tokens: int


def read_labels(dataset_path: Path, *, split: str) -> Iterator[LabeledRow]:
    """The rows of a split, checked.

    Raises DataError for missing labels or columns and for a row that cannot be used, with
    the number of the row (from 0), and ConfigError for a split that is not there.
    """
    labels_path = dataset_path / "labels"
    if not any(labels_path.glob("*.parquet")):
        raise DataError(
            f"{labels_path} has no Parquet files; make labels first with `stepmark generate`"
        )
    try:
        # the default batch is the first row group, and fails where that is empty
        splits = load_dataset(
            "parquet", data_dir=str(labels_path), streaming=True, batch_size=BATCH_ROWS
        )
        if split not in splits:
            raise ConfigError(f"{labels_path} has no split {split!r}, only {sorted(splits)}")
        for row_index, row in enumerate(splits[split]):
            yield _checked(row, f"{labels_path}, split {split}, row {row_index}")
    except (OSError, ValueError, DatasetsError) as error:
        raise DataError(f"{labels_path} cannot be read as Parquet: {error}") from error


def encode_labels(
    dataset_path: Path, *, tokenizer: Any, config: TrainConfig, max_length: int
) -> EncodedLabels:
    """Encode every row, and keep some questions apart for validation.

    The same question never stands on both sides, whatever its id. Raises DataError where
    there is no row, or too few questions for the share asked for.
    """
    solutions: list[tuple[str, EncodedSolution]] = []
    num_steps = num_unlabelled_steps = 0
    for row in read_labels(dataset_path, split=config.split):
        num_steps += len(row.steps)
        num_unlabelled_steps += row.mc_values.count(None)
        prompt = fill(tokenizer, config.template, row.question)
        encoded = encode_steps(tokenizer, prompt, row.steps, max_length=max_length)
        solutions.append((_question_hash(row.question), _labelled(encoded, row)))
    if not solutions:
        raise DataError(f"{dataset_path / 'labels'} has no rows in split {config.split!r}")
    held_out = _held_out({question for question, _ in solutions}, config.validation_share)
    usable = [(question, solution) for question, solution in solutions if solution.num_targets]
    train = tuple(solution for question, solution in usable if question not in held_out)
    if not train:
        raise DataError(
            f"no step of {dataset_path / 'labels'} is left to train on: of {num_steps} steps, "
            f"{num_unlabelled_steps} have no graded rollout, and the rest end beyond "
            f"max_length = {max_length} tokens or are kept for validation"
        )
    return EncodedLabels(
        train=train,
        validation=tuple(solution for question, solution in usable if question in held_out),
        num_problems=len({question for question, _ in solutions}),
        num_skipped_solutions=len(solutions) - len(usable),
        num_steps=num_steps,
        num_lost_steps=sum(solution.encoded.num_lost_steps for _, solution in solutions),
        num_unlabelled_steps=num_unlabelled_steps,
        num_cut_tokens=sum(solution.encoded.num_cut_tokens for _, solution in solutions),
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
        hard_labels=tuple(bool(label) for label in row["hard_label"]),
    )


def _mc_value(row: dict[str, Any], step_index: int, place: str) -> float | None:
    value: float | None = row["mc_value"][step_index]
    num_correct, num_incorrect = row["num_correct"][step_index], row["num_incorrect"][step_index]
    if None not in (num_correct, num_incorrect):
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


def _labelled(encoded: EncodedSteps, row: LabeledRow) -> EncodedSolution:
    num_kept = len(encoded.step_positions)
    return EncodedSolution(encoded, row.mc_values[:num_kept], row.hard_labels[:num_kept])


def _question_hash(question: str) -> str:
    return hashlib.sha256(question.strip().encode("utf-8", "surrogatepass")).hexdigest()


def _held_out(questions: set[str], share: float) -> set[str]:
    """The hashes below `share` of their range, but at least one and not all."""
    if share == 0:
        return set()
    if len(questions) < 2:
        raise DataError(
            f"validation_share = {share}, but there is only {len(questions)} question; "
            "set validation_share = 0 or label more problems"
        )
    ordered = sorted(questions)
    num_below = sum(int(question[:8], 16) < share * 2**32 for question in ordered)
    return set(ordered[: min(max(num_below, 1), len(ordered) - 1)])
