"""Grade in killable worker processes: a deadline per comparison, a cache, no exceptions.

The fast tier runs in the caller; only what it leaves open goes to a worker, started by
`subprocess` (never a fork of a process that holds engine threads). A job over its deadline
costs its worker SIGKILL and the grade is undecided (`timeout`); a worker that dies at work
gives `worker-died`; both are replaced at the next job.
"""

import asyncio
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from grading.config import GradingConfig
from grading.extract import extract_answer
from grading.grade import compare_answers
from grading.verdict import Grade, Verdict
from grading.version import grader_version
from grading.worker import write_frame

GradeRequest = tuple[str, str, bool]
"""Gold answer, the whole completion, and whether it was cut off at the token limit."""

_START_SECONDS = 120.0
_ACKNOWLEDGE_SECONDS = 60.0
_MAX_INLINE_CHARS = 4_000
_MAX_CACHED_CHARS = 2_000


class GraderStartError(RuntimeError):
    """A worker process could not be started: a broken installation or no memory."""


class GradePool:
    """Thread-safe grader; a context manager. Workers start when first needed."""

    def __init__(self, config: GradingConfig | None = None) -> None:
        self._config = config or GradingConfig()
        self._slots: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._workers = [_Worker(self._config) for _ in range(self._config.workers)]
        for worker in self._workers:
            self._slots.put(worker)
        self._threads = ThreadPoolExecutor(self._config.workers, thread_name_prefix="grade")
        self._cache: OrderedDict[tuple[str, str], Grade] = OrderedDict()
        self._cache_lock = threading.Lock()

    @property
    def version(self) -> str:
        """What defines this pool's verdicts: the grader's version and the profile."""
        return grader_version(self._config)

    def grade(self, gold: str, text: str, *, is_truncated: bool = False) -> Grade:
        """Grade a whole completion: find its final answer and compare it with the gold one."""
        return self.grade_answer(gold, self._extract(text, is_truncated=is_truncated))

    def grade_answer(self, gold: str, answer: str) -> Grade:
        """Grade a bare answer. Blocks up to the deadline; never raises on bad mathematics."""
        return self._fast(gold, answer) or self._symbolic(gold, answer)

    async def agrade(self, gold: str, text: str, *, is_truncated: bool = False) -> Grade:
        """`grade` without blocking the event loop."""
        loop = asyncio.get_running_loop()
        if len(text) > _MAX_INLINE_CHARS or len(gold) > _MAX_INLINE_CHARS:
            return await loop.run_in_executor(
                self._threads, lambda: self.grade(gold, text, is_truncated=is_truncated)
            )
        answer = self._extract(text, is_truncated=is_truncated)
        grade = self._fast(gold, answer)
        if grade is not None:
            return grade
        return await loop.run_in_executor(self._threads, self._symbolic, gold, answer)

    def grade_many(self, requests: Iterable[GradeRequest]) -> list[Grade]:
        """Grades in the order of the requests, `workers` at a time."""
        return list(self._threads.map(self._grade_request, requests))

    def close(self) -> None:
        """End all workers; grades under way finish first. Safe to call twice."""
        self._threads.shutdown(wait=True)
        for worker in self._workers:
            worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _extract(self, text: str, *, is_truncated: bool) -> str:
        profile = self._config.profile
        return extract_answer(text, profile=profile, is_truncated=is_truncated).answer

    def _grade_request(self, request: GradeRequest) -> Grade:
        gold, text, is_truncated = request
        return self.grade(gold, text, is_truncated=is_truncated)

    def _fast(self, gold: str, answer: str) -> Grade | None:
        with self._cache_lock:
            cached = self._cache.get((gold, answer))
            if cached is not None:
                self._cache.move_to_end((gold, answer))
                return cached
        grade = compare_answers(gold, answer)
        if grade is not None:
            self._remember(gold, answer, grade)
        return grade

    def _symbolic(self, gold: str, answer: str) -> Grade:
        worker = self._slots.get()
        try:
            grade = worker.compare(gold, answer)
        finally:
            self._slots.put(worker)
        self._remember(gold, answer, grade)
        return grade

    def _remember(self, gold: str, answer: str, grade: Grade) -> None:
        if len(gold) + len(answer) > _MAX_CACHED_CHARS:
            return
        with self._cache_lock:
            self._cache[(gold, answer)] = grade
            while len(self._cache) > self._config.cache_size:
                self._cache.popitem(last=False)


class _WorkerDiedError(Exception):
    pass


class _Worker:
    """One child process, used by one thread at a time."""

    def __init__(self, config: GradingConfig) -> None:
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._num_jobs = 0

    def compare(self, gold: str, answer: str) -> Grade:
        for _ in range(2):
            process = self._running()
            try:
                write_frame(_pipe(process.stdin), {"gold": gold, "answer": answer})
                acknowledged = _receive(process, seconds=_ACKNOWLEDGE_SECONDS)
            except (_WorkerDiedError, OSError):
                # It died while idle or before it began: the pair is not to blame.
                self.stop()
                continue
            if acknowledged is not None:
                return self._await_grade(process, answer)
            self.stop()
        return Grade(Verdict.UNDECIDED, "worker-died", answer)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            try:
                _pipe(stream).close()
            except OSError:
                continue

    def _await_grade(self, process: subprocess.Popen[bytes], answer: str) -> Grade:
        try:
            reply = _receive(process, seconds=self._config.deadline_seconds)
        except (_WorkerDiedError, OSError):
            self.stop()
            return Grade(Verdict.UNDECIDED, "worker-died", answer)
        if reply is None:
            self.stop()
            return Grade(Verdict.UNDECIDED, "timeout", answer)
        self._num_jobs += 1
        if self._num_jobs >= self._config.jobs_per_worker:
            self.stop()
        return Grade(Verdict(str(reply["verdict"])), str(reply["reason"]), answer)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        self._process = _start(self._config)
        self._num_jobs = 0
        try:
            ready = _receive(self._process, seconds=_START_SECONDS)
        except _WorkerDiedError:
            ready = None
        if ready is None:
            status = self._process.poll()
            self.stop()
            raise GraderStartError(
                f"a grading worker did not start (exit status {status}); try "
                f"`{sys.executable} -c 'import sympy'` and raise `memory_mb` "
                f"({self._config.memory_mb}) if memory is short"
            )
        return self._process


def _start(config: GradingConfig) -> subprocess.Popen[bytes]:
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
        [sys.executable, "-P", "-m", "grading.worker", *arguments],
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


def _receive(process: subprocess.Popen[bytes], *, seconds: float) -> dict[str, object] | None:
    """One frame from the worker; None when the time is over.

    Raises:
        _WorkerDiedError: the stream ended.
    """
    deadline = time.monotonic() + seconds
    descriptor = _pipe(process.stdout).fileno()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    data = b""
    size: int | None = None
    while size is None or len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return None
        piece = os.read(descriptor, 4 if size is None else size - len(data))
        if not piece:
            raise _WorkerDiedError
        data += piece
        if size is None and len(data) >= 4:
            size, data = int.from_bytes(data[:4], "big"), data[4:]
    return cast("dict[str, object]", json.loads(data))
