"""Step-level beam search and DVTS, guided by a PRM.

Beam search keeps the best `n / expansions` prefixes of a round and draws `expansions` next
steps from each (Snell et al., arXiv 2408.03314). Diverse verifier tree search
grows `n / expansions` independent trees, of each of which only the best prefix goes on
(Beeching et al. 2024, "Scaling test-time compute with open models"): better answers at large
n, where a beam collapses into variants of one solution. Both are one loop: a forest of
trees, each keeping some prefixes; `n` samples a round.

A finished solution takes a place of its tree where it is among the best of the round; every
finished solution, among the best or not, is one of the search's solutions.
"""

from collections.abc import Callable

from search.config import SearchConfig, SearchMethod
from search.growth import Growth
from search.tree import Node, NodeState


async def search_beams(
    growth: Growth, *, config: SearchConfig, is_settled: Callable[[], bool]
) -> None:
    """Beam search or DVTS by `config.method`, until every tree has ended, the budget is
    spent, or `is_settled` says so after a round.
    """
    num_groups = config.n // config.expansions
    is_beam = config.method is SearchMethod.BEAM
    num_trees, num_kept = (1, num_groups) if is_beam else (num_groups, 1)
    kept = [[growth.plant()] for _ in range(num_trees)]
    places = [num_kept] * num_trees
    while any(kept) and not growth.budget.is_spent and not is_settled():
        wanted = [
            (node, share)
            for nodes, num_places in zip(kept, places, strict=True)
            for node, share in _shares(nodes, num_places * config.expansions)
        ]
        children = iter(await growth.expand_all(wanted))
        for index, nodes in enumerate(kept):
            drawn = [child for _ in nodes for child in next(children)]
            best = best_nodes(drawn, places[index])
            kept[index] = [node for node in best if node.state is NodeState.OPEN]
            places[index] -= sum(node.state is NodeState.FINISHED for node in best)


def best_nodes(nodes: list[Node], num_places: int) -> list[Node]:
    """The best by value; cut-off ones never; of equals, the one drawn first.

    Among values that are equal a finished solution is not preferred: what is right so far
    costs no more than what is already written.
    """
    usable = [node for node in nodes if node.state is not NodeState.CUT_OFF]
    return sorted(usable, key=lambda node: -node.value)[:num_places]


def _shares(nodes: list[Node], num_samples: int) -> list[tuple[Node, int]]:
    """`num_samples` dealt out evenly; the better nodes, which come first, get the rest."""
    if not nodes:
        return []
    share, rest = divmod(num_samples, len(nodes))
    dealt = [(node, share + (index < rest)) for index, node in enumerate(nodes)]
    return [(node, count) for node, count in dealt if count]
