"""Publishes label sets in child processes that die where they are told to.

    python -m tests.snapshot_writer FOLDER KEEP

Reads orders from standard input, `SET event N` or `SET after SECONDS`, publishes SET in a
forked child, and kills it at its N-th change of the file system (never for 0) or after the
seconds. Answers with the number of changes that were begun and whether the child was killed.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from grading.verdict import Verdict
from pipeline.records import LabeledSolution, Problem, StepLabel
from storage.snapshots import write_snapshot
from storage.tables import labels_to_table

NUM_PROBLEMS = 40
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "open"}


def solutions(label_set: int) -> list[LabeledSolution]:
    """Two sets with the same solutions and other counts; the second has a problem more."""
    return [
        LabeledSolution(
            Problem(f"p{index:03d}", f"Q{index}?", "1", "test", ""),
            f"p{index:03d}/d/0",
            ("a", "\nb"),
            tuple(StepLabel(8, 0, label_set + index % 6, 8 - label_set - index % 6, 0, 0)
            for _ in range(2)),
            "1",
            Verdict.CORRECT,
        )
        for index in range(NUM_PROBLEMS + label_set)
    ]  # fmt: skip


def tables(label_set: int) -> list[tuple[str, pa.Table]]:
    """In two splits and several row groups."""
    rows = solutions(label_set)
    return [
        ("test" if start % 20 == 0 else "train", table_of(rows[start : start + 10]))
        for start in range(0, len(rows), 10)
    ]


def table_of(rows: list[LabeledSolution], *, hard_threshold: float = 0.0) -> pa.Table:
    return labels_to_table(
        rows,
        completer="c",
        generator="g",
        sampling_digest="d",
        grader_versions=["v"] * len(rows),
        hard_threshold=hard_threshold,
    )


def main() -> None:
    folder, keep = Path(sys.argv[1]), int(sys.argv[2])
    made = {label_set: tables(label_set) for label_set in (1, 2)}  # and pandas is imported
    for order in sys.stdin:
        label_set, kind, number = order.split()
        changes, told = os.pipe()
        child = os.fork()
        if not child:
            os.close(changes)
            publish = partial(write_snapshot, folder, made[int(label_set)], keep=keep)
            fatal = int(number) if kind == "event" else 0
            _tell_changes(told, fatal, partial(publish, {"counts": {"set": int(label_set)}}))
        os.close(told)
        if kind == "after":
            os.read(changes, 1)  # the first change
            time.sleep(float(number))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        num_changes = len(os.read(changes, 1 << 16)) + (kind == "after")
        os.close(changes)
        is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.write(f"{num_changes} {is_killed:d} {os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _tell_changes(told: int, fatal: int, work: Callable[[], object]) -> None:
    """Do `work` and end; a byte for each change of the file system before it is made."""
    num_begun = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal num_begun
        if event not in CHANGES or (event == "open" and not str(arguments[0]).startswith("/")):
            return
        num_begun += 1
        os.write(told, b".")
        if num_begun == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
