"""The prefix tree of one problem: which prefixes there are, and what their rollouts said.

Nodes are named by content, so solutions that begin with the same steps share nodes and a
shared prefix is paid for once. A rollout of one prefix whose text passes through a deeper
node exactly is a sample of that node too (its *pass*): given that it passes, what follows
was drawn from the same model with the same settings. Passes are handed down when a node is
settled, in the order of the rollouts, so that a label never depends on timing. The tree is
rebuilt from stored rollouts at any time; it decides nothing itself (`labeling.allocate`).

Whether a text passes is decided by the text up to the node's end and whether white space or
the end follows, and by nothing after that: an ending that chose would bias what it ends in.
So a text passes that stops at the node, that adds the answer line to its last step, or that
is divided into steps otherwise further on. Left out is what goes on in the node's last word
("= 5" and "= 56"), though a fresh rollout may write that, too.

A prefix becomes a node because a solution goes on after it, so the ending of the first
solution that does, and of those before it, are chosen by what follows the node. Of the
solutions only the later ones count for a node (`hand_down_solutions`).

A pass that was cut off at `max_tokens` had fewer tokens left than a fresh rollout would
have; it counts as it is, since leaving it out would choose by outcome.
"""

import math
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from grading.verdict import Verdict
from labeling.steps import StepMethod, split_steps
from pipeline.records import FinishReason, Prefix, Problem, Rollout, StepLabel


@dataclass(slots=True)
class Tally:
    """Running counts of rollouts; `reused` of them were drawn from an ancestor."""

    correct: int = 0
    incorrect: int = 0
    undecided: int = 0
    truncated: int = 0
    reused: int = 0

    def add(self, rollout: Rollout) -> None:
        """Count a rollout."""
        if rollout.verdict is Verdict.CORRECT:
            self.correct += 1
        elif rollout.verdict is Verdict.INCORRECT:
            self.incorrect += 1
            self.truncated += rollout.is_truncated
        else:
            self.undecided += 1

    @property
    def graded(self) -> int:
        """Rollouts with a decided verdict."""
        return self.correct + self.incorrect

    @property
    def total(self) -> int:
        """All rollouts."""
        return self.correct + self.incorrect + self.undecided

    @property
    def label(self) -> StepLabel:
        """The counts as a record."""
        return StepLabel(
            num_rollouts=self.total,
            num_reused=self.reused,
            num_correct=self.correct,
            num_incorrect=self.incorrect,
            num_undecided=self.undecided,
            num_truncated=self.truncated,
        )


@dataclass(slots=True, eq=False)
class Node:
    """A prefix, its own (fresh) rollouts by index, and what is counted of them so far.

    `tally` holds the passes and the first `num_counted` fresh rollouts. `num_pending` draws
    are under way. A settled node gets no more draws from the policy.
    """

    prefix: Prefix
    parent: "Node | None" = None
    children: dict[str, "Node"] = field(default_factory=dict[str, "Node"])
    fresh: dict[int, Rollout] = field(default_factory=dict[int, Rollout])
    tally: Tally = field(default_factory=Tally)
    num_counted: int = 0
    num_pending: int = 0
    is_settled: bool = False
    first_solution: float = math.inf
    """The index of the first solution that goes on after this prefix."""

    @property
    def next_index(self) -> int:
        """The lowest index without a rollout."""
        return next(index for index in count(self.num_counted) if index not in self.fresh)

    def num_drawable(self, num_wanted: int) -> int:
        """How many of `num_wanted` can be drawn in one go from `next_index` on.

        Fewer only where the journal lost rows: what lies beyond the gap is not drawn again.
        """
        start = self.next_index
        if len(self.fresh) == start:
            return num_wanted
        return min(num_wanted, min(index for index in self.fresh if index > start) - start)

    def num_waiting(self) -> int:
        """Fresh rollouts in sequence that are not counted yet."""
        return self.next_index - self.num_counted

    def count_next(self, num_rollouts: int) -> None:
        """Count that many of the waiting rollouts, by index."""
        for _ in range(num_rollouts):
            self.tally.add(self.fresh[self.num_counted])
            self.num_counted += 1


@dataclass(frozen=True, slots=True)
class Solution:
    """A root rollout, its steps (at least one), and the nodes of its proper prefixes."""

    rollout: Rollout
    steps: tuple[str, ...]
    nodes: tuple[Node, ...]


class PrefixTree:
    """The root, the solutions drawn from it, and a node for each of their prefixes.

    `nodes` holds proper, non-root prefixes by `prefix_id`, in the order in which the
    solutions brought them, a parent before its children: the last step needs no rollouts,
    it has the solution's verdict.
    """

    def __init__(self, problem: Problem, *, method: StepMethod) -> None:
        self.problem = problem
        self.root = Node(Prefix(problem.problem_id))
        self.solutions: list[Solution] = []
        self.nodes: dict[str, Node] = {}
        self._method = method
        self._without_node: dict[str, list[Rollout]] = {}

    def tell_solution(self, rollout: Rollout) -> Solution | None:
        """Add a root rollout; None (and no node) where its text has no step."""
        if rollout.rollout_index in self.root.fresh:
            return None
        self.root.fresh[rollout.rollout_index] = rollout
        steps = split_steps(rollout.text, self._method)
        if not steps:
            return None
        solution = Solution(rollout, steps, self._nodes_of(steps))
        insort(self.solutions, solution, key=lambda one: one.rollout.rollout_index)
        return solution

    def tell(self, rollout: Rollout) -> None:
        """Add a rollout of a prefix; it waits for the solution that brings the prefix."""
        node = self.nodes.get(rollout.prefix_id)
        if node is not None:
            node.fresh.setdefault(rollout.rollout_index, rollout)
        else:
            self._without_node.setdefault(rollout.prefix_id, []).append(rollout)

    def hand_down_solutions(self, *, counts_own: bool = False) -> None:
        """Count the solutions' endings for the nodes of earlier ones that they pass through.

        With `counts_own` for their own nodes, too: that a right solution came of a prefix
        proves a hard label, but biases a soft one.
        """
        for solution in self.solutions:
            index = solution.rollout.rollout_index
            for node in solution.nodes:
                node.first_solution = min(node.first_solution, index)
        for solution in self.solutions:
            _count_passes(self.root, solution.rollout, counts_own=counts_own)

    def hand_down(self, node: Node, *, since: int = 0) -> None:
        """Count the node's counted fresh rollouts for the nodes that they pass through.

        `since` is the index of the first that was not handed down before.
        """
        if node.children:
            for index in range(since, node.num_counted):
                _count_passes(node, node.fresh[index], counts_own=True)

    def _nodes_of(self, steps: tuple[str, ...]) -> tuple[Node, ...]:
        nodes: list[Node] = []
        parent = self.root
        for num_steps in range(1, len(steps)):
            node = parent.children.get(steps[num_steps - 1])
            if node is None:
                node = Node(Prefix(self.problem.problem_id, steps[:num_steps]), parent)
                parent.children[steps[num_steps - 1]] = node
                self.nodes[node.prefix.prefix_id] = node
                for rollout in self._without_node.pop(node.prefix.prefix_id, ()):
                    node.fresh.setdefault(rollout.rollout_index, rollout)
            nodes.append(node)
            parent = node
        return tuple(nodes)


def _count_passes(origin: Node, rollout: Rollout, *, counts_own: bool) -> None:
    """Count a rollout of `origin` for each node below that it passes through.

    Without `counts_own` not for those that this solution or a later one has brought.
    """
    reached = [(origin, 0)]
    while reached:
        node, start = reached.pop()
        for step, child in node.children.items():
            end = start + len(step)
            if rollout.text.startswith(step, start) and _ends_a_step(rollout, end):
                if counts_own or rollout.rollout_index > child.first_solution:
                    child.tally.add(rollout)
                    child.tally.reused += 1
                reached.append((child, end))


def _ends_a_step(rollout: Rollout, end: int) -> bool:
    """Whether the text could end a step at `end`: not where it was cut off there."""
    if end < len(rollout.text):
        return rollout.text[end].isspace()
    return rollout.finish_reason is FinishReason.STOP


def tally_of(rollouts: Iterable[Rollout]) -> Tally:
    """The counts of rollouts, none of them reused."""
    tally = Tally()
    for rollout in rollouts:
        tally.add(rollout)
    return tally


def build_tree(
    problem: Problem,
    rollouts: Iterable[Rollout],
    *,
    method: StepMethod,
    num_solutions: int | None = None,
    solutions: Sequence[Rollout] | None = None,
) -> PrefixTree:
    """The tree of stored rollouts, whatever their order.

    `num_solutions` keeps the root rollouts of the lowest indices only. `solutions` are
    another model's root rollouts: then those among `rollouts` are no solutions.
    """
    tree = PrefixTree(problem, method=method)
    root_id = tree.root.prefix.prefix_id
    below_root: list[Rollout] = []
    roots: list[Rollout] = list(solutions or ())
    for rollout in rollouts:
        if rollout.prefix_id != root_id:
            below_root.append(rollout)
        elif solutions is None:
            roots.append(rollout)
    for rollout in sorted(roots, key=_index):
        if num_solutions is None or rollout.rollout_index < num_solutions:
            tree.tell_solution(rollout)
    for rollout in below_root:
        tree.tell(rollout)
    return tree


def _index(rollout: Rollout) -> int:
    return rollout.rollout_index
