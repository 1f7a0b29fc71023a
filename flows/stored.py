"""What of a dataset's journal the present run is about, one problem at a time.

Problems come in the order of their ids, which is the journal's, so that the journal is
read once from beginning to end and never held in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flows.roles import Roles
from flows.run_config import RunConfig
from flows.selection import selected_problems
from labeling.estimate import LabeledProblem, label_problem
from labeling.work import Work
from pipeline.records import Prefix, Problem, Rollout
from storage.journal import grouped_rollouts


def stored_work(
    roles: Roles, out: Path, *, problems: Iterable[Problem] | None = None
) -> Iterator[Work]:
    """Each problem with the completer's rollouts and the generator's solutions.

    `problems` are by default the selected ones.
    """
    problems = selected_problems(out) if problems is None else problems
    for problem, rollouts in _grouped(out, problems, roles.digests):
        yield work_of(roles, problem, rollouts)


def stored_solutions(roles: Roles, out: Path) -> Iterator[Work]:
    """Each selected problem with the rollouts of whoever writes the solutions."""
    for problem, rollouts in _grouped(out, selected_problems(out), {roles.writer.digest}):
        yield Work(problem, rollouts)


def work_of(roles: Roles, problem: Problem, rollouts: Sequence[Rollout]) -> Work:
    """The work of a problem of which `rollouts` are stored, under whatever digests."""
    own = [one for one in rollouts if one.sampling_digest == roles.completer.digest]
    if roles.generator is None:
        return Work(problem, own)
    theirs = [one for one in rollouts if one.sampling_digest == roles.generator.digest]
    return Work(problem, own, root_rollouts(problem, theirs))


def label_work(work: Work, config: RunConfig) -> LabeledProblem:
    """The labels of one problem, by the run's config and the stored rollouts alone."""
    return label_problem(
        work.problem,
        work.rollouts,
        steps=config.steps,
        allocation=config.allocation,
        solutions=work.solutions,
        counts_all=config.refresh.tops_up,
    )


def root_rollouts(problem: Problem, rollouts: Iterable[Rollout]) -> list[Rollout]:
    """Those that are solutions, by index."""
    root_id = Prefix(problem.problem_id).prefix_id
    roots = (rollout for rollout in rollouts if rollout.prefix_id == root_id)
    return sorted(roots, key=lambda rollout: rollout.rollout_index)


def _grouped(
    out: Path, problems: Iterable[Problem], digests: set[str]
) -> Iterator[tuple[Problem, Sequence[Rollout]]]:
    groups = grouped_rollouts(out, sampling_digests=digests)
    group = next(groups, None)
    for problem in sorted(problems, key=lambda problem: problem.problem_id):
        while group is not None and group[0] < problem.problem_id:
            group = next(groups, None)
        is_stored = group is not None and group[0] == problem.problem_id
        yield problem, group[1] if group is not None and is_stored else ()
