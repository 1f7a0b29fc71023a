"""Writing files so that a reader sees the old one or the new one, never a half.

Temporary file beside the target (its name begins with a dot, which every reader here
leaves out), fsync, rename, fsync of the folder; in an object store one put. A link is
followed and stays; a device or a pipe cannot be replaced and is written to as it is.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import DataError
from storage.remote import is_remote, put_whole, transport_errors


def write_parquet(
    path: Path, table: pa.Table, *, sorted_by: Sequence[str] = (), is_new: bool = False
) -> None:
    """Write `table` to `path` whole: zstd, content-defined chunks, page index, page
    checksums.

    The file says that its rows are in the order of the columns `sorted_by`. `is_new` as for
    `write_whole`.
    """
    write_parquet_batches(path, [table], schema=table.schema, sorted_by=sorted_by, is_new=is_new)


def write_parquet_batches(
    path: Path,
    tables: Iterable[pa.Table],
    *,
    schema: pa.Schema,
    sorted_by: Sequence[str] = (),
    metadata: Mapping[str, str] | None = None,
    is_new: bool = False,
) -> None:
    """`write_parquet` of tables that are made one after the other: a row group each.

    `metadata` is kept in the file beside the schema's. Where making a table fails, `path`
    stays as it was.
    """

    def write(temporary: Path) -> None:
        with parquet_writer(temporary, schema, sorted_by=sorted_by) as writer:
            for table in tables:
                writer.write_table(table)
            writer.add_key_value_metadata(dict(metadata or {}))

    write_whole(path, write, is_new=is_new)


def parquet_writer(
    path: Path, schema: pa.Schema, *, sorted_by: Sequence[str] = ()
) -> pq.ParquetWriter:
    """Opens `path` as `write_parquet` does; each table becomes a row group."""
    order = [(name, "ascending") for name in sorted_by]
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_content_defined_chunking=True,
        write_page_index=True,
        write_page_checksum=True,
        sorting_columns=pq.SortingColumn.from_ordering(schema, order) if order else None,
    )


def write_json(path: Path, value: object) -> None:
    """Write `value` to `path` whole, as indented JSON with sorted keys.

    Raises ValueError for a number that JSON does not have (NaN, infinity).
    """
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[Path], object], *, is_new: bool = False) -> None:
    """Have `write` fill a temporary file, then put it in `path`'s place.

    Raises DataError naming `path` where it is a folder, where its folder cannot be written or
    is full, and, where `path` has to be `is_new`, if there is a file already.
    """
    with write_errors(path):
        if is_remote(path):
            put_whole(path, write, is_new=is_new)
        elif is_new and path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        elif _is_replaceable(path):
            _replace(Path(os.path.realpath(path)), write)
        else:
            _write_into(path, write)


@contextlib.contextmanager
def write_errors(path: Path) -> Generator[None, None, None]:
    """Turns an OSError of what writes `path` into a DataError that names it."""
    try:
        with transport_errors():
            yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({_reason(error)}); {_advice(error, path)}: what was "
            "written before is intact"
        ) from error


def remove_temporary(folder: Path) -> None:
    """Remove what killed writers left in `folder`; nobody else may be writing there."""
    if is_remote(folder):  # there are none: a put is whole or does not happen
        return
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_replaceable(path: Path) -> bool:
    """Whether `path` is free or a plain file; raises IsADirectoryError for a folder.

    A file into which the shell sends our standard output is not: it holds more than this.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return stat.S_ISREG(found.st_mode) and not _is_standard_output(found)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_into(path: Path, write: Callable[[Path], object]) -> None:
    # by way of a file: a writer may seek, and pyarrow's deletes its target when it fails
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        write(made)
        output = os.dup(1) if _is_standard_output(path.stat()) else path
        with made.open("rb") as source, open(output, "wb") as target:  # noqa: PTH123 - descriptor
            sys.stdout.flush()
            shutil.copyfileobj(source, target)


def _is_standard_output(found: os.stat_result) -> bool:
    try:
        return os.path.samestat(found, os.fstat(1))
    except OSError:  # closed
        return False


def _reason(error: OSError) -> str:
    # pyarrow gives the errno, and a long text of its own that repeats the path
    return os.strerror(error.errno) if error.errno else str(error)


def _advice(error: OSError, path: Path) -> str:
    match error.errno:
        case errno.EEXIST if str(error.filename) == str(path):
            return "another process works on this dataset: let it end, then run the command again"
        case errno.ENOSPC | errno.EDQUOT:
            return "the disk is full: free space, then run the same command again"
        case errno.EISDIR:
            return "it is a folder: name a file in it, or another file"
        case errno.ENOENT | errno.ENOTDIR | errno.EEXIST:
            return "a folder of this path is missing or is a file: name another place"
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return "choose a folder that you may write to, then run the same command again"
        case _:
            return "choose another place, then run the same command again"
