"""Sorted parts of the journal read as one, in the order of their keys, without duplicates.

A merge of sorted runs, by tables instead of rows: each part is read some rows at a time,
and what no part can add to any more (all problems before the least that a part has only
begun) is handed on, sorted and complete. So memory holds some rows of each part, and all
rows of a problem at least, however large the parts are. Parts that do not say that they are
sorted (another program's) are read whole.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import DataError
from storage.schema import ROLLOUTS, file_metadata, read_table, table_batches

KEY_COLUMNS = ("problem_id", "prefix_id", "sampling_digest", "rollout_index")
"""What identifies a row and orders it, as `Rollout.key`."""
ROWS_IN_MEMORY = 16_384
"""Of all parts together."""
_FEWEST_ROWS = 256


def sorted_by_key(table: pa.Table) -> pa.Table:
    """The rows in the order of their keys; rows of one key stay in their order."""
    return table.sort_by([(name, "ascending") for name in KEY_COLUMNS])


def merged_tables(
    parts: Sequence[Path], *, num_rows: int | None = None, keeps_duplicates: bool = False
) -> Iterator[pa.Table]:
    """All rows of the parts, in tables that follow each other in the order of the keys.

    The rows of a problem are in one table. Of rows with one key that of the first part is
    kept, unless `keeps_duplicates`. A part is read `num_rows` at a time. Raises DataError for
    a damaged part.
    """
    merged = _sorted_together if keeps_duplicates else _merged
    num_rows = num_rows or max(_FEWEST_ROWS, ROWS_IN_MEMORY // max(1, len(parts)))
    reading = [_Part(part, num_rows=num_rows) for part in parts]
    while True:
        begun = [part for part in reading if not part.is_ended]
        if not begun:
            break
        limit = min(part.last_problem_id for part in begun)
        taken = [part.take_before(limit) for part in reading if part.has_before(limit)]
        if taken:
            yield merged(taken)
        for part in begun:
            if part.last_problem_id == limit:
                part.read_on()
    left = [part.rows for part in reading if part.rows.num_rows]
    if left:
        yield merged(left)


class _Part:
    """A part and those of its rows that were read and not handed on.

    `last_problem_id` is that of the rows that were read: more rows of it may follow. Before
    any was read it is the first that there will be, as the file's statistics say: parts of a
    run overlap little, and few of them are open at once.
    """

    def __init__(self, path: Path, *, num_rows: int) -> None:
        metadata = _sorted_metadata(path)
        self._batches = iter(
            _sorted_batches(path, num_rows=num_rows, is_sorted=metadata is not None)
        )
        self.rows = ROLLOUTS.empty_table()
        self.is_ended = False
        self._first_problem_id = self.last_problem_id = _least_problem_id(metadata)
        if not self.last_problem_id:
            self.read_on()

    def read_on(self) -> None:
        """Read more rows."""
        for batch in self._batches:
            if batch.num_rows:
                self.rows = pa.concat_tables([self.rows, batch]).combine_chunks()
                self._first_problem_id = str(self.rows.column("problem_id")[0])
                self.last_problem_id = str(self.rows.column("problem_id")[-1])
                return
        self.is_ended = True

    def has_before(self, problem_id: str) -> bool:
        """Whether there is a row of a problem before `problem_id`."""
        return self.rows.num_rows > 0 and self._first_problem_id < problem_id

    def take_before(self, problem_id: str) -> pa.Table:
        """Take out the rows of all problems before `problem_id`."""
        num_taken = self.rows.filter(pc.field("problem_id") < problem_id).num_rows
        taken = self.rows.slice(0, num_taken)
        self.rows = self.rows.slice(num_taken)
        if self.rows.num_rows:
            self._first_problem_id = str(self.rows.column("problem_id")[0])
        return taken


def _sorted_batches(path: Path, *, num_rows: int, is_sorted: bool) -> Iterator[pa.Table]:
    if is_sorted:
        for table in table_batches(path, ROLLOUTS, num_rows=num_rows):
            yield _filled(table, path)
    else:
        yield sorted_by_key(_filled(read_table(path, ROLLOUTS), path))


def _sorted_metadata(path: Path) -> pq.FileMetaData | None:
    """The metadata of a file that says that it is sorted by key."""
    wanted = pq.SortingColumn.from_ordering(ROLLOUTS, [(name, "ascending") for name in KEY_COLUMNS])
    try:
        metadata = file_metadata(path)
    except DataError:
        return None  # reading it says what is wrong
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    is_sorted = all(tuple(group.sorting_columns) == wanted for group in groups)
    return metadata if is_sorted else None


def _least_problem_id(metadata: pq.FileMetaData | None) -> str:
    """As the statistics say; empty where there are none."""
    if metadata is None or not metadata.num_rows:
        return ""
    statistics = metadata.row_group(0).column(ROLLOUTS.get_field_index("problem_id")).statistics
    return str(statistics.min) if statistics is not None and statistics.has_min_max else ""


def _filled(table: pa.Table, path: Path) -> pa.Table:
    empty = [name for name in table.column_names if table.column(name).null_count]
    if empty:
        raise DataError(
            f"{path} has a row without {', '.join(empty)}; it is damaged or another program's: "
            "move it away and run again, what it held is sampled anew"
        )
    return table


def _merged(tables: Sequence[pa.Table]) -> pa.Table:
    return _without_duplicates(_sorted_together(tables))


def _sorted_together(tables: Sequence[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else sorted_by_key(pa.concat_tables(tables))


def _without_duplicates(table: pa.Table) -> pa.Table:
    """Of neighbours with one key only the first."""
    table = table.combine_chunks()
    is_new = np.zeros(max(0, table.num_rows - 1), dtype=bool)
    for name in reversed(KEY_COLUMNS):
        values = table.column(name).to_numpy()
        is_new |= values[1:] != values[:-1]
        if is_new.all():
            return table
    return table.filter(pa.array(np.concatenate([[True], is_new])))
