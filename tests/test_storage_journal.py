"""The journal: appended, killed, merged and compacted, no row is lost and none is doubled."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grading.verdict import Verdict
from pipeline.errors import DataError
from pipeline.records import FinishReason, Rollout
from storage.files import file_hash, write_parquet
from storage.journal import Journal, compact, grouped_rollouts, read_rollouts
from storage.lock import dataset_lock
from storage.merge import KEY_COLUMNS, merged_tables, sorted_by_key
from storage.schema import ROLLOUTS, read_table
from storage.tables import rollouts_from_table, rollouts_to_table


def rollout(
    index: int, text: str = " a\n#### 1", *, problem_id: str = "p", digest: str = "d"
) -> Rollout:
    return Rollout(
        problem_id, "prefix", index, text, "1", Verdict.CORRECT, "text", FinishReason.STOP, 5, "c",
        digest, "g", 2**62 + index, "2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip


def append(path: Path, *rollouts: Rollout) -> None:
    with Journal(path) as journal:
        journal.append(rollouts)


def num_stored_rows(path: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in (path / "rollouts").iterdir())


def test_the_journal_gives_back_what_was_appended(tmp_path: Path) -> None:
    rows = [
        rollout(0),
        rollout(1, 'é数\u0000\r\n"🙂'),
        replace(rollout(2), verdict=Verdict.UNDECIDED),
    ]
    append(tmp_path, *rows[:2])
    append(tmp_path, rows[2])
    assert read_rollouts(tmp_path) == rows
    assert len(list((tmp_path / "rollouts").iterdir())) == 2
    assert read_rollouts(tmp_path, sampling_digests={"other"}) == []


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    append(tmp_path, rollout(0, "a\ud800b"))
    assert [one.text for one in read_rollouts(tmp_path)] == ["a?b"]


def test_rows_are_flushed_after_the_given_time(tmp_path: Path) -> None:
    with Journal(tmp_path, flush_seconds=0.0) as journal:
        journal.append([rollout(0)])
        assert read_rollouts(tmp_path) == [rollout(0)]
    with Journal(tmp_path, flush_seconds=1e9) as journal:
        journal.append([rollout(1)])
        assert len(read_rollouts(tmp_path)) == 1
        journal.flush()
        assert len(read_rollouts(tmp_path)) == 2


def test_compaction_merges_parts_and_drops_duplicates(tmp_path: Path) -> None:
    for index in (0, 1, 1, 2):
        append(tmp_path, rollout(index))
    compact(tmp_path)
    (part,) = (tmp_path / "rollouts").iterdir()
    assert part.name == "part-000004.parquet"
    assert pq.ParquetFile(part).metadata.num_rows == 3
    assert read_rollouts(tmp_path) == [rollout(0), rollout(1), rollout(2)]
    before = file_hash(part)
    compact(tmp_path)
    assert file_hash(part) == before
    append(tmp_path, rollout(3))
    assert (tmp_path / "rollouts" / "part-000005.parquet").exists()


def test_a_crash_during_compaction_loses_and_doubles_nothing(tmp_path: Path) -> None:
    for index in (0, 1, 2):
        append(tmp_path, rollout(index))
    saved = {part.name: part.read_bytes() for part in (tmp_path / "rollouts").iterdir()}
    compact(tmp_path)
    (tmp_path / "rollouts" / "part-000002.parquet").write_bytes(saved["part-000002.parquet"])
    assert sorted(one.rollout_index for one in read_rollouts(tmp_path)) == [0, 1, 2]
    compact(tmp_path)
    assert len(list((tmp_path / "rollouts").iterdir())) == 1


def test_what_a_crash_left_of_merged_parts_is_removed_beside_a_large_one(tmp_path: Path) -> None:
    for index in range(4):
        append(tmp_path, rollout(index))
    folder = tmp_path / "rollouts"
    saved = {part.name: part.read_bytes() for part in folder.iterdir()}
    compact(tmp_path, large_rows=4)
    for name, content in saved.items():  # killed before any was removed
        (folder / name).write_bytes(content)
    assert len(read_rollouts(tmp_path)) == 4
    append(tmp_path, rollout(4))
    compact(tmp_path, large_rows=4)
    assert sorted(part.name for part in folder.iterdir()) == [
        "part-000004.parquet", "part-000005.parquet",
    ]  # fmt: skip
    assert num_stored_rows(tmp_path) == len(read_rollouts(tmp_path)) == 5


def test_a_copy_of_a_merged_part_replaces_nothing(tmp_path: Path) -> None:
    for index in range(3):
        append(tmp_path, rollout(index))
    folder = tmp_path / "rollouts"
    copied = {part.name: part.read_bytes() for part in folder.iterdir()}
    compact(tmp_path)
    (merged,) = folder.iterdir()
    for name, content in copied.items():
        (folder / name).write_bytes(content)
    merged.rename(folder / "part-000009.parquet")  # as in another folder
    append(tmp_path, rollout(3))
    compact(tmp_path, max_parts=10)
    assert len(list(folder.iterdir())) == 5
    assert len(read_rollouts(tmp_path)) == 4
    assert read_table(folder / "part-000009.parquet", ROLLOUTS).schema.metadata == ROLLOUTS.metadata


def test_many_parts_are_merged_some_at_a_time(tmp_path: Path) -> None:
    rows = [rollout(index % 10, problem_id=f"p{index // 10:03d}") for index in range(150)]
    shuffled = random.Random(0).sample(rows, len(rows))
    for row in shuffled:
        append(tmp_path, row)
    compact(tmp_path, max_parts=64)
    assert len(list((tmp_path / "rollouts").iterdir())) == 64
    assert read_rollouts(tmp_path) == rows
    compact(tmp_path)
    assert num_stored_rows(tmp_path) == len(rows)
    assert read_rollouts(tmp_path) == rows


def test_problems_come_one_by_one_with_the_wanted_rollouts(tmp_path: Path) -> None:
    append(tmp_path, rollout(0, problem_id="b"), rollout(1, problem_id="b", digest="e"))
    append(tmp_path, rollout(0, problem_id="a", digest="e"), rollout(0, problem_id="ä"))
    append(tmp_path, rollout(1, problem_id="b"))
    found = [(name, len(group)) for name, group in grouped_rollouts(tmp_path)]
    assert found == [("a", 1), ("b", 3), ("ä", 1)]
    of_d = list(grouped_rollouts(tmp_path, sampling_digests={"d"}))
    assert [name for name, _ in of_d] == ["b", "ä"]
    assert of_d[0][1] == [rollout(0, problem_id="b"), rollout(1, problem_id="b")]


def test_a_reader_does_not_see_what_is_appended_after_it_began(tmp_path: Path) -> None:
    append(tmp_path, rollout(0), rollout(0, problem_id="q"))
    groups = grouped_rollouts(tmp_path)
    assert next(groups)[0] == "p"
    append(tmp_path, rollout(1, problem_id="q"))
    compact(tmp_path)
    assert [len(group) for _, group in groups] == [1]


@pytest.mark.parametrize("num_rows", [1, 3, 1000])
@pytest.mark.parametrize("seed", range(6))
def test_merging_equals_a_dictionary(tmp_path: Path, seed: int, num_rows: int) -> None:
    rng = random.Random(seed)
    first_of: dict[object, Rollout] = {}
    parts: list[Path] = []
    for number in range(rng.randint(1, 7)):
        rows = [
            replace(
                rollout(rng.randint(0, 3), str(number), problem_id=rng.choice("abcäz")),
                prefix_id=rng.choice("xy"),
            )
            for _ in range(rng.randint(0, 30))
        ]
        for row in rows:
            first_of.setdefault(row.key, row)
        part = tmp_path / f"part-{number:06d}.parquet"
        table = rollouts_to_table(rows)
        if rng.random() < 0.7:
            write_parquet(part, sorted_by_key(table), sorted_by=KEY_COLUMNS)
        else:
            write_parquet(part, table)  # another program's, in any order
        parts.append(part)
    tables = list(merged_tables(parts, num_rows=num_rows))
    found = [row for table in tables for row in rollouts_from_table(table)]
    assert found == [first_of[key] for key in sorted(first_of)]
    problems = [set(table.column("problem_id").to_pylist()) for table in tables]
    assert sum(map(len, problems)) == len(set().union(*problems))


def test_a_row_with_a_null_is_named(tmp_path: Path) -> None:
    append(tmp_path, rollout(0))
    (part,) = (tmp_path / "rollouts").iterdir()
    table = pq.read_table(part)
    at = ROLLOUTS.get_field_index("text")
    pq.write_table(table.set_column(at, ROLLOUTS.field(at), pa.nulls(1, pa.string())), part)
    with pytest.raises(DataError, match=r"part-000000\.parquet has a row without text"):
        read_rollouts(tmp_path)


COMPACT_FOR_EVER = """
import sys
from pathlib import Path
from storage.lock import dataset_lock
from storage.journal import Journal, compact, read_rollouts
out = Path(sys.argv[1])
with dataset_lock(out):
    rows = read_rollouts(out)
    print("begun", flush=True)
    while True:
        for start in range(0, len(rows), 20):
            with Journal(out) as journal:
                journal.append(rows[start : start + 20])  # again, as after a crash
        compact(out)
"""


def test_compaction_killed_at_any_instant_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rows = [rollout(index % 7, problem_id=f"p{index // 7:02d}") for index in range(200)]
    append(tmp_path, *rows)
    rng = random.Random(1)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", COMPACT_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        time.sleep(rng.uniform(0.0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert read_rollouts(tmp_path) == rows
    with dataset_lock(tmp_path):
        compact(tmp_path)
    assert read_rollouts(tmp_path) == rows
    assert num_stored_rows(tmp_path) == len(rows)
