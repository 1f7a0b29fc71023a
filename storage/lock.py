"""The lock of a dataset folder: one process works on it at a time.

On one host the lock is the kernel's (`flock`), so it goes with the process that held it, and
what a killed one left is taken over at once. The file says who holds it, with a heartbeat
(`storage.lock_holder`): on file systems whose locks do not reach other hosts, one that was
heard of less than `STALE_SECONDS` ago is refused all the same. In an object store the file
alone is the lock (`storage.remote_lock`).
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import DataError
from storage.dataset import FOLDERS
from storage.files import remove_temporary
from storage.lock_holder import (
    HEARTBEAT_SECONDS,
    Heartbeat,
    LockHolder,
    in_use,
    note_taken_over,
    parse_holder,
    this_process,
)
from storage.remote import is_remote, transport_errors
from storage.remote_lock import remote_lock

LOCK_FILE = ".lock"

_SETTLE_SECONDS = 1.0
_MOST_BYTES = 1 << 16
_MOST_LOOKS, _LOOK_SECONDS = 20, 0.02


@contextmanager
def dataset_lock(
    path: Path, *, heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> Generator[None, None, None]:
    """Hold the dataset `path` for this process alone.

    Temporary files of killed runs are removed. Raises DatasetLockedError, naming the
    holder, where another live process has it or took it over meanwhile, and DataError where
    `path` is no folder that can be written and locked.
    """
    if is_remote(path):
        with remote_lock(path, path / LOCK_FILE, heartbeat_seconds=heartbeat_seconds):
            yield
        return
    with _kernel_lock(path) as descriptor:
        us = this_process()
        _take(path, descriptor, us)
        try:
            with Heartbeat(path, lambda: _renew(descriptor, us), seconds=heartbeat_seconds):
                for folder in (path, *(path / name for name in FOLDERS)):
                    remove_temporary(folder)
                yield
        finally:
            if _is_ours(descriptor, us):
                os.ftruncate(descriptor, 0)


def lock_holder(path: Path) -> LockHolder | None:
    """Who holds the lock of the dataset `path`, or held it and was killed; None if nobody."""
    try:
        with transport_errors():
            return parse_holder((path / LOCK_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path / LOCK_FILE} cannot be read: {error}") from error


def refuse_live_holder(path: Path) -> None:
    """Raise DatasetLockedError where a live process holds the dataset `path`.

    For those who only look: nothing is written, and a later run is not kept out.
    """
    holder = lock_holder(path)
    if holder is not None and holder.is_alive:
        raise in_use(path, holder)


@contextmanager
def _kernel_lock(path: Path) -> Generator[int, None, None]:
    """The descriptor of the locked file."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise DataError(
            f"{path} cannot be used as a dataset folder: {error.strerror}; give --out a folder "
            "that you may write to"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _named_holder(descriptor)
        os.close(descriptor)
        raise in_use(path, holder) from error
    except OSError as error:
        os.close(descriptor)
        raise DataError(
            f"{path} cannot be locked ({error.strerror}); choose a folder on a file system "
            "with locks"
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _take(path: Path, descriptor: int, us: LockHolder) -> None:
    """Write our name, over that of a dead holder."""
    found = _holder(descriptor)
    is_elsewhere = found is not None and found.host != us.host
    if found is not None:
        if is_elsewhere and not found.is_silent:
            raise in_use(path, found)
        note_taken_over(path, found)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, us.as_bytes(), 0)
    if is_elsewhere:  # another host may be taking it over in this moment: the last one wins
        os.fsync(descriptor)
        time.sleep(_SETTLE_SECONDS)
        if not _is_ours(descriptor, us):
            raise in_use(path, _holder(descriptor))


def _renew(descriptor: int, us: LockHolder) -> bool:
    if not _is_ours(descriptor, us):
        return False
    os.pwrite(descriptor, us.beating().as_bytes(), 0)
    return True


def _is_ours(descriptor: int, us: LockHolder) -> bool:
    found = _holder(descriptor)
    return found is not None and found.identity == us.identity


def _named_holder(descriptor: int) -> LockHolder | None:
    """The holder, for whom we wait where it has only just taken the lock."""
    for _ in range(_MOST_LOOKS):
        if (holder := _holder(descriptor)) is not None:
            return holder
        time.sleep(_LOOK_SECONDS)
    return None


def _holder(descriptor: int) -> LockHolder | None:
    return parse_holder(os.pread(descriptor, _MOST_BYTES, 0))
