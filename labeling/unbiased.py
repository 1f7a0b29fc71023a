"""Take the bias of early stopping out of a soft label.

A policy that looks at outcomes before it stops shifts correct ÷ graded. For a closed plan
(stop or go on after each number of draws, by the counts only) the unbiased estimate is the
share of the ways to the final counts that begin with a success: Girshick, Mosteller and
Savage, "Unbiased estimates for certain binomial sampling problems" (1946). For `fixed` it
is correct ÷ graded itself. Its variance is larger: use it for means over many steps (a
calibration), not to judge one step.

The plan here is one of graded rollouts: undecided ones are left out, and the passes that a
prefix began with are its first draws, taken as of a number that was fixed beforehand. With
reuse that number depends a little on outcomes too (an ancestor that stopped early handed
down fewer), which this does not take out; `docs/log.md` has what is left. Not covered:
`first-error` and `uncertain-first`, which look at other prefixes too.
"""

from math import comb

from labeling.policies import adaptive, first_success, fixed
from labeling.policies.config import AllocationConfig, AllocationPolicy
from labeling.tree import Tally
from pipeline.records import StepLabel

_PLANS = {
    AllocationPolicy.FIXED: fixed.num_wanted,
    AllocationPolicy.ADAPTIVE: adaptive.num_wanted,
    AllocationPolicy.FIRST_SUCCESS: first_success.num_wanted,
}


def unbiased_mc_value(label: StepLabel, config: AllocationConfig) -> float:
    """The unbiased estimate of the MC value; NaN where no rollout is graded.

    Raises ValueError for a policy without a plan of its own (see the module).
    """
    if config.policy not in _PLANS:
        raise ValueError(
            f"policy = {config.policy.value!r} looks at other prefixes too: there is no "
            "unbiased estimate; use the counts"
        )
    if not label.num_graded:
        return float("nan")
    return _estimate(label.num_correct, label.num_graded, label.num_reused, config)


def _estimate(correct: int, graded: int, num_passes: int, config: AllocationConfig) -> float:
    ways = _ways(min(num_passes, graded), graded, config)
    all_ways, from_success = ways.get(correct, (0, 0))
    # counts that the plan cannot reach (undecided rollouts, an interrupted run)
    return from_success / all_ways if all_ways else correct / graded


def _ways(num_first: int, graded: int, config: AllocationConfig) -> dict[int, tuple[int, int]]:
    """By number of successes: orders of `graded` draws in the plan, those that begin with one."""
    num_wanted = _PLANS[config.policy]
    drawn = num_first
    ways = {c: (comb(drawn, c), comb(drawn - 1, c - 1) if c else 0) for c in range(drawn + 1)}
    if drawn == 0:
        ways = {0: (1, 0)}
    while drawn < graded:
        steps = {c: num_wanted(Tally(correct=c, incorrect=drawn - c), config) for c in ways}
        batch = max(steps.values(), default=0)
        if batch <= 0:
            return {}
        batch = min(batch, graded - drawn)
        ways = _extended(
            {c: both for c, both in ways.items() if steps[c] > 0}, batch, is_first=drawn == 0
        )
        drawn += batch
    return ways


def _extended(
    ways: dict[int, tuple[int, int]], batch: int, *, is_first: bool
) -> dict[int, tuple[int, int]]:
    longer: dict[int, tuple[int, int]] = {}
    for correct, (all_ways, from_success) in ways.items():
        for more in range(batch + 1):
            first = comb(batch - 1, more - 1) if is_first and more else 0
            total, success = longer.get(correct + more, (0, 0))
            longer[correct + more] = (
                total + all_ways * comb(batch, more),
                success + (first if is_first else from_success * comb(batch, more)),
            )
    return longer
