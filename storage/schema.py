"""The tables on disk: one `pa.schema` each, versioned. The source of truth of columns.

The version stands in every file's metadata under `stepmark_schema_version`; a file of
another version is refused by name rather than misread.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import DataError
from storage.remote import for_pyarrow, transport_errors

SCHEMA_VERSION = 1
VERSION_KEY = b"stepmark_schema_version"

_BUFFER_BYTES = 1 << 16

_METADATA = {VERSION_KEY: str(SCHEMA_VERSION).encode()}


def _list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


PROBLEMS = pa.schema(
    [
        ("problem_id", pa.string()),
        ("question", pa.string()),
        ("gold_answer", pa.string()),
        ("source", pa.string()),
        ("split", pa.string()),
    ],
    metadata=_METADATA,
)

ROLLOUTS = pa.schema(
    [
        ("problem_id", pa.string()),
        ("prefix_id", pa.string()),
        ("rollout_index", pa.int32()),
        ("text", pa.string()),
        ("final_answer", pa.string()),
        ("verdict", pa.string()),
        ("verdict_reason", pa.string()),
        ("finish_reason", pa.string()),
        ("num_tokens", pa.int32()),
        ("completer", pa.string()),
        ("sampling_digest", pa.string()),
        ("grader_version", pa.string()),
        ("seed", pa.int64()),
        ("created_at", pa.string()),
    ],
    metadata=_METADATA,
)

LABELS = pa.schema(
    [
        ("problem_id", pa.string()),
        ("question", pa.string()),
        ("gold_answer", pa.string()),
        ("source", pa.string()),
        ("solution_id", pa.string()),
        ("completer", pa.string()),
        ("generator", pa.string()),
        ("sampling_digest", pa.string()),
        ("grader_version", pa.string()),
        ("steps", _list_of(pa.string())),
        ("num_rollouts", _list_of(pa.int32())),
        ("num_reused", _list_of(pa.int32())),
        ("num_correct", _list_of(pa.int32())),
        ("num_incorrect", _list_of(pa.int32())),
        ("num_undecided", _list_of(pa.int32())),
        ("num_truncated", _list_of(pa.int32())),
        ("mc_value", _list_of(pa.float32())),
        ("interval_low", _list_of(pa.float32())),
        ("interval_high", _list_of(pa.float32())),
        ("hard_label", _list_of(pa.bool_())),
        ("first_error", pa.int32()),
        ("final_answer", pa.string()),
        ("verdict", pa.string()),
    ],
    metadata=_METADATA,
)


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """The table in the Parquet file `path`, of exactly `schema`'s columns.

    Raises DataError for a file that is damaged, foreign, or of another schema version.
    """
    with _damage_named(path), _opened(path) as file:
        _check_columns(file, path, schema)
        # without what else the file says of itself, which is not true of a copy
        return file.read().replace_schema_metadata(schema.metadata)


def table_batches(
    path: Path, schema: pa.Schema, *, num_rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of a file, at most `num_rows` at a time; errors as `read_table`.

    A file of many rows is never in memory as a whole. Only `columns`, where given.
    """
    wanted = schema if columns is None else pa.schema([f for f in schema if f.name in columns])
    with _damage_named(path):
        file = _opened(path, pre_buffer=False, buffer_size=_BUFFER_BYTES)
    with file:
        with _damage_named(path):
            _check_columns(file, path, schema)
            batches = file.iter_batches(num_rows, columns=wanted.names)
        while True:
            with _damage_named(path):
                batch = next(batches, None)
            if batch is None:
                return
            yield pa.Table.from_batches([batch], wanted)


def file_metadata(path: Path) -> pq.FileMetaData:
    """What a Parquet file says of itself; errors as `read_table`, but for its columns."""
    source, filesystem = for_pyarrow(path)
    with _damage_named(path):
        return pq.read_metadata(source, filesystem=filesystem)


def _opened(path: Path, **options: Any) -> pq.ParquetFile:
    source, filesystem = for_pyarrow(path)
    return pq.ParquetFile(source, filesystem=filesystem, page_checksum_verification=True, **options)


def _check_columns(file: pq.ParquetFile, path: Path, schema: pa.Schema) -> None:
    found = file.schema_arrow
    version = (found.metadata or {}).get(VERSION_KEY)
    if version != str(SCHEMA_VERSION).encode():
        raise DataError(
            f"{path} has schema version {version.decode() if version else 'none'}, this "
            f"stepmark reads version {SCHEMA_VERSION}; use the stepmark that wrote it, or "
            "move the file away"
        )
    if not found.equals(schema):
        raise DataError(f"{path} has other columns than stepmark's: {found.names}; move it away")


@contextmanager
def _damage_named(path: Path) -> Generator[None, None, None]:
    try:
        with transport_errors():
            yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read as Parquet ({error}); it is damaged or foreign: move it away "
            "and run again, what it held is sampled anew"
        ) from error
