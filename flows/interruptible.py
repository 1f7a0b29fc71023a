"""Run a coroutine so that a signal ends it cleanly, whenever it comes.

Prefect turns SIGTERM into an exception in the main thread. Raised inside an event loop it
can hit a callback, where asyncio only logs it, or a task that nobody awaits. So the loop
runs in a thread of its own while the main thread waits: the exception always arrives here,
and the coroutine is cancelled and has closed its engine before it goes on.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any


def run_interruptible(
    work: Coroutine[Any, Any, None], *, meanwhile: Callable[[], None], every_seconds: float
) -> None:
    """Run `work` to its end, calling `meanwhile` in this thread every few seconds.

    Raises what `work` raises. An exception in this thread (a signal's, or `meanwhile`'s)
    cancels `work`, waits until it has cleaned up, and is raised then.
    """
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()

    async def run() -> None:
        task = asyncio.create_task(work)
        started.set_result((asyncio.get_running_loop(), task))
        await task

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="event-loop") as thread:
        ended = thread.submit(lambda: asyncio.run(run()))
        try:
            while not wait([ended], timeout=every_seconds).done:
                meanwhile()
        except BaseException:
            loop, task = started.result()
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                loop.call_soon_threadsafe(task.cancel)
            raise
        ended.result()
