"""Ctrl-C at a chosen moment of a run in this process."""

import signal

from flows.sampling import OnProgress, Progress


def interrupt_at(num_rollouts: int) -> OnProgress:
    """One Ctrl-C, once so many are drawn."""
    is_done = False

    def stop(progress: Progress) -> None:
        nonlocal is_done
        if progress.num_rollouts >= num_rollouts and not is_done:
            is_done = True
            signal.raise_signal(signal.SIGINT)

    return stop
