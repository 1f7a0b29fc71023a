"""Rows of a source of problems: jsonl, csv, Parquet, a Hub dataset, a folder of such files.

Row numbers are 1-based: the line of a jsonl or csv file (the csv header is line 1), the row
of a Parquet file or of a dataset's split. What the rows mean is `storage.problems`' business.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import ConfigError, DataError
from storage.problem_config import ProblemsConfig

MAX_CSV_FIELD = 2**31 - 1
"""Characters: more than a file of problems has."""

MAX_REASON = 300
"""Characters of a library's own message that are shown."""

Row = Mapping[str, object]


def numbered_rows(config: ProblemsConfig) -> Iterator[tuple[int, Row | str]]:
    """Numbered rows of the source; a string in a row's place says why it cannot be read.

    Raises ConfigError for a source that does not exist or cannot be read as what it is,
    DataError for a damaged file, both perhaps after some rows.
    """
    try:
        path = Path(config.source).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"problems.source = {config.source[:80]!r} cannot be looked up ({reason}); give a "
            "file, a folder, a Hub dataset id or 'demo'"
        ) from error
    suffix = path.suffix.lower()
    readers = {".jsonl": _jsonl_rows, ".csv": _csv_rows, ".parquet": _parquet_rows}
    if is_folder:
        _require_readable(path, config)
        return _hub_rows(config, folder=path.absolute())
    if suffix in readers and is_file:
        return readers[suffix](path)
    if suffix in readers:
        raise ConfigError(f"problems.source = {config.source!r}: there is no such file")
    if is_file:
        raise ConfigError(
            f"problems.source = {config.source!r}: {suffix or 'no suffix'} is not a known "
            "format; give a .jsonl, .csv or .parquet file, or a folder"
        )
    if "/" not in config.source:  # load_dataset takes some such names for formats of files here
        raise ConfigError(
            f"problems.source = {config.source!r} is neither a file nor a folder here, and a Hub "
            "dataset id is OWNER/NAME"
        )
    return _hub_rows(config)


def _jsonl_rows(path: Path) -> Iterator[tuple[int, Row | str]]:
    with _opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield number, f"not JSON ({error})"
                continue
            yield number, row if isinstance(row, dict) else "not a JSON object"


def _csv_rows(path: Path) -> Iterator[tuple[int, Row | str]]:
    csv.field_size_limit(MAX_CSV_FIELD)  # the process's own; 131072 by default
    with _opened(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        try:
            header = next(reader, [])
            _require_distinct(header, path)
            number = reader.line_num + 1  # a row can take many lines: this is its first
            for values in reader:
                if len(values) > len(header):
                    yield number, f"{len(values)} fields, but the header has {len(header)}"
                elif values:
                    yield number, dict(zip(header, values, strict=False))
                number = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line {reader.line_num}: not valid csv ({error})") from error


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check its rights") from error


def _require_distinct(names: Sequence[str], path: Path) -> None:
    """Columns without a name, which a table program leaves at the edge, may be many."""
    repeated = [name for name, count in Counter(names).items() if name and count > 1]
    if repeated:
        raise ConfigError(
            f"{path} has more than one column {', '.join(map(repr, repeated))}; which one is "
            "meant cannot be told: rename or remove the others"
        )


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row | str]]:
    try:
        number = 0
        file = pq.ParquetFile(path)
        _require_distinct(file.schema_arrow.names, path)
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error


def _require_readable(folder: Path, config: ProblemsConfig) -> None:
    if config.hub_revision is not None:
        raise ConfigError(
            f"problems.source = {config.source!r} is a folder here, and problems.hub_revision = "
            f"{config.hub_revision!r} is only for the Hub: remove it, or move the folder"
        )
    if (folder / "state.json").is_file():
        raise ConfigError(
            f"problems.source = {config.source!r} was written by save_to_disk; give a folder of "
            "data files (write it with to_parquet, or download it from the Hub)"
        )


def _hub_rows(
    config: ProblemsConfig, *, folder: Path | None = None
) -> Iterator[tuple[int, Row | str]]:
    """Rows of a Hub dataset, or of the folder, which has what a Hub dataset has."""
    try:
        rows = _folder_split(config, folder) if folder else _hub_split(config)
        yield from enumerate(rows, start=1)
    except ConfigError:
        raise
    except Exception as error:  # datasets raises whatever its parts raise
        kind, more = ("folder of data files", "") if folder else ("Hub dataset", "hub_revision, ")
        raise ConfigError(
            f"problems.source = {config.source!r} cannot be read as a {kind}; check it and "
            f"problems.hub_config, {more}split: {_one_line(error)}"
        ) from error


def _folder_split(config: ProblemsConfig, folder: Path) -> Iterator[Row]:
    """Straight from the files: the cache of `datasets` does not notice that they change."""
    from datasets import load_dataset_builder

    with TemporaryDirectory() as empty_cache:
        builder = load_dataset_builder(str(folder), config.hub_config, cache_dir=empty_cache)
        yield from cast(Iterable[Row], builder.as_streaming_dataset(split=config.split))


def _hub_split(config: ProblemsConfig) -> Iterable[Row]:
    from datasets import load_dataset_builder
    from datasets.packaged_modules.cache.cache import Cache

    builder = load_dataset_builder(config.source, config.hub_config, revision=config.hub_revision)
    # where the Hub does not answer, datasets takes the newest of its cache, whatever the revision
    if config.hub_revision not in (None, builder.hash) and isinstance(builder, Cache):
        raise ConfigError(
            f"problems.hub_revision = {config.hub_revision!r} of {config.source!r} cannot be had "
            f"from the Hub, and the newest copy in the cache is commit {builder.hash}: go online, "
            "or name that commit"
        )
    builder.download_and_prepare()
    return cast(Iterable[Row], builder.as_dataset(split=config.split))


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:MAX_REASON] if text else repr(error)
