"""What `stepmark diff` counts, against figures stated by hand."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from flows.diff_display import diff_figures, diff_tables
from grading.verdict import Verdict
from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution, Problem, StepLabel
from storage.diff import NUM_PROBLEMS_SHOWN, compared_folders, config_changes, diff_labels
from storage.snapshots import write_snapshot
from tests.snapshot_writer import table_of


def solution(
    problem: str,
    *correct: int,
    index: int = 0,
    steps: tuple[str, ...] = (),
    verdict: str = "correct",
) -> LabeledSolution:
    """Ten rollouts a step, so many of them correct; none graded for -1."""
    labels = [
        StepLabel(10, 0, 0, 0, 10, 0) if n < 0 else StepLabel(10, 0, n, 10 - n, 0, 0)
        for n in correct
    ]
    return LabeledSolution(
        Problem(problem, f"Q {problem}", "1", "test", ""),
        f"{problem}/d/{index}",
        steps or tuple(f"step {step}" for step in range(len(correct))),
        tuple(labels),
        "1",
        Verdict(verdict),
    )


def snapshot(path: Path, *rows: LabeledSolution, **manifest: object) -> Path:
    written = write_snapshot(path, [("train", table_of(list(rows)))], dict(manifest), keep=9)
    return path / "snapshots" / str(written["snapshot"])


def test_every_kind_of_change_is_counted(tmp_path: Path) -> None:
    same = solution("a", 5, 5, 10)
    old = snapshot(
        tmp_path,
        same,
        solution("b", 4, 0, 10),
        solution("b", 3, index=10),
        solution("b", 1, 2, index=2),
        solution("c", 7),
        solution("e", 10, 9, 8),
        solution("f", -1, 10),
    )
    new = snapshot(
        tmp_path,
        same,
        solution("b", 6, 1, 10),  # mc 0.4 → 0.6, 0 → 0.1 (flips), as it was
        solution("b", 2, index=2, steps=("another cut",)),  # two removed, one added
        solution("d", 1, 1),
        solution("e", 10, 9, 8, verdict="incorrect"),  # the last label is the verdict's
        solution("f", 10, 10),  # had no value
    )
    diff = diff_labels(old, new)
    found = diff.as_json()
    assert found["labels"] == {
        "old": 15, "new": 14, "added": 3, "removed": 4, "unchanged": 7, "changed": 4,
        "counts_changed": 3, "mc_value_changed": 3, "hard_label_changed": 2,
    }  # fmt: skip
    assert found["solutions"] == {"verdict_changed": 1}
    assert found["problems"] == {"added": 1, "removed": 1}
    assert diff.drift.num_labels == 10
    assert diff.drift.mean == pytest.approx(0.03)
    assert diff.drift.largest == pytest.approx(0.2)
    assert diff.drift.num_flips == 1
    assert {step: (one.num_labels, one.num_flips) for step, one in diff.by_step.items()} == {
        0: (3, 0), 1: (4, 1), 2: (3, 0),
    }  # fmt: skip
    assert diff.by_step[0].mean == pytest.approx(0.2 / 3)
    assert [(problem, one.num_labels) for problem, one in diff.by_problem] == [("b", 3)]
    assert diff.by_problem[0][1].mean == pytest.approx(0.1)
    assert not diff.is_empty
    assert diff_labels(new, new).is_empty
    assert diff_labels(new, new).num_unchanged == 14
    json.dumps(found, allow_nan=False)


def test_a_problem_that_moved_to_another_split_is_the_same(tmp_path: Path) -> None:
    rows = [solution(f"p{index:02d}", index % 10, 10) for index in range(30)]
    old = snapshot(tmp_path / "one", *rows)
    halves = [("train", table_of(rows[::2])), ("test", table_of(rows[1::2]))]
    write_snapshot(tmp_path / "two", halves, {}, keep=1)
    diff = diff_labels(old, tmp_path / "two" / "snapshots" / "000001")
    assert (diff.is_empty, diff.num_unchanged) == (True, 60)


def test_the_problems_of_the_largest_mean_drift_come_first(tmp_path: Path) -> None:
    num = NUM_PROBLEMS_SHOWN + 5
    old = snapshot(tmp_path, *(solution(f"p{index:02d}", 0, 5) for index in range(num)))
    new = snapshot(tmp_path, *(solution(f"p{index:02d}", index % 10, 5) for index in range(num)))
    diff = diff_labels(old, new)
    assert [problem for problem, _ in diff.by_problem] == [
        "p09", "p08", "p07", "p06", "p05", "p04", "p14", "p03", "p13", "p02",
    ]  # fmt: skip
    assert [round(20 * one.mean) for _, one in diff.by_problem] == [9, 8, 7, 6, 5, 4, 4, 3, 3, 2]


def test_configs_are_compared_key_by_key() -> None:
    old = {"config": {"seed": 0, "labels": {"splits": None, "keep": 1}, "gone": [1]}}
    new = {"config": {"seed": 0, "labels": {"splits": {"train": 1.0}, "keep": 2}}}
    assert config_changes(old, new) == {
        "gone": ([1], None),
        "labels.keep": (1, 2),
        "labels.splits.train": (None, 1.0),
    }
    assert config_changes({}, {}) == {}


def test_snapshots_are_chosen_by_default_and_by_id(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no labels"):
        compared_folders(tmp_path)
    one = snapshot(tmp_path, solution("a", 1))
    with pytest.raises(ConfigError, match="no snapshot before 000001"):
        compared_folders(tmp_path)
    two, three = snapshot(tmp_path, solution("a", 2)), snapshot(tmp_path, solution("a", 3))
    assert compared_folders(tmp_path) == (two, three)
    assert compared_folders(tmp_path, "1") == (one, three)
    assert compared_folders(tmp_path, "000003", "1") == (three, one)
    assert compared_folders(tmp_path, None, "2") == (one, two)
    with pytest.raises(ConfigError, match=r"no snapshot '7'; there are 000001, 000002, 000003"):
        compared_folders(tmp_path, "7")


def test_unsorted_and_unusable_rows_are_named(tmp_path: Path) -> None:
    good = snapshot(tmp_path, solution("a", 1))
    file = good / "train-00000-of-00001.parquet"
    pq.write_table(table_of([solution("b", 1), solution("a", 1)]), file)
    with pytest.raises(DataError, match=r"train-00000.*problem 'a' comes after 'b'"):
        diff_labels(good, good)
    table = table_of([solution("a", 1, 2)])
    at = table.schema.get_field_index("mc_value")
    short = table.set_column(at, table.schema.field(at), pa.array([[0.5]], pa.list_(pa.float32())))
    pq.write_table(short.cast(table.schema), file)
    with pytest.raises(DataError, match=r"of solution 'a/d/0' mc_value cannot be used"):
        diff_labels(good, good)


def test_hostile_ids_are_shown_as_text(tmp_path: Path) -> None:
    name = "[red]\x1b[31m<b>"
    old = snapshot(tmp_path, solution(name, 1, 10), config={"a": "[bold]x"})
    new = snapshot(tmp_path, solution(name, 9, 10), config={"a": "y" * 200})
    console = Console(record=True, width=120)
    diff = diff_labels(old, new)
    for table in diff_tables(diff, title="[old] → [new]"):
        console.print(table)
    shown = console.export_text()
    assert "[red]�[31m<b>" in shown
    assert "[old] → [new]" in shown
    assert "[bold]x" in shown
    assert "y" * 61 not in shown
    figures = diff_figures(diff)
    assert figures["drift of the MC value"] == "mean 0.4000, largest 0.8000"
    assert figures["labels"] == "2 → 2"


def test_a_value_that_appears_is_no_drift(tmp_path: Path) -> None:
    old, new = solution("a", -1), solution("a", 10)
    assert math.isnan(old.labels[0].mc_value)
    diff = diff_labels(snapshot(tmp_path, old), snapshot(tmp_path, new))
    assert (diff.num_mc_value_changed, diff.drift.num_labels) == (1, 0)
    other = replace(new, labels=(replace(new.labels[0], num_reused=3),))
    diff = diff_labels(snapshot(tmp_path, new), snapshot(tmp_path, other))
    assert (diff.num_changed, diff.num_counts_changed, diff.num_mc_value_changed) == (1, 1, 0)
