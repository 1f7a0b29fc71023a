"""The order, the row groups and the files of what goes to the Hub."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import DataError
from storage.hub_files import write_hub_files
from storage.hub_rows import ShardWriter, ordered_groups
from storage.problem_table import added_order, write_problems
from tests.publish_writer import problem, solution, write_labels

SCHEMA = pa.schema([("problem_id", pa.string()), ("row", pa.int64())])


def rows_of(num_problems: int, rows_a_problem: int) -> tuple[pa.Array, list[pa.Table]]:
    """Problems in the order `order`; their rows in tables by id, as a snapshot has them."""
    order = [f"{(index * 7919) % 100_003:06d}" for index in range(num_problems)]
    rows = [(one, 10 * int(one) + row) for one in sorted(order) for row in range(rows_a_problem)]
    ids, numbers = zip(*rows, strict=True)
    table = pa.table({"problem_id": ids, "row": numbers}, schema=SCHEMA)
    return pa.array(order), [table.slice(start, 700) for start in range(0, len(rows), 700)]


def written(folder: Path, num_problems: int, *, rows_a_group: int) -> list[Path]:
    order, tables = rows_of(num_problems, 3)
    folder.mkdir()
    with ShardWriter(folder, "train", SCHEMA) as writer:
        for shard, group in ordered_groups(
            iter(tables), order, folder / ".rows", rows_a_group=rows_a_group
        ):
            writer.write(shard, group)
    assert writer.num_rows == 3 * num_problems
    (folder / ".rows").unlink()
    assert sorted(folder.iterdir()) == writer.paths
    found = pa.concat_tables([pq.read_table(path) for path in writer.paths])
    assert found.column("problem_id").to_pylist() == [
        one for one in order.to_pylist() for _ in range(3)
    ]
    rows = found.column("row").to_numpy().reshape(-1, 3)
    assert (rows[:, 1:] - rows[:, :-1] == 1).all()  # a problem's rows stay in their order
    return writer.paths


def test_a_small_set_is_one_file(tmp_path: Path) -> None:
    (path,) = written(tmp_path / "one", 100, rows_a_group=1000)
    assert path.name == "train-00000-of-00001.parquet"
    assert pq.read_metadata(path).num_row_groups == 1


def test_large_sets_have_8_to_16_files_of_fixed_ranges(tmp_path: Path) -> None:
    for name, num_problems, expected in (("a", 3000, 12), ("b", 4500, 9), ("c", 4096, 16)):
        paths = written(tmp_path / name, num_problems, rows_a_group=768)
        assert len(paths) == expected
    groups = [pq.read_metadata(path).num_row_groups for path in (tmp_path / "b").iterdir()]
    assert sorted(groups) == [2] * 8 + [2]
    of_rows = [pq.read_metadata(path).row_group(0).num_rows for path in (tmp_path / "a").iterdir()]
    assert sorted(of_rows)[1:] == [3 * 256] * 11


def test_new_problems_change_the_last_file_only(tmp_path: Path) -> None:
    before = written(tmp_path / "before", 3000, rows_a_group=768)
    after = written(tmp_path / "after", 3030, rows_a_group=768)
    same = [
        one.read_bytes() == other.read_bytes() for one, other in zip(before, after, strict=True)
    ]
    assert same == [True] * 11 + [False]


def test_a_problem_that_is_not_stored(tmp_path: Path) -> None:
    order, tables = rows_of(10, 1)
    groups = ordered_groups(iter(tables), order.slice(1), tmp_path / ".rows")
    with pytest.raises(DataError, match=r"a problem '000000', which is no stored problem's id"):
        list(groups)


def test_the_order_is_that_of_the_first_row_of_a_problem(tmp_path: Path) -> None:
    write_problems(tmp_path, [problem(index) for index in (3, 1)])
    changed = problem(3)
    write_problems(
        tmp_path, [problem(2), changed.__class__(changed.problem_id, changed.question, "9", "", "")]
    )
    ids = [problem(index).problem_id for index in (3, 1, 2)]
    assert added_order(tmp_path).to_pylist() == ids


def test_the_same_labels_give_the_same_bytes(tmp_path: Path) -> None:
    write_labels(tmp_path / "dataset", [solution(index) for index in range(9)])
    snapshot = tmp_path / "dataset" / "snapshots" / "000001"
    made = []
    for name in ("one", "two"):
        staging = tmp_path / name
        staging.mkdir()
        made.append(write_hub_files(tmp_path / "dataset", snapshot, staging, hard_threshold=0.0))
    one, two = ({file.name: file.sha256 for file in files.files} for files in made)
    assert one == two
    assert one.keys() == {"data/train-00000-of-00001.parquet", "trl/train-00000-of-00001.parquet"}
    metadata = pq.read_metadata(tmp_path / "one" / "data" / "train-00000-of-00001.parquet")
    column = metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.has_offset_index
    assert b"huggingface" in metadata.metadata
