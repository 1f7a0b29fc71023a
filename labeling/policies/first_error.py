"""Binary search for the first wrong step of a wrong solution: OmegaPRM (arXiv 2406.06592).

A prefix without a correct rollout is taken as wrong, and what follows a wrong prefix as
wrong too: the search halves the steps, so that a solution of n steps asks about log2 n
prefixes. Each of those is drawn as `first-success` draws. A solution with the right answer
is taken to have no wrong step and asks for nothing. Solutions are searched one after the
other, since a node that one has settled is free for the next.

With reuse a correct pass settles a prefix, and so those before it, without a draw. Prefixes
that the search did not visit stay without a label (no graded rollout) unless a pass of them
is correct: the incorrect endings that every wrong solution hands to its prefixes say too
little. The first error found is the first of the *labelled* steps that is wrong. Where true
values are not monotone (a model that recovers) it can differ from the first error of fixed
K. For hard labels only: the MC values are as biased as those of `first-success`.
"""

from labeling.tree import Node, Solution


def next_prefix(solution: Solution, *, is_right: bool) -> Node | None:
    """The unsettled prefix to ask about next; None where the search is over."""
    if is_right:
        return None
    nodes = solution.nodes
    high = next((i for i, node in enumerate(nodes) if _is_wrong(node)), len(nodes))
    low = 1 + max((i for i in range(high) if nodes[i].tally.correct), default=-1)
    unknown = [i for i in range(low, high) if not nodes[i].is_settled]
    middle = (low + high) // 2
    return nodes[min(unknown, key=lambda i: abs(i - middle))] if unknown else None


def _is_wrong(node: Node) -> bool:
    """Settled, and not only by undecided rollouts, which say nothing."""
    return node.is_settled and node.tally.graded > 0 and not node.tally.correct
