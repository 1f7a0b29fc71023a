"""A supervised command: its process group, its pid file, its log, and its orphans.

A `ProcessGroup` runs a command under `watchdog.py` in a session of its own, so that nothing
of it outlives `stop`, a crash or even SIGKILL of this process. Where the watchdog was killed
as well, the pid file (pid and start time) lets the next start end what is left. What the
command serves is not known here. POSIX only.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from pipeline.errors import EngineError

logger = logging.getLogger(__name__)

WATCHDOG_PATH = Path(__file__).with_name("watchdog.py")
GRACE_SECONDS = 10.0
"""From SIGTERM to SIGKILL; vLLM needs about one, after a crash on a busy machine five."""
_START_TIME_TOLERANCE = 2.0
"""Seconds by which the clock may have been set since the pid file was written."""
_TAIL_BYTES = 65536


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The pid file: the group's leader and its owner, each with its start time (epoch s)."""

    pid: int
    start_time: float
    owner_pid: int
    owner_start_time: float


class ProcessGroup:
    """A running command with all its children; ended by `stop`, at the latest with us."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        log_path: Path,
        pid_path: Path,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        """Start `command`; its output is appended to `log_path`.

        Ends an orphan of an earlier run named by `pid_path` first. Raises EngineError where a
        live process owns the group that `pid_path` names.
        """
        end_orphan(pid_path)
        self.log_path = log_path
        self._pid_path = pid_path
        self._grace_seconds = grace_seconds
        self._log_start = log_path.stat().st_size if log_path.exists() else 0
        watchdog = [sys.executable, "-I", str(WATCHDOG_PATH), str(os.getpid()), str(grace_seconds)]
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*watchdog, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )
        try:
            self._write_record()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The group's id: the pid of its leader, the watchdog."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the watchdog still runs. It is not reaped here, so its pid stays ours."""
        if self._process.returncode is not None:
            return False
        flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
        return os.waitid(os.P_PID, self._process.pid, flags) is None

    def stop(self) -> None:
        """End every process of the group and wait for it, little longer than the grace.

        Closing the pipe comes first: even an interrupted `stop` leaves the rest to the
        watchdog.
        """
        if self._process.returncode is not None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        deadline = time.monotonic() + self._grace_seconds + 5
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        # Also where the watchdog has ended: it may have been killed from outside. As long as
        # the leader is not reaped, no other group can have its number.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pid_path.unlink(missing_ok=True)

    def log_tail(self, num_lines: int = 20) -> str:
        """The last lines that this group wrote to its log."""
        with self.log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - _TAIL_BYTES))
            text = log.read().decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-num_lines:])

    def _write_record(self) -> None:
        record = GroupRecord(
            pid=self.pid,
            start_time=psutil.Process(self.pid).create_time(),
            owner_pid=os.getpid(),
            owner_start_time=psutil.Process().create_time(),
        )
        partial_path = self._pid_path.with_name(self._pid_path.name + ".tmp")
        partial_path.write_text(json.dumps(asdict(record)), encoding="utf-8")
        partial_path.replace(self._pid_path)


def end_orphan(pid_path: Path) -> int:
    """Kill what is left of the group that `pid_path` names; return how many processes.

    A process is touched only if its pid, group and start time fit the record. Raises
    EngineError where the group's owner still lives.
    """
    record = _read_record(pid_path)
    if record is None:
        return 0
    members = _group_members(record)
    if members and _is_same(record.owner_pid, record.owner_start_time):
        raise EngineError(
            f"{pid_path} names a server (process group {record.pid}) that process "
            f"{record.owner_pid} is using; give this run a state path of its own or end the other."
        )
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    _, alive = psutil.wait_procs(members, timeout=GRACE_SECONDS)
    if alive:
        pids = ", ".join(str(process.pid) for process in alive)
        raise EngineError(f"processes {pids} of an earlier run do not end; kill them by hand.")
    if members:
        logger.warning("ended %d processes left over by an earlier run", len(members))
    pid_path.unlink(missing_ok=True)
    return len(members)


def _read_record(pid_path: Path) -> GroupRecord | None:
    """The pid file's content; None where there is none or it is damaged."""
    try:
        return GroupRecord(**json.loads(pid_path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        logger.warning("%s is damaged and is ignored", pid_path)
        return None


def _group_members(record: GroupRecord) -> list[psutil.Process]:
    """The record's group, also where its leader is gone; empty if the number was reused."""
    if psutil.pid_exists(record.pid) and not _is_same(record.pid, record.start_time):
        return []
    return [process for process in psutil.process_iter() if _belongs_to(process, record)]


def _belongs_to(process: psutil.Process, record: GroupRecord) -> bool:
    try:
        return (
            os.getpgid(process.pid) == record.pid
            and process.create_time() >= record.start_time - _START_TIME_TOLERANCE
            and process.status() != psutil.STATUS_ZOMBIE
        )
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False


def _is_same(pid: int, start_time: float) -> bool:
    """Whether `pid` is the process, running or zombie, that began at `start_time`."""
    try:
        return abs(psutil.Process(pid).create_time() - start_time) <= _START_TIME_TOLERANCE
    except psutil.NoSuchProcess:
        return False
