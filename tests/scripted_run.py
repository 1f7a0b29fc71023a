"""Runs of the labelling loop with the scripted sampler, their rollouts kept in memory."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from grading.verdict import Grade, Verdict
from labeling.budget import Budget
from labeling.engine import MAX_SAMPLES_IN_FLIGHT, Identity, LabelingTools, roll_out
from labeling.estimate import label_problem
from labeling.policies.config import AllocationConfig
from labeling.prompts import PromptConfig, TextPromptEncoder
from labeling.steps import StepConfig, StepMethod
from labeling.work import Work
from pipeline.config import SamplingConfig
from pipeline.demo.problems import DemoProblem, demo_problem
from pipeline.records import LabeledSolution, Problem, Rollout
from pipeline.samplers.sampler import Sampler
from pipeline.samplers.scripted import ScriptedSampler

STEPS = StepConfig(method=StepMethod.NEWLINE)


def demo(count: int) -> tuple[list[DemoProblem], list[Problem]]:
    made = [demo_problem("train", index) for index in range(count)]
    return made, [
        Problem(one.problem_id, one.question, one.gold_answer, "demo", "train") for one in made
    ]


async def grade(gold: str, texts: Sequence[tuple[str, bool]]) -> list[Grade]:
    await asyncio.sleep(0)
    answers = [text.rpartition("#### ")[2] if "####" in text else "" for text, _ in texts]
    verdicts = [Verdict.CORRECT if answer == gold else Verdict.INCORRECT for answer in answers]
    return [
        Grade(verdict, "text", answer) for verdict, answer in zip(verdicts, answers, strict=True)
    ]


@dataclass
class Run:
    """A run of the loop that keeps what it wrote."""

    rollouts: list[Rollout] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def __call__(
        self,
        problems: Sequence[Problem],
        sampler: Sampler,
        *,
        allocation: AllocationConfig,
        budget: Budget | None = None,
        max_samples: int = MAX_SAMPLES_IN_FLIGHT,
    ) -> list[LabeledSolution]:
        tools = LabelingTools(
            sampler=sampler,
            encoder=TextPromptEncoder(PromptConfig()),
            grade=grade,
            write=self.rollouts.extend,
            now=lambda: "now",
            on_done=lambda problem: self.done.append(problem.problem_id),
        )
        asyncio.run(
            roll_out(
                self.work(problems),
                tools=tools,
                identity=Identity("scripted", "digest", "grader"),
                sampling=SamplingConfig(),
                steps=STEPS,
                allocation=allocation,
                budget=budget,
                max_samples=max_samples,
            )
        )
        return self.labels(problems, allocation)

    def work(self, problems: Sequence[Problem]) -> list[Work]:
        stored: dict[str, list[Rollout]] = {}
        for rollout in self.rollouts:
            stored.setdefault(rollout.problem_id, []).append(rollout)
        return [Work(problem, stored.get(problem.problem_id, ())) for problem in problems]

    def labels(
        self, problems: Sequence[Problem], allocation: AllocationConfig
    ) -> list[LabeledSolution]:
        return [
            solution
            for problem in problems
            for solution in label_problem(
                problem,
                [one for one in self.rollouts if one.problem_id == problem.problem_id],
                steps=STEPS,
                allocation=allocation,
            ).solutions
        ]

    def keys(self) -> list[tuple[str, str, str, int]]:
        return [rollout.key for rollout in self.rollouts]


def scripted(made: Sequence[DemoProblem], **settings: object) -> ScriptedSampler:
    return ScriptedSampler({one.question: one for one in made}, **settings)  # type: ignore[arg-type]
