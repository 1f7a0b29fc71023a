"""The parent's side of `grading.worker`: one child after another, killed when it must be.

Started by `subprocess` (never a fork of a process that holds engine threads). A job over its
deadline costs its child SIGKILL; while a job takes long its replacement is already starting,
so that the next grade need not wait for an import of sympy.
"""

import json
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

_START_SECONDS = 120.0
_ACKNOWLEDGE_SECONDS = 60.0
_LONG_SECONDS = 0.4
"""A job that has taken so long will probably be killed."""


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

    def _new_child(self) -> "_Child":
        return _Child(self._config, self._module)

    def _compare(self, gold: str, answer: str) -> Grade:
        for _ in range(2):
            child = self._running()
            try:
                child.begin(gold, answer)
            except (_WorkerDiedError, OSError):
                # It died while idle or before it began: the pair is not to blame.
                self._replace()
                continue
            return self._await_grade(child, answer)
        return Grade(Verdict.UNDECIDED, "worker-died", answer)

    def _await_grade(self, child: "_Child", answer: str) -> Grade:
        deadline = self._config.deadline_seconds
        started = time.monotonic()
        try:
            reply = child.receive(seconds=min(_LONG_SECONDS, deadline))
            if reply is None:
                self._next = self._next or self._new_child()
                reply = child.receive(seconds=started + deadline - time.monotonic())
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
        return Grade(Verdict(str(reply["verdict"])), str(reply["reason"]), answer)

    def _replace(self) -> None:
        """The successor starts in the background."""
        if self._child is not None:
            self._child.kill()
        self._child, self._next = self._next or self._new_child(), None

    def _running(self) -> "_Child":
        if self._child is not None and self._child.process.poll() is not None:
            self._child.kill()
            self._child = None
        self.start()
        assert self._child is not None
        if not self._child.is_ready():
            status = self._child.process.poll()
            self.stop()
            raise GraderStartError(
                f"a grading worker did not start (exit status {status}); try "
                f"`{sys.executable} -c 'import sympy'` and raise `memory_mb` "
                f"({self._config.memory_mb}) if memory is short"
            )
        return self._child


class _WorkerDiedError(Exception):
    pass


class _Child:
    """One child process and the frames to and from it."""

    def __init__(self, config: GradingConfig, module: str) -> None:
        self.process = _start(config, module)
        self.num_jobs = 0
        self._is_ready = False
        self._received = bytearray()
        os.set_blocking(_pipe(self.process.stdin).fileno(), False)

    def is_ready(self) -> bool:
        """Wait until it can take jobs; False where it cannot start."""
        if not self._is_ready:
            try:
                self._is_ready = self.receive(seconds=_START_SECONDS) is not None
            except _WorkerDiedError:
                self.process.wait()
        return self._is_ready

    def begin(self, gold: str, answer: str) -> None:
        """Hand over a job and return when work on it starts.

        Raises:
            _WorkerDiedError, OSError: it did not start.
        """
        self.num_jobs += 1
        self._send(frame({"job": self.num_jobs, "gold": gold, "answer": answer}))
        if self.receive(seconds=_ACKNOWLEDGE_SECONDS) is None:
            raise _WorkerDiedError

    def receive(self, *, seconds: float) -> dict[str, object] | None:
        """The next frame of the job at hand; None when the time is over.

        Raises:
            _WorkerDiedError: the stream ended, or speaks of another job.
        """
        deadline = time.monotonic() + seconds
        descriptor = _pipe(self.process.stdout).fileno()
        while (message := self._take_frame()) is None:
            if not _wait_for(descriptor, select.POLLIN, until=deadline):
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

    def _send(self, data: bytes) -> None:
        deadline = time.monotonic() + _ACKNOWLEDGE_SECONDS
        descriptor = _pipe(self.process.stdin).fileno()
        rest = memoryview(data)
        while rest:
            if not _wait_for(descriptor, select.POLLOUT, until=deadline):
                raise _WorkerDiedError
            rest = rest[os.write(descriptor, rest) :]

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
