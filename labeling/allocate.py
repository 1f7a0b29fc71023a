"""Where to sample next: the policies, behind one question ("ask/tell").

The engine's loop asks a policy for the next draws of a tree, has them sampled and graded,
tells the tree, and asks again, until the policy asks for nothing. Policies know nothing
of engines; a policy's answer depends on the told rollouts only, never on their timing.

- `fixed`: K rollouts a prefix (Math-Shepherd, arXiv 2312.08935).
- `adaptive` (default): `min_rollouts`, then `increment` more at a time up to
  `max_rollouts` while the 95 % interval of the MC value is wider than
  `max_interval_width`. With the defaults, a prefix whose first ten agree stops at ten.
  Stopping early where draws agree shifts the mean of a soft label towards 0 and 1 a
  little; the counts in the label let anyone see where it stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from labeling.tree import Node, PrefixTree
from pipeline.config import FrozenConfig


class AllocationPolicy(StrEnum):
    """The name of a policy."""

    FIXED = "fixed"
    ADAPTIVE = "adaptive"


class AllocationConfig(FrozenConfig):
    """How many solutions and rollouts to draw. Counts are of rollouts a prefix."""

    policy: AllocationPolicy = AllocationPolicy.ADAPTIVE
    solutions_per_problem: Annotated[int, Field(ge=1, le=1024)] = 4
    num_rollouts: Annotated[int, Field(ge=1, le=1024)] = 16
    """K of the fixed policy."""
    min_rollouts: Annotated[int, Field(ge=1, le=1024)] = 10
    max_rollouts: Annotated[int, Field(ge=1, le=1024)] = 20
    increment: Annotated[int, Field(ge=1, le=1024)] = 5
    max_interval_width: Annotated[float, Field(gt=0, le=1)] = 0.3

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min_rollouts > self.max_rollouts:
            raise ValueError(
                f"min_rollouts = {self.min_rollouts} is above max_rollouts = {self.max_rollouts}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Ask:
    """Draw `num_samples` more rollouts of the prefix `prefix_id`."""

    prefix_id: str
    num_samples: int


def ask(tree: PrefixTree, config: AllocationConfig) -> list[Ask]:
    """The next draws, in the tree's order; empty when nothing more is wanted.

    A prefix with draws under way is left alone until they are told.
    """
    num_wanted = _POLICIES[config.policy]
    asks = [
        Ask(prefix_id, num_wanted(node, config))
        for prefix_id, node in tree.nodes.items()
        if not node.num_pending
    ]
    return [one for one in asks if one.num_samples > 0]


def _fixed(node: Node, config: AllocationConfig) -> int:
    return config.num_rollouts - len(node.rollouts)


def _adaptive(node: Node, config: AllocationConfig) -> int:
    """Missing draws up to the next decision point, which a crash cannot move."""
    label = node.label
    if label.num_rollouts < config.min_rollouts:
        return config.min_rollouts - label.num_rollouts
    num_allowed = config.max_rollouts - label.num_rollouts
    if num_allowed <= 0:
        return 0
    past = (label.num_rollouts - config.min_rollouts) % config.increment
    if past == 0:
        low, high = label.interval
        is_enough = label.num_graded >= config.min_rollouts
        if is_enough and high - low <= config.max_interval_width:
            return 0
    return min(config.increment - past, num_allowed)


_POLICIES: dict[AllocationPolicy, Callable[[Node, AllocationConfig], int]] = {
    AllocationPolicy.FIXED: _fixed,
    AllocationPolicy.ADAPTIVE: _adaptive,
}
