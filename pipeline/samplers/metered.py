"""What an engine was asked for and gave, counted at the seam, by stage.

Prompt tokens count once a request, however many completions it asks for; of those that the
engine found in its cache, it tells or not. Energy, money and start-up are not counted.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from pipeline.records import FinishReason
from pipeline.samplers.sampler import Completion, Sampler, SamplingRequest, SamplingStage


@dataclass(slots=True)
class StageCost:
    """Running totals of one stage."""

    requests: int = 0
    clipped_requests: int = 0
    """Cut off before `max_tokens`, since the model's context was full."""
    prompt_tokens: int = 0
    cached_prompt_tokens: int | None = None
    """None where no engine has told."""
    reencoded_prefixes: int = 0
    """Prefixes whose last step ended inside a token of the whole solution."""
    generated_tokens: int = 0
    rollouts: int = 0
    rollouts_undecided: int = 0
    """Rejected: the grader could not decide, so that no label counts them."""
    rollouts_truncated: int = 0
    seconds: float = 0.0
    """With at least one request of the stage under way."""

    def plus(self, other: "StageCost") -> "StageCost":
        """The sum of both."""
        mine, others = asdict(self), asdict(other)
        totals: dict[str, Any] = {name: _sum(mine[name], others[name]) for name in mine}
        return StageCost(**totals)


def _sum(one: float | None, other: float | None) -> float | None:
    return (one or 0) + (other or 0) if one is not None or other is not None else None


class MeteredSampler:
    """Hands requests on to `sampler` and counts in `costs`, one a stage.

    Rollouts and verdicts are not its business: `rollouts…` and `reencoded_prefixes` are
    counted by whoever grades and encodes.
    """

    def __init__(self, sampler: Sampler, costs: dict[SamplingStage, StageCost]) -> None:
        self._sampler = sampler
        self._costs = costs
        self._num_under_way = dict.fromkeys(SamplingStage, 0)
        self._counted_until = dict.fromkeys(SamplingStage, 0.0)

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """See `Sampler.sample`."""
        cost = self._costs[request.stage]
        cost.requests += 1
        cost.prompt_tokens += len(request.prompt_ids)
        with self._timed(request.stage):
            completions = await self._sampler.sample(request)
        cost.generated_tokens += sum(one.num_tokens for one in completions)
        cost.clipped_requests += any(_is_clipped(one, request) for one in completions)
        cached = completions[0].num_cached_prompt_tokens if completions else None
        if cached is not None:
            cost.cached_prompt_tokens = (cost.cached_prompt_tokens or 0) + cached
        return completions

    @contextmanager
    def _timed(self, stage: SamplingStage) -> Generator[None, None, None]:
        self._count_time(stage)
        self._num_under_way[stage] += 1
        try:
            yield
        finally:
            self._count_time(stage)
            self._num_under_way[stage] -= 1

    def _count_time(self, stage: SamplingStage) -> None:
        now = monotonic()
        if self._num_under_way[stage]:
            self._costs[stage].seconds += now - self._counted_until[stage]
        self._counted_until[stage] = now


def _is_clipped(completion: Completion, request: SamplingRequest) -> bool:
    is_cut_off = completion.finish_reason is FinishReason.LENGTH
    return is_cut_off and completion.num_tokens < request.sampling.max_tokens
