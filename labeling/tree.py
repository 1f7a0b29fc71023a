"""The prefix tree of one problem: which prefixes there are, and what their rollouts said.

Nodes are named by content, so solutions that begin with the same steps share nodes and a
shared prefix is paid for once. The tree is rebuilt from stored rollouts at any time; it
decides nothing itself (`labeling.allocate` does).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from grading.verdict import Verdict
from labeling.steps import StepMethod, split_steps
from pipeline.records import Prefix, Problem, Rollout, StepLabel


@dataclass(slots=True)
class Node:
    """A prefix, its rollouts, and how many draws are under way."""

    prefix: Prefix
    rollouts: list[Rollout] = field(default_factory=list[Rollout])
    num_pending: int = 0

    @property
    def label(self) -> StepLabel:
        """The counts of this prefix's own rollouts."""
        return count_rollouts(self.rollouts)

    @property
    def next_index(self) -> int:
        """The lowest index without a rollout."""
        return self._free_run()[0]

    def num_drawable(self, num_wanted: int) -> int:
        """How many of `num_wanted` can be drawn in one go from `next_index` on.

        Fewer only where the journal lost rows: what lies beyond the gap is not drawn again.
        """
        start, end = self._free_run()
        return num_wanted if end is None else min(num_wanted, end - start)

    def _free_run(self) -> tuple[int, int | None]:
        """The lowest run of free indices [start, end); no end beyond the last rollout."""
        taken = {rollout.rollout_index for rollout in self.rollouts}
        start = next(index for index in count() if index not in taken)
        return start, min((index for index in taken if index > start), default=None)


@dataclass(frozen=True, slots=True)
class Solution:
    """A root rollout and its steps (at least one)."""

    rollout: Rollout
    steps: tuple[str, ...]


class PrefixTree:
    """The root, the solutions drawn from it, and a node for each of their prefixes.

    `nodes` holds proper, non-root prefixes by `prefix_id`, in the order in which the
    solutions brought them: the last step needs no rollouts, it has the solution's verdict.
    """

    def __init__(self, problem: Problem, *, method: StepMethod) -> None:
        self.problem = problem
        self.root = Node(Prefix(problem.problem_id))
        self.solutions: list[Solution] = []
        self.nodes: dict[str, Node] = {}
        self._method = method
        self._solution_indices: set[int] = set()
        self._without_node: dict[str, list[Rollout]] = {}

    def tell_solution(self, rollout: Rollout) -> Solution | None:
        """Add a root rollout; None (and no node) where its text has no step."""
        if rollout.rollout_index in self._solution_indices:
            return None
        self._solution_indices.add(rollout.rollout_index)
        self.root.rollouts.append(rollout)
        steps = split_steps(rollout.text, self._method)
        if not steps:
            return None
        solution = Solution(rollout, steps)
        self.solutions.append(solution)
        for num_steps in range(1, len(steps)):
            prefix = Prefix(self.problem.problem_id, steps[:num_steps])
            if prefix.prefix_id not in self.nodes:
                rollouts = self._without_node.pop(prefix.prefix_id, [])
                self.nodes[prefix.prefix_id] = Node(prefix, rollouts)
        return solution

    def tell(self, rollout: Rollout) -> None:
        """Add a rollout of a prefix; it waits for the solution that brings the prefix."""
        node = self.nodes.get(rollout.prefix_id)
        if node is not None:
            node.rollouts.append(rollout)
        else:
            self._without_node.setdefault(rollout.prefix_id, []).append(rollout)


def count_rollouts(rollouts: Iterable[Rollout]) -> StepLabel:
    """The counts of rollouts drawn from one prefix itself (none reused)."""
    counts = dict.fromkeys(Verdict, 0)
    num_truncated = 0
    for rollout in rollouts:
        counts[rollout.verdict] += 1
        num_truncated += rollout.is_truncated and rollout.verdict is Verdict.INCORRECT
    return StepLabel(
        num_rollouts=sum(counts.values()),
        num_reused=0,
        num_correct=counts[Verdict.CORRECT],
        num_incorrect=counts[Verdict.INCORRECT],
        num_undecided=counts[Verdict.UNDECIDED],
        num_truncated=num_truncated,
    )


def build_tree(
    problem: Problem,
    rollouts: Iterable[Rollout],
    *,
    method: StepMethod,
    num_solutions: int | None = None,
) -> PrefixTree:
    """The tree of stored rollouts, whatever their order.

    `num_solutions` keeps the root rollouts of the lowest indices only.
    """
    tree = PrefixTree(problem, method=method)
    ordered = sorted(rollouts, key=lambda rollout: rollout.rollout_index)
    root_id = tree.root.prefix.prefix_id
    for rollout in ordered:
        if rollout.prefix_id == root_id and (
            num_solutions is None or rollout.rollout_index < num_solutions
        ):
            tree.tell_solution(rollout)
    for rollout in ordered:
        tree.tell(rollout)
    return tree
