"""A dataset folder: the problems, the journal of rollouts, and what is derived from it.

problems/part-*.parquet   the problems
rollouts/part-*.parquet   one row a rollout; the truth (`storage.journal`)
snapshots/000001/         labels, derived: <split>-*.parquet and a manifest (`storage.snapshots`)
labels                    a link to the current snapshot, for other programs
cost.json                 what the runs have spent so far
manifest.json             written last; names the current snapshot
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution
from storage.files import file_hash, write_json
from storage.remote import remote_path
from storage.schema import LABELS, SCHEMA_VERSION, table_batches
from storage.tables import labels_from_table

FOLDERS = ("problems", "rollouts")
"""Those to which a run adds files."""
SNAPSHOTS = "snapshots"
MANIFEST = "manifest.json"
SNAPSHOT_MANIFEST = "_manifest.json"
"""With a name that pyarrow and `datasets` leave out: the folder of labels is Parquet to them."""
EARLIER_LABELS = "000000"
"""The snapshot made of the `labels` folder of a stepmark that kept no snapshots."""

_LABELS_IN_MEMORY = 1024
_SNAPSHOT_ID = re.compile(r"\d{6,18}", re.ASCII)


def dataset_path(location: str | Path) -> Path:
    """The path of a dataset: a local folder, or a prefix of an object store (`storage.remote`).

    Raises ConfigError for an address that no dataset can have.
    """
    remote = remote_path(location)
    return Path(location).expanduser() if remote is None else remote


def refuse_model(path: Path) -> None:
    """Raise ConfigError where `path` is the folder of a PRM or another model."""
    try:
        content = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if isinstance(content, dict) and "model_type" in content:
        what = "a PRM that `stepmark train` wrote" if "stepmark" in content else "a model"
        raise ConfigError(
            f"{path} is {what}, not a dataset; name a folder that `stepmark generate` wrote, or, "
            "for a new dataset, a new folder"
        )


def labels_path(path: Path) -> Path:
    """The folder of the current label files, `<split>-*.parquet`.

    That is the snapshot which the manifest names, else the `labels` folder of an earlier
    stepmark. Raises DataError where there are no labels.
    """
    snapshot = current_snapshot(path)
    if snapshot is not None:
        folder = path / SNAPSHOTS / snapshot
        if not folder.is_dir():
            raise DataError(
                f"{folder} is missing, though {path / MANIFEST} names it; {_remake(path)}"
            )
        return folder
    for folder in (path / "labels", path / SNAPSHOTS / EARLIER_LABELS):
        if label_files(folder):
            return folder
    refuse_model(path)
    raise DataError(
        f"{path} has no labels; {_remake(path)}: labels are written when all problems are done"
    )


def label_files(folder: Path) -> list[Path]:
    """The files of a snapshot, by split."""
    return sorted(folder.glob("[!.]*.parquet"))


def split_of(file: Path) -> str:
    """The split that a label file is of."""
    return file.stem.rpartition("-of-")[0][:-6] or file.stem


def stored_labels(path: Path, *, split: str | None = None) -> Iterator[LabeledSolution]:
    """The labelled solutions of the current snapshot, a few in memory at a time.

    Split by split (or only of `split`), in the order of the problems' ids. Raises DataError
    where there are none, and ConfigError for a split that is not there.
    """
    files = label_files(labels_path(path))
    if split is not None and split not in map(split_of, files):
        there = ", ".join(sorted(map(split_of, files)))
        raise ConfigError(f"{path} has no split {split!r}; it has {there}")
    for file in files:
        if split is not None and split_of(file) != split:
            continue
        num_read = 0
        for table in table_batches(file, LABELS, num_rows=_LABELS_IN_MEMORY):
            yield from labels_from_table(table, first_row=num_read)
            num_read += table.num_rows


def read_labels(path: Path) -> list[LabeledSolution]:
    """All of `stored_labels`, in one list in memory."""
    return list(stored_labels(path))


def write_manifest(path: Path, manifest: dict[str, object]) -> dict[str, object]:
    """Write `manifest.json`, with the schema version and a hash of every data file; returns it.

    Of the snapshots only the files of the one that the manifest names are listed.
    """
    folders = [path / name for name in FOLDERS]
    if "snapshot" in manifest:
        folders.append(path / SNAPSHOTS / str(manifest["snapshot"]))
    written = with_files(manifest, path, folders)
    write_json(path / MANIFEST, written)
    return written


def with_files(manifest: dict[str, object], root: Path, folders: list[Path]) -> dict[str, object]:
    """The manifest with the schema version, and hash and bytes of the files in `folders`,
    which are named relative to `root`.
    """
    files = [file for folder in folders for file in sorted(folder.glob("[!.]*.parquet"))]
    listing = {
        file.relative_to(root).as_posix(): {
            "sha256": file_hash(file),
            "bytes": file.stat().st_size,
        }
        for file in files
    }
    return {**manifest, "schema_version": SCHEMA_VERSION, "files": listing}


def read_manifest(path: Path) -> dict[str, object]:
    """The manifest of a dataset or a snapshot; empty where there is none yet."""
    own = path / SNAPSHOT_MANIFEST
    file = own if own.exists() else path / MANIFEST
    if not file.exists():
        return {}
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{file} cannot be read ({error}); delete it and run again") from error


def current_snapshot(path: Path) -> str | None:
    """The id of the snapshot that the manifest names; None where it names none.

    Raises DataError for what is no id.
    """
    snapshot = read_manifest(path).get("snapshot")
    if snapshot is None:
        return None
    if not isinstance(snapshot, str) or not is_snapshot_id(snapshot):
        raise DataError(
            f"{path / MANIFEST}: snapshot = {snapshot!r} is no snapshot's name such as 000001; "
            "delete the file and run again"
        )
    return snapshot


def is_snapshot_id(name: str) -> bool:
    """Whether a folder of this name in `snapshots` is a finished snapshot."""
    return _SNAPSHOT_ID.fullmatch(name) is not None


def _remake(path: Path) -> str:
    return f"run `stepmark generate --config FILE --out {path}` to its end"
