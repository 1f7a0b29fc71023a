"""Spend a budget on the widest intervals, wherever they are.

First every prefix gets `min_rollouts`; then, round by round over all problems, the prefixes
with the widest 95 % intervals get `increment` more, however many they have already, until
the budget is met or none is wider than `max_interval_width`. This is the greedy rule of
uncertainty sampling (Lewis and Gale, arXiv cmp-lg/9407020), on the interval of an MC value.

Needs a budget. A round looks at all problems, so their trees stay in memory (counts and
texts of all rollouts). How far a run comes depends on its budget, so labels are made of all
stored rollouts. Bias: as with `adaptive`, and for the same reason; with the demo model and the
tokens of `adaptive`, -0.004 for true values in (0, 0.1] and +0.005 in [0.9, 1).

A refresh tops up the labels of other policies by the same rule (`labeling.engine.top_up`).
"""

from collections.abc import Iterable, Iterator
from heapq import nlargest

from labeling.policies.config import AllocationConfig
from labeling.tree import Node
from pipeline.records import wilson_interval


def num_wanted_at_first(total: int, config: AllocationConfig) -> int:
    """What is missing to `min_rollouts`, passes included."""
    return config.min_rollouts - total


def widest(
    nodes: Iterable[Node],
    config: AllocationConfig,
    *,
    num_nodes: int,
    max_rollouts: int | None = None,
) -> list[Node]:
    """At most `num_nodes` of the `wide` nodes, first those where a draw narrows most.

    An undecided rollout narrows nothing: the width counts as far as rollouts are graded.
    """

    def urgency(node: Node) -> tuple[float, str]:
        graded_share = node.tally.graded / node.tally.total if node.tally.total else 1.0
        return (width(node) * graded_share, node.prefix.prefix_id)

    return nlargest(num_nodes, wide(nodes, config, max_rollouts=max_rollouts), key=urgency)


def wide(
    nodes: Iterable[Node], config: AllocationConfig, *, max_rollouts: int | None = None
) -> Iterator[Node]:
    """The nodes wider than the target that have fewer than `max_rollouts`, passes included.

    Not those of whose first `min_rollouts` none could be graded: more would tell no more.
    """
    for node in nodes:
        tally = node.tally
        is_full = max_rollouts is not None and tally.total >= max_rollouts
        is_hopeless = not tally.graded and tally.total >= config.min_rollouts
        if not (is_full or is_hopeless) and width(node) > config.max_interval_width:
            yield node


def width(node: Node) -> float:
    """The width of the node's 95 % interval."""
    low, high = wilson_interval(node.tally.correct, node.tally.graded)
    return high - low
