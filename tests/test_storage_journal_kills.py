"""The journal killed at random instants: every row that was flushed is read exactly once."""

import multiprocessing
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from storage.journal import compact, read_rollouts
from storage.lock import dataset_lock
from tests.journal_writer import numbered, write_for_ever

NUM_KILLS = 24


def killed_run(path: Path, first: int, phase: str, wait: float) -> tuple[str, int, int]:
    """A writer that is killed `wait` seconds after it began `phase`.

    Returns what it did last, how many rows it had flushed and how many it had begun.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.journal_writer"])
    listening, said = context.Pipe(duplex=False)
    writer = context.Process(target=write_for_ever, args=(path, first, said))
    writer.start()
    said.close()
    try:
        heard = [listening.recv()]
        while heard[-1][0] != phase:
            heard.append(listening.recv())
        time.sleep(wait)
    finally:
        writer.kill()
        writer.join()
    try:
        while True:
            heard.append(listening.recv())
    except EOFError:
        listening.close()
    kept = [number for what, number in heard if what == "kept"]
    begun = [number for what, number in heard if what == "flush"]
    return heard[-1][0], max(kept, default=first), max(begun, default=first)


@pytest.mark.parametrize("phase", ["compact", "flush"])
def test_a_kill_loses_and_doubles_no_row_that_was_flushed(tmp_path: Path, phase: str) -> None:
    rng = random.Random(phase)
    num_rows, hits = 0, Counter[str]()
    longest = 0.03 if phase == "compact" else 0.02  # about as long as it takes here
    for _ in range(3 * NUM_KILLS):
        last, num_kept, num_begun = killed_run(tmp_path, num_rows, phase, rng.uniform(0.0, longest))
        hits[last] += 1
        if last != phase:  # it was over already: this machine is faster
            longest = max(0.001, 0.9 * longest)
        found = read_rollouts(tmp_path)
        numbers = sorted(rollout.rollout_index for rollout in found)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) in {num_kept, num_begun}  # a flush is whole or did not happen
        assert all(rollout == numbered(rollout.rollout_index) for rollout in found)
        num_rows = len(numbers)
        if hits[phase] == NUM_KILLS:
            break
    assert hits[phase] == NUM_KILLS
    with dataset_lock(tmp_path):
        compact(tmp_path)
    assert len(read_rollouts(tmp_path)) == num_rows
    assert not list((tmp_path / "rollouts").glob(".*"))
