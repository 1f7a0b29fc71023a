"""About what sampling would cost, from what was spent on this dataset before."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flows.ledger import CostLedger
from pipeline.samplers.sampler import SamplingStage
from storage.verdicts import GradedRows


@dataclass(frozen=True, slots=True)
class Spent:
    """Means of earlier runs. `is_own` is false where another model or setting spent it."""

    rollouts_a_problem: float
    tokens_a_problem: float
    seconds_a_token: float | None
    """None where the ledger does not know."""
    is_own: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """About so much. `is_bounded` says that a budget ends it first."""

    num_rollouts: int
    num_tokens: int
    seconds: float | None
    is_bounded: bool
    is_own: bool
    """Whether it rests on rollouts of the same model and settings."""


def spent_under(
    digests: set[str], rows: Sequence[GradedRows], ledger: CostLedger, finished: set[str]
) -> Spent | None:
    """The means over the `finished` problems under `digests`, else over those of the sampling
    digest with the most rollouts; None where nothing is stored.
    """
    own = [row for row in rows if row.sampling_digest in digests]
    of_finished = [row for row in own if row.problem_id in finished]
    if of_finished:
        return _spent(of_finished, digests, ledger, is_own=True)
    others: dict[str, list[GradedRows]] = {}
    for row in rows:
        others.setdefault(row.sampling_digest, []).append(row)
    if not others:
        return None
    digest, most = max(others.items(), key=lambda item: (_num_rollouts(item[1]), item[0]))
    return _spent(most, {digest}, ledger, is_own=digest in digests)


def estimate(
    num_rollouts: float,
    num_tokens: float,
    spent: Spent,
    *,
    max_rollouts: int | None,
    max_tokens: int | None,
    max_minutes: float | None,
) -> Estimate:
    """So much, or the part of it that the first limit to be met allows."""
    shares = [1.0]
    if max_rollouts is not None:
        shares.append(max_rollouts / num_rollouts)
    if max_tokens is not None:
        shares.append(max_tokens / num_tokens)
    if max_minutes is not None and spent.seconds_a_token:
        shares.append(60 * max_minutes / (num_tokens * spent.seconds_a_token))
    share = min(shares)
    seconds = spent.seconds_a_token
    return Estimate(
        num_rollouts=round(share * num_rollouts),
        num_tokens=round(share * num_tokens),
        seconds=None if seconds is None else round(share * num_tokens * seconds, 1),
        is_bounded=share < 1,
        is_own=spent.is_own,
    )


def _spent(
    rows: Sequence[GradedRows], digests: Iterable[str], ledger: CostLedger, *, is_own: bool
) -> Spent:
    num_problems = len({row.problem_id for row in rows})
    costs = [ledger.total(digest, stage) for digest in digests for stage in SamplingStage]
    tokens, seconds = sum(c.generated_tokens for c in costs), sum(c.seconds for c in costs)
    return Spent(
        rollouts_a_problem=_num_rollouts(rows) / num_problems,
        tokens_a_problem=max(1, sum(row.num_tokens for row in rows)) / num_problems,
        seconds_a_token=seconds / tokens if tokens else None,
        is_own=is_own,
    )


def _num_rollouts(rows: Iterable[GradedRows]) -> int:
    return sum(row.num_rollouts for row in rows)
