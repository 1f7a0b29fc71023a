"""Every policy through the loop: timing, interruptions, changes of policy, budgets."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import pytest

from labeling.budget import Budget
from labeling.engine import Identity, LabelingTools, roll_out
from labeling.estimate import label_problem
from labeling.policies.config import AllocationConfig, AllocationPolicy, BudgetConfig
from labeling.prompts import PromptConfig, TextPromptEncoder
from labeling.work import Work, is_missing
from pipeline.config import SamplingConfig
from pipeline.demo.problems import DemoProblem
from pipeline.errors import EngineError
from pipeline.records import LabeledSolution, Prefix, Problem, Rollout
from pipeline.samplers.sampler import Completion, SamplingRequest
from tests.scripted_run import STEPS, Run, demo, grade, scripted

WITHOUT_END = BudgetConfig(rollouts=1_000_000)
POLICIES = {
    "adaptive": AllocationConfig(),
    "adaptive-one-by-one": AllocationConfig(increment=1, min_rollouts=4),
    "textbook": AllocationConfig(policy=AllocationPolicy.FIXED, reuse=False),
    "fixed": AllocationConfig(policy=AllocationPolicy.FIXED),
    "first-success": AllocationConfig(policy=AllocationPolicy.FIRST_SUCCESS),
    "first-error": AllocationConfig(policy=AllocationPolicy.FIRST_ERROR),
    "uncertain-first": AllocationConfig(
        policy=AllocationPolicy.UNCERTAIN_FIRST,
        budget=WITHOUT_END,
        min_rollouts=4,
        increment=2,
        max_interval_width=0.35,
    ),
}
"""All that a label depends on is stored rollouts; `uncertain-first` also stops by them."""
WITH_AN_END = {name: one for name, one in POLICIES.items() if name != "uncertain-first"}
BY_NAME = pytest.mark.parametrize("name", POLICIES)
BY_NAME_WITH_AN_END = pytest.mark.parametrize("name", WITH_AN_END)

Whole = dict[str, tuple[Run, list[LabeledSolution]]]


@pytest.fixture(scope="module")
def problems() -> tuple[list[DemoProblem], list[Problem]]:
    return demo(5)


@pytest.fixture(scope="module")
def whole(problems: tuple[list[DemoProblem], list[Problem]]) -> Whole:
    """An uninterrupted run of each policy."""
    made, asked = problems
    runs = {name: Run() for name in POLICIES}
    return {
        name: (run, run(asked, scripted(made), allocation=POLICIES[name]))
        for name, run in runs.items()
    }


@dataclass
class Unsteady:
    """Answers in any order; raises EngineError at the request numbered `fail_at`, if given."""

    made: Sequence[DemoProblem]
    seed: int
    fail_at: int | None = None

    def __post_init__(self) -> None:
        self.inner, self.rng, self.numbers = scripted(self.made), random.Random(self.seed), count()

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        number = next(self.numbers)
        await asyncio.sleep(self.rng.random() / 500)
        if self.fail_at is not None and number >= self.fail_at:
            raise EngineError("the unsteady engine fails")
        return await self.inner.sample(request)


def as_set(rollouts: Sequence[Rollout]) -> list[str]:
    return sorted(map(str, rollouts))


@BY_NAME
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_timing_changes_nothing(problems, whole: Whole, name: str, seed: int) -> None:
    made, asked = problems
    expected, labels = whole[name]
    run = Run()
    assert run(asked, Unsteady(made, seed), allocation=POLICIES[name]) == labels
    assert as_set(run.rollouts) == as_set(expected.rollouts)


@BY_NAME_WITH_AN_END
@pytest.mark.parametrize("every", [2, 11, 37])
def test_a_run_interrupted_again_and_again_ends_as_an_uninterrupted_one(
    problems, whole: Whole, name: str, every: int
) -> None:
    made, asked = problems
    expected, labels = whole[name]
    run = Run()
    for attempt in count():
        assert attempt < 2000
        try:
            found = run(asked, Unsteady(made, attempt, every), allocation=POLICIES[name])
            break
        except EngineError:
            assert len(set(run.keys())) == len(run.rollouts)
            run.labels(asked, POLICIES[name])  # can be made at any time
    assert found == labels
    assert as_set(run.rollouts) == as_set(expected.rollouts)


@BY_NAME_WITH_AN_END
def test_whatever_rows_are_lost_are_drawn_again(problems, whole: Whole, name: str) -> None:
    made, asked = problems
    expected, labels = whole[name]
    for seed in range(8):
        rng = random.Random(seed)
        share = rng.choice([0.02, 0.3, 0.8])
        run = Run([one for one in expected.rollouts if rng.random() > share])
        rng.shuffle(run.rollouts)
        assert run(asked, Unsteady(made, seed), allocation=POLICIES[name]) == labels
        assert as_set(run.rollouts) == as_set(expected.rollouts)


@BY_NAME_WITH_AN_END
def test_a_finished_run_has_nothing_missing(problems, whole: Whole, name: str) -> None:
    _, asked = problems
    run, _ = whole[name]
    config = POLICIES[name]
    assert not any(is_missing(work, steps=STEPS, allocation=config) for work in run.work(asked))
    for work in run.work(asked):
        assert is_missing(replace(work, rollouts=work.rollouts[1:]), steps=STEPS, allocation=config)


def test_a_changed_policy_labels_as_a_fresh_folder_would(problems, whole: Whole) -> None:
    made, asked = problems
    for seed in range(6):
        order = list(POLICIES)
        random.Random(seed).shuffle(order)
        run = Run()
        for name in order:
            labels = run(asked, Unsteady(made, seed), allocation=POLICIES[name])
            assert len(set(run.keys())) == len(run.rollouts)
            if name in WITH_AN_END:
                assert labels == whole[name][1], f"{name} in {order}"


def test_what_each_policy_saves(whole: Whole) -> None:
    drawn = {name: len(run.rollouts) for name, (run, _) in whole.items()}
    assert drawn["adaptive"] < drawn["fixed"] < drawn["textbook"]
    assert drawn["first-success"] < drawn["fixed"]
    assert drawn["first-error"] < 0.6 * drawn["textbook"]


def test_no_interval_is_too_wide_after_uncertain_first(problems, whole: Whole) -> None:
    made, asked = problems
    _, labels = whole["uncertain-first"]
    run, config = Run(), POLICIES["uncertain-first"]
    with pytest.raises(EngineError):
        run(asked, Unsteady(made, 0, 40), allocation=config)
    for found in (labels, run(asked, Unsteady(made, 1), allocation=config)):
        for label in (one for solution in found for one in solution.labels[:-1]):
            low, high = label.interval
            assert high - low <= config.max_interval_width
            assert label.num_rollouts >= config.min_rollouts


def test_uncertain_first_goes_on_from_what_is_stored(problems, whole: Whole) -> None:
    """Its passes too: a run on a finished folder finds nothing wide and draws nothing."""
    made, asked = problems
    run, labels = whole["uncertain-first"]
    sampler = scripted(made)
    again = Run(list(run.rollouts))
    assert again(asked, sampler, allocation=POLICIES["uncertain-first"]) == labels
    assert sampler.num_requests == 0


# -- budgets ---------------------------------------------------------------------------------


@BY_NAME
@pytest.mark.parametrize("limit", [1, 10, 23, 100, 333])
def test_a_budget_of_rollouts_is_met_exactly(problems, whole: Whole, name: str, limit: int) -> None:
    made, asked = problems
    run = Run()
    config = POLICIES[name].model_copy(update={"budget": BudgetConfig(rollouts=limit)})
    labels = run(asked, Unsteady(made, limit), allocation=config)
    assert len(run.rollouts) == min(limit, len(whole[name][0].rollouts))
    assert len(set(run.keys())) == len(run.rollouts)
    assert labels == run.labels(asked, POLICIES[name])
    assert len(run.done) <= len(asked)


@BY_NAME_WITH_AN_END
def test_runs_within_budgets_come_to_the_same_end(problems, whole: Whole, name: str) -> None:
    made, asked = problems
    expected, labels = whole[name]
    run = Run()
    config = POLICIES[name].model_copy(update={"budget": BudgetConfig(rollouts=97)})
    num_runs = -(-len(expected.rollouts) // 97)
    for number in range(num_runs):
        found = run(asked, Unsteady(made, number), allocation=config)
    assert found == labels
    assert as_set(run.rollouts) == as_set(expected.rollouts)


@BY_NAME
def test_a_budget_of_tokens_ends_cleanly(problems, whole: Whole, name: str) -> None:
    made, asked = problems
    total = sum(one.num_tokens for one in whole[name][0].rollouts)
    run, limit = Run(), total // 3
    budget = Budget(BudgetConfig(tokens=limit))
    run(asked, scripted(made), allocation=POLICIES[name], budget=budget)
    drawn = sum(one.num_tokens for one in run.rollouts)
    assert drawn == budget.num_tokens
    assert limit <= drawn <= total  # requests under way are finished
    assert drawn < total
    assert len(run.done) < len(asked) or name == "uncertain-first"  # done with its first draws


def test_a_budget_of_minutes_ends_cleanly(problems) -> None:
    made, asked = problems
    run = Run()
    budget = Budget(BudgetConfig(minutes=0.005))
    run(asked, scripted(made, latency_seconds=0.1), allocation=POLICIES["adaptive"], budget=budget)
    assert budget.is_spent
    assert not run.done
    assert len(run.rollouts) >= 20
    assert len(run.labels(asked, POLICIES["adaptive"])) == 20


# -- two models ------------------------------------------------------------------------------


@BY_NAME_WITH_AN_END
def test_another_generators_solutions_are_labelled_by_the_completer_alone(
    problems, whole: Whole, name: str
) -> None:
    made, asked = problems
    roots = {Prefix(problem.problem_id).prefix_id for problem in asked}
    solutions = [one for one in whole["textbook"][0].rollouts if one.prefix_id in roots]
    first, second = (
        label_others(asked, solutions, Unsteady(made, seed), POLICIES[name]) for seed in (1, 2)
    )
    assert first == second
    labels, rows = first
    assert len(labels) == len(solutions)
    assert not any(root in row for root in roots for row in rows)
    for solution in labels:
        if len(solution.steps) > 1:  # nothing is drawn above the first step's prefix
            assert solution.labels[0].num_reused == 0


def label_others(
    problems: Sequence[Problem],
    solutions: Sequence[Rollout],
    sampler: Unsteady,
    allocation: AllocationConfig,
) -> tuple[list[LabeledSolution], list[str]]:
    """The labels that a completer gives to another generator's solutions, and what it drew."""
    written: list[Rollout] = []
    work = [
        Work(problem, (), [one for one in solutions if one.problem_id == problem.problem_id])
        for problem in problems
    ]
    encoder = TextPromptEncoder(PromptConfig())
    tools = LabelingTools(
        sampler, encoder, grade, written.extend, lambda: "now", lambda _: None
    )  # fmt: skip
    asyncio.run(
        roll_out(
            work,
            tools=tools,
            identity=Identity("completer", "other-digest", "grader"),
            sampling=SamplingConfig(),
            steps=STEPS,
            allocation=allocation,
        )
    )
    labels = [
        solution
        for one in work
        for solution in label_problem(
            one.problem,
            [row for row in written if row.problem_id == one.problem.problem_id],
            steps=STEPS,
            allocation=allocation,
            solutions=one.solutions,
        ).solutions
    ]
    return labels, as_set(written)
