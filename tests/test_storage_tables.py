"""Label rows: exactly the agreed columns, nulls where nothing is known, and back again."""

import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grading.verdict import Verdict
from pipeline.errors import DataError
from pipeline.records import FinishReason, LabeledSolution, Problem, Rollout, StepLabel
from storage.dataset import read_labels
from storage.schema import LABELS, ROLLOUTS
from storage.snapshots import write_snapshot
from storage.tables import (
    labels_from_table,
    labels_to_table,
    rollouts_from_table,
    rollouts_to_table,
)

COLUMNS = {
    "problem_id": "string", "question": "string", "gold_answer": "string", "source": "string",
    "solution_id": "string", "completer": "string", "generator": "string",
    "sampling_digest": "string", "grader_version": "string",
    "steps": "list<element: string>",
    "num_rollouts": "list<element: int32>", "num_reused": "list<element: int32>",
    "num_correct": "list<element: int32>", "num_incorrect": "list<element: int32>",
    "num_undecided": "list<element: int32>", "num_truncated": "list<element: int32>",
    "mc_value": "list<element: float>", "interval_low": "list<element: float>",
    "interval_high": "list<element: float>", "hard_label": "list<element: bool>",
    "first_error": "int32", "final_answer": "string", "verdict": "string",
}  # fmt: skip

SOLUTION = LabeledSolution(
    problem=Problem("p", "Q?", "1", "test", "train"),
    solution_id="p/d/0",
    steps=(" a", "\nb", "\nc", "\nd"),
    labels=(
        StepLabel(12, 0, 3, 7, 2, 1),
        StepLabel(4, 0, 0, 0, 4, 0),
        StepLabel(10, 2, 0, 10, 0, 0),
        StepLabel(1, 0, 1, 0, 0, 0),
    ),
    final_answer="1",
    verdict=Verdict.CORRECT,
)
OTHER = LabeledSolution(
    Problem("q", "R?", "2", "test", "train"), "q/d/3", ("x",), (StepLabel(1, 0, 0, 0, 1, 0),), "",
    Verdict.UNDECIDED,
)  # fmt: skip


def written(tmp_path: Path, hard_threshold: float = 0.0) -> Path:
    table = labels_to_table(
        [SOLUTION, OTHER],
        completer="c",
        generator="g",
        sampling_digest="d",
        grader_versions=["v", "w"],
        hard_threshold=hard_threshold,
    )
    write_snapshot(tmp_path, [("train", table)], {}, keep=1)
    return tmp_path / "labels" / "train-00000-of-00001.parquet"


def test_columns_are_the_contract(tmp_path: Path) -> None:
    schema = pq.ParquetFile(written(tmp_path)).schema_arrow
    assert {field.name: str(field.type) for field in schema} == COLUMNS
    assert schema.names == list(COLUMNS)


def test_values_and_nulls(tmp_path: Path) -> None:
    first, second = pq.read_table(written(tmp_path)).to_pylist()
    num_steps = len(SOLUTION.steps)
    assert all(len(value) == num_steps for value in first.values() if isinstance(value, list))
    assert first["mc_value"] == [pytest.approx(0.3), None, 0.0, 1.0]
    assert first["hard_label"] == [True, None, False, True]
    assert first["interval_low"][1:3] == [0.0, 0.0]
    assert first["interval_high"][1] == 1.0
    assert first["interval_high"][2] == pytest.approx(0.27753, abs=1e-5)
    assert first["first_error"] == 2
    assert (first["num_reused"], first["num_truncated"]) == ([0, 0, 2, 0], [1, 0, 0, 0])
    assert first["num_rollouts"] == [
        sum(counts)
        for counts in zip(
            first["num_correct"], first["num_incorrect"], first["num_undecided"], strict=True
        )
    ]
    assert (second["verdict"], second["first_error"], second["mc_value"]) == (
        "undecided",
        -1,
        [None],
    )


def test_the_threshold_moves_hard_labels_and_first_error(tmp_path: Path) -> None:
    first, _ = pq.read_table(written(tmp_path, hard_threshold=0.3)).to_pylist()
    assert (first["hard_label"], first["first_error"]) == ([False, None, False, True], 0)


def test_labels_come_back_as_they_were_but_for_the_split(tmp_path: Path) -> None:
    written(tmp_path)
    back = read_labels(tmp_path)
    assert [one.labels for one in back] == [SOLUTION.labels, OTHER.labels]
    assert [one.steps for one in back] == [SOLUTION.steps, OTHER.steps]
    assert back[0].verdict is Verdict.CORRECT
    assert back[0].problem.question == "Q?"
    assert math.isnan(back[1].labels[0].mc_value)


def test_datasets_loads_the_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    file = written(tmp_path)
    file.with_name(".train-00001-of-00002.parquet.77.tmp").write_bytes(b"half")
    loaded = datasets.load_dataset(
        "parquet", data_dir=str(tmp_path / "labels"), cache_dir=str(tmp_path / "cache")
    )
    assert list(loaded) == ["train"]
    assert loaded["train"].column_names == list(COLUMNS)
    assert loaded["train"][0]["steps"] == list(SOLUTION.steps)
    assert loaded["train"][0]["hard_label"] == [True, None, False, True]


def test_an_empty_table_has_the_columns() -> None:
    table = labels_to_table(
        [], completer="c", generator="g", sampling_digest="d", grader_versions=[], hard_threshold=0
    )
    assert table.column_names == list(COLUMNS)
    assert labels_from_table(table) == []


def changed(column: str, value: object) -> pa.Table:
    """The labels of SOLUTION and OTHER, with another value in the second row."""
    table = labels_to_table(
        [SOLUTION, OTHER],
        completer="c",
        generator="g",
        sampling_digest="d",
        grader_versions=["v", "w"],
        hard_threshold=0.0,
    )
    at = table.column_names.index(column)
    first = table.column(at)[0].as_py()
    return table.set_column(at, LABELS.field(at), pa.array([first, value], LABELS.field(at).type))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("num_correct", None, "num_correct is null"),
        ("num_correct", [None], "num_correct is null or holds a null"),
        ("num_correct", [], r"1 steps, but the lists have {'num_correct': 0}"),
        ("num_reused", [0, 0], r"1 steps, but the lists have {'num_reused': 2}"),
        ("num_truncated", [-1], "num_truncated holds -1"),
        ("num_correct", [1], "step 0 has 1 rollouts, but 2 verdicts"),
        ("steps", None, "steps is null"),
        ("steps", [], "0 steps, but"),
        ("question", None, "question is null"),
        ("verdict", "maybe", "'maybe' is none of correct, incorrect, undecided"),
        ("verdict", None, "verdict is null"),
    ],
)
def test_a_damaged_label_row_is_named(column: str, value: object, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        labels_from_table(changed(column, value))
    assert str(error.value).startswith("row 1 of the labels (solution 'q/d/3'): ")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("verdict", "maybe", "row 1 of the rollouts: 'maybe' is none of correct,"),
        ("finish_reason", None, "row 1 of the rollouts: None is none of stop, length"),
    ],
)
def test_a_damaged_rollout_is_named(field: str, value: object, message: str) -> None:
    rollout = Rollout(
        "p", "x", 0, "1", "1", Verdict.CORRECT, "text", FinishReason.STOP, 1, "c", "d", "g", 1, "t"
    )
    table = rollouts_to_table([rollout, replace(rollout, rollout_index=1)])
    assert rollouts_from_table(table)[0] == rollout
    at = table.column_names.index(field)
    damaged = pa.array([getattr(rollout, field), value], pa.string())
    with pytest.raises(DataError, match=message):
        rollouts_from_table(table.set_column(at, ROLLOUTS.field(at), damaged))
