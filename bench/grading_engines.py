"""A child process that grades with one engine: stepmark's or math-verify's.

    python -m bench.grading_engines ENGINE stream   rows in, results out, one at a time
    python -m bench.grading_engines ENGINE batch    all rows first, then timed one after another

A row is a JSON line with `gold`, `prediction`, `form`; a result has `verdict` (true, false or
null for undecided) and `seconds`. Both engines run in the main thread of a process of their
own, as math-verify's alarms need. math-verify is called as its README recommends: gold first,
bare answers between dollar signs (its own suite's rows as they are), default extraction and
time-outs.
"""

import json
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Self

Row = dict[str, Any]
Result = dict[str, Any]
Grader = Callable[[Row], bool | None]
"""A row → equal, different, undecided."""

KILL_SECONDS = 10.0
_MEMORY_BYTES = 4 * 2**30
_DELIMITERS = ("\\(", "\\[", "\\boxed")


class Engine(StrEnum):
    STEPMARK = "stepmark"
    MATH_VERIFY = "math-verify"


class EngineProcess:
    """One engine in a child that is killed after `KILL_SECONDS` on a row and started again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process: subprocess.Popen[str] | None = None
        self.num_killed = 0

    def grade(self, row: Row) -> Result:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        started = time.monotonic()
        try:
            process.stdin.write(json.dumps(row) + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], KILL_SECONDS)
            if ready and (line := process.stdout.readline()):
                return json.loads(line)
        except BrokenPipeError:
            pass
        self.close()
        self.num_killed += 1
        return {"verdict": None, "seconds": time.monotonic() - started, "killed": True}

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = _start(self._engine, "stream")
            assert self._process.stdout is not None
            self._process.stdout.readline()  # says that it is ready
        return self._process


def time_rows(engine: Engine, rows: Iterable[Row]) -> dict[str, Any]:
    """Grade all rows in a fresh process: `results` in order, `seconds` in all, `peak_mb`."""
    process = _start(engine, "batch")
    output, _ = process.communicate("".join(json.dumps(row) + "\n" for row in rows))
    if process.returncode:
        raise SystemExit(f"the {engine} process ended with status {process.returncode}")
    return json.loads(output.splitlines()[-1])


def _start(engine: Engine, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.grading_engines", engine, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if mode == "stream" else None,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


# -- the child ----------------------------------------------------------------------------


def _math_verify() -> Grader:
    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)

    def grade(row: Row) -> bool | None:
        gold, prediction = row["gold"], row["prediction"]
        if row.get("suite") != Engine.MATH_VERIFY:
            gold = _delimited(gold)
            prediction = _delimited(prediction) if row["form"] == "answer" else prediction
        try:
            return verify(parse(gold), parse(prediction))
        except Exception:  # noqa: BLE001 - whatever leaves the checker
            return None

    return grade


def _delimited(text: str) -> str:
    """One dollar sign is a currency's."""
    is_delimited = text.count("$") > 1 or any(mark in text for mark in _DELIMITERS)
    return text if is_delimited else f"${text}$"


def _stepmark() -> Grader:
    from grading.pool import GradePool
    from grading.verdict import Verdict

    pool = GradePool()
    verdicts = {Verdict.CORRECT: True, Verdict.INCORRECT: False, Verdict.UNDECIDED: None}

    def grade(row: Row) -> bool | None:
        found = pool.grade_answer if row["form"] == "answer" else pool.grade
        return verdicts[found(row["gold"], row["prediction"]).verdict]

    return grade


_WARM_UP = {
    "gold": r"\sqrt{7+4\sqrt{3}}",
    "prediction": r"So it is $\boxed{2+\sqrt{3}}$.",
    "form": "response",
}


def _timed(grade: Grader, row: Row) -> Result:
    started = time.perf_counter()
    verdict = grade(row)
    return {"verdict": verdict, "seconds": time.perf_counter() - started}


def _stream(grade: Grader) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    print(flush=True)
    for line in sys.stdin:
        print(json.dumps(_timed(grade, json.loads(line))), flush=True)


def _batch(grade: Grader) -> None:
    import psutil

    rows: Sequence[Row] = [json.loads(line) for line in sys.stdin]
    started = time.perf_counter()
    results = [_timed(grade, row) for row in rows]
    seconds = time.perf_counter() - started
    own = psutil.Process()
    report = {
        "results": results,
        "seconds": seconds,
        "memory_mb": round(own.memory_info().rss / 2**20, 1),
    }
    print(json.dumps(report))


def main() -> None:
    engine, mode = Engine(sys.argv[1]), sys.argv[2]
    grade = _stepmark() if engine is Engine.STEPMARK else _math_verify()
    grade(_WARM_UP)  # imports and processes start here, not in the figures
    if mode == "stream":
        _stream(grade)
    else:
        _batch(grade)
    sys.stdout.flush()
    os._exit(0)  # pools end with their parent


if __name__ == "__main__":
    main()
