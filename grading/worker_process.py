"""The parent's side of `grading.worker`: one child after another, killed when it must be.

Started by `subprocess` (never a fork of a process that holds engine threads). A job over its
deadline costs its child SIGKILL; while a job takes long its replacement is already starting,
so that the next grade need not wait for an import of sympy.

A cold start is that import, 0.5 to 4 s by the machine's load. The first child of a slot is
waited for, since no answer is to blame; from then on a comparison ends within its deadline
and `_SPARE_SECONDS` of its beginning, whatever happens to the children meanwhile.
"""

import json
import logging
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, cast

from grading.config import GradingConfig
from grading.verdict import Grade, Verdict
from grading.worker import LENGTH_BYTES, frame

logger = logging.getLogger(__name__)

_START_SECONDS = (10.0, 30.0, 120.0)
"""Patience with one child after another: the first may have been stopped, the machine be slow."""
_SPARE_SECONDS = 0.4
"""Beyond the deadline, for children that died or were stopped before they began."""
_ACKNOWLEDGE_SECONDS = 1.0
_SILENT_SECONDS = 0.25
_LONG_SECONDS = 0.4
"""A job that has taken so long will probably be killed."""
_JOBS_AHEAD = 20
"""So many jobs before a child is recycled its successor starts."""


class GraderStartError(RuntimeError):
    """A worker process could not be started: a broken installation or no memory."""


class WorkerProcess:
    """A slot for one child process, used by one thread at a time.

    `module` is what the child runs; one that calls `grading.worker.serve`.
    """

    def __init__(self, config: GradingConfig, *, module: str = "grading.worker") -> None:
        self._config = config
        self._module = module
        self._child: _Child | None = None
        self._next: _Child | None = None
        self._was_ready = False
        self._num_failed_starts = 0

    @property
    def pid(self) -> int | None:
        """Of the child at work or idle; None where none is."""
        return self._child.process.pid if self._child else None

    def start(self) -> None:
        """Begin to start a child, without waiting for it."""
        if self._child is None:
            self._child = self._next or self._new_child()
            self._next = None

    def compare(self, gold: str, answer: str) -> Grade:
        """One symbolic comparison: at most the deadline, counted from the child's start on it.

        Undecided by `timeout`, also where no child could begin in time, and by `worker-died`.

        Raises:
            GraderStartError: no child can be started.
        """
        try:
            return self._compare(gold, answer)
        except BaseException:
            # Interrupted in the middle: the reply to come would be taken for the next pair's.
            self.stop()
            raise

    def stop(self) -> None:
        """Kill what runs."""
        for child in (self._child, self._next):
            if child is not None:
                child.kill()
        self._child = self._next = None

    def abandon(self) -> None:
        """After a fork, in the new process: let go of children that are the parent's."""
        for child in (self._child, self._next):
            if child is not None:
                child.abandon()
        self._child = self._next = None

    def _compare(self, gold: str, answer: str) -> Grade:
        patience = self._config.deadline_seconds + _SPARE_SECONDS
        until = time.monotonic() + patience if self._was_ready else None
        child = self._ready_child(until)
        until = until or time.monotonic() + patience
        self._was_ready = True
        if child is not None and not self._begins(child, gold, answer, until=until):
            # It died or was stopped before it began: the pair is not to blame.
            self._replace()
            child = self._ready_child(until)
            if child is not None and not self._begins(child, gold, answer, until=until):
                self._replace()
                return Grade(Verdict.UNDECIDED, "worker-died", answer)
        if child is None:
            return Grade(Verdict.UNDECIDED, "timeout", answer)
        return self._await_grade(child, answer, until=until)

    def _ready_child(self, until: float | None) -> "_Child | None":
        """The child, ready for a job; None where `until` came first. None is no limit.

        Raises:
            GraderStartError: several in a row did not start.
        """
        status: int | None = None
        while self._num_failed_starts < len(_START_SECONDS):
            if self._child is not None and self._child.process.poll() is not None:
                self._drop_child()
            self.start()
            child = self._child
            if child is not None:
                limit = child.started + _START_SECONDS[self._num_failed_starts]
                if child.is_ready(until=limit if until is None else min(limit, until)):
                    self._num_failed_starts = 0
                    return child
                status = child.process.poll()
                if status is None and time.monotonic() < limit:
                    return None
                self._drop_child()
            self._num_failed_starts += 1
        self._num_failed_starts = 0
        raise GraderStartError(
            f"a grading worker did not start (exit status {status}); try "
            f"`{sys.executable} -c 'import sympy'` and raise `memory_mb` "
            f"({self._config.memory_mb}) if memory is short"
        )

    def _begins(self, child: "_Child", gold: str, answer: str, *, until: float) -> bool:
        """Hand over a job; whether the child begins with it, soon and before `until`."""
        until = min(until, time.monotonic() + _ACKNOWLEDGE_SECONDS)
        silent = min(until, time.monotonic() + _SILENT_SECONDS)
        try:
            child.send(gold, answer, until=until)
            if child.receive(until=silent) is not None:
                return True
            self._prepare_next()
            return child.receive(until=until) is not None
        except (_WorkerDiedError, OSError):
            return False

    def _await_grade(self, child: "_Child", answer: str, *, until: float) -> Grade:
        began = time.monotonic()
        until = min(until, began + self._config.deadline_seconds)
        try:
            reply = child.receive(until=min(until, began + _LONG_SECONDS))
            if reply is None:
                self._prepare_next()
                reply = child.receive(until=until)
        except (_WorkerDiedError, OSError):
            self._replace()
            return Grade(Verdict.UNDECIDED, "worker-died", answer)
        if reply is None:
            self._replace()
            return Grade(Verdict.UNDECIDED, "timeout", answer)
        config = self._config
        is_large = int(str(reply["memory_mb"])) > config.recycle_mb
        if is_large or child.num_jobs >= config.jobs_per_worker:
            self._replace()
        elif child.num_jobs >= config.jobs_per_worker - _JOBS_AHEAD:
            self._prepare_next()
        return Grade(Verdict(str(reply["verdict"])), str(reply["reason"]), answer)

    def _replace(self) -> None:
        """The successor starts in the background."""
        self._drop_child()
        self.start()

    def _drop_child(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _prepare_next(self) -> None:
        self._next = self._next or self._new_child()

    def _new_child(self) -> "_Child | None":
        """None where the system has no process to give; the next comparison tries again."""
        try:
            return _Child(self._config, self._module)
        except OSError as error:
            logger.warning("a grading worker could not be started: %s", error)
            return None


class _WorkerDiedError(Exception):
    pass


class _Child:
    """One child process and the frames to and from it."""

    def __init__(self, config: GradingConfig, module: str) -> None:
        self.process = _start(config, module)
        self.started = time.monotonic()
        self.num_jobs = 0
        self._is_ready = False
        self._received = bytearray()
        os.set_blocking(_pipe(self.process.stdin).fileno(), False)

    def is_ready(self, *, until: float) -> bool:
        """Wait until it can take jobs; False where it died or is not ready in time."""
        if not self._is_ready:
            try:
                self._is_ready = self.receive(until=until) is not None
            except _WorkerDiedError:
                self.process.wait()
        return self._is_ready

    def send(self, gold: str, answer: str, *, until: float) -> None:
        """Hand over a job; the next frames are of it.

        Raises:
            _WorkerDiedError, OSError: it takes none.
        """
        self.num_jobs += 1
        descriptor = _pipe(self.process.stdin).fileno()
        rest = memoryview(frame({"job": self.num_jobs, "gold": gold, "answer": answer}))
        while rest:
            if not _wait_for(descriptor, select.POLLOUT, until=until):
                raise _WorkerDiedError
            rest = rest[os.write(descriptor, rest) :]

    def receive(self, *, until: float) -> dict[str, object] | None:
        """The next frame of the job at hand; None when the time is over.

        Raises:
            _WorkerDiedError: the stream ended, or speaks of another job.
        """
        descriptor = _pipe(self.process.stdout).fileno()
        while (message := self._take_frame()) is None:
            if not _wait_for(descriptor, select.POLLIN, until=until):
                return None
            piece = os.read(descriptor, 65_536)
            if not piece:
                raise _WorkerDiedError
            self._received += piece
        if message.get("job", self.num_jobs) != self.num_jobs:
            raise _WorkerDiedError
        return message

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._close_pipes()

    def abandon(self) -> None:
        self.process.returncode = 0  # not ours to wait for
        self._close_pipes()

    def _take_frame(self) -> dict[str, object] | None:
        received = self._received
        if len(received) < LENGTH_BYTES:
            return None
        end = LENGTH_BYTES + int.from_bytes(received[:LENGTH_BYTES], "big")
        if len(received) < end:
            return None
        message = cast("dict[str, object]", json.loads(received[LENGTH_BYTES:end]))
        del received[:end]
        return message

    def _close_pipes(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            try:
                _pipe(stream).close()
            except OSError:
                continue


def _wait_for(descriptor: int, event: int, *, until: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))


def _start(config: GradingConfig, module: str) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((root, inherited)) if inherited else root,
        "PYTHONHASHSEED": "0",
        "SYMPY_GROUND_TYPES": "python",
        "MPMATH_NOGMPY": "1",
        "OMP_NUM_THREADS": "1",
    }
    arguments = [str(os.getpid()), str(config.memory_mb), str(config.deadline_seconds)]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        bufsize=0,
        close_fds=True,
        start_new_session=True,
    )


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
