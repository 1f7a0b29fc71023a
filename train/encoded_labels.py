"""Labels as token ids, in an Arrow file that is mapped into memory, not loaded.

Encoding streams the label files row by row, so the memory that training takes does not
grow with the tokens of the labels; 8 bytes a step and some 60 a solution do stay.
"""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from grading.verdict import Verdict
from pipeline.errors import DataError
from train.config import Objective, StepWeight, TrainConfig
from train.encode import EncodedSteps, encode_steps, fill
from train.labels import LabeledRow, read_labels
from train.loss import step_weights

_ROWS_IN_MEMORY = 256

_SCHEMA = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),
        ("step_positions", pa.list_(pa.int32())),
        ("targets", pa.list_(pa.float64())),
        ("hard_labels", pa.list_(pa.bool_())),
        ("num_correct", pa.list_(pa.int32())),
        ("num_graded", pa.list_(pa.int32())),
    ]
)


@dataclass(frozen=True, slots=True)
class EncodedSolution:
    """An encoded row. All but `encoded` are as long as its `step_positions`.

    `targets` holds None for a step that is not trained on.
    """

    encoded: EncodedSteps
    targets: tuple[float | None, ...]
    hard_labels: tuple[bool, ...]
    num_correct: tuple[int, ...]
    num_graded: tuple[int, ...]

    @property
    def num_targets(self) -> int:
        """Steps that have a position and a target."""
        return sum(target is not None for target in self.targets)


class EncodedTable(Sequence[EncodedSolution]):
    """Some rows of a file of encoded solutions, read when asked for."""

    def __init__(self, table: pa.Table, rows: NDArray[np.int64]) -> None:
        self._table = table
        self._rows = rows

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each solution."""
        chunks = self._table["input_ids"].chunks
        lengths = [chunk.value_lengths().to_numpy(zero_copy_only=False) for chunk in chunks]
        return np.concatenate(lengths)[self._rows].astype(np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> EncodedSolution: ...
    @overload
    def __getitem__(self, index: slice) -> "EncodedTable": ...
    def __getitem__(self, index: int | slice) -> "EncodedSolution | EncodedTable":
        if isinstance(index, slice):
            return EncodedTable(self._table, self._rows[index])
        row = int(self._rows[index])
        column = {name: self._table[name][row].values.to_pylist() for name in _SCHEMA.names}
        ids, positions = tuple(column["input_ids"]), tuple(column["step_positions"])
        return EncodedSolution(
            EncodedSteps(ids, positions, num_lost_steps=0, num_cut_tokens=0),
            targets=tuple(column["targets"]),
            hard_labels=tuple(column["hard_labels"]),
            num_correct=tuple(column["num_correct"]),
            num_graded=tuple(column["num_graded"]),
        )

    def __iter__(self) -> Iterator[EncodedSolution]:
        for index in range(len(self)):
            yield self[index]


@dataclass(frozen=True, slots=True)
class EncodedLabels:
    """All solutions, divided by question, and what was left out.

    `num_skipped_solutions` had no step with both a position and a target;
    `num_duplicate_steps` follow the same question and steps as one before in the file, and
    are that step again. The next four are of the training side: its steps with a target,
    those of true hard label, and the sums of targets and weights.
    """

    train: EncodedTable
    validation: EncodedTable
    num_problems: int
    num_skipped_solutions: int
    num_steps: int
    num_lost_steps: int
    num_unlabelled_steps: int
    num_cut_tokens: int
    num_duplicate_steps: int
    num_train_steps: int
    num_good_steps: int
    sum_of_targets: float
    sum_of_weights: float


def encode_labels(
    labels_path: Path, file: Path, *, tokenizer: Any, config: TrainConfig, max_length: int
) -> EncodedLabels:
    """Encode every row into `file`, and keep some questions apart for validation.

    The same question never stands on both sides, whatever its id. Raises DataError where
    there is no row, or too few questions for the share asked for.
    """
    counts = _Counts()
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        waiting: list[EncodedSolution] = []
        for row in read_labels(labels_path, split=config.split):
            prompt = fill(tokenizer, config.template, row.question)
            encoded = encode_steps(tokenizer, prompt, row.steps, max_length=max_length)
            solution = _labelled(encoded, row, config.objective)
            counts.add(row, solution, config.weight)
            waiting.append(solution)
            if len(waiting) == _ROWS_IN_MEMORY:
                writer.write_batch(record_batch(waiting))
                waiting = []
        writer.write_batch(record_batch(waiting))
    if not counts.questions:
        raise DataError(f"{labels_path} has no rows in split {config.split!r}")
    table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    return _divided(table, counts, config, max_length, labels_path)


class _Counts:
    """What is known of every row after encoding, in arrays of numbers."""

    def __init__(self) -> None:
        self.questions, self.steps = array("Q"), array("Q")
        self.targets, self.good = array("q"), array("q")
        self.sums, self.weights = array("d"), array("d")
        self.num_steps = self.num_unlabelled = self.num_lost = self.num_cut = 0

    def add(self, row: LabeledRow, solution: EncodedSolution, weight: StepWeight) -> None:
        self.num_steps += len(row.steps)
        self.num_unlabelled += row.mc_values.count(None)
        self.num_lost += solution.encoded.num_lost_steps
        self.num_cut += solution.encoded.num_cut_tokens
        running = hashlib.sha256(row.question.strip().encode("utf-8", "surrogatepass"))
        self.questions.append(_first_8_bytes(running))
        for step in row.steps:
            text = step.encode("utf-8", "surrogatepass")
            running.update(len(text).to_bytes(8) + text)
            self.steps.append(_first_8_bytes(running))
        chosen = [i for i, target in enumerate(solution.targets) if target is not None]
        soft = [float(solution.targets[i] or 0.0) for i in chosen]
        self.targets.append(len(chosen))
        self.good.append(sum(solution.hard_labels[i] for i in chosen))
        self.sums.append(sum(soft))
        graded_N = torch.tensor([float(solution.num_graded[i]) for i in chosen])
        self.weights.append(float(step_weights(graded_N, torch.tensor(soft), weight).sum()))


def _divided(
    table: pa.Table, counts: _Counts, config: TrainConfig, max_length: int, labels_path: Path
) -> EncodedLabels:
    questions = np.frombuffer(counts.questions, dtype=np.uint64)
    num_different_steps = len(np.unique(np.frombuffer(counts.steps, np.uint64)))
    num_targets = np.frombuffer(counts.targets, dtype=np.int64)
    different = np.unique(questions)
    is_held_out = np.isin(questions, _held_out(different, config.validation_share))
    is_usable = num_targets > 0
    train = np.flatnonzero(is_usable & ~is_held_out)
    if not len(train):
        raise DataError(
            f"no step of {labels_path} is left to train on: of {counts.num_steps} steps, "
            f"{counts.num_unlabelled} have no graded rollout, and the rest end beyond "
            f"max_length = {max_length} tokens or are kept for validation"
        )
    return EncodedLabels(
        train=EncodedTable(table, train),
        validation=EncodedTable(table, np.flatnonzero(is_usable & is_held_out)),
        num_problems=len(different),
        num_skipped_solutions=int((~is_usable).sum()),
        num_steps=counts.num_steps,
        num_lost_steps=counts.num_lost,
        num_unlabelled_steps=counts.num_unlabelled,
        num_cut_tokens=counts.num_cut,
        num_duplicate_steps=counts.num_steps - num_different_steps,
        num_train_steps=int(num_targets[train].sum()),
        num_good_steps=int(np.frombuffer(counts.good, np.int64)[train].sum()),
        sum_of_targets=float(np.frombuffer(counts.sums, np.float64)[train].sum()),
        sum_of_weights=float(np.frombuffer(counts.weights, np.float64)[train].sum()),
    )


def _labelled(encoded: EncodedSteps, row: LabeledRow, objective: Objective) -> EncodedSolution:
    num_kept = len(encoded.step_positions)
    solution = EncodedSolution(
        encoded,
        row.mc_values[:num_kept],
        row.hard_labels[:num_kept],
        row.num_correct[:num_kept],
        row.num_graded[:num_kept],
    )
    return solution if objective is Objective.PRM else _on_verdict(solution, row)


def _on_verdict(solution: EncodedSolution, row: LabeledRow) -> EncodedSolution:
    """Only the last step has a target, the verdict, as of one rollout."""
    if row.verdict is None:
        raise DataError(
            f"solution {row.solution_id} has no verdict, which train.objective = 'orm' needs; "
            "make the labels again, or train with objective = 'prm'"
        )
    num_kept, is_correct = len(solution.targets), row.verdict is Verdict.CORRECT
    has_last = num_kept == len(row.steps) and row.verdict is not Verdict.UNDECIDED
    last = num_kept - 1 if has_last else num_kept
    return EncodedSolution(
        solution.encoded,
        tuple(float(is_correct) if step == last else None for step in range(num_kept)),
        tuple(is_correct if step == last else False for step in range(num_kept)),
        tuple(int(is_correct and step == last) for step in range(num_kept)),
        tuple(int(step == last) for step in range(num_kept)),
    )


def record_batch(solutions: Sequence[EncodedSolution]) -> pa.RecordBatch:
    """The rows of the file of encoded solutions."""
    columns: dict[str, list[Any]] = {
        "input_ids": [solution.encoded.input_ids for solution in solutions],
        "step_positions": [solution.encoded.step_positions for solution in solutions],
        "targets": [solution.targets for solution in solutions],
        "hard_labels": [solution.hard_labels for solution in solutions],
        "num_correct": [solution.num_correct for solution in solutions],
        "num_graded": [solution.num_graded for solution in solutions],
    }
    return pa.record_batch([pa.array(columns[f.name], f.type) for f in _SCHEMA], schema=_SCHEMA)


def _first_8_bytes(running: Any) -> int:
    return int.from_bytes(running.digest()[:8])


def _held_out(questions: NDArray[np.uint64], share: float) -> NDArray[np.uint64]:
    """The hashes below `share` of their range, but at least one and not all. `questions`
    are sorted, each there once.
    """
    if share == 0:
        return questions[:0]
    if len(questions) < 2:
        raise DataError(
            f"validation_share = {share}, but there is only {len(questions)} question; "
            "set validation_share = 0 or label more problems"
        )
    num_below = int((questions >> np.uint64(32) < np.uint64(share * 2**32)).sum())
    return questions[: min(max(num_below, 1), len(questions) - 1)]
