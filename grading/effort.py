"""How much one comparison may cost in its tier: a count of steps, for each thread its own.

A step is about a node visited or a product of two terms: some microseconds. Whoever does
expensive work asks `steps_left` before and calls `spend` after; where nothing is left the tier
leaves the pair open. The count depends on the two trees alone, never on a clock or a cache.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager

FAST_STEPS = 12_000
"""About 50 ms."""
FULL_STEPS = 200_000


def steps_left() -> int:
    """Steps that the comparison under way may still spend; not above zero where none."""
    return _STATE.left


def spend(num_steps: int) -> None:
    """Count steps that were taken."""
    _STATE.left -= num_steps


@contextmanager
def limited_to(num_steps: int) -> Generator[None]:
    """A budget of its own for what is done inside; the outer one is not charged."""
    outer = _STATE.left
    _STATE.left = num_steps
    try:
        yield
    finally:
        _STATE.left = outer


class _State(threading.local):
    left = FULL_STEPS * 1_000


_STATE = _State()
