"""A coroutine is cancelled and has cleaned up before an interruption goes on."""

import asyncio
import signal
import threading

import pytest

from flows.interruptible import run_interruptible


class InterruptionError(Exception):
    """What a signal handler raises."""


async def _until_cancelled(events: list[str]) -> None:
    try:
        events.append("began")
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.05)  # as an engine that takes a moment to end
        events.append("closed")


def test_the_work_runs_to_its_end_beside_the_waiting_thread() -> None:
    seen: list[threading.Thread] = []
    meanwhile: list[threading.Thread] = []

    async def work() -> None:
        await asyncio.sleep(0.1)
        seen.append(threading.current_thread())

    run_interruptible(
        work(), meanwhile=lambda: meanwhile.append(threading.current_thread()), every_seconds=0.02
    )
    assert seen[0] is not threading.main_thread()
    assert set(meanwhile) == {threading.main_thread()}


def test_the_works_error_is_raised() -> None:
    async def work() -> None:
        raise InterruptionError("from the work")

    with pytest.raises(InterruptionError, match="from the work"):
        run_interruptible(work(), meanwhile=lambda: None, every_seconds=1)


def test_an_error_meanwhile_cancels_the_work_and_waits_for_it() -> None:
    events: list[str] = []

    def meanwhile() -> None:
        raise InterruptionError("meanwhile")

    with pytest.raises(InterruptionError, match="meanwhile"):
        run_interruptible(_until_cancelled(events), meanwhile=meanwhile, every_seconds=0.05)
    assert events == ["began", "closed"]


def test_a_signal_cancels_the_work_at_once() -> None:
    events: list[str] = []

    def raising(_signum: int, _frame: object) -> None:
        events.append("signal")
        raise InterruptionError("signal")

    previous = signal.signal(signal.SIGALRM, raising)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(InterruptionError, match="signal"):
            run_interruptible(_until_cancelled(events), meanwhile=lambda: None, every_seconds=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert events == ["began", "signal", "closed"]
