"""A problem, what is stored of it, and what more a run would draw for it.

The same questions that the loop (`labeling.engine`) asks while it draws, asked of stored
rollouts: nothing is sampled here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from labeling.allocate import Allocator
from labeling.policies.config import AllocationConfig
from labeling.policies.uncertain_first import wide
from labeling.steps import StepConfig
from labeling.tree import Node, PrefixTree, build_tree
from pipeline.records import Problem, Rollout


@dataclass(frozen=True, slots=True)
class Work:
    """A problem and its stored rollouts under the completer's sampling digest.

    `solutions` are another generator's root rollouts, which are not drawn here and whose
    endings are no samples of the completer; None draws the missing ones from the completer.
    """

    problem: Problem
    rollouts: Sequence[Rollout] = ()
    solutions: Sequence[Rollout] | None = None


def is_missing(
    work: Work,
    *,
    steps: StepConfig,
    allocation: AllocationConfig,
    solutions_only: bool = False,
) -> bool:
    """Whether `roll_out` would draw anything for this problem, were there no budget.

    What `uncertain-first` draws beyond its first rollouts is not asked for here.
    """
    tree = work_tree(work, steps, allocation)
    if num_solutions_missing(work, tree, allocation):
        return True
    reuse_solutions = work.solutions is None
    return not solutions_only and bool(
        Allocator(tree, allocation, reuse_solutions=reuse_solutions).ask()
    )


def wide_prefixes(
    work: Work, *, steps: StepConfig, allocation: AllocationConfig, max_rollouts: int | None
) -> list[Node]:
    """The prefixes of a problem that `top_up`, or `uncertain-first`, would draw more of."""
    tree = closed_tree(work, steps, allocation)
    return list(wide(tree.nodes.values(), allocation, max_rollouts=max_rollouts))


def work_tree(work: Work, steps: StepConfig, allocation: AllocationConfig) -> PrefixTree:
    """The tree of what is stored, of which nothing is counted yet."""
    return build_tree(
        work.problem,
        work.rollouts,
        method=steps.method,
        num_solutions=allocation.solutions_per_problem,
        solutions=work.solutions,
    )


def closed_tree(
    work: Work, steps: StepConfig, allocation: AllocationConfig, *, counts_all: bool = True
) -> PrefixTree:
    """The tree with what is stored counted: all, or without `counts_all` as the policy stops."""
    tree = work_tree(work, steps, allocation)
    allocator = Allocator(tree, allocation, reuse_solutions=work.solutions is None)
    allocator.close(counts_all=counts_all)
    return tree


def num_solutions_missing(work: Work, tree: PrefixTree, allocation: AllocationConfig) -> int:
    """Up to the lowest gap; another generator's solutions are not drawn here."""
    return 0 if work.solutions is not None else allocation.solutions_per_problem - (
        tree.root.next_index
    )  # fmt: skip
