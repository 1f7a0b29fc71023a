"""Children that try for a dataset's lock and say whether they got it.

Forked from a process that has imported everything (`multiprocessing`'s forkserver), so that a
race of them begins in one moment.
"""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from pipeline.errors import DatasetLockedError
from storage.lock import dataset_lock


def take_lock(path: Path, environment: dict[str, str], told: Connection) -> None:
    """Wait for a word, try, say `held` or `refused`, and hold the lock until killed."""
    os.environ.update(environment)  # the server from which we are forked may be older
    told.recv()
    try:
        with dataset_lock(path):
            told.send("held")
            told.recv()
    except DatasetLockedError:
        told.send("refused")
        told.recv()


@contextmanager
def taking(path: Path, *, num: int = 1) -> Iterator[tuple[list[BaseProcess], list[str]]]:
    """`num` processes that try at once, and what each of them said; killed at the end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.lock_takers"])
    pipes = [context.Pipe() for _ in range(num)]
    processes = [
        context.Process(target=take_lock, args=(path, dict(os.environ), theirs))
        for _, theirs in pipes
    ]
    try:
        for process in processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()  # so that a child that dies is heard
        for ours, _ in pipes:
            ours.send("go")
        yield list(processes), [ours.recv() for ours, _ in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join()
        for ours, _ in pipes:
            ours.close()
