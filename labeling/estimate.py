"""Labels as a pure function of stored rollouts (Math-Shepherd, arXiv 2312.08935).

The label of step *i* comes from the rollouts of the prefix that ends with step *i*; the
last step takes the solution's own verdict, one "rollout". Nothing is sampled here, so
labels can be made again at any time, with a new grader or another rule.
"""

from collections.abc import Iterable

from labeling.allocate import AllocationConfig
from labeling.steps import StepConfig
from labeling.tree import PrefixTree, Solution, build_tree, count_rollouts
from pipeline.records import LabeledSolution, Prefix, Problem, Rollout


def label_problem(
    problem: Problem,
    rollouts: Iterable[Rollout],
    *,
    steps: StepConfig,
    allocation: AllocationConfig,
) -> list[LabeledSolution]:
    """The labelled solutions of one problem, by solution index.

    `rollouts` are those of this problem under one sampling digest. A solution without a
    step (an empty text) has no label and is left out.
    """
    tree = build_tree(
        problem,
        rollouts,
        method=steps.method,
        num_solutions=allocation.solutions_per_problem,
    )
    return [_label_solution(tree, solution) for solution in tree.solutions]


def _label_solution(tree: PrefixTree, solution: Solution) -> LabeledSolution:
    problem, rollout = tree.problem, solution.rollout
    labels = [
        tree.nodes[Prefix(problem.problem_id, solution.steps[:num_steps]).prefix_id].label
        for num_steps in range(1, len(solution.steps))
    ]
    return LabeledSolution(
        problem=problem,
        solution_id=f"{problem.problem_id}/{rollout.sampling_digest}/{rollout.rollout_index}",
        steps=solution.steps,
        labels=(*labels, count_rollouts([rollout])),
        final_answer=rollout.final_answer,
        verdict=rollout.verdict,
    )
