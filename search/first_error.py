"""The first error that step scores predict, and the threshold that finds it best.

Predicted is the first step whose score is below the threshold, -1 where there is none.
ProcessBench (arXiv 2412.06559) counts a solution with an error as found where that index is
the true one, and one without an error where -1 is predicted; its F1 is the harmonic mean of
the two shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from search.resampling import Floats

_NEVER = (np.inf, -np.inf)
_BELOW_ALL = -1.0


@dataclass(frozen=True, slots=True)
class Case:
    """A solution's first error, -1 if none, and its scores, one a step in [0, 1]."""

    first_error: int
    step_scores: tuple[float, ...]


def predicted_first_error(step_scores: Sequence[float], threshold: float) -> int:
    """The index of the first score below `threshold`, -1 if none."""
    return next((i for i, score in enumerate(step_scores) if score < threshold), -1)


def harmonic_mean(one: Floats, other: Floats) -> Floats:
    """Of two shares, elementwise: 0 where both are, NaN where one is NaN."""
    total = one + other
    return np.where(total == 0, 0.0, 2 * one * other / np.where(total == 0, 1.0, total))


def best_threshold(cases: Sequence[Case]) -> tuple[float, float] | None:
    """The threshold in [0, 1] with the highest F1, and that F1.

    In the middle between two scores; of equally good ones the lowest. None where the cases
    lack solutions with an error, or without.

    Exact: a case is predicted right for the thresholds in one interval (`_right_within`), so
    only the cells between the intervals' ends differ.
    """
    is_erroneous = np.array([case.first_error >= 0 for case in cases], dtype=bool)
    if not is_erroneous.any() or is_erroneous.all():
        return None
    within = np.array([_right_within(case) for case in cases], dtype=np.float64)
    thresholds = _thresholds(within)
    erroneous = _share_right(within[is_erroneous], thresholds)
    correct = _share_right(within[~is_erroneous], thresholds)
    f1 = harmonic_mean(erroneous, correct)
    best = int(np.argmax(f1))
    return float(thresholds[best]), float(f1[best])


def _right_within(case: Case) -> tuple[float, float]:
    """The thresholds, above the first and up to the second, that predict it right."""
    if case.first_error < 0:
        return _BELOW_ALL, min(case.step_scores)
    low = case.step_scores[case.first_error]
    high = min(case.step_scores[: case.first_error], default=np.inf)
    return (low, high) if low < high else _NEVER


def _thresholds(within: Floats) -> Floats:
    """One in each cell between the ends of intervals, in order."""
    ends = np.unique(np.concatenate([[0.0, 1.0], within[(within >= 0) & (within <= 1)]]))
    middles = (ends[:-1] + ends[1:]) / 2
    middles = np.where(middles > ends[:-1], middles, ends[1:])  # neighbouring floats
    return np.concatenate([[0.0], middles])


def _share_right(within: Floats, thresholds: Floats) -> Floats:
    possible = within[within[:, 0] < within[:, 1]]
    begun = np.searchsorted(np.sort(possible[:, 0]), thresholds, side="left")
    ended = np.searchsorted(np.sort(possible[:, 1]), thresholds, side="left")
    return (begun - ended) / len(within)
