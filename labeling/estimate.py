"""Labels as a pure function of stored rollouts (Math-Shepherd, arXiv 2312.08935).

The label of step *i* comes from the rollouts of the prefix that ends with step *i*, with
reuse also from those of its ancestors that pass through it; the last step takes the
solution's own verdict, one "rollout". Nothing is sampled here, so labels can be made again
at any time, with a new grader or another rule. More may be stored than the policy would
have drawn, from an earlier run with another policy: a label is a function of the present
config and of what is stored, not of the folder's history.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from labeling.policies.config import AllocationConfig
from labeling.steps import StepConfig
from labeling.tree import PrefixTree, Solution, tally_of
from labeling.work import Work, closed_tree
from pipeline.records import LabeledSolution, Problem, Rollout


@dataclass(frozen=True, slots=True)
class LabeledProblem:
    """The labelled solutions of a problem by index, and the rollouts that make them: the
    solutions, also those without a step, and what the policy counts of each prefix.
    """

    solutions: list[LabeledSolution]
    rollouts: list[Rollout]


def label_problem(
    problem: Problem,
    rollouts: Iterable[Rollout],
    *,
    steps: StepConfig,
    allocation: AllocationConfig,
    solutions: Sequence[Rollout] | None = None,
    counts_all: bool = False,
) -> LabeledProblem:
    """Label one problem.

    `rollouts` are the completer's for this problem, under one sampling digest. `solutions`
    are another generator's root rollouts; None takes those among `rollouts`. A solution
    without a step (an empty text) has no label and is left out. `counts_all` counts what is
    stored beyond where the policy stops, too (a refresh's top-up).
    """
    work = Work(problem, list(rollouts), solutions)
    tree = closed_tree(work, steps, allocation, counts_all=counts_all)
    return LabeledProblem(
        [_label_solution(problem, solution) for solution in tree.solutions],
        list(_counted(tree)),
    )


def _counted(tree: PrefixTree) -> Iterator[Rollout]:
    yield from tree.root.fresh.values()
    for node in tree.nodes.values():
        yield from (node.fresh[index] for index in range(node.num_counted))


def _label_solution(problem: Problem, solution: Solution) -> LabeledSolution:
    rollout = solution.rollout
    labels = [node.tally.label for node in solution.nodes]
    return LabeledSolution(
        problem=problem,
        solution_id=f"{problem.problem_id}/{rollout.sampling_digest}/{rollout.rollout_index}",
        steps=solution.steps,
        labels=(*labels, tally_of([rollout]).label),
        final_answer=rollout.final_answer,
        verdict=rollout.verdict,
    )
