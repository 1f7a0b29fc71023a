"""Progress bars of the command line: what is done, rate, time left. On stderr."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from flows.sampling import OnProgress
from flows.sampling import Progress as SamplingProgress

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 60.0
SECONDS_BETWEEN_UPDATES = 0.2
"""Rollouts finish by the thousand a second; eyes do not need each."""

OnCount = Callable[[int, int], None]
"""(done, total)"""


@contextmanager
def sampling_progress(what: str) -> Generator[OnProgress, None, None]:
    """A bar over problems, with rollouts and generated tokens a second.

    Off a terminal a line a minute says the same.
    """
    said_at, shown_at = monotonic(), 0.0
    with _bar() as bar:
        task = bar.add_task(what, total=None, detail="reading problems, starting the engine")

        def update(progress: SamplingProgress) -> None:
            nonlocal said_at, shown_at
            is_done = progress.num_done == progress.num_problems
            if monotonic() - shown_at < SECONDS_BETWEEN_UPDATES and not is_done:
                return
            shown_at = monotonic()
            rate = progress.num_tokens / progress.seconds if progress.seconds else 0.0
            bar.update(
                task,
                total=progress.num_problems,
                completed=progress.num_done,
                detail=f"{progress.num_rollouts:,} rollouts, {rate:,.0f} tokens/s",
            )
            if bar.disable and monotonic() - said_at >= SECONDS_BETWEEN_LINES:
                said_at = monotonic()
                logger.warning(
                    "%s: %d of %d problems, %s rollouts, %s tokens/s",
                    *(what, progress.num_done, progress.num_problems),
                    *(f"{progress.num_rollouts:,}", f"{rate:,.0f}"),
                )

        yield update


@contextmanager
def training_progress() -> Generator[OnCount, None, None]:
    """A bar over optimiser updates."""
    with counting_progress("training") as update:
        yield update


@contextmanager
def counting_progress(what: str) -> Generator[OnCount, None, None]:
    """A bar over things counted."""
    with _bar() as bar:
        task = bar.add_task(what, total=None, detail="")

        def update(done: int, total: int) -> None:
            bar.update(task, total=total, completed=done)

        yield update


def _bar() -> Progress:
    bars = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=bars,
        disable=not bars.is_terminal,  # off a terminal, stderr is for errors
    )
