"""Searches of demo problems with the scripted engine."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from grading.extract import extract_answer
from labeling.steps import StepMethod, split_steps
from pipeline.config import SamplingConfig
from pipeline.demo.problems import DemoProblem, demo_problem
from pipeline.samplers.sampler import Sampler
from pipeline.samplers.scripted import ScriptedSampler
from search.config import SearchConfig
from search.demo_scorer import demo_oracle
from search.growth import SearchTools
from search.scoring import Aggregation, StepScorer
from search.solver import SearchResult, search_answer


def problems(count: int) -> list[DemoProblem]:
    return [demo_problem("check", index) for index in range(count)]


def search_all(
    made: Sequence[DemoProblem],
    *,
    sampler: Sampler | None = None,
    scorer: StepScorer | None = None,
    sampling: SamplingConfig | None = None,
    step_accuracy: float = 0.7,
    seed: int = 0,
    **settings: Any,
) -> list[SearchResult]:
    by_question = {one.question: one for one in made}
    engine = sampler or ScriptedSampler(by_question, step_accuracy=step_accuracy)
    judge = scorer or demo_oracle(by_question)

    async def run() -> list[SearchResult]:
        lock = asyncio.Lock()
        return list(
            await asyncio.gather(
                *[
                    search_answer(
                        one.question,
                        SearchTools(
                            sampler=engine,
                            scorer=judge,
                            prompt=partial(_prompt, one.question),
                            split=partial(split_steps, method=StepMethod.NEWLINE),
                            answer=_answer,
                            score_lock=lock,
                        ),
                        config=SearchConfig(**settings),
                        sampling=sampling or SamplingConfig(),
                        aggregation=Aggregation.MIN,
                        seed=seed,
                    )
                    for one in made
                ]
            )
        )

    return asyncio.run(run())


def num_right(made: Sequence[DemoProblem], results: Sequence[SearchResult]) -> int:
    return sum(one.gold_answer == got.answer for one, got in zip(made, results, strict=True))


def mean_tokens(results: Sequence[SearchResult]) -> float:
    return sum(one.num_tokens for one in results) / len(results)


def _prompt(question: str, text: str) -> tuple[str, tuple[int, ...]]:
    return f"Question: {question}\nAnswer:{text}", ()


def _answer(text: str, is_truncated: bool) -> str:
    return extract_answer(text, is_truncated=is_truncated).answer
