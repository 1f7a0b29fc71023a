"""Progress bars of the command line: what is done, rate, time left. On stderr."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

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

from flows.stages import OnProgress
from flows.stages import Progress as SamplingProgress

OnCount = Callable[[int, int], None]
"""(done, total)"""


@contextmanager
def sampling_progress(what: str) -> Generator[OnProgress, None, None]:
    """A bar over problems, with rollouts and generated tokens a second."""
    with _bar() as bar:
        task = bar.add_task(what, total=None, detail="reading problems, starting the engine")

        def update(progress: SamplingProgress) -> None:
            rate = progress.num_tokens / progress.seconds if progress.seconds else 0.0
            bar.update(
                task,
                total=progress.num_problems,
                completed=progress.num_done,
                detail=f"{progress.num_rollouts} rollouts, {rate:,.0f} tokens/s",
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
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=bars,
        disable=not bars.is_terminal,  # off a terminal, stderr is for errors
    )
