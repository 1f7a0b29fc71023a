"""What can be set about where rollouts are drawn."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from pipeline.config import FrozenConfig


class AllocationPolicy(StrEnum):
    """The name of a policy; each is a module of `labeling.policies`."""

    FIXED = "fixed"
    ADAPTIVE = "adaptive"
    FIRST_SUCCESS = "first-success"
    FIRST_ERROR = "first-error"
    UNCERTAIN_FIRST = "uncertain-first"


class BudgetConfig(FrozenConfig):
    """What one run may spend; None is without limit.

    Samples in flight are finished and count: up to 3 x engine.max_num_seqs an engine beyond
    the tokens, or the minutes, that are set. The number of rollouts is met exactly.
    """

    tokens: Annotated[int, Field(ge=1)] | None = None
    """Generated tokens."""
    rollouts: Annotated[int, Field(ge=1)] | None = None
    """Solutions included."""
    minutes: Annotated[float, Field(gt=0)] | None = None
    """From the engine's readiness on."""


class AllocationConfig(FrozenConfig):
    """How many solutions and rollouts to draw. Counts are of rollouts a prefix.

    With `reuse` a prefix can have more rollouts than `num_rollouts` or `max_rollouts`: those say
    up to where it is sampled, and all passes of its ancestors' rollouts count besides.
    """

    policy: AllocationPolicy = AllocationPolicy.ADAPTIVE
    """Who gets rollouts: see "Where the rollouts go" in README.md. `uncertain-first` knows no
    maximum a prefix; only its budget and `max_interval_width` end it."""
    reuse: bool = True
    """Count a rollout for every deeper prefix that it passes through exactly, and sample
    only the deficit; `false` is textbook Math-Shepherd."""
    solutions_per_problem: Annotated[int, Field(ge=1, le=1024)] = 4
    """Drawn of each question, and labelled."""
    num_rollouts: Annotated[int, Field(ge=1, le=1024)] = 16
    """K of `fixed`; the most that `first-success` and `first-error` draw of a prefix."""
    min_rollouts: Annotated[int, Field(ge=1, le=1024)] = 10
    """Of `adaptive`: the least, graded ones; of `uncertain-first`: what every prefix gets first."""
    max_rollouts: Annotated[int, Field(ge=1, le=1024)] = 20
    """Of `adaptive`: beyond it no more are drawn, however wide the interval."""
    increment: Annotated[int, Field(ge=1, le=1024)] = 5
    """Drawn at once of a prefix that wants more than its first ones; `fixed` needs no more."""
    max_interval_width: Annotated[float, Field(gt=0, le=1)] = 0.3
    """Of the 95 % interval of an MC value: `adaptive`, `uncertain-first` and a top-up draw no more
    of a prefix that is as narrow."""
    budget: BudgetConfig = BudgetConfig()

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min_rollouts > self.max_rollouts:
            raise ValueError(
                f"min_rollouts = {self.min_rollouts} is above max_rollouts = {self.max_rollouts}"
            )
        if self.policy is AllocationPolicy.UNCERTAIN_FIRST and self.budget == BudgetConfig():
            raise ValueError(
                "policy = 'uncertain-first' spends a budget: set budget.tokens, "
                "budget.rollouts or budget.minutes"
            )
        return self


class RefreshConfig(FrozenConfig):
    """What a run that finds everything complete may spend on the widest intervals.

    With a limit set, labels count all stored rollouts of a prefix, not only those up to
    where the policy stops. For the policies `adaptive` and `fixed`.
    """

    top_up_tokens: Annotated[int, Field(ge=1)] | None = None
    """Generated tokens; None, with no minutes set either, tops nothing up."""
    top_up_minutes: Annotated[float, Field(gt=0)] | None = None
    """Within the minutes of `allocation.budget`, where it has any."""
    top_up_max_rollouts: Annotated[int, Field(ge=1, le=4096)] = 64
    """Of a prefix; down to `allocation.max_interval_width`, `allocation.increment` at a time."""

    @property
    def tops_up(self) -> bool:
        """Whether there is anything to spend."""
        return self.top_up_tokens is not None or self.top_up_minutes is not None
