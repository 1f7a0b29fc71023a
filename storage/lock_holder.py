"""Who holds a dataset's lock: what the lock file says, and how the holder keeps it fresh.

The file is one JSON object. Its `heartbeat_at` is renewed every `HEARTBEAT_SECONDS` by a
thread of the holder, so that where the kernel's lock does not reach (another host, an object
store) a reader can tell a live holder from a dead one. Hosts' clocks are taken to agree to
within some seconds.
"""

import getpass
import json
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import psutil
from pydantic import TypeAdapter

from pipeline.errors import DatasetLockedError

HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 60.0
"""A holder that was not heard of for so long is taken for dead."""

_COMMAND_CHARACTERS = 200
_FIRST_YEAR = 2000
_START_TIME_TOLERANCE = 2.0
"""Seconds by which the clock may have been set since the lock was taken."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that holds a lock. Times are in UTC, ISO 8601."""

    owner: str
    """The user's name."""
    host: str
    pid: int
    process_started_at: float
    """Seconds since the epoch; with `host` and `pid` it names one process for ever."""
    started_at: str
    """When the lock was taken."""
    heartbeat_at: str
    command: str

    @property
    def identity(self) -> tuple[str, int, float, str]:
        """What names this holding of the lock; the heartbeat is no part of it."""
        return (self.host, self.pid, self.process_started_at, self.started_at)

    @property
    def seconds_silent(self) -> float:
        """Since the last heartbeat, by this host's clock."""
        return (datetime.now(UTC) - datetime.fromisoformat(self.heartbeat_at)).total_seconds()

    @property
    def is_silent(self) -> bool:
        """Whether it is taken for dead."""
        return self.seconds_silent >= STALE_SECONDS

    @property
    def is_alive(self) -> bool:
        """Whether the process is there, as far as this host can know."""
        if self.host != os.uname().nodename:
            return not self.is_silent
        try:
            started_at = psutil.Process(self.pid).create_time()
        except psutil.Error:
            return False
        return abs(started_at - self.process_started_at) < _START_TIME_TOLERANCE

    def beating(self) -> "LockHolder":
        """The same holder, heard of now."""
        return replace(self, heartbeat_at=_now())

    def as_bytes(self) -> bytes:
        """What the lock file holds: as long for every heartbeat."""
        text = json.dumps(asdict(self), ensure_ascii=True, sort_keys=True, indent=1) + "\n"
        return text.encode()


def this_process() -> LockHolder:
    """This process as a holder that takes a lock now."""
    return LockHolder(
        owner=_user(),
        host=os.uname().nodename,
        pid=os.getpid(),
        process_started_at=round(psutil.Process().create_time(), 2),
        started_at=_now(),
        heartbeat_at=_now(),
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_COMMAND_CHARACTERS],
    )


def parse_holder(content: bytes) -> LockHolder | None:
    """The holder that a lock file names; None where it names none that can be read."""
    try:
        holder = TypeAdapter(LockHolder).validate_json(content, strict=True)
        heard = datetime.fromisoformat(holder.heartbeat_at)
    except ValueError:
        return None
    is_usable = heard.tzinfo is not None and heard.year >= _FIRST_YEAR and holder.pid > 0
    return holder if is_usable else None


def in_use(path: Path, holder: LockHolder | None) -> DatasetLockedError:
    """The error that says who has the dataset `path`."""
    return DatasetLockedError(
        f"the dataset {path} is in use by {described(holder)}; wait for that run to end or stop "
        "it, then run this command again"
    )


def note_taken_over(path: Path, holder: LockHolder) -> None:
    """Log from whom a stale lock was taken."""
    logger.info("%s: the lock is taken over from %s", path, described(holder))


def described(holder: LockHolder | None) -> str:
    """The holder in one line."""
    if holder is None:
        return "another process, which has not said its name yet"
    return (
        f"process {holder.pid} on {holder.host}, which {holder.owner} started (`{holder.command}`) "
        f"and which holds it since {holder.started_at[:19]}Z, last heard of "
        f"{max(0.0, holder.seconds_silent):.0f} s ago"
    )


class Heartbeat:
    """Calls `beat` every `seconds` in a daemon thread; use as a context manager.

    `beat` returns whether the lock is still ours. Where it is not, the process is
    interrupted as by Ctrl-C, and leaving raises DatasetLockedError instead: whoever went on
    would write beside the new holder. A beat that fails (OSError) is tried again.
    """

    def __init__(
        self, path: Path, beat: Callable[[], bool], *, seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        self._path = path
        self._beat = beat
        self._seconds = seconds
        self._ended = threading.Event()
        self._is_lost = False
        self._thread = threading.Thread(target=self._run, name=f"lock of {path}", daemon=True)

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._is_lost and kind in (None, KeyboardInterrupt):
            raise DatasetLockedError(
                f"the dataset {self._path} was taken over by another process while this one did "
                "not move (a suspended machine, a file system that hung); what was written before "
                "is intact: run this command again when the other has ended"
            ) from error

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                is_ours = self._beat()
            except OSError as error:
                logger.warning("the lock of %s cannot be renewed: %s", self._path, error)
                continue
            if not is_ours:
                self._is_lost = True
                logger.error("the lock of %s was taken over: this run stops", self._path)
                _interrupt()
                return


def _interrupt() -> None:
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # unlike interrupt_main it ends a wait


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return str(os.getuid())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
