"""Grade in killable worker processes: a deadline per comparison, a cache, no exceptions.

The fast tier runs in the caller; only what it leaves open goes to a worker. A job over its
deadline costs its worker SIGKILL and the grade is undecided (`timeout`); a worker that dies
at work gives `worker-died`; both are replaced at once. No queue grows without bound:
`grade` blocks, `agrade` awaits its turn, `grade_many` looks a bounded number of requests
ahead.

A pool may be shared by threads and by the tasks of an event loop. It holds processes, so it
cannot be pickled: a Ray actor or a Prefect task makes its own where it runs. After a fork
the new process's copy starts workers of its own.
"""

import asyncio
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NoReturn, Self

from grading.config import GradingConfig
from grading.extract import Extraction, extract_answer
from grading.grade import compare_answers
from grading.grade_cache import GradeCache, text_key
from grading.verdict import Grade
from grading.version import grader_version
from grading.worker_process import GraderStartError, WorkerProcess

__all__ = ["GradePool", "GradeRequest", "GraderStartError"]

GradeRequest = tuple[str, str, bool]
"""Gold answer, the whole completion, and whether it was cut off at the token limit."""

_MAX_INLINE_CHARS = 4_000
_LOOK_AHEAD = 256


class GradePool:
    """Thread-safe grader; a context manager. Workers start when first needed.

    `worker_module` is what the workers run, for tests of the pool itself.
    """

    def __init__(
        self, config: GradingConfig | None = None, *, worker_module: str = "grading.worker"
    ) -> None:
        self._config = config or GradingConfig()
        self._worker_module = worker_module
        self._reset()
        _POOLS.add(self)

    @property
    def version(self) -> str:
        """What defines this pool's verdicts: the grader's version and the profile."""
        return grader_version(self._config)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Processes of the workers that run now, for measurements."""
        return tuple(pid for worker in self._workers if (pid := worker.pid) is not None)

    def start(self) -> None:
        """Begin to start the workers, so that the first symbolic grade need not wait."""
        for _ in self._workers:
            worker = self._take_slot()
            worker.start()
            self._slots.put(worker)

    def grade(self, gold: str, text: str, *, is_truncated: bool = False) -> Grade:
        """Grade a whole completion: find its final answer and compare it with the gold one."""
        key = text_key(gold, text, is_truncated=is_truncated)
        grade = self._cache.of_text(key)
        if grade is None:
            answer = self.extract(text, is_truncated=is_truncated).answer
            grade = self.grade_answer(gold, answer)
            self._cache.keep_text(key, grade)
        return grade

    def grade_answer(self, gold: str, answer: str) -> Grade:
        """Grade a bare answer. Blocks up to the deadline; never raises on bad mathematics."""
        return self._fast(gold, answer) or self._symbolic(gold, answer)

    def extract(self, text: str, *, is_truncated: bool = False) -> Extraction:
        """The final answer of a completion, by this pool's profile, and the rule that found it."""
        return extract_answer(text, profile=self._config.profile, is_truncated=is_truncated)

    async def agrade(self, gold: str, text: str, *, is_truncated: bool = False) -> Grade:
        """`grade` without blocking the event loop; any number of tasks may await it."""
        if len(text) > _MAX_INLINE_CHARS or len(gold) > _MAX_INLINE_CHARS:
            return await self._in_a_thread(
                lambda: self.grade(gold, text, is_truncated=is_truncated)
            )
        found = self._at_once(gold, text, is_truncated=is_truncated)
        if isinstance(found, Grade):
            return found
        return await self._in_a_thread(lambda: self._symbolic(gold, found))

    def grade_many(self, requests: Iterable[GradeRequest]) -> Iterator[Grade]:
        """Grades in the order of the requests, which are read only some way ahead."""
        pending: deque[Grade | Future[Grade]] = deque()
        try:
            for request in requests:
                pending.append(self._begin(request))
                while pending and (len(pending) > _LOOK_AHEAD or _is_done(pending[0])):
                    yield _result(pending.popleft())
            while pending:
                yield _result(pending.popleft())
        finally:
            for left in pending:
                if isinstance(left, Future):
                    left.cancel()

    def close(self) -> None:
        """End all workers; grades under way finish first. Safe to call twice."""
        self._threads.shutdown(wait=True)
        if self._is_closed:
            return
        for _ in self._workers:
            self._take_slot().stop()
        self._is_closed = True
        self._slots.put(None)

    def reset_after_fork(self) -> None:
        """In a forked process: locks, threads and workers of its own. The fork calls it."""
        for worker in self._workers:
            worker.abandon()
        was_closed = self._is_closed
        self._reset()
        if was_closed:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a GradePool holds processes and cannot be sent elsewhere: send its GradingConfig "
            "and make GradePool(config) in the actor or task"
        )

    def _reset(self) -> None:
        workers = self._config.workers
        self._is_closed = False
        self._workers = [
            WorkerProcess(self._config, module=self._worker_module) for _ in range(workers)
        ]
        self._slots: queue.LifoQueue[WorkerProcess | None] = queue.LifoQueue()
        for worker in self._workers:
            self._slots.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="grade")
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        self._turns_lock = threading.Lock()
        self._cache = GradeCache(self._config.cache_size)

    async def _in_a_thread(self, work: Callable[[], Grade]) -> Grade:
        loop = asyncio.get_running_loop()
        with self._turns_lock:
            turns = self._turns.setdefault(loop, asyncio.Semaphore(self._config.workers))
        async with turns:
            return await loop.run_in_executor(self._threads, work)

    def _begin(self, request: GradeRequest) -> Grade | Future[Grade]:
        gold, text, is_truncated = request
        found = self._at_once(gold, text, is_truncated=is_truncated)
        if isinstance(found, Grade):
            return found
        return self._threads.submit(self._symbolic, gold, found)

    def _at_once(self, gold: str, text: str, *, is_truncated: bool) -> Grade | str:
        """The grade, or the answer where only a worker can tell."""
        key = text_key(gold, text, is_truncated=is_truncated)
        grade = self._cache.of_text(key)
        if grade is not None:
            return grade
        answer = self.extract(text, is_truncated=is_truncated).answer
        grade = self._fast(gold, answer)
        if grade is None:
            return answer
        self._cache.keep_text(key, grade)
        return grade

    def _fast(self, gold: str, answer: str) -> Grade | None:
        grade = self._cache.of_answer(gold, answer)
        if grade is None:
            grade = compare_answers(gold, answer)
            if grade is not None:
                self._cache.keep_answer(gold, answer, grade)
        return grade

    def _symbolic(self, gold: str, answer: str) -> Grade:
        worker = self._take_slot()
        try:
            # A rollout with the same answer may have held the worker before us.
            grade = self._cache.of_answer(gold, answer) or worker.compare(gold, answer)
        finally:
            self._slots.put(worker)
        self._cache.keep_answer(gold, answer, grade)
        return grade

    def _take_slot(self) -> WorkerProcess:
        worker = self._slots.get()
        if worker is None:
            self._slots.put(None)
            raise RuntimeError("this GradePool is closed")
        return worker


def _is_done(item: Grade | Future[Grade]) -> bool:
    return isinstance(item, Grade) or item.done()


def _result(item: Grade | Future[Grade]) -> Grade:
    return item if isinstance(item, Grade) else item.result()


_POOLS: weakref.WeakSet[GradePool] = weakref.WeakSet()


def _reset_pools_after_fork() -> None:
    for pool in tuple(_POOLS):
        pool.reset_after_fork()


os.register_at_fork(after_in_child=_reset_pools_after_fork)
