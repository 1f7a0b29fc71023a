"""Snapshots: the labels as they were at the end of a run, kept beside each other.

    snapshots/000002/<split>-00000-of-00001.parquet, _manifest.json

A snapshot is written whole under a name that readers leave out, then renamed, then the
dataset's manifest names it (the pointer), then the link `labels` is turned. So a reader, who
goes by the pointer, sees the old labels or the new ones at every instant, and a folder with a
number is always complete. What a killed run left is cleared by the next one. Labels that are
the same as the current ones make no new snapshot.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import ConfigError, DataError
from storage.dataset import (
    EARLIER_LABELS,
    SNAPSHOT_MANIFEST,
    SNAPSHOTS,
    current_snapshot,
    is_snapshot_id,
    label_files,
    read_manifest,
    with_files,
    write_manifest,
)
from storage.files import parquet_writer, sync, write_errors, write_json
from storage.published import published_snapshots
from storage.remote import is_remote, local_state, put_folder, remove_folder
from storage.schema import LABELS

LINK = "labels"
_NEXT = ".next"
_REMOVED = ".removed-"
_DEFINING = (
    "completer",
    "generator",
    "sampling_digest",
    "generator_digest",
    "grader_version",
    "schema_version",
    "files",
)
"""What of a manifest makes a snapshot another one; time and cost do not."""

logger = logging.getLogger(__name__)


def stage_labels(path: Path, tables: Iterable[tuple[str, pa.Table]]) -> None:
    """Write the label files of the next snapshot, which no reader sees yet.

    `tables` are made one after the other, each with its split and of the LABELS schema; a
    table becomes a row group. A split without a table has no file (an empty one would fail in
    `load_dataset`). What an interrupted run left is removed first. Under `dataset_lock`.
    """
    clear_unfinished(path)
    folder = _staged(path)
    try:
        with write_errors(folder):
            folder.mkdir(parents=True)
            _write_splits(folder, tables)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def publish_snapshot(path: Path, manifest: dict[str, object], *, keep: int) -> dict[str, object]:
    """Make the staged labels the current ones, with `manifest`; returns it as it was written.

    Where they are the same as before, the snapshot stays and only the dataset's manifest is
    written. The newest `keep` snapshots stay, at least the current one. Raises DataError where
    there are no labels at all. Under `dataset_lock`.
    """
    snapshot = _finished(path, manifest)
    _adopt_earlier_labels(path)
    written = write_manifest(path, {**manifest, "snapshot": snapshot})
    _turn_link(path, snapshot)
    _prune(path, snapshot, keep=keep)
    return written


def write_snapshot(
    path: Path, tables: Iterable[tuple[str, pa.Table]], manifest: dict[str, object], *, keep: int
) -> dict[str, object]:
    """`stage_labels`, then `publish_snapshot`."""
    stage_labels(path, tables)
    return publish_snapshot(path, manifest, keep=keep)


def list_snapshots(path: Path) -> list[str]:
    """The ids of the finished snapshots, oldest first."""
    folders = [one for one in (path / SNAPSHOTS).glob("[0-9]*") if is_snapshot_id(one.name)]
    if is_remote(path):  # where a folder cannot be renamed, its manifest finishes it
        folders = [one for one in folders if (one / SNAPSHOT_MANIFEST).exists()]
    return sorted((one.name for one in folders), key=int)


def snapshot_path(path: Path, snapshot: str) -> Path:
    """The folder of a snapshot; its id may be given without leading zeros.

    Raises ConfigError, with those that there are, where it is not there.
    """
    found = list_snapshots(path)
    wanted = f"{int(snapshot):06d}" if snapshot.isascii() and snapshot.isdecimal() else snapshot
    if wanted not in found:
        there = f"there are {', '.join(found)}" if found else "there is none"
        raise ConfigError(f"{path} has no snapshot {snapshot!r}; {there}")
    return path / SNAPSHOTS / wanted


def clear_unfinished(path: Path) -> None:
    """Remove what interrupted runs left, under `dataset_lock`: files that no reader saw.

    A finished snapshot stays, also a later one than the manifest names: a killed run has come
    so far, or somebody has set the manifest back.
    """
    folder = path / SNAPSHOTS
    left = [_staged(path), *folder.glob(f"{_REMOVED}*")]
    if is_remote(path):
        found = list_snapshots(path)
        numbered = [one for one in folder.glob("[0-9]*") if is_snapshot_id(one.name)]
        left += [one for one in numbered if one.name not in found]
    for one in left:
        if one.exists():
            logger.info("%s: what an interrupted run left is removed", one)
            _remove(one)


def _staged(path: Path) -> Path:
    """A local folder, from where the next snapshot is moved or put into its place."""
    return local_state(path) / SNAPSHOTS / _NEXT


def _write_splits(folder: Path, tables: Iterable[tuple[str, pa.Table]]) -> None:
    writers: dict[str, pq.ParquetWriter] = {}
    with contextlib.ExitStack() as stack:
        for split, table in tables:
            if split not in writers:
                file = folder / f"{split}-00000-of-00001.parquet"
                writers[split] = stack.enter_context(parquet_writer(file, LABELS))
            writers[split].write_table(table)
    for file in label_files(folder):
        sync(file)
    sync(folder)


def _finished(path: Path, manifest: dict[str, object]) -> str:
    """The id of the staged labels' snapshot, which is finished by its manifest and its name."""
    latest, staged = _latest(path), _staged(path)
    if not label_files(staged):
        if latest is None:
            raise DataError(f"{path} has no labels yet; run `stepmark generate` to its end")
        return latest
    described = with_files(manifest, staged, [staged])
    for known in dict.fromkeys((latest, *list_snapshots(path)[-1:])):
        if known is not None and _is_same(described, path / SNAPSHOTS / known):
            shutil.rmtree(staged)
            return known
    snapshot = f"{_next_number(path):06d}"
    write_json(staged / SNAPSHOT_MANIFEST, {**described, "snapshot": snapshot})
    finished = path / SNAPSHOTS / snapshot
    with write_errors(finished):
        if is_remote(path):
            put_folder(staged, finished, last=SNAPSHOT_MANIFEST)
            shutil.rmtree(staged)
        else:
            staged.rename(finished)
            sync(finished.parent)
    return snapshot


def _latest(path: Path) -> str | None:
    """The current snapshot, or the newest one where the manifest names none that is there."""
    found, current = list_snapshots(path), current_snapshot(path)
    if current in found:
        return current
    return found[-1] if found else None


def _next_number(path: Path) -> int:
    named = current_snapshot(path)
    known = [*list_snapshots(path), *([named] if named else []), EARLIER_LABELS]
    return 1 + max(map(int, known))


def _is_same(described: dict[str, object], snapshot: Path) -> bool:
    """Whether `snapshot` is what is described, its files still as they were written."""
    known = read_manifest(snapshot)
    is_intact = with_files({}, snapshot, [snapshot])["files"] == known.get("files")
    return is_intact and all(described.get(key) == known.get(key) for key in _DEFINING)


def _adopt_earlier_labels(path: Path) -> None:
    """Keep the `labels` folder of a stepmark without snapshots as the first of them."""
    if is_remote(path):
        return
    labels, adopted = path / LINK, path / SNAPSHOTS / EARLIER_LABELS
    manifest = read_manifest(path)
    is_earlier = not labels.is_symlink() and label_files(labels) and "snapshot" not in manifest
    if not is_earlier or adopted.exists():
        return
    described = with_files({**manifest, "snapshot": EARLIER_LABELS}, labels, [labels])
    write_json(labels / SNAPSHOT_MANIFEST, described)
    with write_errors(adopted):
        labels.rename(adopted)
        sync(path)
    logger.warning(
        "%s was made by an earlier stepmark, which kept no snapshots; it is %s now", labels, adopted
    )


def _turn_link(path: Path, snapshot: str) -> None:
    """A convenience for other programs: where it cannot be, nothing of ours needs it."""
    if is_remote(path):
        return
    link, target = path / LINK, f"{SNAPSHOTS}/{snapshot}"
    if link.is_symlink() and link.readlink() == Path(target):
        return
    if link.exists() and not link.is_symlink():
        logger.warning(
            "%s is no link, so it does not show the current labels, which are in %s; move it away",
            link,
            path / target,
        )
        return
    temporary = path / f".{LINK}.{os.getpid()}.tmp"
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(link)
        sync(path)
    except OSError as error:
        logger.warning("%s cannot be made a link to %s: %s", link, target, error)


def _prune(path: Path, current: str, *, keep: int) -> None:
    """Remove all but the newest `keep` snapshots, and those that the next publish will be
    compared with; a name that readers leave out comes first.
    """
    try:
        kept = {current, *published_snapshots(path)}
    except DataError as error:  # the labels are in order, and `stepmark publish` says the same
        logger.warning("no snapshot is removed: %s", error)
        return
    for snapshot in list_snapshots(path)[: -max(keep, 1)]:
        if snapshot not in kept:
            _remove(path / SNAPSHOTS / snapshot)


def _remove(folder: Path) -> None:
    hidden = folder
    try:
        if is_remote(folder):
            remove_folder(folder, first=SNAPSHOT_MANIFEST)
            return
        if is_snapshot_id(folder.name):
            hidden = folder.with_name(f"{_REMOVED}{folder.name}")
            folder.rename(hidden)
        shutil.rmtree(hidden)
    except OSError as error:  # the labels are in order, and the next run tries again
        logger.warning("%s cannot be removed: %s", hidden, error)
