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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, takewhile
from typing import Annotated, Self

from pydantic import Field, model_validator

from labeling.tree import PrefixTree, count_rollouts
from pipeline.config import FrozenConfig
from pipeline.records import Rollout, StepLabel


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
    asks = [
        Ask(prefix_id, _num_missing(node.rollouts, config))
        for prefix_id, node in tree.nodes.items()
        if not node.num_pending
    ]
    return [one for one in asks if one.num_samples > 0]


def drawn_by_policy(rollouts: Sequence[Rollout], config: AllocationConfig) -> list[Rollout]:
    """Of a prefix's stored rollouts those that the policy would have drawn, by index.

    More may be stored, from an earlier run with another policy: a label is a function of
    the present config, not of the folder's history. Of an unfinished prefix all count.
    """
    ordered = _without_gap(rollouts)
    num_decided, num_wanted = _last_decision(ordered, config)
    return ordered if num_wanted else ordered[:num_decided]


def _num_missing(rollouts: Sequence[Rollout], config: AllocationConfig) -> int:
    ordered = _without_gap(rollouts)
    num_decided, num_wanted = _last_decision(ordered, config)
    return num_wanted - (len(ordered) - num_decided) if num_wanted else 0


def _without_gap(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """The rollouts numbered 0, 1, 2, … up to the first that is missing (its file was lost)."""
    by_index = {rollout.rollout_index: rollout for rollout in rollouts}
    return [by_index[index] for index in takewhile(by_index.__contains__, count())]


def _last_decision(ordered: Sequence[Rollout], config: AllocationConfig) -> tuple[int, int]:
    """How many rollouts the policy has decided on, and how many it wants after those.

    Decisions fall after the same rollouts however often the run was interrupted.
    """
    num_decided = 0
    while True:
        label = count_rollouts(ordered[:num_decided])
        num_wanted = max(0, _POLICIES[config.policy](label, config))
        if num_wanted == 0 or num_decided + num_wanted > len(ordered):
            return num_decided, num_wanted
        num_decided += num_wanted


def _fixed(label: StepLabel, config: AllocationConfig) -> int:
    return config.num_rollouts - label.num_rollouts


def _adaptive(label: StepLabel, config: AllocationConfig) -> int:
    if label.num_rollouts < config.min_rollouts:
        return config.min_rollouts - label.num_rollouts
    low, high = label.interval
    if label.num_graded >= config.min_rollouts and high - low <= config.max_interval_width:
        return 0
    return min(config.increment, config.max_rollouts - label.num_rollouts)


_POLICIES: dict[AllocationPolicy, Callable[[StepLabel, AllocationConfig], int]] = {
    AllocationPolicy.FIXED: _fixed,
    AllocationPolicy.ADAPTIVE: _adaptive,
}
