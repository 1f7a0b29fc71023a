"""A grading worker whose comparisons do as they are told, for tests of the pool.

The command is the answer's text, or STAND_IN_COMMAND for every job: `sleep SECONDS`, `die`,
`hold MEGABYTES` (until the process ends), `raise`, `tell` (nothing more). The grade's reason
is the worker's pid. STAND_IN_START_SECONDS makes it slow to start.
"""

import os
import time

from grading.verdict import Grade, Verdict
from grading.worker import Compare, serve

HELD: list[bytes] = []


def compare(_: str, answer: str) -> Grade | None:
    command, _, number = os.environ.get("STAND_IN_COMMAND", answer).partition(" ")
    if command == "sleep":
        time.sleep(float(number))
    elif command == "die":
        os._exit(3)
    elif command == "hold":
        HELD.append(os.urandom(int(number) * 2**20))
    elif command == "raise":
        raise ValueError(number)
    elif command != "tell":
        return None
    return Grade(Verdict.CORRECT, str(os.getpid()), answer)


def slowly_started() -> Compare:
    time.sleep(float(os.environ.get("STAND_IN_START_SECONDS", "0")))
    return compare


if __name__ == "__main__":
    serve(slowly_started)
