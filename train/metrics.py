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


def best_threshold(scores: Sequence[float], hard_labels: Sequence[bool]) -> float | None:
    """The threshold with the highest mean of the shares of good steps at or above it and of
    bad steps below it (Youden 1950), in the middle between two scores; of equals the lowest.

    None where all steps are of one kind.
    """
    labels = np.asarray(hard_labels, dtype=bool)
    order = np.argsort(np.asarray(scores, dtype=float), kind="stable")
    ordered, labels = np.asarray(scores, dtype=float)[order], labels[order]
    num_good, num_bad = int(labels.sum()), int((~labels).sum())
    if not num_good or not num_bad:
        return None
    # cut i: the first i steps are called bad
    bad_below = np.concatenate([[0], np.cumsum(~labels)]) / num_bad
    good_above = 1 - np.concatenate([[0], np.cumsum(labels)]) / num_good
    middles = np.concatenate([[0.0], (ordered[1:] + ordered[:-1]) / 2, [1.0]])
    is_cut = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])
    value = np.where(is_cut, bad_below + good_above, -1.0)
    return float(middles[int(np.argmax(value))])
