"""Whether a score of 0.8 means right in 8 of 10: the reliability plot's bins, and their ECE.

Ten bins of equal width, [0, 0.1], (0.1, 0.2] to (0.9, 1], as scikit-learn's. The expected
calibration error is the mean over steps of the distance between mean score and share right of
the step's bin (Naeini et al. 2015; Guo et al., arXiv 1706.04599).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.resampling import Floats, Resampled, divided, undefined

NUM_BINS = 10


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The steps with a score above `low` (0 is in the first bin) and up to `high`.

    `mean_score` and `share_right` are None where there are none; `mean_soft_label` is the mean
    soft label of those that have one, None where none has.
    """

    low: float
    high: float
    num_steps: int
    mean_score: float | None
    share_right: float | None
    mean_soft_label: float | None


def reliability_bins(scores: Floats, truths: Floats, soft: Floats) -> tuple[ReliabilityBin, ...]:
    """The bins. `truths` are 0 and 1; `soft` is NaN where a step has no soft label."""
    index = bin_indices(scores)
    has_soft = ~np.isnan(soft)
    made: list[ReliabilityBin] = []
    for one in range(NUM_BINS):
        inside = index == one
        made.append(
            ReliabilityBin(
                low=one / NUM_BINS,
                high=(one + 1) / NUM_BINS,
                num_steps=int(inside.sum()),
                mean_score=_mean(scores[inside]),
                share_right=_mean(truths[inside]),
                mean_soft_label=_mean(soft[inside & has_soft]),
            )
        )
    return tuple(made)


def calibration_error(
    scores: Floats, targets: Floats, problem_index: NDArray[np.intp], weights: Floats
) -> Resampled:
    """The ECE of scores against targets (truths of 0 and 1, or soft labels)."""
    if not len(scores):
        return undefined("no step is known")
    num_problems = weights.shape[1]
    cell = problem_index * NUM_BINS + bin_indices(scores)
    gaps = np.bincount(cell, scores - targets, minlength=num_problems * NUM_BINS)
    counts = np.bincount(problem_index, minlength=num_problems).astype(np.float64)
    gaps_by_problem = gaps.reshape(num_problems, NUM_BINS)
    value = float(np.abs(gaps_by_problem.sum(axis=0)).sum() / counts.sum())
    samples = divided(np.abs(weights @ gaps_by_problem).sum(axis=1), weights @ counts)
    return Resampled(value, samples)


def bin_indices(scores: Floats) -> NDArray[np.intp]:
    """The bin of each score."""
    inner_edges = np.linspace(0, 1, NUM_BINS + 1)[1:-1]
    return np.digitize(scores, inner_edges, right=True)


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
