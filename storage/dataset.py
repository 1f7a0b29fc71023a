"""A dataset folder: the problems, the journal of rollouts, and what is derived from it.

    problems/part-*.parquet   the problems
    rollouts/part-*.parquet   one row a rollout; the truth (`storage.journal`)
    labels/<split>-*.parquet  derived snapshot, replaced whole
    cost.json                 what the runs have spent so far
    manifest.json             written last

The lock is the kernel's (`flock`), so it goes with the process that held it.
"""

import fcntl
import json
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from pipeline.errors import ConfigError, DataError, DatasetLockedError
from pipeline.records import LabeledSolution, Problem
from storage.files import (
    file_hash,
    remove_temporary,
    write_json,
    write_parquet,
    write_parquet_batches,
)
from storage.schema import LABELS, PROBLEMS, SCHEMA_VERSION, read_table, table_batches
from storage.tables import concatenate, labels_from_table, problems_from_table, problems_to_table

_LABELS_IN_MEMORY = 1024
_FOLDERS = ("problems", "rollouts", "labels")


def dataset_path(location: str | Path) -> Path:
    """The local folder of a dataset. Raises ConfigError for a remote address."""
    if re.match(r"[a-z][a-z0-9+.-]*:/", str(location)):  # a Path has lost one of two slashes
        raise ConfigError(
            f"{location} is not a local folder: datasets are written to local folders; "
            "give a path such as out/gsm8k"
        )
    return Path(location).expanduser()


@contextmanager
def dataset_lock(path: Path) -> Generator[None, None, None]:
    """Hold the dataset `path` for this process alone.

    Temporary files of killed runs are removed. Raises DatasetLockedError, naming the
    holder, where another live process has it, and DataError where `path` is no folder
    that can be written and locked.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        stream = (path / ".lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{path} cannot be used as a dataset folder: {error.strerror}; give --out a folder "
            "that you may write to"
        ) from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            raise DatasetLockedError(
                f"the dataset {path} is in use by process {stream.read().strip() or 'unknown'}; "
                "wait for that run to end or stop it, then run this command again"
            ) from error
        except OSError as error:
            raise DataError(
                f"{path} cannot be locked ({error.strerror}); choose a folder on a file system "
                "with locks"
            ) from error
        stream.truncate(0)
        stream.write(f"{os.getpid()} on {os.uname().nodename}")
        stream.flush()
        for folder in (path, *(path / name for name in _FOLDERS)):
            remove_temporary(folder)
        yield


def write_problems(path: Path, problems: Sequence[Problem]) -> None:
    """Add problems that are not stored yet.

    Raises DataError where a stored problem of the same id has another question or answer:
    its rollouts would then belong to two problems.
    """
    stored = {problem.problem_id: problem for problem in read_problems(path)}
    for problem in problems:
        other = stored.get(problem.problem_id)
        if other is not None and _content(other) != _content(problem):
            raise DataError(
                f"problem {problem.problem_id!r} is stored in {path} with another question or gold "
                "answer; give the changed problem a new id, or write to a new folder"
            )
    new = [problem for problem in problems if problem.problem_id not in stored]
    if new:
        write_parquet(_next_part(path / "problems"), problems_to_table(new))


def read_problems(path: Path) -> list[Problem]:
    """The stored problems, in the order in which they were added."""
    tables = (read_table(part, PROBLEMS) for part in _parts(path / "problems"))
    return problems_from_table(concatenate(tables, PROBLEMS))


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
    files = [file for folder in _FOLDERS for file in sorted((path / folder).glob("[!.]*.parquet"))]
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


def _content(problem: Problem) -> tuple[str, str]:
    return (problem.question, problem.gold_answer)


def _parts(folder: Path) -> list[Path]:
    return sorted(part for part in folder.glob("part-*.parquet") if part.stem[5:].isdecimal())


def _next_part(folder: Path) -> Path:
    numbers = [int(part.stem.partition("-")[2]) for part in _parts(folder)]
    return folder / f"part-{max(numbers, default=-1) + 1:06d}.parquet"
