"""SIGKILL a run of `stepmark generate` at random instants, again and again, then compare.

    .venv/bin/python -m bench.kill                # 50 kills, some minutes
    .venv/bin/python -m bench.kill --kills 200 --seed 7

The scripted engine with random latencies, default policy (`bench.killed_run`). A kill is aimed
at a phase of the run, in turn, at a random instant of it; the same command then goes on, until
it has been killed in every phase and is let end. Checked after each kill: every rollout that
was in a durable part at an earlier kill is still there, word for word, and none was drawn
again (a kill between the two halves of a merge leaves equal rows; different ones would be a
duplicate). Checked at the end of each dataset, against an uninterrupted run: no key twice in
the files, the same rollouts (but for their time), the labels' file the same byte for byte,
the same counts in the manifest.

Not covered: a machine that loses power (files are synced before they are renamed), engines
whose samples depend on the batch, two models (`tests/test_flows_stages.py` has those).
"""

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.killed_run import PHASES, Phase, Run
from pipeline.records import Rollout
from storage.dataset import label_files, labels_path, read_manifest
from storage.journal import read_rollouts
from storage.tables import rollouts_from_table

ROOT = Path(__file__).resolve().parents[1]
CONFIG = """
[problems]
limit = {num_problems}
[engine]
kind = "scripted"
[steps]
method = "newline"
"""
AIMS = (
    Phase.START_UP,
    Phase.PREPARE,
    Phase.SAMPLING,
    Phase.FLUSH,
    Phase.OPENING_COMPACTION,
    Phase.SAMPLING,
    Phase.FLUSH,
    Phase.OPENING_COMPACTION,
    Phase.LABELS_COMPACTION,
    Phase.SNAPSHOT,
    Phase.FINAL_COMPACTION,
    Phase.MANIFEST,
    Phase.END,
)
"""A dataset's kills, in an order in which each can be reached after those before it."""
DELAY_SHARES = {
    Phase.SAMPLING: 0.5,
    Phase.OPENING_COMPACTION: 0.3,
    Phase.LABELS_COMPACTION: 0.5,
    Phase.FINAL_COMPACTION: 0.4,
}
"""A kill comes before this share of its phase (else 1): while sampling, so that some of it is
left for the next kill; in a compaction, since a killed run has fewer parts left to merge."""
MAX_FLUSHES = 6
"""A kill while a part is written comes in one of the first so many."""
MAX_MISSES = 20
"""Runs on end that were over before the kill came."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a run was killed, `seconds` after its start, and what was wrong then."""

    aimed_at: Phase
    phase: Phase
    seconds: float
    num_stored: int
    num_lost: int
    num_duplicates: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A dataset that was killed `num_kills` times and let end, beside an uninterrupted one."""

    num_kills: int
    num_rollouts: int
    num_lost: int
    num_duplicates: int
    has_same_rollouts: bool
    has_same_labels: bool
    has_same_counts: bool

    @property
    def is_whole(self) -> bool:
        is_same = self.has_same_rollouts and self.has_same_labels and self.has_same_counts
        return is_same and not self.num_lost and not self.num_duplicates


@dataclass(frozen=True, slots=True)
class Figures:
    """All that a bench found."""

    kills: list[Kill]
    comparisons: list[Comparison]
    stays: dict[Phase, list[float]]
    """Seconds of the uninterrupted run in each phase, each time that it was entered."""

    def as_json(self) -> dict[str, Any]:
        return {
            "num_kills": len(self.kills),
            "num_lost": sum(kill.num_lost for kill in self.kills)
            + sum(one.num_lost for one in self.comparisons),
            "num_duplicates": sum(kill.num_duplicates for kill in self.kills)
            + sum(one.num_duplicates for one in self.comparisons),
            "num_datasets": len(self.comparisons),
            "num_whole": sum(one.is_whole for one in self.comparisons),
            "stays_uninterrupted": self.stays,
            "kills": [asdict(kill) for kill in self.kills],
            "comparisons": [asdict(one) for one in self.comparisons],
        }


@dataclass
class Stored:
    """The rollouts that were in a dataset's durable parts; those seen once must stay."""

    out: Path
    rollouts: dict[object, Rollout] = field(default_factory=dict)

    def look(self) -> tuple[int, int]:
        """Read the parts again: how many of the rollouts seen before are lost, how many doubled.

        Doubled are those of which two rows, in all parts, are not equal.
        """
        found = {rollout.key: rollout for rollout in read_rollouts(self.out)}
        lost = [key for key, rollout in self.rollouts.items() if found.get(key) != rollout]
        rows = [
            row for part in _parts(self.out) for row in rollouts_from_table(pq.read_table(part))
        ]
        doubled = {row.key for row in rows if row != found[row.key]}
        self.rollouts |= found
        return len(lost), len(doubled)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--num-problems", type=int, default=250)
    parser.add_argument("--latency", type=float, default=0.1, help="mean seconds of a request")
    parser.add_argument("--seed", type=int, default=0, help="of the instants")
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/kill.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stepmark-kill-") as folder:
        bench = Bench(
            Path(folder),
            num_problems=options.num_problems,
            mean_latency=options.latency,
            rng=random.Random(options.seed),
        )
        figures = bench.run(plans(options.kills))
    show(figures, Console(width=120))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures.as_json(), indent=1) + "\n")
    print(f"Figures: {options.json}")


def plans(num_kills: int) -> list[Sequence[Phase]]:
    """The aims of each dataset: all of `AIMS`, and for the last what is left of `num_kills`."""
    starts = range(0, num_kills, len(AIMS))
    return [AIMS[: num_kills - start] for start in starts]


class Bench:
    """One config, its uninterrupted run, and datasets that are killed on the way there."""

    def __init__(
        self, folder: Path, *, num_problems: int, mean_latency: float, rng: random.Random
    ) -> None:
        self._folder = folder
        self._rng = rng
        self._mean_latency = mean_latency
        self._config = folder / "run.toml"
        self._config.write_text(CONFIG.format(num_problems=num_problems))
        self._whole = folder / "whole"
        self._stays: dict[Phase, list[float]] = {}

    def run(self, plans: Sequence[Sequence[Phase]]) -> Figures:
        """Kill at each aim, in order, a new dataset each plan; compare each at its end."""
        self._stays = self._uninterrupted(self._whole)
        kills: list[Kill] = []
        comparisons: list[Comparison] = []
        for plan in plans:
            left, num_misses = list(plan), 0
            while left:
                stored = Stored(self._folder / f"killed-{len(comparisons)}")
                made = self._kill_each(stored, left)
                kills += made
                comparisons.append(self._compared(stored, len(made)))
                num_misses = 0 if made else num_misses + 1
                if num_misses == MAX_MISSES:
                    raise RuntimeError(f"no run lasts until {left[0]!r}: use more problems")
                left = left[len(made) :]
        return Figures(kills, comparisons, self._stays)

    def _uninterrupted(self, out: Path) -> dict[Phase, list[float]]:
        """Run to the end; returns the stays in each phase. Raises where the run fails."""
        with self._started(out) as run:
            run.wait_for_end()
        return run.stays()

    def _kill_each(self, stored: Stored, aims: Sequence[Phase]) -> list[Kill]:
        """The kills, one an aim, until a run is over before its kill comes."""
        kills: list[Kill] = []
        for aim in aims:
            with self._started(stored.out) as run:
                times = self._rng.randint(1, MAX_FLUSHES) if aim is Phase.FLUSH else 1
                phase = run.kill(aim, times=times, delay=self._delay(aim))
            if phase is None:
                break
            wrong = stored.look()
            kills.append(Kill(aim, phase, run.seconds, len(stored.rollouts), *wrong))
        return kills

    def _delay(self, aim: Phase) -> float:
        """A random instant of the phase, by its length in the uninterrupted run."""
        # before its sampling an uninterrupted run has nothing to merge
        like = Phase.LABELS_COMPACTION if aim is Phase.OPENING_COMPACTION else aim
        length = _length(aim, self._stays[like])
        return self._rng.uniform(0, DELAY_SHARES.get(aim, 1.0) * length)

    def _compared(self, stored: Stored, num_kills: int) -> Comparison:
        self._uninterrupted(stored.out)
        num_lost, num_doubled = stored.look()
        found, expected = read_rollouts(stored.out), read_rollouts(self._whole)
        num_rows = sum(pq.read_metadata(part).num_rows for part in _parts(stored.out))
        return Comparison(
            num_kills=num_kills,
            num_rollouts=len(found),
            num_lost=num_lost,
            num_duplicates=max(num_doubled, num_rows - len(found)),
            has_same_rollouts=_without_times(found) == _without_times(expected),
            has_same_labels=_labels(stored.out) == _labels(self._whole),
            has_same_counts=read_manifest(stored.out)["counts"]
            == read_manifest(self._whole)["counts"],
        )

    def _started(self, out: Path) -> Run:
        command = ["generate", "--config", str(self._config), "--out", str(out)]
        return Run(command, self._mean_latency, log=out.with_suffix(".log"))


def _length(phase: Phase, stays: Sequence[float]) -> float:
    """Seconds: sampling is left and come back to for each part, the rest is entered anew."""
    return sum(stays) / (1 if phase is Phase.SAMPLING else max(1, len(stays)))


def _without_times(rollouts: Sequence[Rollout]) -> list[Rollout]:
    return [replace(rollout, created_at="") for rollout in rollouts]


def _parts(out: Path) -> list[Path]:
    return sorted((out / "rollouts").glob("part-*.parquet"))


def _labels(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in label_files(labels_path(out))}


def show(figures: Figures, console: Console) -> None:
    """The kills by phase, and what they have cost."""
    table = Table(title=f"{len(figures.kills)} kills", title_justify="left", title_style="bold")
    for heading in (
        "phase",
        "s, uninterrupted",
        "aimed at",
        "hit",
        "rollouts stored",
        "lost",
        "doubled",
    ):
        table.add_column(heading, justify="left" if heading == "phase" else "right")
    for phase in PHASES:
        hits = [kill for kill in figures.kills if kill.phase is phase]
        stored = [kill.num_stored for kill in hits]
        table.add_row(
            phase.value,
            f"{sum(figures.stays[phase]):.3f}",
            str(sum(kill.aimed_at is phase for kill in figures.kills)),
            str(len(hits)),
            f"{min(stored):,} to {max(stored):,}" if stored else "",
            str(sum(kill.num_lost for kill in hits)),
            str(sum(kill.num_duplicates for kill in hits)),
        )
    console.print(table)
    found = figures.as_json()
    console.print(
        f"{found['num_datasets']} datasets of {figures.comparisons[0].num_rollouts:,} rollouts: "
        f"{found['num_lost']} stored rollouts lost, {found['num_duplicates']} duplicates; "
        f"{found['num_whole']} have the labels (byte for byte), rollouts and counts of an "
        "uninterrupted run."
    )


if __name__ == "__main__":
    main()
