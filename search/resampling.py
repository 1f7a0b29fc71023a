"""95 % percentile bootstrap intervals over problems (Efron & Tibshirani 1993, chapter 13).

Solutions of one problem are not independent, so whole problems are drawn. Figures made with
the same weights are paired: their differences and ratios are taken resample by resample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NUM_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and the bounds of its 95 % interval, None where they are undefined.

    `reason` says why something is None.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """A figure and its value in every resample, NaN where a resample leaves it undefined.

    `value` is None where the figure is undefined, and `reason` says why.
    """

    value: float | None
    samples: Floats
    reason: str | None = None

    def estimate(self) -> Estimate:
        """The figure with its interval; without one where any resample leaves it undefined."""
        if self.value is None:
            return Estimate(None, reason=self.reason)
        num_undefined = int(np.isnan(self.samples).sum())
        if num_undefined:
            reason = f"no interval: undefined in {num_undefined} of {len(self.samples)} resamples"
            return Estimate(self.value, reason=reason)
        low, high = np.quantile(self.samples, [0.025, 0.975])
        return Estimate(self.value, float(low), float(high))


def resampling_weights(num_problems: int, *, num_resamples: int, seed: int) -> Floats:
    """The share of each problem in each resample: [resamples, problems]; rows sum to 1."""
    rng = np.random.default_rng(seed)
    shares = np.full(num_problems, 1 / num_problems)
    return rng.multinomial(num_problems, shares, size=num_resamples) / num_problems


def undefined(reason: str) -> Resampled:
    """A figure that cannot be given."""
    return Resampled(None, np.array([], dtype=np.float64), reason)


def mean_over(sums: Floats, counts: Floats, weights: Floats, *, reason: str) -> Resampled:
    """The mean of things that problems have several of, from each problem's sum and count.

    Undefined, for `reason`, where there is none at all.
    """
    if not counts.any():
        return undefined(reason)
    samples = divided(weights @ sums, weights @ counts)
    return Resampled(float(sums.sum() / counts.sum()), samples)


def difference(one: Resampled, other: Resampled) -> Resampled:
    """One minus the other, paired."""
    if one.value is None or other.value is None:
        return undefined(one.reason or other.reason or "undefined")
    return Resampled(one.value - other.value, one.samples - other.samples)


def ratio(one: Resampled, other: Resampled, *, reason: str) -> Resampled:
    """One divided by the other, paired; undefined, for `reason`, where the other is 0."""
    if one.value is None or other.value is None:
        return undefined(one.reason or other.reason or "undefined")
    if other.value == 0:
        return undefined(reason)
    return Resampled(one.value / other.value, divided(one.samples, other.samples))


def complement(one: Resampled) -> Resampled:
    """1 minus it."""
    if one.value is None:
        return one
    return Resampled(1 - one.value, 1 - one.samples)


def divided(numerator: Floats, denominator: Floats) -> Floats:
    """The quotients, NaN where the denominator is 0."""
    undefined_quotients = np.full(numerator.shape, np.nan)
    return np.divide(numerator, denominator, out=undefined_quotients, where=denominator != 0)
