"""What the journal says of its graders, and new verdicts in a table's rows."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from grading.verdict import Grade, Verdict
from pipeline.errors import DataError
from pipeline.records import FinishReason, Rollout
from storage.journal import Journal, compact, live_parts, read_rollouts, rewrite
from storage.tables import rollouts_from_table, rollouts_to_table
from storage.verdicts import GradedRows, graded_rows, with_grades


def rollout(index: int, **changes: object) -> Rollout:
    made = Rollout(
        "p", "prefix", index, "text", "1", Verdict.CORRECT, "text", FinishReason.STOP, 5, "c", "d",
        "g", index, "2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def append(path: Path, *rollouts: Rollout) -> None:
    with Journal(path) as journal:
        journal.append(rollouts)


def test_rows_are_counted_by_problem_digest_and_version(tmp_path: Path) -> None:
    assert graded_rows(tmp_path) == []
    append(tmp_path, rollout(0), rollout(1), rollout(0, problem_id="q", grader_version="h"))
    append(tmp_path, rollout(2), rollout(0, sampling_digest="e", num_tokens=7))
    expected = {
        GradedRows("p", "d", "g", 3, 15),
        GradedRows("q", "d", "h", 1, 5),
        GradedRows("p", "e", "g", 1, 7),
    }
    assert set(graded_rows(tmp_path)) == expected
    before = {part.name: part.read_bytes() for part in live_parts(tmp_path)}
    compact(tmp_path)
    for name, content in before.items():
        (tmp_path / "rollouts" / name).write_bytes(content)
    assert set(graded_rows(tmp_path)) == expected  # not twice what a crash has left
    (tmp_path / "rollouts" / "part-000009.parquet").write_text("PAR1")
    with pytest.raises(DataError, match=r"part-000009\.parquet cannot be read"):
        graded_rows(tmp_path)


def test_grades_take_the_place_of_four_columns(tmp_path: Path) -> None:
    rows = [rollout(0), rollout(1), rollout(2)]
    grade = Grade(Verdict.UNDECIDED, "timeout", "x = ½")
    found = rollouts_from_table(with_grades(rollouts_to_table(rows), {1: (grade, "new")}))
    changed = replace(
        rows[1],
        final_answer="x = ½",
        verdict=Verdict.UNDECIDED,
        verdict_reason="timeout",
        grader_version="new",
    )
    assert found == [rows[0], changed, rows[2]]


def test_a_rewrite_is_given_whole_problems_and_replaces_all_parts(tmp_path: Path) -> None:
    rows = [rollout(index, problem_id=f"p{index % 5}") for index in range(40)]
    for start in range(0, 40, 8):
        append(tmp_path, *rows[start : start + 8])
    seen: list[set[str]] = []

    def change(table: pa.Table) -> pa.Table | None:
        problems = table.column("problem_id").to_pylist()
        seen.append(set(problems))
        if "p3" not in problems:
            return None
        grades = {
            row: (Grade(Verdict.INCORRECT, "exact", "2"), "new")
            for row, problem in enumerate(problems)
            if problem == "p3"
        }
        return with_grades(table, grades)

    assert rewrite(tmp_path, change)
    assert sum(map(len, seen)) == len(set().union(*seen)) == 5
    assert len(live_parts(tmp_path)) == len(list((tmp_path / "rollouts").iterdir())) == 1
    found = read_rollouts(tmp_path)
    assert {one.problem_id for one in found if one.grader_version == "new"} == {"p3"}
    assert sorted(one.key for one in found) == sorted(one.key for one in rows)
    (before,) = live_parts(tmp_path)
    assert not rewrite(tmp_path, lambda _: None)
    assert live_parts(tmp_path) == [before]

    def broken(_: pa.Table) -> pa.Table:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rewrite(tmp_path, broken)
    assert read_rollouts(tmp_path) == found
    assert list((tmp_path / "rollouts").iterdir()) == [before]
