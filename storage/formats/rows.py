"""Rows of foreign files, streamed: jsonl, jsonl.gz, Parquet. What they mean is not known here.

Row numbers are 1-based: lines of a jsonl file, rows of a Parquet file. Neither a file nor a
line longer than `max_line_bytes` is ever in memory as a whole.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import ConfigError, DataError
from storage.formats.foreign import Row

MAX_LINE_BYTES = 1 << 26
_BATCH_ROWS = 64
_BUFFER_BYTES = 1 << 16
_BLANK = b"\xef\xbb\xbf \t\r\n"
_JSON_SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")

OnBytes = Callable[[int], None]
"""How far into the file reading has come."""


def numbered_rows(
    path: Path, *, on_bytes: OnBytes, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, Row | str]]:
    """Numbered rows; a string in a row's place says why it cannot be read.

    Raises ConfigError for a file that is not there or of another kind, DataError for one that
    is damaged, perhaps after some rows.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file")
    name = path.name.lower()
    if name.endswith(_JSON_SUFFIXES):
        return _json_rows(path, on_bytes, max_line_bytes)
    if name.endswith(".parquet"):
        return _parquet_rows(path, on_bytes)
    raise ConfigError(f"{path} is not a .jsonl, .jsonl.gz or .parquet file; rename or convert it")


def _json_rows(
    path: Path, on_bytes: OnBytes, max_line_bytes: int
) -> Iterator[tuple[int, Row | str]]:
    number = 0
    try:
        with ExitStack() as stack:
            raw = stack.enter_context(path.open("rb"))
            is_packed = path.name.lower().endswith(".gz")
            may_be_list = path.name.lower().endswith((".json", ".json.gz"))
            # binary: a hostile text's U+2028 ends no line
            stream = stack.enter_context(gzip.open(raw)) if is_packed else raw
            while line := stream.readline(max_line_bytes + 1):
                number += 1
                if number == 1 and may_be_list and line.lstrip(_BLANK).startswith(b"["):
                    raise ConfigError(
                        f"{path} holds one JSON list, not an object a line; convert it with "
                        f"`jq -c '.[]' {path.name} > {path.name.partition('.')[0]}.jsonl`"
                    )
                content = _json_row(line, cast("IO[bytes]", stream), max_line_bytes)
                on_bytes(raw.tell())
                if content is not None:
                    yield number, content
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read beyond line {number} ({error}); it is damaged or cut off: get "
            "it again"
        ) from error


def _json_row(line: bytes, stream: IO[bytes], max_line_bytes: int) -> Row | str | None:
    """The row of a line, why there is none, or None for a blank line."""
    if len(line) > max_line_bytes:
        while line and not line.endswith(b"\n"):
            line = stream.readline(max_line_bytes)
        return f"longer than {max_line_bytes:,} bytes"
    if not line.strip():
        return None
    try:
        row = json.loads(line)
        if b"\xed" in line or b"\\ud" in line.lower():  # what surrogates begin with
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is no character"
    except (ValueError, RecursionError) as error:
        hint = "" if line.endswith(b"\n") else "; the file may be cut off here"
        return f"not JSON ({error}){hint}"
    return cast("Row", row) if isinstance(row, dict) else "not a JSON object"


def _parquet_rows(path: Path, on_bytes: OnBytes) -> Iterator[tuple[int, Row | str]]:
    number = 0
    try:
        size = path.stat().st_size
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
            num_rows = file.metadata.num_rows
            for batch in file.iter_batches(_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
                on_bytes(size * number // max(num_rows, 1))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} cannot be read as Parquet beyond row {number} ({error}); get it again"
        ) from error
