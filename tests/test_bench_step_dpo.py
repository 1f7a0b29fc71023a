"""The figures of `bench.step_dpo`, on answers whose shares are known."""

import numpy as np
import pytest

from bench.step_dpo import interval, shares_right
from grading.verdict import Verdict
from search.best_of_n import Candidate, ProblemCandidates


def problem(*verdicts: Verdict) -> ProblemCandidates:
    found = tuple(Candidate(("\n#### 1",), "1", verdict) for verdict in verdicts)
    return ProblemCandidates("p", "?", found)


def test_undecided_solutions_are_not_right() -> None:
    right, wrong, open_ = Verdict.CORRECT, Verdict.INCORRECT, Verdict.UNDECIDED
    shares = shares_right([problem(right, wrong, open_, right), problem(wrong, wrong)])
    assert shares.tolist() == [0.5, 0.0]


def test_the_interval_is_that_of_the_mean_over_problems() -> None:
    assert interval(np.full(50, 0.25)) == (0.25, 0.25)
    values = np.repeat([0.0, 1.0], 200)
    low, high = interval(values)
    # the normal one: 0.5 +- 1.96 * 0.5 / sqrt(400)
    assert (low, high) == pytest.approx((0.451, 0.549), abs=0.004)
