"""The child of `grading.pool`: reads pairs on stdin, answers on stdout, one at a time.

A frame is a 4-byte big-endian length and that many bytes of JSON. For each job the worker
first acknowledges (`{"started": true}`), so that the parent's deadline counts from the start
of the work, then sends the grade. It ends when stdin closes, when its parent is gone (also by
SIGKILL, also in the middle of a job), or at its own limits of memory and processor time.
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
from typing import IO, cast

from grading.verdict import Grade, Verdict

_LENGTH_BYTES = 4


def write_frame(stream: IO[bytes], message: object) -> None:
    """Send one JSON value."""
    data = json.dumps(message).encode("ascii")
    frame = memoryview(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    while frame:
        frame = frame[stream.write(frame) :]
    stream.flush()


def read_frame(stream: IO[bytes]) -> dict[str, object] | None:
    """Receive one JSON object; None at the end of the stream."""
    header = stream.read(_LENGTH_BYTES)
    if len(header) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(header, "big")
    data = stream.read(size)
    return cast("dict[str, object]", json.loads(data)) if len(data) == size else None


def main() -> None:
    """Serve until stdin ends. Arguments: parent's pid, memory limit in MiB, deadline in s."""
    parent_pid, memory_mb, deadline_seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    threading.Thread(target=_watch_parent, args=(parent_pid,), daemon=True).start()
    # Frames own the real stdout; whatever a library prints goes to stderr.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from grading.equivalence import SYMBOLIC
    from grading.grade import compare_with

    limit = memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        write_frame(replies, {"ready": True})
        while (job := read_frame(sys.stdin.buffer)) is not None:
            _limit_processor_time(deadline_seconds)
            write_frame(replies, {"started": True})
            grade = _grade_job(
                lambda gold, answer: compare_with(SYMBOLIC, gold, answer),
                str(job["gold"]),
                str(job["answer"]),
            )
            write_frame(replies, {"verdict": grade.verdict, "reason": grade.reason})
    except BrokenPipeError:
        os._exit(1)


def _grade_job(compare: Callable[[str, str], Grade | None], gold: str, answer: str) -> Grade:
    try:
        grade = compare(gold, answer)
    except MemoryError:
        grade = Grade(Verdict.UNDECIDED, "memory", answer)
    except Exception as error:  # noqa: BLE001 - the worker's boundary: sympy may raise anything
        grade = Grade(Verdict.UNDECIDED, f"failed-{type(error).__name__}", answer)
    return grade or Grade(Verdict.UNDECIDED, "unproven", answer)


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
    main()
