"""The kill bench: nothing is lost by kills, and what it would call a loss is one."""

import random
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bench.kill import AIMS, Bench, Stored, plans, show
from bench.killed_run import PHASES, Phase
from storage.journal import Journal, read_rollouts


def test_two_kills_lose_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, num_problems=40, mean_latency=0.05, rng=random.Random(0))
    figures = bench.run([[Phase.SAMPLING, Phase.LABELS_COMPACTION]])
    assert [kill.aimed_at for kill in figures.kills] == [Phase.SAMPLING, Phase.LABELS_COMPACTION]
    first, second = figures.kills
    assert PHASES.index(Phase.PREPARE) < PHASES.index(first.phase) < PHASES.index(Phase.END)
    assert second.num_stored > 1000
    assert sum(one.num_kills for one in figures.comparisons) == 2
    assert all(one.is_whole for one in figures.comparisons)
    found = figures.as_json()
    assert (found["num_kills"], found["num_lost"], found["num_duplicates"]) == (2, 0, 0)
    assert found["num_whole"] == found["num_datasets"] == len(figures.comparisons)
    assert all(figures.stays[phase] for phase in PHASES)
    console = Console(record=True, width=120)
    show(figures, console)
    assert "0 stored rollouts lost, 0 duplicates" in console.export_text()
    _losses_are_seen(bench, tmp_path / "killed-0")


def _losses_are_seen(bench: Bench, out: Path) -> None:
    """With the dataset above: a part that goes, a row that is drawn anew, a row twice."""
    stored = Stored(out)
    assert stored.look() == (0, 0)
    (part,) = (out / "rollouts").iterdir()
    rollouts = read_rollouts(out)
    part.unlink()
    assert stored.look() == (len(rollouts), 0)
    with Journal(out) as journal:
        journal.append(rollouts[1:])
    assert stored.look() == (1, 0)
    with Journal(out) as journal:
        journal.append(rollouts[:3])
    assert stored.look() == (0, 0)  # equal rows, as a kill in the midst of a merge leaves them
    with Journal(out) as journal:
        journal.append([replace(rollout, created_at="later") for rollout in rollouts[:3]])
    assert stored.look() == (0, 3)


def test_plans_have_the_kills_that_are_asked_for() -> None:
    assert [len(plan) for plan in plans(2 * len(AIMS) + 3)] == [len(AIMS), len(AIMS), 3]
    assert set(AIMS) == set(PHASES)
