"""A line every half minute while an engine is waited for: silence looks like a hang."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from time import monotonic

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 30.0
"""Or a quarter of the longest wait, where that is less."""


@asynccontextmanager
async def said_while_waiting(what: Callable[[], str], *, of_seconds: float) -> AsyncGenerator[None]:
    """Log what is waited for, and how long already of at most `of_seconds`, until the block ends.

    `what` is asked anew for each line.
    """
    started = monotonic()

    async def say() -> None:
        while True:
            await asyncio.sleep(min(SECONDS_BETWEEN_LINES, of_seconds / 4))
            logger.warning(
                "still waiting for %s: %.0f s of %g", what(), monotonic() - started, of_seconds
            )

    saying = asyncio.create_task(say())
    try:
        yield
    finally:
        saying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await saying
