"""Labels as a pure function of stored rollouts (Math-Shepherd, arXiv 2312.08935).

The label of step *i* comes from the rollouts of the prefix that ends with step *i*; the
last step takes the solution's own verdict, one "rollout". Nothing is sampled here, so
labels can be made again at any time, with a new grader or another rule.
"""

from collections.abc import Iterable, Mapping

from labeling.allocate import AllocationConfig, drawn_by_policy
from labeling.steps import StepConfig
from labeling.tree import Solution, build_tree, count_rollouts
from pipeline.records import LabeledSolution, Prefix, Problem, Rollout, StepLabel


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
    labels = {
        prefix_id: count_rollouts(drawn_by_policy(node.rollouts, allocation))
        for prefix_id, node in tree.nodes.items()
    }
    return [_label_solution(problem, solution, labels) for solution in tree.solutions]


def _label_solution(
    problem: Problem, solution: Solution, labels_by_prefix: Mapping[str, StepLabel]
) -> LabeledSolution:
    rollout = solution.rollout
    labels = [
        labels_by_prefix[Prefix(problem.problem_id, solution.steps[:num_steps]).prefix_id]
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
