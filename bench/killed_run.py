"""`stepmark generate` that tells which phase it is in, and who listens: what `bench.kill` kills.

    python -m bench.killed_run DESCRIPTOR MEAN_LATENCY generate --config FILE --out FOLDER

The command line runs as it is, with marks around the stages: one byte a change of phase,
written to the file descriptor. The scripted engine takes a random time for each request, so
that no two runs finish their requests in the same order. The journal is flushed and merged
far more often than in earnest: a run of seconds then has the writes of a run of hours.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
FLUSH_SECONDS = 0.1
MAX_PARTS_READ = 8


class Phase(StrEnum):
    """What the process was in, in the order of a run; the value's position is the mark."""

    START_UP = "start-up"
    PREPARE = "problems stored"
    OPENING_COMPACTION = "compaction before sampling"
    SAMPLING = "sampling"
    FLUSH = "part written"
    LABELS_COMPACTION = "compaction before labels"
    SNAPSHOT = "snapshot"
    FINAL_COMPACTION = "last compaction"
    MANIFEST = "snapshot and manifest named"
    END = "end"


PHASES = tuple(Phase)


class Run:
    """A process that generates, and the phases that it has told; it ends with the context."""

    def __init__(self, command: Sequence[str], mean_latency: float, *, log: Path) -> None:
        self._log = log
        self._marks, descriptor = os.pipe()
        self._started = time.monotonic()
        self._heard: list[tuple[float, Phase]] = [(0.0, Phase.START_UP)]
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "bench.killed_run", str(descriptor), str(mean_latency),
                    *command,
                ],
                cwd=ROOT,
                stdout=stream,
                stderr=stream,
                pass_fds=[descriptor],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        os.close(descriptor)
        self.seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._marks)

    def wait_for_end(self) -> None:
        """Raises where the run fails."""
        while self._hear():
            pass
        self._end()

    def kill(self, aim: Phase, *, times: int, delay: float) -> Phase | None:
        """Kill `delay` seconds after the phase was begun for the `times`-th time.

        Returns the phase that the kill came in, None where the run was over before.
        """
        while sum(phase is aim for _, phase in self._heard) < times:
            if not self._hear():
                break
        time.sleep(delay)
        self._process.kill()
        while self._hear():
            pass
        return self._end()

    def stays(self) -> dict[Phase, list[float]]:
        """The seconds in each phase, each time that it was entered or come back to."""
        ends = [*(at for at, _ in self._heard[1:]), self.seconds]
        stays: dict[Phase, list[float]] = {phase: [] for phase in PHASES}
        for (start, phase), end in zip(self._heard, ends, strict=True):
            stays[phase].append(end - start)
        return stays

    def _hear(self) -> bool:
        """Read the next marks; False at the process's end."""
        heard = os.read(self._marks, 4096)
        now = time.monotonic() - self._started
        self._heard += [(now, PHASES[mark]) for mark in heard]
        return bool(heard)

    def _end(self) -> Phase | None:
        status = self._process.wait()
        self.seconds = time.monotonic() - self._started
        if status == -signal.SIGKILL:
            return self._heard[-1][1]
        if status:
            raise RuntimeError(f"the run ended with {status}: {self._log.read_text()[-2000:]}")
        return None


class Marks:
    """Tells the phase at each change, and the one around it when it is left."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._phases = [Phase.START_UP]

    def around(self, owner: object, name: str, phase: Phase, *, after: Phase | None = None) -> None:
        """Have calls of `owner.name` marked as `phase`, and what follows them as `after`."""
        original: Callable[..., Any] = getattr(owner, name)

        def marked(*arguments: Any, **named: Any) -> Any:
            outer = self._phases[-1]
            self._enter(self._within(phase, outer))
            try:
                return original(*arguments, **named)
            finally:
                self._phases.pop()
                if after is not None:
                    self._phases[-1] = after
                self._tell()

        setattr(owner, name, marked)

    @staticmethod
    def _within(phase: Phase, outer: Phase) -> Phase:
        is_first = phase is Phase.FINAL_COMPACTION and outer is Phase.SNAPSHOT
        return Phase.LABELS_COMPACTION if is_first else phase

    def _enter(self, phase: Phase) -> None:
        self._phases.append(phase)
        self._tell()

    def _tell(self) -> None:
        os.write(self._descriptor, bytes([PHASES.index(self._phases[-1])]))


def main() -> None:
    descriptor, mean_latency = int(sys.argv[1]), float(sys.argv[2])
    os.set_inheritable(descriptor, False)
    from flows import cli, sampling, stages
    from storage import journal

    marks = Marks(descriptor)
    marks.around(stages, "prepare_problems", Phase.PREPARE)
    marks.around(stages, "sample_rollouts", Phase.SAMPLING)
    marks.around(sampling, "compact", Phase.OPENING_COMPACTION)
    marks.around(journal, "write_parquet", Phase.FLUSH)
    marks.around(stages, "snapshot_labels", Phase.SNAPSHOT)
    marks.around(stages, "compact", Phase.FINAL_COMPACTION)
    marks.around(stages, "publish_snapshot", Phase.MANIFEST, after=Phase.END)
    sampling.FLUSH_SECONDS = FLUSH_SECONDS
    sampling.MAX_PARTS_READ = stages.MAX_PARTS_READ = MAX_PARTS_READ
    _slow_down(mean_latency)
    cli.main(sys.argv[3:])


def _slow_down(mean_latency: float) -> None:
    """Have each request take a time of the exponential distribution; never twice the same."""
    from pipeline.samplers.scripted import ScriptedSampler

    sample = ScriptedSampler.sample

    async def slow(self: Any, request: Any) -> Any:
        await asyncio.sleep(random.expovariate(1 / mean_latency) if mean_latency else 0)
        return await sample(self, request)

    ScriptedSampler.sample = slow  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
