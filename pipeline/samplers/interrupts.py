"""Ctrl-C while a long blocking call runs inside an event loop.

Under `asyncio.run` the first SIGINT only marks the main task as cancelled, which a blocking
call (importing torch, loading weights, reading a journal) notices when it is over.
"""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def interrupts_deferred() -> Generator[None, None, None]:
    """Hold SIGINT back until the block ends: for importing torch, whose C++ code calls Python.

    A KeyboardInterrupt raised in there aborts the whole process. Outside the main thread,
    which alone gets signals, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held_back: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: held_back.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held_back:
        raise KeyboardInterrupt


@contextmanager
def interrupts_raised() -> Generator[None, None, None]:
    """Let SIGINT raise KeyboardInterrupt at once inside the block, where nothing is to be awaited.

    Outside the main thread, which alone gets signals, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
