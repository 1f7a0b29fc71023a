"""`stepmark solve`: answer questions with a search that a PRM guides.

One question, or a file of them, whose answers are kept as they are found
(`flows.solved_rows`). The model is the generator where the config has one. A search's own
rules are in `search.solver`.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flows.engines import open_engine
from flows.evaluation import answer_key
from flows.progress import OnCount
from flows.roles import Role, resolve_roles
from flows.run_config import RunConfig
from flows.solved_rows import (
    SolvedFile,
    SolveSummary,
    graded_row,
    problem_of,
    read_questions,
    summary_of,
)
from grading.extract import extract_answer
from grading.pool import GradePool
from labeling.prompts import PromptEncoder
from labeling.steps import split_steps
from pipeline.config import stable_digest
from pipeline.errors import ConfigError
from pipeline.records import Problem
from search.growth import SearchTools
from search.scoring import Aggregation, StepScorer
from search.solver import SearchResult, StopReason, search_answer

Search = Callable[[Problem], Awaitable[SearchResult]]

MAX_SEARCHES = 16
"""Questions that are searched at once, so that an engine's batches are full."""


@dataclass(frozen=True, slots=True)
class Prm:
    """A scorer, what names it, and how its step scores become one number by default."""

    scorer: StepScorer
    identity: str
    aggregation: Aggregation


def solve_question(config: RunConfig, question: str, *, prm: Prm) -> SearchResult:
    """Search an answer to one question.

    Raises ConfigError for an empty question, and for a budget that paid for no solution.
    """
    problem = problem_of({"question": question}, "the question", default_id="question")
    role = resolve_roles(config).writer
    with tempfile.TemporaryDirectory(prefix="stepmark-solve-") as state:
        (result,) = asyncio.run(_search_all(role, [problem], prm=prm, state_path=Path(state)))
    if result.stopped is StopReason.BUDGET and not any(s.answer for s in result.solutions):
        raise ConfigError(
            f"search.tokens = {config.search.tokens} was spent before any solution had an answer "
            f"({result.num_tokens} tokens generated, the longest solution so far has "
            f"{result.longest_tokens}); raise it, or lower search.n or search.expansions"
        )
    return result


def solve_file(
    config: RunConfig, source: Path, output: Path, *, prm: Prm, on_progress: OnCount
) -> SolveSummary:
    """Answer the questions of a jsonl file into another; what is answered there is kept.

    Rows of `source`: `question`, and optionally `problem_id` and `gold_answer`. Raises
    DataError naming the row that cannot be used, ConfigError for an output of other settings.
    """
    problems = read_questions(source)
    if output.exists() and output.samefile(source):
        raise ConfigError(f"--output {output} is the input; name another file")
    role = resolve_roles(config).writer
    by_key = {_key(problem, role, prm): problem for problem in problems}
    with SolvedFile.open(output) as solved:
        known = solved.require_keys(by_key.keys())
        missing = {key: problem for key, problem in by_key.items() if key not in known}
        on_progress(len(known), len(problems))
        if missing:
            asyncio.run(_solve_missing(role, missing, solved, prm=prm, on_progress=on_progress))
        return summary_of(solved.rows(), num_kept=len(known))


async def search_problems(
    config: RunConfig, problems: Sequence[Problem], *, prm: Prm, state_path: Path
) -> list[SearchResult]:
    """Search all, in order; for benchmarks and callers with a loop of their own."""
    role = resolve_roles(config).writer
    return await _search_all(role, problems, prm=prm, state_path=state_path)


async def _search_all(
    role: Role, problems: Sequence[Problem], *, prm: Prm, state_path: Path
) -> list[SearchResult]:
    async with _searches(role, problems, prm=prm, state_path=state_path) as search:
        return list(await asyncio.gather(*[search(problem) for problem in problems]))


@asynccontextmanager
async def _searches(
    role: Role, problems: Sequence[Problem], *, prm: Prm, state_path: Path
) -> AsyncGenerator[Search, None]:
    """A running engine, as a function that searches one problem's answer."""
    config = role.config
    state_path.mkdir(parents=True, exist_ok=True)
    slots, score_lock = asyncio.Semaphore(MAX_SEARCHES), asyncio.Lock()
    async with open_engine(
        role.engine, config, problems=list(problems), state_path=state_path
    ) as sampler:

        async def search(problem: Problem) -> SearchResult:
            tools = SearchTools(
                sampler=sampler,
                scorer=prm.scorer,
                prompt=partial(_prompt, role.engine.encoder, problem),
                split=partial(split_steps, method=config.steps.method),
                answer=partial(_answer, config),
                score_lock=score_lock,
                answer_key=answer_key,
            )
            async with slots:
                return await search_answer(
                    problem.question,
                    tools,
                    config=config.search,
                    sampling=config.sampling,
                    aggregation=config.search.aggregation or prm.aggregation,
                    seed=config.seed,
                )

        yield search


def _prompt(encoder: PromptEncoder, problem: Problem, text: str) -> tuple[str, tuple[int, ...]]:
    prompt = encoder.continuing(problem, text)
    return prompt.text, prompt.ids


def _answer(config: RunConfig, text: str, is_truncated: bool) -> str:
    return extract_answer(text, profile=config.grading.profile, is_truncated=is_truncated).answer


async def _solve_missing(
    role: Role,
    missing: dict[str, Problem],
    solved: SolvedFile,
    *,
    prm: Prm,
    on_progress: OnCount,
) -> None:
    """Search what is missing, and append each answer as it is found."""
    state_path = solved.path.with_name(f".{solved.path.name}.engine")
    num_problems = len(solved.rows()) + len(missing)
    num_done = num_problems - len(missing)
    with GradePool(role.config.grading) as pool:
        async with _searches(
            role, list(missing.values()), prm=prm, state_path=state_path
        ) as search:

            async def solve(key: str, problem: Problem) -> None:
                nonlocal num_done
                result = await search(problem)
                solved.append(await graded_row(key, problem, result, pool=pool))
                num_done += 1
                on_progress(num_done, num_problems)

            tasks = [asyncio.ensure_future(solve(*one)) for one in missing.items()]
            try:
                await asyncio.gather(*tasks)
            finally:  # the first error, or Ctrl-C, ends the others
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def _key(problem: Problem, role: Role, prm: Prm) -> str:
    """Names a question and all that decides its answer."""
    return stable_digest(
        {
            "problem_id": problem.problem_id,
            "question": problem.question,
            "gold_answer": problem.gold_answer,
            "samples": role.digest,
            "search": role.config.search.model_dump(mode="json"),
            "grading": role.config.grading.profile,
            "prm": prm.identity,
        }
    )
