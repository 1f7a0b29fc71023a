"""A child that flushes and compacts a journal until it is killed, and says how far it is.

It is forked from a process that has imported everything (`multiprocessing`'s forkserver),
so that a test can kill dozens of them. What it says goes through a pipe, a line each:
`flush N` before rows up to N are written, `kept N` when they are on disk, `compact`,
`compacted`.
"""

import itertools
from multiprocessing.connection import Connection
from pathlib import Path

from grading.verdict import Verdict
from pipeline.records import FinishReason, Rollout
from storage.journal import Journal, compact
from storage.lock import dataset_lock
from storage.tables import rollouts_to_table

ROWS_A_FLUSH = 10
FLUSHES_A_COMPACTION = 3


def numbered(number: int) -> Rollout:
    """The rollout of this number; problems and prefixes repeat and come in no order."""
    return Rollout(
        f"p{number * 7 % 23:02d}", f"prefix-{number % 3}", number, f" text {number}\n#### 1", "1",
        Verdict.CORRECT, "text", FinishReason.STOP, 5, "c", "d", "g", number,
        "2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip


def write_for_ever(path: Path, first: int, said: Connection) -> None:
    """Append rows from number `first` on; compact every few parts."""
    with dataset_lock(path):
        compact(path, max_parts=4)  # what the one before left
        for start in itertools.count(first, ROWS_A_FLUSH):
            with Journal(path) as journal:
                journal.append([numbered(start + index) for index in range(ROWS_A_FLUSH)])
                said.send(("flush", start + ROWS_A_FLUSH))
            said.send(("kept", start + ROWS_A_FLUSH))
            if (start - first) // ROWS_A_FLUSH % FLUSHES_A_COMPACTION == FLUSHES_A_COMPACTION - 1:
                said.send(("compact", start + ROWS_A_FLUSH))
                compact(path, large_rows=400)
                said.send(("compacted", start + ROWS_A_FLUSH))


rollouts_to_table([numbered(0)])  # has pyarrow import pandas once, before any child is forked
