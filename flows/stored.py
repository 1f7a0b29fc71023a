"""What of a dataset's journal the present run is about, one problem at a time.

Problems come in the order of their ids, which is the journal's, so that the journal is
read once from beginning to end and never held in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flows.roles import Roles
from flows.selection import selected_problems
from labeling.engine import Work
from pipeline.records import Prefix, Problem, Rollout
from storage.journal import grouped_rollouts


def stored_work(roles: Roles, out: Path) -> Iterator[Work]:
    """Each selected problem with the completer's rollouts and the generator's solutions."""
    for problem, rollouts in _grouped(out, roles.digests):
        if roles.generator is None:
            yield Work(problem, rollouts)
        else:
            own = [one for one in rollouts if one.sampling_digest == roles.completer.digest]
            digest = roles.generator.digest
            theirs = [one for one in rollouts if one.sampling_digest == digest]
            yield Work(problem, own, root_rollouts(problem, theirs))


def stored_solutions(roles: Roles, out: Path) -> Iterator[Work]:
    """Each selected problem with the rollouts of whoever writes the solutions."""
    for problem, rollouts in _grouped(out, {roles.writer.digest}):
        yield Work(problem, rollouts)


def root_rollouts(problem: Problem, rollouts: Iterable[Rollout]) -> list[Rollout]:
    """Those that are solutions, by index."""
    root_id = Prefix(problem.problem_id).prefix_id
    roots = (rollout for rollout in rollouts if rollout.prefix_id == root_id)
    return sorted(roots, key=lambda rollout: rollout.rollout_index)


def _grouped(out: Path, digests: set[str]) -> Iterator[tuple[Problem, Sequence[Rollout]]]:
    groups = grouped_rollouts(out, sampling_digests=digests)
    group = next(groups, None)
    for problem in sorted(selected_problems(out), key=lambda problem: problem.problem_id):
        while group is not None and group[0] < problem.problem_id:
            group = next(groups, None)
        is_stored = group is not None and group[0] == problem.problem_id
        yield problem, group[1] if group is not None and is_stored else ()
