"""The unbiased estimate, exactly: its expectation over all outcomes is the true value."""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grading.verdict import Verdict
from labeling.allocate import Allocator
from labeling.policies.config import AllocationConfig, AllocationPolicy, BudgetConfig
from labeling.steps import StepMethod
from labeling.tree import PrefixTree
from labeling.unbiased import unbiased_mc_value
from pipeline.records import FinishReason, Prefix, Problem, Rollout, StepLabel

PROBLEM = Problem("p", "q", "1", "test", "train")
TRUE_VALUES = [
    Fraction(0),
    Fraction(1, 50),
    Fraction(1, 3),
    Fraction(1, 2),
    Fraction(9, 10),
    Fraction(1),
]

ADAPTIVE = AllocationConfig(min_rollouts=3, max_rollouts=9, increment=2, max_interval_width=0.62)
SUCCESS = AllocationConfig(policy=AllocationPolicy.FIRST_SUCCESS, num_rollouts=8, increment=3)
FIXED = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=6)


def rollout(steps: tuple[str, ...], index: int, text: str, is_right: bool) -> Rollout:
    return Rollout(
        "p", Prefix("p", steps).prefix_id, index, text, "1",
        Verdict.CORRECT if is_right else Verdict.INCORRECT, "r", FinishReason.STOP, 1, "c", "d",
        "g", index, "now",
    )  # fmt: skip


def outcomes(num_passes: int, config: AllocationConfig) -> Iterator[StepLabel]:
    """The label of the prefix `a` after every sequence of outcomes, as the policy draws them.

    The passes are the endings of as many solutions, after a first one that does not count.
    """
    counts_first = config.policy is AllocationPolicy.FIRST_SUCCESS and num_passes > 0
    waiting = list(product([False, True], repeat=num_passes))
    while waiting:
        drawn = waiting.pop()
        tree = PrefixTree(PROBLEM, method=StepMethod.NEWLINE)
        if not counts_first:
            tree.tell_solution(rollout((), 0, "a\nz", False))
        for index, is_right in enumerate(drawn[:num_passes], start=not counts_first):
            tree.tell_solution(rollout((), index, f"a\n{index}", is_right))
        for index, is_right in enumerate(drawn[num_passes:]):
            tree.tell(rollout(("a",), index, "\nelse", is_right))
        allocator = Allocator(tree, config, reuse_solutions=num_passes > 0)
        if asks := allocator.ask():
            (wanted,) = asks
            waiting += [drawn + more for more in product([False, True], repeat=wanted.num_samples)]
        else:
            yield next(iter(tree.nodes.values())).tally.label


def expectation(labels: list[StepLabel], values: list[float], p: Fraction) -> float:
    return sum(
        float(p**label.num_correct * (1 - p) ** label.num_incorrect) * value
        for label, value in zip(labels, values, strict=True)
    )


@pytest.mark.parametrize("config", [ADAPTIVE, SUCCESS, FIXED], ids=lambda config: config.policy)
@pytest.mark.parametrize("num_passes", [0, 1, 2, 5])
def test_the_expectation_is_the_true_value(config: AllocationConfig, num_passes: int) -> None:
    labels = list(outcomes(num_passes, config))
    estimates = [unbiased_mc_value(label, config) for label in labels]
    assert all(0 <= estimate <= 1 for estimate in estimates)
    assert {label.num_reused for label in labels} == {num_passes}
    for p in TRUE_VALUES:
        assert expectation(labels, [1.0] * len(labels), p) == pytest.approx(1, abs=1e-12)
        assert expectation(labels, estimates, p) == pytest.approx(float(p), abs=1e-12)


@pytest.mark.parametrize("config", [ADAPTIVE, SUCCESS], ids=lambda config: config.policy)
def test_the_shares_themselves_are_biased(config: AllocationConfig) -> None:
    """What the estimate takes out; were it nothing, the test above would show little."""
    labels = list(outcomes(0, config))
    assert len({label.num_graded for label in labels}) > 1
    shares = [label.mc_value for label in labels]
    assert abs(expectation(labels, shares, Fraction(1, 3)) - 1 / 3) > 0.002


@settings(max_examples=40, deadline=None)
@given(
    minimum=st.integers(1, 4),
    more=st.integers(0, 5),
    increment=st.integers(1, 4),
    width=st.floats(0.3, 0.95),
    num_passes=st.integers(0, 4),
    p=st.fractions(0, 1, max_denominator=50),
)
def test_any_plan_of_adaptive(
    minimum: int, more: int, increment: int, width: float, num_passes: int, p: Fraction
) -> None:
    config = AllocationConfig(
        min_rollouts=minimum,
        max_rollouts=minimum + more,
        increment=increment,
        max_interval_width=width,
    )
    labels = list(outcomes(num_passes, config))
    estimates = [unbiased_mc_value(label, config) for label in labels]
    assert expectation(labels, estimates, p) == pytest.approx(float(p), abs=1e-12)


def label(correct: int, incorrect: int, *, reused: int = 0, undecided: int = 0) -> StepLabel:
    total = correct + incorrect + undecided
    return StepLabel(total, reused, correct, incorrect, undecided, 0)


def test_known_values() -> None:
    default = AllocationConfig()
    assert unbiased_mc_value(label(10, 0), default) == 1
    assert unbiased_mc_value(label(0, 10), default) == 0
    # one of fifteen: it stops at ten with none or with ten, so the one was among the first ten
    # of fifteen draws; in one of those ten orders it was the first
    assert unbiased_mc_value(label(1, 14), default) == pytest.approx(1 / 10)
    success = AllocationConfig(policy=AllocationPolicy.FIRST_SUCCESS, increment=1)
    assert unbiased_mc_value(label(1, 0), success) == 1  # a first success says 1, all others 0
    assert unbiased_mc_value(label(1, 7), success) == 0


def test_fixed_is_the_share() -> None:
    assert unbiased_mc_value(label(4, 12), AllocationConfig(policy="fixed")) == 0.25  # type: ignore[arg-type]
    assert unbiased_mc_value(label(4, 12, reused=9), FIXED) == 0.25


def test_nothing_graded_has_no_estimate() -> None:
    assert math.isnan(unbiased_mc_value(label(0, 0), ADAPTIVE))
    assert math.isnan(unbiased_mc_value(label(0, 0, undecided=5, reused=2), ADAPTIVE))


def test_undecided_rollouts_are_left_out() -> None:
    assert 0 < unbiased_mc_value(label(3, 12, undecided=2, reused=3), AllocationConfig()) < 1


def test_counts_beyond_the_plan_fall_back_to_the_share() -> None:
    """Ten that agree end the plan: eleven of them come from elsewhere."""
    assert unbiased_mc_value(label(11, 0), AllocationConfig()) == 1
    assert unbiased_mc_value(label(12, 8, reused=0), FIXED) == pytest.approx(0.6)


@pytest.mark.parametrize("policy", ["first-error", "uncertain-first"])
def test_policies_that_look_elsewhere_have_none(policy: str) -> None:
    config = AllocationConfig(policy=policy, budget=BudgetConfig(tokens=1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"policy = '{policy}' looks at other prefixes"):
        unbiased_mc_value(label(1, 1), config)
