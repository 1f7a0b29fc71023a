"""More for the widest intervals once a policy has come to its end."""

import asyncio
from collections.abc import Sequence

import pytest

from labeling.budget import Budget
from labeling.engine import Identity, LabelingTools, top_up
from labeling.estimate import label_problem
from labeling.policies.config import AllocationConfig, AllocationPolicy, BudgetConfig
from labeling.prompts import PromptConfig, TextPromptEncoder
from labeling.work import wide_prefixes
from pipeline.config import SamplingConfig
from pipeline.records import LabeledSolution, Problem, StepLabel
from tests.scripted_run import STEPS, Run, demo, grade, scripted

MAX_ROLLOUTS = 40
POLICIES = {
    "adaptive": AllocationConfig(),
    "fixed": AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=10),
    "textbook": AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=10, reuse=False),
}
BY_POLICY = pytest.mark.parametrize("name", POLICIES)


def topped_up(
    run: Run, problems: Sequence[Problem], allocation: AllocationConfig, budget: Budget
) -> int:
    """Top up what the run has stored; returns how many rollouts were drawn."""
    made, _ = demo(len(problems))
    num_before = len(run.rollouts)
    tools = LabelingTools(
        sampler=scripted(made),
        encoder=TextPromptEncoder(PromptConfig()),
        grade=grade,
        write=run.rollouts.extend,
        now=lambda: "now",
        on_done=lambda _: None,
    )
    asyncio.run(
        top_up(
            run.work(problems),
            tools=tools,
            identity=Identity("scripted", "digest", "grader"),
            sampling=SamplingConfig(),
            steps=STEPS,
            allocation=allocation,
            max_rollouts=MAX_ROLLOUTS,
            budget=budget,
        )
    )
    return len(run.rollouts) - num_before


def labels(
    run: Run, problems: Sequence[Problem], allocation: AllocationConfig
) -> list[LabeledSolution]:
    return [
        solution
        for work in run.work(problems)
        for solution in label_problem(
            work.problem, work.rollouts, steps=STEPS, allocation=allocation, counts_all=True
        ).solutions
    ]


def inner(solutions: Sequence[LabeledSolution]) -> list[StepLabel]:
    return [label for solution in solutions for label in solution.labels[:-1]]


def is_done(label: StepLabel) -> bool:
    low, high = label.interval
    return high - low <= 0.3 or label.num_rollouts >= MAX_ROLLOUTS


@BY_POLICY
def test_a_top_up_ends_where_each_interval_is_narrow_or_full(name: str) -> None:
    _, problems = demo(4)
    run, allocation = Run(), POLICIES[name]
    before = run(problems, scripted(demo(4)[0]), allocation=allocation)
    assert not all(map(is_done, inner(before)))
    assert topped_up(run, problems, allocation, Budget(BudgetConfig())) > 0
    after = labels(run, problems, allocation)
    assert all(map(is_done, inner(after)))
    assert run.labels(problems, allocation) == before  # without it they count no more
    assert len(set(run.keys())) == len(run.rollouts)
    for old, new in zip(inner(before), inner(after), strict=True):
        assert new.num_rollouts >= old.num_rollouts
        if is_done(old) and not allocation.reuse:
            assert new == old
        # only a parent's passes go beyond the maximum
        assert new.num_rollouts - new.num_reused <= max(MAX_ROLLOUTS, old.num_rollouts)
    assert topped_up(run, problems, allocation, Budget(BudgetConfig())) == 0
    assert not any(
        wide_prefixes(work, steps=STEPS, allocation=allocation, max_rollouts=MAX_ROLLOUTS)
        for work in run.work(problems)
    )


@BY_POLICY
def test_little_by_little_comes_to_an_end_too(name: str) -> None:
    _, problems = demo(3)
    run, allocation = Run(), POLICIES[name]
    run(problems, scripted(demo(3)[0]), allocation=allocation)
    drawn = [topped_up(run, problems, allocation, Budget(BudgetConfig(rollouts=30)))]
    while drawn[-1]:
        drawn.append(topped_up(run, problems, allocation, Budget(BudgetConfig(rollouts=30))))
    assert set(drawn[:-2]) == {30}
    assert all(map(is_done, inner(labels(run, problems, allocation))))
    assert len(set(run.keys())) == len(run.rollouts)


def test_the_widest_come_first() -> None:
    _, problems = demo(4)
    run, allocation = Run(), AllocationConfig(reuse=False)
    before = inner(run(problems, scripted(demo(4)[0]), allocation=allocation))
    topped_up(run, problems, allocation, Budget(BudgetConfig(rollouts=50)))
    after = inner(labels(run, problems, allocation))
    widths = [label.interval[1] - label.interval[0] for label in before]
    drawn = [new != old for old, new in zip(before, after, strict=True)]
    chosen = [width for width, is_drawn in zip(widths, drawn, strict=True) if is_drawn]
    others = [width for width, is_drawn in zip(widths, drawn, strict=True) if not is_drawn]
    assert min(chosen) >= max(others)


def test_a_part_of_a_budget_is_within_it() -> None:
    whole = Budget(BudgetConfig(tokens=100, rollouts=10))
    assert whole.reserve(4) == 4
    whole.spend(70)
    part = whole.part(tokens=50, minutes=None)
    assert (part.limits.tokens, part.limits.rollouts, part.limits.minutes) == (30, 6, None)
    assert whole.part(tokens=20, minutes=1.0).limits.tokens == 20
    assert Budget(BudgetConfig(minutes=1), seconds_before=60).part(tokens=None, minutes=5).is_spent
    assert not Budget(BudgetConfig()).part(tokens=None, minutes=None).is_spent
