"""The journal of rollouts: append-only parts, read as one in the order of the keys.

Every few seconds what was finished is written as a new part, sorted by key. Reading merges
the parts (`storage.merge`) problem by problem, so that memory does not grow with the number
of rollouts. Small parts are merged into larger ones; a part's rows are on disk twice before
the old one goes, and duplicates are dropped on read, so a crash at any instant neither
loses nor doubles a row. A part of `LARGE_PART_ROWS` is not merged again.

Rows change in one way only: `rewrite` writes them all into one new part that replaces the
others (a new grader's verdicts). A part names those that it replaces, and readers leave
them out, so that what a crash left of them shows no old row.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.records import Rollout
from storage.files import write_parquet, write_parquet_batches
from storage.merge import KEY_COLUMNS, merged_tables, sorted_by_key
from storage.schema import ROLLOUTS, file_metadata
from storage.tables import rollouts_from_table, rollouts_to_table

FLUSH_SECONDS = 3.0
MAX_PARTS_READ = 64
"""Parts that are open at once."""
LARGE_PART_ROWS = 1_000_000
_ROW_GROUP_ROWS = 32_768
_REPLACES = "stepmark_replaces"
_REWRITES = "stepmark_rewrites"


class Journal:
    """Appends rollouts to a dataset; use as a context manager under `dataset_lock`.

    Rows are buffered for at most `flush_seconds` between appends and written as a new part.
    """

    def __init__(self, path: Path, *, flush_seconds: float = FLUSH_SECONDS) -> None:
        self._folder = path / "rollouts"
        self._flush_seconds = flush_seconds
        self._buffer: list[Rollout] = []
        self._flushed_at = time.monotonic()
        self._next_number = _next_number(self._folder)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def append(self, rollouts: Sequence[Rollout]) -> None:
        """Keep finished rollouts; on disk within seconds."""
        self._buffer.extend(rollouts)
        if time.monotonic() - self._flushed_at >= self._flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered now."""
        if self._buffer:
            table = sorted_by_key(rollouts_to_table(self._buffer))
            part = _part(self._folder, self._next_number)
            write_parquet(part, table, sorted_by=KEY_COLUMNS, is_new=True)
            self._next_number += 1
            self._buffer = []
        self._flushed_at = time.monotonic()


def grouped_rollouts(
    path: Path, *, sampling_digests: set[str] | None = None
) -> Iterator[tuple[str, list[Rollout]]]:
    """The stored rollouts without duplicates: each problem's id and its rollouts.

    In the order of the ids, and of the keys within a problem. Only those of
    `sampling_digests`, where given. What is appended after the first is asked for is not
    seen; to compact meanwhile would take parts away. Raises DataError for a damaged part.
    """
    for table in merged_tables(live_parts(path)):
        if sampling_digests is not None:
            is_wanted = pc.field("sampling_digest").isin(sorted(sampling_digests))
            table = table.filter(is_wanted)  # noqa: PLW2901
        rollouts = rollouts_from_table(table)
        for problem_id, group in itertools.groupby(rollouts, lambda rollout: rollout.problem_id):
            yield problem_id, list(group)


def read_rollouts(path: Path, *, sampling_digests: set[str] | None = None) -> list[Rollout]:
    """All that `grouped_rollouts` gives, in one list in memory."""
    groups = grouped_rollouts(path, sampling_digests=sampling_digests)
    return [rollout for _, group in groups for rollout in group]


def compact(path: Path, *, max_parts: int = 1, large_rows: int = LARGE_PART_ROWS) -> None:
    """Merge small parts until at most `max_parts` of them are left, under `dataset_lock`.

    A part of `large_rows` or more is not small. A merged part names those that it replaces,
    so that what a crash left of them is removed.
    """
    folder = path / "rollouts"
    small = [part for part in _cleared(path) if file_metadata(part).num_rows < large_rows]
    while len(small) > max_parts:
        num_merged = min(MAX_PARTS_READ, len(small) - max_parts + 1)
        together, small = small[:num_merged], small[num_merged:]
        merged = _replace(folder, together, merged_tables(together))
        if file_metadata(merged).num_rows < large_rows:
            small.append(merged)


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table | None]) -> bool:
    """Write all rows anew into one part that replaces the others, under `dataset_lock`.

    `change` is given whole problems, in the order of the keys, some thousand rows at a time,
    and returns the same rows in the same order, or None where it leaves them as they are.
    Where it leaves all nothing is written, and False is returned. A crash at any instant
    leaves all rows as they were or all as they are now; no Journal may be open.
    """
    compact(path, max_parts=MAX_PARTS_READ)
    parts = live_parts(path)
    try:
        tables = _changed(merged_tables(parts), change)
        _replace(path / "rollouts", parts, tables, is_rewrite=True)
    except _NothingChangedError:
        return False
    return True


def live_parts(path: Path) -> list[Path]:
    """The parts of the journal that no present part replaces, in their order."""
    metadata = {part: file_metadata(part) for part in _parts(path / "rollouts")}
    replaced = {name for part, one in metadata.items() for name in _replaced_by(part, one)}
    return [part for part in metadata if part.name not in replaced]


def all_parts(path: Path) -> list[Path]:
    """Every part of the journal, those that another one replaces as well."""
    return _parts(path / "rollouts")


def is_rewrite(part: Path) -> bool:
    """Whether a part holds other rows than those it replaces. Raises DataError as above."""
    return _REWRITES.encode() in (file_metadata(part).metadata or {})


def replaced_by(part: Path) -> set[str]:
    """The names of the parts that `part` replaces. Raises DataError for a damaged part."""
    return set(_replaced_by(part, file_metadata(part)))


class _NothingChangedError(Exception):
    """Ends a write that would leave everything as it is."""


def _changed(
    tables: Iterator[pa.Table], change: Callable[[pa.Table], pa.Table | None]
) -> Iterator[pa.Table]:
    is_changed = False
    for table in tables:
        changed = change(table)
        is_changed = is_changed or changed is not None
        yield table if changed is None else changed
    if not is_changed:
        raise _NothingChangedError


def _cleared(path: Path) -> list[Path]:
    """The live parts, after removing those that a crash left of the replaced ones."""
    live = live_parts(path)
    for part in _parts(path / "rollouts"):
        if part not in live:
            part.unlink()
    return live


def _replace(
    folder: Path, parts: Sequence[Path], tables: Iterator[pa.Table], *, is_rewrite: bool = False
) -> Path:
    """Write `tables` as a new part, then remove the parts that it replaces."""
    merged = _part(folder, _next_number(folder))
    write_parquet_batches(
        merged,
        _row_groups(tables),
        schema=ROLLOUTS,
        sorted_by=KEY_COLUMNS,
        metadata={
            _REPLACES: " ".join(part.name for part in (merged, *parts)),
            **({_REWRITES: "yes"} if is_rewrite else {}),
        },
        is_new=True,
    )
    for part in parts:
        part.unlink()
    return merged


def _replaced_by(part: Path, metadata: pq.FileMetaData) -> list[str]:
    """The names of the parts that were merged into this one.

    The list begins with the merged part's own name, so that a copy claims nothing.
    """
    listed = (metadata.metadata or {}).get(_REPLACES.encode(), b"").decode().split()
    return listed[1:] if listed[:1] == [part.name] else []


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(one.num_rows for one in waiting) >= _ROW_GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _parts(folder: Path) -> list[Path]:
    found = folder.glob("part-*.parquet")
    return sorted((part for part in found if part.stem[5:].isdecimal()), key=_number)


def _number(part: Path) -> int:
    return int(part.stem[5:])


def _next_number(folder: Path) -> int:
    return max(map(_number, _parts(folder)), default=-1) + 1


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number:06d}.parquet"
