"""Writing files so that a reader sees the old one or the new one, never a half.

Temporary file beside the target (its name begins with a dot, which every reader here
leaves out), fsync, rename, fsync of the folder.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import DataError


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write `table` to `path` whole: zstd, content-defined chunks, page index."""

    def write(temporary: Path) -> None:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            use_content_defined_chunking=True,
            write_page_index=True,
        )

    write_whole(path, write)


def write_json(path: Path, value: object) -> None:
    """Write `value` to `path` whole, as indented JSON with sorted keys."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Have `write` fill a temporary file, then put it in `path`'s place.

    Raises DataError naming `path` where the folder cannot be written or is full.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({error.strerror or error}); free space or choose another "
            "folder, then run the same command again: what was written before is intact"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_temporary(folder: Path) -> None:
    """Remove what killed writers left in `folder`; nobody else may be writing there."""
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
