"""The lock of a dataset in an object store: an object that only its holder may change.

It is taken by a conditional put: where there is none, on condition that there is none; a
stale one, on condition that it is still the one that was looked at. Each heartbeat is put on
condition that the object is the one of the heartbeat before. So of two that want a stale lock
one gets it, and a holder that was taken over notices. Needs a store that honours `If-Match`
and `If-None-Match` (S3 since 2024). Others have the first condition only: there whoever takes
a stale lock waits and looks whether it is still its own.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pipeline.errors import DataError
from storage.lock_holder import (
    Heartbeat,
    LockHolder,
    in_use,
    note_taken_over,
    parse_holder,
    this_process,
)
from storage.remote import file_system, key_of, transport_errors

_MOST_TRIES = 20
_SETTLE_SECONDS = 1.0
_CONDITION_FAILED = ("pre-condition", "precondition", "conditional request")
"""What S3 says; the client makes plain errors of it."""
_CONDITIONAL = frozenset({"s3", "s3a"})


@contextmanager
def remote_lock(path: Path, file: Path, *, heartbeat_seconds: float) -> Generator[None, None, None]:
    """Hold the dataset `path` by the object `file`; raises as `dataset_lock`."""
    lock = _LockObject(file)
    us = this_process()
    try:
        with transport_errors():
            _take(path, lock, us)
    except OSError as error:
        raise DataError(
            f"{path} cannot be used as a dataset folder: {error}; look at the bucket's name, the "
            "login and the endpoint"
        ) from error
    try:
        with Heartbeat(path, lambda: _renew(lock, us), seconds=heartbeat_seconds):
            yield
    finally:
        _release(lock, us)


class _LockObject:
    """The object, and the version of it that we know."""

    def __init__(self, file: Path) -> None:
        self._fs = file_system(file)
        self._key = key_of(file)
        protocols = self._fs.protocol
        names = {protocols} if isinstance(protocols, str) else set(protocols)
        self.is_conditional = bool(names & _CONDITIONAL)
        self._version = ""

    def create(self, content: bytes) -> bool:
        """Put the object where there is none; returns whether there was none."""
        return self._put(content, mode="create")

    def read(self) -> bytes | None:
        """The content, whose version is now known; None where there is none."""
        try:
            # the version first: where the content is newer, a change on this condition fails
            self._version = str(self._fs.info(self._key).get("ETag", ""))
            return cast("bytes", self._fs.cat_file(self._key))
        except FileNotFoundError:
            return None

    def change(self, content: bytes) -> bool:
        """Put the object where it is of the known version; returns whether it was."""
        try:
            return self._put(content, **({"IfMatch": self._version} if self.is_conditional else {}))
        except FileNotFoundError:  # somebody has deleted it
            return False

    def _put(self, content: bytes, **condition: str) -> bool:
        try:
            answer = self._fs.pipe_file(self._key, content, **condition)
        except FileExistsError:
            return False
        except FileNotFoundError:
            raise
        except OSError as error:
            if any(word in str(error).lower() for word in _CONDITION_FAILED):
                return False
            raise
        if isinstance(answer, dict):
            self._version = str(cast("dict[str, Any]", answer).get("ETag", ""))
        return True


def _take(path: Path, lock: _LockObject, us: LockHolder) -> None:
    for _ in range(_MOST_TRIES):
        if lock.create(us.as_bytes()):
            return
        content = lock.read()
        if content is None:
            continue
        found = parse_holder(content)
        if found is not None and found.is_alive:
            raise in_use(path, found)
        if lock.change(us.as_bytes()):
            if found is not None:
                note_taken_over(path, found)
            if not lock.is_conditional:
                time.sleep(_SETTLE_SECONDS)
                now = _holder(lock)
                if now is None or now.identity != us.identity:
                    raise in_use(path, now)
            return
    raise in_use(path, _holder(lock))


def _renew(lock: _LockObject, us: LockHolder) -> bool:
    with transport_errors():
        if lock.is_conditional and lock.change(us.beating().as_bytes()):
            return True
        # ours is what a put has made whose answer was lost
        found = _holder(lock)
        if found is None or found.identity != us.identity:
            return False
        return lock.change(us.beating().as_bytes())


def _release(lock: _LockObject, us: LockHolder) -> None:
    """Leave it empty, not absent: to remove it there is no condition."""
    try:
        with transport_errors():
            found = _holder(lock)
            if found is not None and found.identity == us.identity:
                lock.change(b"")
    except OSError:
        return  # it will be taken for dead


def _holder(lock: _LockObject) -> LockHolder | None:
    return parse_holder(lock.read() or b"")
