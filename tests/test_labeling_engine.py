"""The loop with the scripted sampler: prefixes paid once, true values met, resumes exact."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from grading.verdict import Grade, Verdict
from labeling.engine import Identity, LabelingTools, roll_out
from labeling.estimate import label_problem
from labeling.policies.config import AllocationConfig, AllocationPolicy
from labeling.prompts import PromptConfig, TextPromptEncoder
from labeling.steps import StepMethod
from labeling.tree import build_tree
from labeling.work import Work, is_missing
from pipeline.config import SamplingConfig
from pipeline.demo.problems import DemoProblem
from pipeline.demo.student import reference_lines
from pipeline.demo.truth import step_truths
from pipeline.errors import EngineError
from pipeline.records import FinishReason, LabeledSolution, Prefix, Problem, Rollout
from pipeline.samplers.sampler import Completion, SamplingRequest
from tests.scripted_run import STEPS, Run, demo, scripted

ALLOCATION = AllocationConfig()


@pytest.fixture(scope="module")
def uninterrupted() -> tuple[list[DemoProblem], list[Problem], Run, list[LabeledSolution]]:
    made, problems = demo(12)
    run = Run()
    labels = run(problems, scripted(made), allocation=ALLOCATION)
    return made, problems, run, labels


def test_every_proper_prefix_has_ten_rollouts_or_more_and_no_duplicate(uninterrupted) -> None:
    _, problems, run, labels = uninterrupted
    assert len(labels) == 4 * len(problems)
    assert sorted(run.done) == sorted(problem.problem_id for problem in problems)
    for solution in labels:
        for label in solution.labels[:-1]:
            assert label.num_rollouts >= 10
            low, high = label.interval
            assert label.num_rollouts >= 20 or high - low <= ALLOCATION.max_interval_width
        assert solution.labels[-1].num_rollouts == 1
    assert len(set(run.keys())) == len(run.keys())
    for problem in problems:
        own = [rollout for rollout in run.rollouts if rollout.problem_id == problem.problem_id]
        assert not is_missing(Work(problem, own), steps=STEPS, allocation=ALLOCATION)
        assert is_missing(Work(problem, own[:-1]), steps=STEPS, allocation=ALLOCATION)


def test_a_shared_prefix_is_paid_once(uninterrupted) -> None:
    made, problems, run, labels = uninterrupted
    num_prefixes, num_nodes, expected = 0, 0, 0
    for problem in problems:
        own = [rollout for rollout in run.rollouts if rollout.problem_id == problem.problem_id]
        tree = build_tree(problem, own, method=StepMethod.NEWLINE)
        num_nodes += len(tree.nodes)
        expected += 4 + sum(len(node.fresh) for node in tree.nodes.values())
    for solution in labels:
        num_prefixes += len(solution.steps) - 1
    assert num_nodes < 0.7 * num_prefixes
    sampler = scripted(made)
    Run()(problems, sampler, allocation=ALLOCATION)
    assert sampler.num_samples == expected == len(run.rollouts)


def test_mc_values_are_near_the_true_values() -> None:
    made, problems = demo(6)
    allocation = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=300)
    labels = Run()(problems, scripted(made, step_accuracy=0.8), allocation=allocation)
    num_checked = 0
    by_id = {one.problem_id: one for one in made}
    for solution in labels:
        problem = by_id[solution.problem.problem_id]
        num_lines = len(reference_lines(problem))
        truths = step_truths(problem, solution.steps)
        for position, label in enumerate(solution.labels[:-1], start=1):
            true_value = 0.8 ** (num_lines - position) if truths[position - 1] else 0.0
            error = 4 * (true_value * (1 - true_value) / 300) ** 0.5
            assert abs(label.mc_value - true_value) <= error
            num_checked += 0 < true_value < 1
    assert num_checked > 30


def test_the_same_run_twice_gives_the_same_labels_whatever_the_timing(uninterrupted) -> None:
    made, problems, run, labels = uninterrupted

    class Shuffling:
        def __init__(self) -> None:
            self.inner, self.rng = scripted(made), random.Random(3)

        async def sample(self, request: SamplingRequest) -> list[Completion]:
            await asyncio.sleep(self.rng.random() / 500)
            return await self.inner.sample(request)

    other = Run()
    assert other(problems, Shuffling(), allocation=ALLOCATION) == labels
    assert sorted(other.rollouts, key=str) == sorted(run.rollouts, key=str)


@pytest.mark.parametrize("max_samples", [50, 200])
def test_the_engine_is_kept_full_and_no_fuller(max_samples: int) -> None:
    made, problems = demo(2 * max_samples)
    seen: list[int] = []

    class OneAtATime:
        """Finishes its oldest request when nothing else can happen any more."""

        def __init__(self) -> None:
            self.inner = scripted(made)
            self.under_way: list[tuple[int, asyncio.Event]] = []
            self.stepper: asyncio.Task[None] | None = None

        async def sample(self, request: SamplingRequest) -> list[Completion]:
            finished = asyncio.Event()
            self.under_way.append((request.num_samples, finished))
            self.stepper = self.stepper or asyncio.create_task(self.step())
            await finished.wait()
            return await self.inner.sample(request)

        async def step(self) -> None:
            while self.under_way:
                for _ in range(20):
                    await asyncio.sleep(0)
                seen.append(sum(num_samples for num_samples, _ in self.under_way))
                self.under_way.pop(0)[1].set()
                for _ in range(20):
                    await asyncio.sleep(0)

    Run()(problems, OneAtATime(), allocation=ALLOCATION, max_samples=max_samples)
    assert max(seen) <= max_samples
    tenth = len(seen) // 10
    steady = seen[tenth:-tenth]  # without the first and the last problems
    assert sum(steady) / len(steady) > 0.85 * max_samples


@pytest.mark.parametrize("fail_after", [0, 1, 7, 40, 80])
def test_a_run_that_failed_midway_continues_to_the_same_labels(
    uninterrupted, fail_after: int
) -> None:
    made, problems, whole, labels = uninterrupted
    run = Run()
    with pytest.raises(EngineError, match=f"fails after {fail_after} requests"):
        run(problems, scripted(made, fail_after=fail_after), allocation=ALLOCATION)
    num_kept = len(run.rollouts)
    sampler = scripted(made)
    assert run(problems, sampler, allocation=ALLOCATION) == labels
    assert sampler.num_samples == len(run.rollouts) - num_kept
    assert sorted(run.rollouts, key=str) == sorted(whole.rollouts, key=str)


def test_a_finished_run_draws_nothing(uninterrupted) -> None:
    made, problems, whole, labels = uninterrupted
    sampler = scripted(made)
    assert Run(list(whole.rollouts))(problems, sampler, allocation=ALLOCATION) == labels
    assert sampler.num_requests == 0


def test_raising_k_only_tops_up(uninterrupted) -> None:
    made, problems, whole, _ = uninterrupted
    run, sampler = Run(list(whole.rollouts)), scripted(made)
    fixed = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=25)
    for solution in run(problems, sampler, allocation=fixed):
        assert {label.num_rollouts for label in solution.labels[:-1]} <= {25}
    assert sampler.num_samples == len(run.rollouts) - len(whole.rollouts)
    fresh = Run()
    assert fresh(problems, scripted(made), allocation=fixed) == run.labels(problems, fixed)


def test_lost_rows_are_drawn_again(uninterrupted) -> None:
    made, problems, whole, _ = uninterrupted
    root_ids = {Prefix(problem.problem_id).prefix_id for problem in problems}
    kept = [
        one for one in whole.rollouts if one.prefix_id not in root_ids or one.rollout_index != 1
    ]
    run = Run(kept)
    labels = run(problems, scripted(made), allocation=ALLOCATION)
    assert labels == run.labels(problems, ALLOCATION)
    assert [one.solution_id for one in labels] == [
        f"{problem.problem_id}/digest/{index}" for problem in problems for index in range(4)
    ]
    assert sorted(run.rollouts, key=str) == sorted(whole.rollouts, key=str)


def test_texts_without_utf_8_form_are_stored_as_they_are_named() -> None:
    class Odd:
        async def sample(self, request: SamplingRequest) -> list[Completion]:
            return [Completion(" a\ud800\nb\n#### 1", FinishReason.STOP, 3)] * request.num_samples

    _, problems = demo(1)
    run = Run()
    run(problems, Odd(), allocation=ALLOCATION)
    assert all("\ud800" not in rollout.text for rollout in run.rollouts)
    own = [replace(one, text=one.text.encode().decode()) for one in run.rollouts]
    assert not is_missing(Work(problems[0], own), steps=STEPS, allocation=ALLOCATION)


def test_cut_off_rollouts_are_told_to_the_grader() -> None:
    asked: list[bool] = []

    class Cut:
        async def sample(self, request: SamplingRequest) -> list[Completion]:
            return [Completion(" a", FinishReason.LENGTH, 1)] * request.num_samples

    async def noting(gold: str, texts: Sequence[tuple[str, bool]]) -> list[Grade]:
        asked.extend(is_cut_off for _, is_cut_off in texts)
        return [Grade(Verdict.INCORRECT, "no-answer", "")] * len(texts)

    _, problems = demo(1)
    written: list[Rollout] = []
    tools = LabelingTools(
        Cut(), TextPromptEncoder(PromptConfig()), noting, written.extend, lambda: "", lambda _: None
    )
    asyncio.run(
        roll_out(
            [Work(problem) for problem in problems],
            tools=tools,
            identity=Identity("c", "d", "g"),
            sampling=SamplingConfig(),
            steps=STEPS,
            allocation=ALLOCATION,
        )
    )
    assert asked == [True] * 4
    (first, *_) = label_problem(problems[0], written, steps=STEPS, allocation=ALLOCATION).solutions
    assert (first.labels[0].num_truncated, first.labels[0].num_incorrect) == (1, 1)


def test_what_was_drawn_is_graded_and_kept_when_the_engine_fails() -> None:
    made, problems = demo(6)
    written: list[Rollout] = []
    num_drawn, is_failing = 0, asyncio.Event()

    class Failing:
        def __init__(self) -> None:
            self.inner = scripted(made)

        async def sample(self, request: SamplingRequest) -> list[Completion]:
            nonlocal num_drawn
            if request.affinity == problems[5].problem_id:
                await asyncio.sleep(0.05)
                is_failing.set()
                raise EngineError("gone")
            num_drawn += request.num_samples
            return await self.inner.sample(request)

    async def slow_grade(gold: str, texts: Sequence[tuple[str, bool]]) -> list[Grade]:
        await is_failing.wait()
        await asyncio.sleep(0.05)
        return [Grade(Verdict.INCORRECT, "text", "") for _ in texts]

    tools = LabelingTools(
        sampler=Failing(),
        encoder=TextPromptEncoder(PromptConfig()),
        grade=slow_grade,
        write=written.extend,
        now=lambda: "now",
        on_done=lambda _: None,
    )
    with pytest.raises(EngineError, match="gone"):
        asyncio.run(
            roll_out(
                [Work(problem) for problem in problems],
                tools=tools,
                identity=Identity("scripted", "digest", "grader"),
                sampling=SamplingConfig(),
                steps=STEPS,
                allocation=ALLOCATION,
            )
        )
    assert len(written) == num_drawn == 5 * 4
