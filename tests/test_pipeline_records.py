"""Derived values of the records."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from grading.verdict import Verdict
from pipeline.records import LabeledSolution, Prefix, Problem, StepLabel, wilson_interval


@given(st.integers(0, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_is_scipys(counts: tuple[int, int]) -> None:
    num_correct, num_graded = counts
    low, high = wilson_interval(num_correct, num_graded)
    assert 0.0 <= low <= high <= 1.0
    if num_graded:
        expected = binomtest(num_correct, num_graded).proportion_ci(method="wilson")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    else:
        assert (low, high) == (0.0, 1.0)


def test_wilson_interval_by_hand() -> None:
    # z = 1.96, n = 10, p = 0: high = z² / (n + z²) = 3.8415 / 13.8415
    assert wilson_interval(0, 10) == (0.0, pytest.approx(0.27753, abs=1e-5))
    assert wilson_interval(10, 10) == (pytest.approx(0.72247, abs=1e-5), 1.0)
    assert wilson_interval(5, 10) == pytest.approx((0.23659, 0.76341), abs=1e-5)


def label(num_correct: int, num_incorrect: int, num_undecided: int = 0) -> StepLabel:
    total = num_correct + num_incorrect + num_undecided
    return StepLabel(total, 0, num_correct, num_incorrect, num_undecided, 0)


def solution(*labels: StepLabel) -> LabeledSolution:
    steps = tuple(str(index) for index in range(len(labels)))
    problem = Problem("p", "q", "1", "s", "train")
    return LabeledSolution(problem, "p/d/0", steps, labels, "1", Verdict.CORRECT)


def test_values_of_a_label() -> None:
    assert label(3, 1, 6).mc_value == 0.75
    assert math.isnan(label(0, 0, 4).mc_value)
    assert label(0, 0, 4).interval == (0.0, 1.0)
    assert not label(0, 0, 4).hard_label()
    assert label(1, 19).hard_label()
    assert not label(1, 19).hard_label(0.05)
    assert label(2, 18).hard_label(0.05)
    assert not label(0, 5).hard_label()


def test_first_error_is_the_first_false_hard_label_and_unknown_is_none() -> None:
    assert solution(label(1, 9), label(0, 10), label(0, 1)).first_error() == 1
    assert solution(label(1, 9), label(0, 0, 10), label(1, 0)).first_error() == -1
    assert solution(label(0, 3)).first_error() == 0
    assert solution(label(1, 9), label(9, 1)).first_error(0.1) == 0


def test_prefix_id_names_the_content() -> None:
    assert Prefix("p", ("a", "b")).prefix_id != Prefix("p", ("ab",)).prefix_id
    assert Prefix("p").prefix_id != Prefix("q").prefix_id
    assert Prefix("p", ("é\ud800",)).prefix_id == Prefix("p", ("é\ud800",)).prefix_id
    # stored datasets depend on it: changing it makes every journal unreadable
    assert Prefix("demo-train-000000", ("a", "\nb")).prefix_id == "8f0eaf9f2e59269e8c5e1e884eb3ecfb"
    assert Prefix("p", ("a", "\nb")).text == "a\nb"
