"""What the pipeline itself costs at scale: CPU a rollout by part, peak memory, time to resume.

    .venv/bin/python -m bench.scale                                # a few minutes
    .venv/bin/python -m bench.scale --sizes 10000,100000,1000000   # a quarter of an hour

The stages of `stepmark generate` run as they are with the scripted engine, which answers at
once; its own CPU time is taken out. Every run has a process of its own, so that its peak
memory is its own (VmHWM). Clocks are of the process's CPU: `grade` is the grading pool's
calls, `store` the journal's, `schedule` the rest of the sampling stage (policy, tree, event
loop, ledger, progress), `labels` making the labels, the last compaction and the manifest.
Completions repeat, so that the grade cache is warm but for the share that is shown. To resume
is to run the sampling stage again when nothing is missing: it reads and checks every rollout.

Not covered: real completions, whose final answers must be looked for (`bench.grading`), and
the grader's worker process, which is only started (its seconds are in the JSON).
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
POLICIES: dict[str, dict[str, Any]] = {
    "adaptive, reuse (default)": {},
    "fixed 16, no reuse": {"policy": "fixed", "reuse": False},
}
SIZES = (10_000, 30_000, 100_000)
PILOT_PROBLEMS = 40
SURPLUS = 1.05
"""Problems beyond the estimate: a size is met, not missed by a few rollouts."""
MAX_MICROSECONDS = 100.0
MAX_MEMORY_RATIO = 1.5


class Task(StrEnum):
    """What a child process does."""

    RUN = "run"
    RESUME = "resume"


class Part(StrEnum):
    """Where CPU time goes while rollouts are drawn; the rest is `schedule`."""

    SAMPLER = "sampler"
    GRADE = "grade"
    STORE = "store"


@dataclass
class Clock:
    """CPU seconds of the process by part; a part within itself is counted once."""

    seconds: Counter[Part] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    inside: set[Part] = field(default_factory=set)

    def time_function(self, owner: object, name: str, part: Part) -> None:
        """Have `owner.name` timed from now on."""
        original = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            if part in self.inside:
                return original(*arguments, **named)
            self.inside.add(part)
            started = time.process_time()
            try:
                return original(*arguments, **named)
            finally:
                self.seconds[part] += time.process_time() - started
                self.inside.discard(part)

        setattr(owner, name, timed)

    def time_coroutine(self, owner: object, name: str, part: Part) -> None:
        """The same for an `async def`, without the time in which it waits."""
        original = getattr(owner, name)

        async def timed(*arguments: Any, **named: Any) -> Any:
            return await self._steps(original(*arguments, **named), part)

        setattr(owner, name, timed)

    def count_calls(self, owner: object, name: str) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return original(*arguments, **named)

        setattr(owner, name, counted)

    @types.coroutine
    def _steps(self, coroutine: Coroutine[Any, Any, Any], part: Part) -> Generator[Any, Any, Any]:
        step: Callable[..., Any] = coroutine.send
        argument: Any = None
        while True:
            started = time.process_time()
            try:
                awaited = step(argument)
            except StopIteration as end:
                return end.value
            finally:
                self.seconds[part] += time.process_time() - started
            try:
                argument = yield awaited
                step = coroutine.send
            except BaseException as error:  # noqa: BLE001 - a cancellation, handed on
                step, argument = coroutine.throw, error


@dataclass(frozen=True, slots=True)
class Stage:
    """CPU and wall seconds, and the process's peak memory so far in MB."""

    cpu: float
    wall: float
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes",
        type=lambda text: tuple(sorted(int(size) for size in text.split(","))),
        default=SIZES,
        help="rollouts, at least, of each run; resuming is timed at the largest",
    )
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/scale.json")
    options = parser.parse_args()
    results: dict[str, Any] = {"policies": {}}
    console = Console(width=130)
    for policy, allocation in POLICIES.items():
        runs, resumed = _measure(allocation, options.sizes)
        results["policies"][policy] = {"runs": runs, "resume": resumed, **_verdict(runs)}
        _show(policy, results["policies"][policy], console)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    console.print(f"Figures: {options.json}")


def _measure(
    allocation: dict[str, Any], sizes: tuple[int, ...]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The figures of a run of each size, and of resuming the largest."""
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="stepmark-scale-") as folder:
        pilot = _child(Task.RUN, allocation, PILOT_PROBLEMS, Path(folder, "pilot"))
        per_problem = pilot["rollouts"] / PILOT_PROBLEMS
        for size in sizes:
            num_problems = math.ceil(SURPLUS * size / per_problem)
            out = Path(folder, str(size))
            runs.append({"size": size, **_child(Task.RUN, allocation, num_problems, out)})
        return runs, _child(Task.RESUME, allocation, num_problems, out)


def _child(task: Task, allocation: dict[str, Any], num_problems: int, out: Path) -> dict[str, Any]:
    arguments = json.dumps(
        {"task": task, "allocation": allocation, "num_problems": num_problems, "out": str(out)}
    )
    finished = subprocess.run(
        [sys.executable, "-c", "from bench.scale import child; child()", arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return json.loads(finished.stdout)


def child() -> None:
    """One task in this process; prints its figures as JSON."""
    arguments = json.loads(sys.argv[1])
    from flows.run_config import check_config
    from storage.lock import dataset_lock

    content = {
        "problems": {"limit": arguments["num_problems"]},
        "engine": {"kind": "scripted"},
        "steps": {"method": "newline"},
        "allocation": arguments["allocation"],
    }
    config, out = check_config(content, origin="bench.scale"), Path(arguments["out"])
    with dataset_lock(out):
        figures = {Task.RUN: _run, Task.RESUME: _resume}[arguments["task"]](config, out)
    print(json.dumps(figures))


def _run(config: Any, out: Path) -> dict[str, Any]:
    from flows import sampling, stages
    from grading.pool import GradePool
    from pipeline.samplers.scripted import ScriptedSampler
    from storage.journal import Journal

    clock = Clock()
    clock.time_function(ScriptedSampler, "_complete", Part.SAMPLER)
    clock.time_coroutine(GradePool, "agrade_all", Part.GRADE)
    clock.count_calls(GradePool, "extract")
    for owner, name in ((Journal, "append"), (Journal, "flush"), (sampling, "compact")):
        clock.time_function(owner, name, Part.STORE)
    timed = {
        "prepare": _timed(lambda: stages.prepare_problems(config, out)),
        "sample": _timed(lambda: sampling.sample_rollouts(config, out, on_progress=lambda _: None)),
    }
    of_parts, num_parts = dict(clock.seconds), len(list((out / "rollouts").glob("part-*")))
    counts: dict[str, int] = {}
    timed["snapshot"] = _timed(lambda: counts.update(stages.snapshot_labels(config, out)))
    timed["finish"] = _timed(lambda: stages.finish(config, out, counts=counts))
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    rollouts = counts["rollouts"]
    return {
        "rollouts": rollouts,
        "problems": counts["problems"],
        "labeled_steps": counts["labeled_steps"],
        "journal_parts": num_parts,
        "grade_cache_misses": clock.calls["extract"] / rollouts,
        "microseconds": _microseconds(timed, of_parts, rollouts),
        "peak_mb": timed["finish"].peak_mb,
        "grader_worker_seconds": workers.ru_utime + workers.ru_stime,
        "stages": {name: asdict(stage) for name, stage in timed.items()},
    }


def _microseconds(
    timed: dict[str, Stage], of_parts: dict[Part, float], rollouts: int
) -> dict[str, float]:
    """CPU a rollout, by part; `own` is all but the sampler's, which is beside it."""
    seconds = {
        "prepare": timed["prepare"].cpu,
        "schedule": timed["sample"].cpu - sum(of_parts.values()),
        "grade": of_parts[Part.GRADE],
        "store": of_parts[Part.STORE],
        "labels": timed["snapshot"].cpu + timed["finish"].cpu,
    }
    seconds["own"] = sum(seconds.values())
    seconds["sampler"] = of_parts[Part.SAMPLER]
    return {part: 1e6 * spent / rollouts for part, spent in seconds.items()}


def _resume(config: Any, out: Path) -> dict[str, Any]:
    from flows import sampling

    heard: list[object] = []
    stage = _timed(lambda: sampling.sample_rollouts(config, out, on_progress=heard.append))
    if heard:
        raise RuntimeError(f"{out} was finished, and yet something was drawn")
    return asdict(stage)


def _timed(work: Callable[[], object]) -> Stage:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Stage(time.process_time() - cpu, time.perf_counter() - wall, _peak_mb())


def _peak_mb() -> float:
    """Of this program alone: `ru_maxrss` begins at what the parent had at the fork."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) / 1000
    raise RuntimeError("/proc/self/status has no VmHWM")


def _verdict(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The required figures, at the largest size and against the one before it."""
    own = runs[-1]["microseconds"]["own"]
    ratio = runs[-1]["peak_mb"] / runs[-2]["peak_mb"] if len(runs) > 1 else None
    return {
        "own_microseconds": own,
        "is_own_met": own <= MAX_MICROSECONDS,
        "memory_ratio": ratio,
        "is_memory_met": None if ratio is None else ratio <= MAX_MEMORY_RATIO,
    }


_PARTS = ("prepare", "schedule", "grade", "store", "labels", "own", "sampler")


def _show(policy: str, found: dict[str, Any], console: Console) -> None:
    table = Table(title=f"{policy}: CPU µs a rollout", title_justify="left", title_style="bold")
    for heading in ("rollouts", "problems", *_PARTS, "cache\nmisses", "peak\nMB", "wall s"):
        table.add_column(heading, justify="right")
    for run in found["runs"]:
        table.add_row(
            f"{run['rollouts']:,}",
            f"{run['problems']:,}",
            *(f"{run['microseconds'][part]:.1f}" for part in _PARTS),
            f"{run['grade_cache_misses']:.1%}",
            f"{run['peak_mb']:.0f}",
            f"{sum(stage['wall'] for stage in run['stages'].values()):.1f}",
        )
    console.print(table)
    resumed, ratio = found["resume"], found["memory_ratio"]
    console.print(
        f"Resumed at {found['runs'][-1]['rollouts']:,} rollouts, nothing missing: "
        f"{resumed['wall']:.1f} s ({resumed['cpu']:.1f} s CPU, peak {resumed['peak_mb']:.0f} MB)."
    )
    console.print(
        f"Own CPU {found['own_microseconds']:.0f} µs a rollout (at most {MAX_MICROSECONDS:.0f}: "
        f"{_met(found['is_own_met'])})"
        + (
            ""
            if ratio is None
            else f"; peak memory ÷ that of the size before {ratio:.2f} (at most "
            f"{MAX_MEMORY_RATIO}: {_met(found['is_memory_met'])})"
        )
        + "\n"
    )


def _met(is_met: bool) -> str:
    return "met" if is_met else "NOT MET"


if __name__ == "__main__":
    main()
