"""The child of `grading.pool`: reads pairs on stdin, answers on stdout, one at a time.

A frame is a 4-byte big-endian length and that many bytes of JSON. For each job the worker
first acknowledges (`{"job": 3, "started": true}`), so that the parent's deadline counts from
the start of the work, then sends the grade and how much memory it holds. It ends when stdin
closes, when its parent is gone (also by SIGKILL, also in the middle of a job), or at its own
limits of memory and processor time.
PR_SET_PDEATHSIG is not used: it fires when the *thread* that started the worker ends.
"""

import json
import math
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from grading.verdict import Grade, Verdict

LENGTH_BYTES = 4


def frame(message: object) -> bytes:
    """One JSON value as it goes over the pipe."""
    data = json.dumps(message).encode("ascii")
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


Compare = Callable[[str, str], Grade | None]
"""Gold answer and answer → grade; None where it cannot tell."""


def serve(make_compare: Callable[[], Compare]) -> None:
    """Answer jobs until stdin ends. Arguments: parent's pid, memory in MiB, deadline in s.

    `make_compare` imports what the comparison needs, before memory is limited.
    """
    parent_pid, memory_mb, deadline_seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    threading.Thread(target=_watch_parent, args=(parent_pid,), daemon=True).start()
    # Frames own the real stdout; whatever a library prints goes to stderr.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    compare = make_compare()
    limit = memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        _reply(replies, {"ready": True})
        while (job := _read_job(sys.stdin.buffer)) is not None:
            number = job["job"]
            _limit_processor_time(deadline_seconds)
            _reply(replies, {"job": number, "started": True})
            grade = _grade_job(compare, str(job["gold"]), str(job["answer"]))
            verdict, reason = grade.verdict, grade.reason
            held = {"memory_mb": _memory_mb()}
            _reply(replies, {"job": number, "verdict": verdict, "reason": reason, **held})
    except BrokenPipeError:
        os._exit(1)


def _symbolic_compare() -> Compare:
    from grading.symbolic import compare_symbolically

    return compare_symbolically


def _reply(stream: IO[bytes], message: object) -> None:
    stream.write(frame(message))
    stream.flush()


def _read_job(stream: IO[bytes]) -> dict[str, object] | None:
    header = stream.read(LENGTH_BYTES)
    if len(header) < LENGTH_BYTES:
        return None
    size = int.from_bytes(header, "big")
    data = stream.read(size)
    return cast("dict[str, object]", json.loads(data)) if len(data) == size else None


def _grade_job(compare: Compare, gold: str, answer: str) -> Grade:
    try:
        grade = compare(gold, answer)
    except MemoryError:
        grade = Grade(Verdict.UNDECIDED, "memory", answer)
    except Exception as error:  # noqa: BLE001 - the worker's boundary: sympy may raise anything
        grade = Grade(Verdict.UNDECIDED, f"failed-{type(error).__name__}", answer)
    return grade or Grade(Verdict.UNDECIDED, "unproven", answer)


def _memory_mb() -> int:
    """Resident memory now; where /proc is missing, the most it ever was."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return pages * resource.getpagesize() // 2**20


def _watch_parent(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(0.25)
    os._exit(1)


def _limit_processor_time(deadline_seconds: float) -> None:
    """The kernel ends a job that outlives its parent inside C code, where no thread runs."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(usage.ru_utime + usage.ru_stime + deadline_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    serve(_symbolic_compare)
