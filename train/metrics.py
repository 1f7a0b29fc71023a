"""How well step scores match labels. Small, exact, on one-dimensional arrays."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata


def step_auc(scores: Sequence[float], hard_labels: Sequence[bool]) -> float | None:
    """The probability that a good step outscores a bad one, ties half (Mann & Whitney).

    None where all steps are of one kind.
    """
    labels = np.asarray(hard_labels, dtype=bool)
    num_good, num_bad = int(labels.sum()), int((~labels).sum())
    if not num_good or not num_bad:
        return None
    rank_sum = float(rankdata(scores)[labels].sum())
    return (rank_sum - num_good * (num_good + 1) / 2) / (num_good * num_bad)


def brier(scores: Sequence[float], targets: Sequence[float]) -> float:
    """The mean squared distance of scores from targets (MC values, or 0 and 1)."""
    return float(np.mean((np.asarray(scores) - np.asarray(targets)) ** 2))


def agreement(
    scores: Sequence[float], hard_labels: Sequence[bool], *, threshold: float = 0.5
) -> float:
    """The share of steps where `score >= threshold` equals the hard label."""
    return float(np.mean((np.asarray(scores) >= threshold) == np.asarray(hard_labels, dtype=bool)))
