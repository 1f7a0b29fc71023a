"""Replay a label policy from the pool, with the real `PrefixTree` and `Allocator`.

A stream gives every prefix its rollouts 0, 1, 2, … drawn with replacement from the pool, as
seeds do in the engine: two policies on one stream see the same rollouts (common random
numbers), on two streams independent ones. The solutions are the pool's in every replay.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from bench.label_pool import PooledProblem, Truth
from grading.verdict import Verdict
from labeling.allocate import Allocator
from labeling.policies.config import AllocationConfig, AllocationPolicy
from labeling.policies.uncertain_first import widest
from labeling.tree import Node, PrefixTree
from labeling.unbiased import unbiased_mc_value
from pipeline.records import Rollout, StepLabel

NODES_A_ROUND = 64
_LENGTH = 512


class Stream:
    """What the rollouts of every prefix turn out to be under one seed."""

    def __init__(self, pool: Sequence[PooledProblem], seed: int) -> None:
        prefix_ids = [prefix_id for pooled in pool for prefix_id in pooled.rollouts]
        rng = np.random.default_rng([2026, seed])
        self._rows = dict(zip(prefix_ids, range(len(prefix_ids)), strict=True))
        self._picks = rng.random((len(prefix_ids), _LENGTH), dtype=np.float32)

    def rollout(self, pooled: PooledProblem, prefix_id: str, index: int) -> Rollout:
        """Rollout `index` of the prefix."""
        rollouts = pooled.rollouts[prefix_id]
        pick = int(self._picks[self._rows[prefix_id], index] * len(rollouts))
        return replace(rollouts[min(pick, len(rollouts) - 1)], rollout_index=index)


@dataclass(frozen=True, slots=True)
class Replay:
    """A policy's labels of all nodes, in the order of `Truth`, and what it drew.

    `num_tokens` are those of the fresh rollouts. `first_errors` is one number a wrong solution.
    """

    labels: tuple[StepLabel, ...]
    num_fresh: np.ndarray
    num_tokens: np.ndarray
    first_errors: tuple[int, ...]

    @property
    def num_correct(self) -> np.ndarray:
        return np.array([label.num_correct for label in self.labels])

    @property
    def num_graded(self) -> np.ndarray:
        return np.array([label.num_graded for label in self.labels])

    @property
    def mc_values(self) -> np.ndarray:
        return np.array([label.mc_value for label in self.labels])

    @property
    def hard_labels(self) -> np.ndarray:
        return self.num_correct > 0

    def unbiased_values(self, config: AllocationConfig) -> np.ndarray:
        """The unbiased estimates; NaN for a policy without one."""
        if config.policy in {AllocationPolicy.FIRST_ERROR, AllocationPolicy.UNCERTAIN_FIRST}:
            return np.full(len(self.labels), np.nan)
        return np.array([_unbiased(label, config) for label in self.labels])


_unbiased = cache(unbiased_mc_value)


def replay(
    pool: Sequence[PooledProblem],
    config: AllocationConfig,
    stream: Stream,
    *,
    token_budget: int | None = None,
) -> Replay:
    """Run the policy on every problem; `token_budget` is what `uncertain-first` spends."""
    trees = [pooled.tree() for pooled in pool]
    allocators = [Allocator(tree, config) for tree in trees]
    for pooled, tree, allocator in zip(pool, trees, allocators, strict=True):
        while asks := allocator.ask():
            for wanted in asks:
                _draw(pooled, tree.nodes[wanted.prefix_id], wanted.num_samples, stream, tree)
    if config.policy is AllocationPolicy.UNCERTAIN_FIRST:
        _spend(pool, trees, config, stream, token_budget or 0)
    for allocator in allocators:
        allocator.close()
    nodes = [node for tree in trees for node in tree.nodes.values()]
    return Replay(
        tuple(node.tally.label for node in nodes),
        np.array([len(node.fresh) for node in nodes]),
        np.array([sum(one.num_tokens for one in node.fresh.values()) for node in nodes]),
        tuple(first_errors(trees)),
    )


def _draw(
    pooled: PooledProblem, node: Node, num_samples: int, stream: Stream, tree: PrefixTree
) -> int:
    start, num_tokens = node.next_index, 0
    for index in range(start, start + num_samples):
        rollout = stream.rollout(pooled, node.prefix.prefix_id, index)
        num_tokens += rollout.num_tokens
        tree.tell(rollout)
    return num_tokens


def _spend(
    pool: Sequence[PooledProblem],
    trees: Sequence[PrefixTree],
    config: AllocationConfig,
    stream: Stream,
    token_budget: int,
) -> None:
    """The rounds of the engine's `uncertain-first`, after the first rollouts."""
    place = {key: at for at, tree in enumerate(trees) for key in tree.nodes}
    nodes = [node for tree in trees for node in tree.nodes.values()]
    num_tokens = sum(one.num_tokens for node in nodes for one in node.fresh.values())
    while num_tokens < token_budget:
        chosen = widest(nodes, config, num_nodes=NODES_A_ROUND)
        if not chosen:
            return
        for node in chosen:
            if num_tokens >= token_budget:
                return
            at, num_counted = place[node.prefix.prefix_id], node.num_counted
            num_tokens += _draw(pool[at], node, config.increment, stream, trees[at])
            node.count_next(node.num_waiting())
            if config.reuse:
                trees[at].hand_down(node, since=num_counted)


def first_errors(trees: Sequence[PrefixTree]) -> Iterator[int]:
    """The first labelled wrong step of every wrong solution, by the labels' counts."""
    for tree in trees:
        for solution in tree.solutions:
            if solution.rollout.verdict is Verdict.INCORRECT:
                wrong = (
                    index
                    for index, node in enumerate(solution.nodes)
                    if node.tally.graded and not node.tally.correct
                )
                yield next(wrong, len(solution.nodes))


def true_first_errors(pool: Sequence[PooledProblem], truth: Truth) -> list[int]:
    """The first step of every wrong solution whose whole pool holds no correct rollout."""
    is_right = dict(zip(truth.prefix_ids, truth.pooled > 0, strict=True))
    found: list[int] = []
    for pooled in pool:
        for solution in pooled.tree().solutions:
            if solution.rollout.verdict is Verdict.INCORRECT:
                rights = [is_right[node.prefix.prefix_id] for node in solution.nodes]
                found.append(rights.index(False) if False in rights else len(rights))
    return found
