"""What a run may spend, and what it has spent.

A run that meets its budget asks for nothing more; what is under way is finished, written
and counted, so the last requests overshoot a budget of tokens or minutes. A budget of
rollouts is exact: draws are reserved before they are asked for.
"""

from dataclasses import dataclass, field
from time import monotonic

from labeling.policies.config import BudgetConfig


@dataclass(slots=True)
class Budget:
    """Counts what is drawn against the limits. The time counts from `begin` on, so that a
    slow start of an engine does not use it up; `seconds_before` were used already.
    """

    limits: BudgetConfig
    num_tokens: int = 0
    num_reserved: int = 0
    seconds_before: float = 0.0
    _started: float | None = field(default=None, init=False)

    def begin(self) -> None:
        """Start the clock; once begun it runs on."""
        if self._started is None:
            self._started = monotonic()

    @property
    def seconds(self) -> float:
        """The time used."""
        since = 0.0 if self._started is None else monotonic() - self._started
        return self.seconds_before + since

    @property
    def is_spent(self) -> bool:
        """Whether a limit is met."""
        limits = self.limits
        return (
            (limits.tokens is not None and self.num_tokens >= limits.tokens)
            or (limits.rollouts is not None and self.num_reserved >= limits.rollouts)
            or (limits.minutes is not None and self.seconds >= 60 * limits.minutes)
        )

    def reserve(self, num_samples: int) -> int:
        """How many of `num_samples` may be drawn; they count as spent."""
        if self.is_spent:
            return 0
        if self.limits.rollouts is not None:
            num_samples = min(num_samples, self.limits.rollouts - self.num_reserved)
        self.num_reserved += num_samples
        return num_samples

    def part(self, *, tokens: int | None, minutes: float | None) -> "Budget":
        """A budget of its own of at most so much, and of no more than is left of this one."""
        limits = self.limits
        left = BudgetConfig.model_construct(
            tokens=_least(tokens, limits.tokens, self.num_tokens),
            rollouts=_least(None, limits.rollouts, self.num_reserved),
            minutes=_least(minutes, limits.minutes, self.seconds / 60),
        )
        return Budget(left)

    def spend(self, num_tokens: int) -> None:
        """Count generated tokens."""
        self.num_tokens += num_tokens


def _least(wanted: float | None, limit: float | None, spent: float) -> float | None:
    """The lower of what is wanted and what is left; None is without limit."""
    if limit is None:
        return wanted
    left = max(0, limit - spent)
    return left if wanted is None else min(wanted, left)
