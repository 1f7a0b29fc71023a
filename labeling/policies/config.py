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
    """What one run may spend; None is without limit. Requests under way are finished."""

    tokens: Annotated[int, Field(ge=1)] | None = None
    """Generated tokens."""
    rollouts: Annotated[int, Field(ge=1)] | None = None
    """Solutions included."""
    minutes: Annotated[float, Field(gt=0)] | None = None


class AllocationConfig(FrozenConfig):
    """How many solutions and rollouts to draw. Counts are of rollouts a prefix."""

    policy: AllocationPolicy = AllocationPolicy.ADAPTIVE
    reuse: bool = True
    """Count a rollout for every deeper prefix that it passes through exactly, and sample
    only the deficit; `false` is textbook Math-Shepherd."""
    solutions_per_problem: Annotated[int, Field(ge=1, le=1024)] = 4
    num_rollouts: Annotated[int, Field(ge=1, le=1024)] = 16
    """K of `fixed`; the most that `first-success` and `first-error` draw of a prefix."""
    min_rollouts: Annotated[int, Field(ge=1, le=1024)] = 10
    max_rollouts: Annotated[int, Field(ge=1, le=1024)] = 20
    increment: Annotated[int, Field(ge=1, le=1024)] = 5
    max_interval_width: Annotated[float, Field(gt=0, le=1)] = 0.3
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
    top_up_max_rollouts: Annotated[int, Field(ge=1, le=4096)] = 64
    """Of a prefix; down to `allocation.max_interval_width`, `allocation.increment` at a time."""

    @property
    def tops_up(self) -> bool:
        """Whether there is anything to spend."""
        return self.top_up_tokens is not None or self.top_up_minutes is not None
