"""Grade in killable worker processes: a deadline per comparison, a cache, no exceptions.

The fast tier runs in the caller (of `agrade`: in a thread where the texts are not short); only
what it leaves open goes to a worker. A job over its deadline costs its worker SIGKILL and the
grade is undecided (`timeout`); a worker that dies at work gives `worker-died`; both are replaced
at once, and neither sticks: the pair is compared again when it is asked for again
(`grading.grade_cache`). No queue grows without bound: `grade` blocks, `agrade` awaits its turn,
`grade_many` looks a bounded number of requests ahead.

Workers start when first needed, which that grade waits for (0.5 to 4 s for an import of sympy
by the machine's load): call `start` some seconds before. From then on a grade ends 0.4 s after
its deadline at the latest, counted from its turn at a worker, even if that worker is killed or
stopped from outside. Workers end with `close`, with the pool itself, or with the process.

A pool may be shared by threads and by the tasks of an event loop. It holds processes, so it
cannot be pickled: a Ray actor or a Prefect task makes its own where it runs. After a fork
the new process's copy starts workers of its own.
"""

import asyncio
import logging
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import NoReturn, Self, TypeVar, overload

from grading.config import GradingConfig
from grading.extract import Extraction, extract_answer
from grading.grade import compare_answers
from grading.grade_cache import GradeCache, text_key
from grading.verdict import Grade
from grading.version import grader_version
from grading.worker_process import GraderStartError, WorkerProcess

logger = logging.getLogger(__name__)

__all__ = ["GradePool", "GradeRequest", "GraderStartError"]

GradeRequest = tuple[str, str, bool]
"""Gold answer, the whole completion, and whether it was cut off at the token limit."""

_Turns = dict[ThreadPoolExecutor, asyncio.Semaphore]
_Found = TypeVar("_Found")

_MAX_INLINE_TEXT = 4_000
"""Some milliseconds to search for an answer, at the worst."""
_MAX_INLINE_PAIR = 400
_MAX_INLINE_SECONDS = 0.01
_LOOK_AHEAD = 256
_CLOSE_SECONDS = 5.0


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
        with ExitStack() as idle, suppress(queue.Empty):  # those at work have started
            while True:
                idle.enter_context(self._worker(waits=False)).start()

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
        request = gold, text, is_truncated
        return await self._outside(request, self._inline(request))

    async def agrade_all(self, gold: str, texts: Sequence[tuple[str, bool]]) -> list[Grade]:
        """`agrade` of several (completion, cut off at the token limit) of one problem, in order.

        Where no worker and no thread is needed, which is nearly always, it awaits nothing but,
        every few milliseconds, the loop's other tasks.
        """
        requests = [(gold, text, is_truncated) for text, is_truncated in texts]
        found: list[Grade | str | None] = []
        since = time.monotonic()
        for request in requests:
            found.append(self._inline(request))
            if time.monotonic() - since > _MAX_INLINE_SECONDS:
                await asyncio.sleep(0)
                since = time.monotonic()
        late = iter(
            await asyncio.gather(
                *(
                    self._outside(request, item)
                    for request, item in zip(requests, found, strict=True)
                    if not isinstance(item, Grade)
                )
            )
        )
        return [item if isinstance(item, Grade) else next(late) for item in found]

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
        self._fast_threads.shutdown(wait=True)
        self._threads.shutdown(wait=True)
        if self._is_closed:
            return
        self._is_closed = True
        try:
            for _ in self._workers:
                self._slots.get(timeout=self._config.deadline_seconds + _CLOSE_SECONDS)
        except queue.Empty:
            logger.warning("a grade is still under way in another thread; its worker is killed")
        finally:
            self._end_workers()
            self._slots.put(None)

    def reset_after_fork(self) -> None:
        """In a forked process: locks, threads and workers of its own. The fork calls it."""
        for worker in self._workers:
            worker.abandon()
        self._end_workers.detach()
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
        self._end_workers = weakref.finalize(self, _stop, self._workers)
        self._slots: queue.LifoQueue[WorkerProcess | None] = queue.LifoQueue()
        for worker in self._workers:
            self._slots.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="grade")
        self._fast_threads = ThreadPoolExecutor(1, thread_name_prefix="grade-fast")
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = (
            weakref.WeakKeyDictionary()
        )
        self._turns_lock = threading.Lock()
        self._cache = GradeCache(self._config.cache_size)

    async def _outside(self, request: GradeRequest, found: Grade | str | None) -> Grade:
        """What is left of a request after `_inline`, in threads."""
        if found is None:
            found = await self._in_a_thread(self._fast_threads, lambda: self._at_once(request))
        if isinstance(found, Grade):
            return found
        gold, answer = request[0], found
        return await self._in_a_thread(self._threads, lambda: self._symbolic(gold, answer))

    async def _in_a_thread(self, threads: ThreadPoolExecutor, work: Callable[[], _Found]) -> _Found:
        """In its turn, so that what waits, waits in the loop rather than in the threads' queue."""
        loop = asyncio.get_running_loop()
        with self._turns_lock:
            turns = self._turns.get(loop)
            if turns is None:
                turns = {
                    self._fast_threads: asyncio.Semaphore(1),
                    self._threads: asyncio.Semaphore(self._config.workers),
                }
                self._turns[loop] = turns
        async with turns[threads]:
            return await loop.run_in_executor(threads, work)

    def _begin(self, request: GradeRequest) -> Grade | Future[Grade]:
        found = self._at_once(request)
        if isinstance(found, Grade):
            return found
        return self._threads.submit(self._symbolic, request[0], found)

    def _inline(self, request: GradeRequest) -> Grade | str | None:
        """`_at_once` where it takes moments; None where a thread should do it."""
        gold, text, _ = request
        if len(text) > _MAX_INLINE_TEXT or len(gold) > _MAX_INLINE_PAIR:
            return None
        return self._at_once(request, max_pair=_MAX_INLINE_PAIR)

    @overload
    def _at_once(self, request: GradeRequest) -> Grade | str: ...
    @overload
    def _at_once(self, request: GradeRequest, *, max_pair: int) -> Grade | str | None: ...
    def _at_once(self, request: GradeRequest, *, max_pair: int | None = None) -> Grade | str | None:
        """The grade, the answer where only a worker can tell, None where the pair is longer."""
        gold, text, is_truncated = request
        key = text_key(gold, text, is_truncated=is_truncated)
        grade = self._cache.of_text(key)
        if grade is not None:
            return grade
        answer = self.extract(text, is_truncated=is_truncated).answer
        if max_pair is not None and len(gold) + len(answer) > max_pair:
            return None
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
        with self._worker() as worker:
            # A rollout with the same answer may have held the worker before us.
            grade = self._cache.of_answer(gold, answer) or worker.compare(gold, answer)
        self._cache.keep_answer(gold, answer, grade)
        return grade

    @contextmanager
    def _worker(self, *, waits: bool = True) -> Generator[WorkerProcess, None, None]:
        worker = self._slots.get(block=waits)
        try:
            if worker is None:
                raise RuntimeError("this GradePool is closed")
            yield worker
        finally:
            self._slots.put(worker)


def _stop(workers: Sequence[WorkerProcess]) -> None:
    for worker in workers:
        worker.stop()


def _is_done(item: Grade | Future[Grade]) -> bool:
    return isinstance(item, Grade) or item.done()


def _result(item: Grade | Future[Grade]) -> Grade:
    return item if isinstance(item, Grade) else item.result()


_POOLS: weakref.WeakSet[GradePool] = weakref.WeakSet()


def _reset_pools_after_fork() -> None:
    for pool in tuple(_POOLS):
        pool.reset_after_fork()


os.register_at_fork(after_in_child=_reset_pools_after_fork)
