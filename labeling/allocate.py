"""Where to sample next: the policies, behind one question ("ask/tell").

The engine's loop asks for the next draws of a tree, has them sampled and graded, tells the
tree, and asks again, until nothing is wanted. Policies know nothing of engines. A policy
decides about a node only when its ancestors are settled and have handed down their passes
(with `reuse`), and always after the same rollouts: an answer depends on the told rollouts,
never on their timing, and a resumed run asks as the uninterrupted one did.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grading.verdict import Verdict
from labeling.policies import adaptive, first_error, first_success, fixed, uncertain_first
from labeling.policies.config import AllocationConfig, AllocationPolicy
from labeling.tree import Node, PrefixTree, Tally


@dataclass(frozen=True, slots=True)
class Ask:
    """Draw `num_samples` more rollouts of the prefix `prefix_id`."""

    prefix_id: str
    num_samples: int


class Allocator:
    """Asks for the draws of one tree whose solutions are all told.

    `reuse_solutions` is false where another model wrote the solutions: their endings are
    no samples of the completer.
    """

    def __init__(
        self, tree: PrefixTree, config: AllocationConfig, *, reuse_solutions: bool = True
    ) -> None:
        self._tree = tree
        self._config = config
        self._num_wanted = _POLICIES[config.policy]
        if config.reuse and reuse_solutions:
            tree.hand_down_solutions(counts_own=config.policy in _FOR_HARD_LABELS)
        self._open = list(tree.nodes.values())

    def ask(self) -> list[Ask]:
        """The next draws, parents before children; empty when nothing more is wanted.

        A prefix with draws under way is left alone until they are told.
        """
        if self._config.policy is AllocationPolicy.FIRST_ERROR:
            return list(self._ask_searches())
        asks: list[Ask] = []
        still_open: list[Node] = []
        for node in self._open:
            num_wanted = self._advance(node) if self._may_decide(node) else 0
            if num_wanted:
                asks.append(Ask(node.prefix.prefix_id, num_wanted))
            if not node.is_settled:
                still_open.append(node)
        self._open = still_open
        return asks

    def close(self, *, counts_all: bool = False) -> None:
        """Count what is stored of the prefixes that are not settled: the run was cut short.

        With `uncertain-first`, and with `counts_all`, the settled ones' surplus counts, too.
        With `first-error` a prefix that the search did not settle stays without a label,
        unless a pass of it is correct.
        """
        self.ask()
        policy = self._config.policy
        counts_all = counts_all or policy is AllocationPolicy.UNCERTAIN_FIRST
        for node in self._tree.nodes.values():
            if policy is AllocationPolicy.FIRST_ERROR:
                if not node.is_settled and not node.tally.correct:
                    node.tally = Tally()
            elif counts_all or not node.is_settled:
                self._count_waiting(node)

    def _count_waiting(self, node: Node) -> None:
        num_handed_down = node.num_counted if node.is_settled else 0
        node.count_next(node.num_waiting())
        if self._config.reuse:
            self._tree.hand_down(node, since=num_handed_down)

    def _ask_searches(self) -> Iterator[Ask]:
        has_settled = True
        while has_settled:  # a later solution's passes may move an earlier one's search on
            has_settled = False
            for solution in self._tree.solutions:
                is_right = solution.rollout.verdict is Verdict.CORRECT
                while (node := first_error.next_prefix(solution, is_right=is_right)) is not None:
                    num_wanted = self._advance(node)
                    if not node.is_settled:
                        if num_wanted:
                            yield Ask(node.prefix.prefix_id, num_wanted)
                        return
                    has_settled = True

    def _may_decide(self, node: Node) -> bool:
        parent = node.parent
        is_ready = not self._config.reuse or parent is None or parent is self._tree.root
        return is_ready or (parent is not None and parent.is_settled)

    def _advance(self, node: Node) -> int:
        """Decide as far as the rollouts go: settle the node, or say how many are missing.

        Decisions fall after the same rollouts however often the run was interrupted.
        """
        if node.num_pending:
            return 0
        while (num_wanted := self._num_wanted(node.tally, self._config)) > 0:
            num_missing = num_wanted - node.num_waiting()
            if num_missing > 0:
                return num_missing
            node.count_next(num_wanted)
        node.is_settled = True
        if self._config.reuse:
            self._tree.hand_down(node)
        return 0


def _base_of_uncertain_first(tally: Tally, config: AllocationConfig) -> int:
    return uncertain_first.num_wanted_at_first(tally.total, config)


_FOR_HARD_LABELS = (AllocationPolicy.FIRST_SUCCESS, AllocationPolicy.FIRST_ERROR)

_POLICIES: dict[AllocationPolicy, Callable[[Tally, AllocationConfig], int]] = {
    AllocationPolicy.FIXED: fixed.num_wanted,
    AllocationPolicy.ADAPTIVE: adaptive.num_wanted,
    AllocationPolicy.FIRST_SUCCESS: first_success.num_wanted,
    AllocationPolicy.FIRST_ERROR: first_success.num_wanted,
    AllocationPolicy.UNCERTAIN_FIRST: _base_of_uncertain_first,
}
