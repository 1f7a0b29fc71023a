"""Spend a budget on the widest intervals, wherever they are.

First every prefix gets `min_rollouts`; then, round by round over all problems, the prefixes
with the widest 95 % intervals get `increment` more, until the budget is met or none is
wider than `max_interval_width`. This is the greedy rule of uncertainty sampling (Lewis and
Gale, arXiv cmp-lg/9407020), on the interval of an MC value.

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
    """At most `num_nodes` of the `wide` nodes, the widest first."""
    chosen = wide(nodes, config, max_rollouts=max_rollouts)
    return nlargest(num_nodes, chosen, key=lambda node: (width(node), node.prefix.prefix_id))


def wide(
    nodes: Iterable[Node], config: AllocationConfig, *, max_rollouts: int | None = None
) -> Iterator[Node]:
    """The nodes wider than the target that have fewer than `max_rollouts`, passes included."""
    for node in nodes:
        is_full = max_rollouts is not None and node.tally.total >= max_rollouts
        if not is_full and width(node) > config.max_interval_width:
            yield node


def width(node: Node) -> float:
    """The width of the node's 95 % interval."""
    low, high = wilson_interval(node.tally.correct, node.tally.graded)
    return high - low
