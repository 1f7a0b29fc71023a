"""What a run may spend: exact in rollouts, bounded by what is under way in tokens and time."""

import asyncio

from labeling.budget import Budget
from labeling.policies.config import BudgetConfig


def test_a_budget_of_rollouts_is_exact() -> None:
    budget = Budget(BudgetConfig(rollouts=12))
    assert [budget.reserve(5) for _ in range(4)] == [5, 5, 2, 0]
    assert budget.is_spent


def test_a_budget_of_tokens_ends_after_the_draw_that_meets_it() -> None:
    budget = Budget(BudgetConfig(tokens=100))
    budget.spend(99)
    assert budget.reserve(7) == 7
    budget.spend(50)
    assert budget.is_spent
    assert budget.reserve(1) == 0


def test_a_budget_of_minutes_ends_by_the_clock() -> None:
    budget = Budget(BudgetConfig(minutes=0.001))
    asyncio.run(asyncio.sleep(0.07))
    assert not budget.is_spent  # an engine that is slow to start uses nothing up
    budget.begin()
    assert budget.reserve(3) == 3
    asyncio.run(asyncio.sleep(0.07))
    assert budget.is_spent
    budget.begin()
    assert budget.is_spent
    assert Budget(BudgetConfig(minutes=1), seconds_before=61).is_spent


def test_without_a_limit_a_budget_is_never_spent() -> None:
    budget = Budget(BudgetConfig())
    assert budget.reserve(10**9) == 10**9
    budget.spend(10**12)
    assert not budget.is_spent
