"""The order of the rows that go to the Hub, and their Parquet files.

Rows stand in the order in which their problems were first added to the dataset, not in that of
the ids: so new problems come last, and what stood before them keeps its bytes. A row group holds
a fixed range of that order, a power of two of problems, and a file (a shard) a power of two of
row groups: a night's growth moves no boundary, and the day that doubles the range merges row
groups whose pages stay as they were. docs/decisions/0017 has the measurements.

Rows come in any order and of any number: they go through a temporary file, from which one row
group at a time is read.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import DataError
from storage.files import parquet_writer, write_errors

ROWS_A_GROUP = 32_768
"""About so many rows share a row group: the columns of counts, which a night's top-up changes
all over, are then long enough to be chunks of their own, and the text beside them stays."""
MOST_SHARDS = 16
"""Of a split: 8 to 16 once it has that many row groups."""
_MOST_RANGES = 512
_FEWEST_PROBLEMS = 64


def ordered_groups(
    tables: Iterable[pa.Table], order: pa.Array, spill: Path, *, rows_a_group: int = ROWS_A_GROUP
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of `tables` by the place of their `problem_id` in `order`, group by group.

    Each with the number of its shard; numbers ascend, and may leave some out. Rows of one
    problem stay in their order. `spill` is a file that is written for the time. Raises
    DataError for a problem that `order` does not have.
    """
    ranges = _Ranges(len(order))
    for table in tables:
        if table.num_rows:
            ranges.add(table, _places(table, order), spill)
    if not ranges.num_rows:
        return
    problems_a_group = ranges.problems_a_group(rows_a_group)
    num_groups = math.ceil(len(order) / problems_a_group)
    groups_a_shard = _power_of_two(math.ceil(num_groups / MOST_SHARDS))
    for number, group in ranges.groups(spill, problems_a_group):
        places = _places(group, order)
        yield number // groups_a_shard, group.take(np.argsort(places.to_numpy(), kind="stable"))


class ShardWriter:
    """The files `<folder>/<split>-xxxxx-of-xxxxx.parquet`, written one after the other.

    They have their names when the writer is left; `paths` are their paths then.
    """

    def __init__(self, folder: Path, split: str, schema: pa.Schema) -> None:
        self.paths: list[Path] = []
        self.num_rows = 0
        self._folder, self._split, self._schema = folder, split, schema
        self._written: list[Path] = []
        self._shard = -1
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()
        for index, path in enumerate(self._written):
            name = f"{self._split}-{index:05d}-of-{len(self._written):05d}.parquet"
            self.paths.append(path.rename(self._folder / name))

    def write(self, shard: int, table: pa.Table) -> None:
        """Add a row group to the shard, which is not below that of the call before."""
        if not table.num_rows:  # `load_dataset` refuses a file without rows
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with write_errors(self._folder):
            if self._writer is None or shard != self._shard:
                self._close()
                self._shard = shard
                self._written.append(self._folder / f".{self._split}-{shard}.tmp")
                self._writer = parquet_writer(self._written[-1], self._schema)
            rows = table.cast(self._schema)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self.num_rows += table.num_rows

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def with_features(schema: pa.Schema) -> pa.Schema:
    """The schema with what `datasets` wants to know of it, so that loading infers nothing."""
    from datasets import Features

    features = Features.from_arrow_schema(schema).arrow_schema.metadata or {}
    return schema.with_metadata({**(schema.metadata or {}), **features})


class _Ranges:
    """Rows in a temporary file, as batches of at most a few hundred ranges of places."""

    def __init__(self, num_problems: int) -> None:
        self.num_rows = 0
        self._num_problems = num_problems
        self._problems_a_range = max(
            _FEWEST_PROBLEMS, _power_of_two(math.ceil(num_problems / _MOST_RANGES))
        )
        self._batches: defaultdict[int, list[int]] = defaultdict(list)
        self._num_batches = 0
        self._writer: pa.RecordBatchFileWriter | None = None

    def add(self, table: pa.Table, places: pa.Array, spill: Path) -> None:
        if self._writer is None:
            self._writer = pa.ipc.new_file(spill, table.schema)
        numbers = places.to_numpy() // self._problems_a_range
        by_range = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[by_range], prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(by_range)], strict=True):
            rows = table.take(by_range[start:end]).combine_chunks()
            with write_errors(spill):
                self._writer.write_table(rows)
            for _ in rows.to_batches():
                self._batches[int(numbers[by_range[start]])].append(self._num_batches)
                self._num_batches += 1
        self.num_rows += table.num_rows

    def problems_a_group(self, rows_a_group: int) -> int:
        """The power of two whose problems have about so many rows."""
        wanted = rows_a_group * self._num_problems / self.num_rows
        return max(self._problems_a_range, 1 << max(0, round(math.log2(wanted))))

    def groups(self, spill: Path, problems_a_group: int) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each group that has any, in the order in which they were added."""
        assert self._writer is not None
        self._writer.close()
        batches: defaultdict[int, list[int]] = defaultdict(list)
        for number, found in self._batches.items():
            batches[number * self._problems_a_range // problems_a_group] += found
        with pa.OSFile(str(spill)) as source, pa.ipc.open_file(source) as reader:
            for number in sorted(batches):
                listed = [reader.get_batch(index) for index in sorted(batches[number])]
                yield number, pa.Table.from_batches(listed).combine_chunks()


def _places(table: pa.Table, order: pa.Array) -> pa.Array:
    ids = table.column("problem_id").combine_chunks()
    places = pc.call_function("index_in", [ids], pc.SetLookupOptions(value_set=order))
    if places.null_count:
        unknown = ids.filter(places.is_null())[0].as_py()
        raise DataError(
            f"the labels have a problem {unknown!r}, which is no stored problem's id; "
            "`stepmark verify` says what is wrong with the dataset"
        )
    return places


def _power_of_two(at_least: int) -> int:
    return 1 << max(0, at_least - 1).bit_length()
