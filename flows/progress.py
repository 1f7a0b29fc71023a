"""Progress of the command line, on stderr: a bar on a terminal, elsewhere a line now and then.

A line goes out as progress is reported, so a command that is done sooner prints none.
"""

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from flows.sampling import OnProgress
from flows.sampling import Progress as SamplingProgress

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_UPDATES = 0.2
"""Rollouts finish by the thousand a second; eyes do not need each."""
LEAST_FINISHED = 5
LEAST_SHARE = 0.05
"""Of what was open: the first problems take longest, since many are begun at once."""

_BAR_FITS = 100
"""Columns: in a narrower terminal the figures need its place."""

OnCount = Callable[[int, int], None]
"""(done, total)"""


@contextmanager
def sampling_progress(
    what: str,
    *,
    console: Console | None = None,
    seconds_between_lines: float = SECONDS_BETWEEN_LINES,
) -> Generator[OnProgress, None, None]:
    """Problems done; rollouts and generated tokens of this run, as they come; the time left.

    A problem is done with its last rollout, so that for long only the others move.
    """
    shown_at, pace = 0.0, Pace()
    with _shown(what, console, seconds_between_lines) as show:

        def update(progress: SamplingProgress) -> None:
            nonlocal shown_at
            seconds_left = pace.seconds_left(progress)
            if monotonic() - shown_at < SECONDS_BETWEEN_UPDATES and not _is_last(progress):
                return
            shown_at = monotonic()
            rate = progress.num_tokens / progress.seconds if progress.seconds else 0.0
            detail = (
                f"{progress.num_rollouts:,} rollouts, "
                f"{progress.num_tokens:,} tokens ({rate:,.0f}/s)"
            )
            show(progress.num_done, progress.num_problems, "problems", detail, seconds_left)

        yield update


@contextmanager
def training_progress() -> Generator[OnCount, None, None]:
    """Over optimiser updates."""
    with counting_progress("training", unit="updates") as update:
        yield update


@contextmanager
def counting_progress(
    what: str,
    *,
    unit: str = "",
    console: Console | None = None,
    seconds_between_lines: float = SECONDS_BETWEEN_LINES,
) -> Generator[OnCount, None, None]:
    """Over things counted, which take about the same time each."""
    started = monotonic()
    with _shown(what, console, seconds_between_lines) as show:

        def update(done: int, total: int) -> None:
            is_telling = done >= LEAST_SHARE * total and 0 < done <= total
            left = (monotonic() - started) * (total - done) / done if is_telling else None
            show(done, total, unit, "", left)

        yield update


@dataclass(slots=True)
class Pace:
    """The time left, from the problems finished since the engine's first tokens."""

    _first: SamplingProgress | None = None
    """The last report before these: what was stored is no measure of the pace."""

    def seconds_left(self, progress: SamplingProgress) -> float | None:
        """None while too few are finished to tell."""
        first = self._first
        is_begun = first is not None and progress.num_tokens > first.num_tokens
        if first is None or not is_begun or progress.num_done < first.num_done:
            self._first = progress
            return None
        num_finished = progress.num_done - first.num_done
        num_open = first.num_problems - first.num_done
        if num_finished < max(LEAST_FINISHED, LEAST_SHARE * num_open):
            return None
        num_left = progress.num_problems - progress.num_done
        return (progress.seconds - first.seconds) * num_left / num_finished


_Show = Callable[[int, int, str, str, float | None], None]
"""(done, total, unit, detail, seconds left)"""


@contextmanager
def _shown(
    what: str, console: Console | None, seconds_between_lines: float
) -> Generator[_Show, None, None]:
    console = console or Console(stderr=True)
    said_at = monotonic()
    with _bar(console) as bar, _warnings_above_it():
        task = bar.add_task(what, total=None, detail="starting")

        def show(done: int, total: int, unit: str, detail: str, left: float | None) -> None:
            nonlocal said_at
            detail = ", ".join(part for part in (detail, _left(left)) if part)
            bar.update(task, total=total, completed=done, detail=detail)
            if bar.disable and monotonic() - said_at >= seconds_between_lines:
                said_at = monotonic()
                line = f"{what}: {done:,} of {total:,} {unit}".rstrip()
                line += f", {detail}" if detail else ""
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield show


@contextmanager
def _warnings_above_it() -> Generator[None, None, None]:
    """Log to what stands in for stderr while a bar is drawn there, not across the bar."""
    handlers = [
        one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)
    ]
    before = [(one, one.setStream(sys.stderr)) for one in handlers if one.stream is sys.__stderr__]
    try:
        yield
    finally:
        for handler, stream in before:
            handler.setStream(stream or sys.__stderr__)


def _bar(console: Console) -> Progress:
    bars = [BarColumn(bar_width=12)] if console.width >= _BAR_FITS else []
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *bars,
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _left(seconds: float | None) -> str:
    if not seconds:
        return ""
    if seconds < 60:
        return "under 1 min left"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min left" if hours else f"{minutes} min left"


def _is_last(progress: SamplingProgress) -> bool:
    return progress.num_done == progress.num_problems
