"""Monte-Carlo tree search over steps: PUCT, with the PRM's value in place of a rollout.

Selection follows Silver et al. 2017 (AlphaGo Zero): the child with the highest
`Q + c * P * sqrt(parent visits) / (1 + visits)`; P is the share of its parent's samples that
came out as this step, Q the mean value of what was found below it, the PRM's own value
before a visit. An expansion draws `expansions` next steps, scores them in one call, and
backs up the value of the best, averaged with whole rollouts where `rollouts` asks for them
(as OmegaPRM, arXiv 2406.06592, draws them).

A node is expanded again once its visits reach the square of its expansions (progressive
widening, Couëtoux et al. 2011), so that a bad first draw is no dead end. What is finished,
cut off, or has nothing but such children is closed: no visit is spent on it again. Where
the whole tree is closed, the root is widened.
"""

import math
from collections.abc import Callable

from search.config import SearchConfig
from search.growth import Growth
from search.tree import Node, NodeState

MAX_BARREN_EXPANSIONS = 8
"""Expansions in a row without a new node, after which the model has nothing more to say."""


async def search_mcts(
    growth: Growth, *, config: SearchConfig, is_settled: Callable[[], bool]
) -> None:
    """Until `config.n` solutions are finished, the budget is spent, `is_settled` says so,
    or the model repeats itself.
    """
    root = growth.plant()
    num_barren = 0
    max_expansions = config.n * config.max_steps
    for _ in range(max_expansions):
        if growth.budget.is_spent or is_settled() or len(growth.solutions()) >= config.n:
            return
        leaf = select(root, config=config)
        new = await growth.expand(leaf, config.expansions)
        num_barren = 0 if new else num_barren + 1
        if num_barren >= MAX_BARREN_EXPANSIONS:
            return
        for child in new:
            child.is_closed = child.state is not NodeState.OPEN
        value = await _value_of(leaf, growth, config.rollouts)
        _back_up(leaf, value)


def select(root: Node, *, config: SearchConfig) -> Node:
    """The open node to expand next."""
    node = root
    while True:
        usable = [child for child in node.children if not child.is_closed]
        if not usable or _may_widen(node, config.expansions):
            return node
        node = max(usable, key=lambda child: puct(child, exploration=config.exploration))


def puct(node: Node, *, exploration: float) -> float:
    """How much a child wants to be visited. It has a parent that drew it."""
    parent = node.parent
    assert parent is not None
    mean_value = node.total_value / node.visits if node.visits else node.value
    prior = node.num_draws / max(1, sum(child.num_draws for child in parent.children))
    return mean_value + exploration * prior * math.sqrt(parent.visits) / (1 + node.visits)


def _may_widen(node: Node, expansions: int) -> bool:
    num_expansions = node.num_drawn // expansions
    return num_expansions > 0 and node.visits >= (num_expansions + 1) ** 2


async def _value_of(leaf: Node, growth: Growth, num_rollouts: int) -> float:
    """Of the best child, cut-off ones left out; 0 where there is none."""
    usable = [child for child in leaf.children if child.state is not NodeState.CUT_OFF]
    if not usable:
        return 0.0
    best = max(usable, key=lambda child: child.value)
    if not num_rollouts or best.state is not NodeState.OPEN or growth.budget.is_spent:
        return best.value
    drawn = await growth.complete(best, num_rollouts)
    for child in drawn:
        child.is_closed = True
    if not drawn:
        return best.value
    total = sum(child.num_draws for child in drawn)
    mean = math.fsum(child.num_draws * child.value for child in drawn) / total
    return (best.value + mean) / 2


def _back_up(leaf: Node, value: float) -> None:
    """Count a visit along the path, and close what has nothing open left below it."""
    for node in reversed(leaf.path()):
        node.visits += 1
        node.total_value += value
        if node.parent is not None and node.children:
            node.is_closed = all(child.is_closed for child in node.children)
