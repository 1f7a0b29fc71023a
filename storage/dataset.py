"""A dataset folder: the problems, the journal of rollouts, and what is derived from it.

problems/part-*.parquet   the problems
rollouts/part-*.parquet   one row a rollout; the truth (`storage.journal`)
labels/<split>-*.parquet  derived snapshot, replaced whole
cost.json                 what the runs have spent so far
manifest.json             written last
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution
from storage.files import (
    file_hash,
    write_json,
    write_parquet_batches,
)
from storage.schema import LABELS, SCHEMA_VERSION, table_batches
from storage.tables import labels_from_table

_LABELS_IN_MEMORY = 1024
FOLDERS = ("problems", "rollouts", "labels")


def dataset_path(location: str | Path) -> Path:
    """The local folder of a dataset. Raises ConfigError for a remote address."""
    if re.match(r"[a-z][a-z0-9+.-]*:/", str(location)):  # a Path has lost one of two slashes
        raise ConfigError(
            f"{location} is not a local folder: datasets are written to local folders; "
            "give a path such as out/gsm8k"
        )
    return Path(location).expanduser()


def write_labels(path: Path, split: str, tables: Iterable[pa.Table]) -> None:
    """Replace the snapshot of `split` by `tables`, which are made one after the other.

    Other splits' snapshots stay, and where making a table fails this one's too.
    """
    folder = path / "labels"
    name = f"{split}-00000-of-00001.parquet"
    write_parquet_batches(folder / name, tables, schema=LABELS)
    for file in folder.glob("[!.]*.parquet"):
        if file.name != name and file.name.rpartition("-of-")[0][:-6] == split:
            file.unlink()


def stored_labels(path: Path) -> Iterator[LabeledSolution]:
    """The labelled solutions of the snapshot, a few in memory at a time.

    Raises DataError where there is none.
    """
    files = sorted((path / "labels").glob("[!.]*.parquet"))
    if not files:
        raise DataError(
            f"{path} has no labels; run `stepmark generate --config FILE --out {path}` to its end: "
            "labels are written when all problems are done"
        )
    for file in files:
        num_read = 0
        for table in table_batches(file, LABELS, num_rows=_LABELS_IN_MEMORY):
            yield from labels_from_table(table, first_row=num_read)
            num_read += table.num_rows


def read_labels(path: Path) -> list[LabeledSolution]:
    """All of `stored_labels`, in one list in memory."""
    return list(stored_labels(path))


def write_manifest(path: Path, manifest: dict[str, object]) -> None:
    """Write `manifest.json`, with the schema version and a hash of every data file."""
    files = [file for folder in FOLDERS for file in sorted((path / folder).glob("[!.]*.parquet"))]
    listing = {
        str(file.relative_to(path)): {"sha256": file_hash(file), "bytes": file.stat().st_size}
        for file in files
    }
    write_json(
        path / "manifest.json",
        {**manifest, "schema_version": SCHEMA_VERSION, "files": listing},
    )


def read_manifest(path: Path) -> dict[str, object]:
    """The manifest; empty where a run has not finished yet."""
    file = path / "manifest.json"
    if not file.exists():
        return {}
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{file} cannot be read ({error}); delete it and run again") from error
