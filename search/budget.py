"""What a search may spend, in generated tokens: one account for every method.

Every sample counts with all its tokens, whether it is used or thrown away, the end token or
the stop string's included. A request starts only while tokens are left, so the overrun is
at most what the requests of one round draw; `num_tokens` is what was really spent.
"""

from collections.abc import Iterable

from pipeline.samplers.sampler import Completion


class TokenBudget:
    """`limit` generated tokens; None is no limit."""

    def __init__(self, limit: int | None) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"a budget of {limit} tokens pays for nothing")
        self.limit = limit
        self.num_tokens = 0
        self.num_samples = 0

    @property
    def is_spent(self) -> bool:
        """Whether no further request may start."""
        return self.limit is not None and self.num_tokens >= self.limit

    def spend(self, completions: Iterable[Completion]) -> None:
        """Count completions that were drawn."""
        for completion in completions:
            self.num_tokens += completion.num_tokens
            self.num_samples += 1
