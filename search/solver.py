"""Answer one question: run a search, rank its solutions, pick one, with the votes beside.

The same tools, the same budget's account and the same picking rules for every method. What
is picked is decided by `search.best_of_n`; a solution drawn twice votes twice.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from grading.verdict import Verdict
from pipeline.config import SamplingConfig
from search.beam import search_beams
from search.best_of_n import Candidate, best_of_n, majority_vote, weighted_vote
from search.config import Pick, SearchConfig, SearchMethod
from search.growth import Growth, SearchTools
from search.mcts import search_mcts
from search.scoring import Aggregation
from search.tree import Node, NodeState, tree_as_json


class StopReason(StrEnum):
    """Why a search ended. `complete`: its method had nothing more to do."""

    COMPLETE = "complete"
    BUDGET = "budget"
    AGREEMENT = "agreement"


@dataclass(frozen=True, slots=True)
class Solution:
    """A found solution. `score` is the aggregate of `step_scores`; "" is no answer.

    `tokens` were generated on its own path; `is_cut_off` by a limit, so it has no end.
    """

    text: str
    steps: tuple[str, ...]
    step_scores: tuple[float, ...]
    score: float
    answer: str
    tokens: int
    is_cut_off: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`solutions` from the highest score down; `picked` is one of them, None where there are
    none. `num_tokens` were generated in all, by `num_samples` samples.
    """

    question: str
    method: SearchMethod
    aggregation: Aggregation
    solutions: tuple[Solution, ...]
    picked: Solution | None
    majority_answer: str
    weighted_answer: str
    num_tokens: int
    num_samples: int
    stopped: StopReason
    roots: tuple[Node, ...]

    @property
    def answer(self) -> str:
        """The picked solution's; "" where there is none."""
        return self.picked.answer if self.picked else ""

    @property
    def longest_tokens(self) -> int:
        """Of the longest path in the trees, finished or not."""
        return max((node.num_tokens for root in self.roots for node in root.walk()), default=0)

    def tree(self) -> list[dict[str, Any]]:
        """The trees as JSON objects, a parent before its children."""
        return tree_as_json(list(self.roots))


async def search_answer(
    question: str,
    tools: SearchTools,
    *,
    config: SearchConfig,
    sampling: SamplingConfig,
    aggregation: Aggregation,
    seed: int,
) -> SearchResult:
    """Search as `config` says; `aggregation` is the one to rank by.

    Raises EngineError where the engine is beyond recovery. A budget that pays for no whole
    solution is no error here: the result has no finished solution and says `budget`.
    """
    growth = Growth(
        question, tools, config=config, sampling=sampling, aggregation=aggregation, seed=seed
    )

    def is_settled() -> bool:
        answers = [tools.answer_key(node.answer) for node in growth.solutions() if node.answer]
        return is_agreed(answers, config=config)

    match config.method:
        case SearchMethod.BEST_OF_N:
            await _sample_solutions(growth, config, is_settled)
        case SearchMethod.BEAM | SearchMethod.DVTS:
            await search_beams(growth, config=config, is_settled=is_settled)
        case SearchMethod.MCTS:
            await search_mcts(growth, config=config, is_settled=is_settled)
    stopped = StopReason.COMPLETE
    if is_settled():
        stopped = StopReason.AGREEMENT
    elif growth.budget.is_spent:
        stopped = StopReason.BUDGET
    return _result(question, growth, tools, config, aggregation, stopped)


def is_agreed(answers: list[str], *, config: SearchConfig) -> bool:
    """Whether to stop early: `agreement` answers, all the same; for a majority vote also a
    lead that the solutions still to come of `n` cannot make up.
    """
    if config.agreement is None or len(answers) < config.agreement:
        return False
    counts = [count for _, count in Counter(answers).most_common(2)]
    if len(counts) == 1:
        return True
    num_to_come = config.n - len(answers)
    return config.pick is Pick.MAJORITY_VOTE and counts[0] - counts[1] > max(0, num_to_come)


async def _sample_solutions(
    growth: Growth, config: SearchConfig, is_settled: Callable[[], bool]
) -> None:
    """Whole solutions: all at once, or in waves where something can stop them early."""
    root = growth.plant()
    is_stoppable = config.tokens is not None or config.agreement is not None
    wave = min(config.n, config.agreement or config.expansions) if is_stoppable else config.n
    while root.num_drawn < config.n and not growth.budget.is_spent and not is_settled():
        await growth.complete(root, min(wave, config.n - root.num_drawn))


def _result(
    question: str,
    growth: Growth,
    tools: SearchTools,
    config: SearchConfig,
    aggregation: Aggregation,
    stopped: StopReason,
) -> SearchResult:
    ended = [node for node in growth.ended for _ in range(node.num_draws)]
    found = [(_candidate(node), _solution(node)) for node in ended]
    candidates = [candidate for candidate, _ in found]
    solution_of = {id(candidate): solution for candidate, solution in found}
    picked = majority = weighted = None
    if candidates:
        majority = majority_vote(candidates, answer_key=tools.answer_key)
        weighted = weighted_vote(candidates, how=aggregation, answer_key=tools.answer_key)
        match config.pick:
            case Pick.BEST_OF_N:
                picked = best_of_n(candidates, how=aggregation)
            case Pick.MAJORITY_VOTE:
                picked = majority
            case Pick.WEIGHTED_VOTE:
                picked = weighted
    return SearchResult(
        question=question,
        method=config.method,
        aggregation=aggregation,
        solutions=tuple(sorted((one for _, one in found), key=_rank)),
        picked=solution_of[id(picked)] if picked is not None else None,
        majority_answer=majority.answer if majority else "",
        weighted_answer=weighted.answer if weighted else "",
        num_tokens=growth.budget.num_tokens,
        num_samples=growth.budget.num_samples,
        stopped=stopped,
        roots=tuple(growth.roots),
    )


def _candidate(node: Node) -> Candidate:
    # a new object for every draw: which one a vote picked is told by identity
    return Candidate(node.steps, node.answer, Verdict.UNDECIDED, node.step_scores)


def _solution(node: Node) -> Solution:
    return Solution(
        text=node.text,
        steps=node.steps,
        step_scores=node.step_scores,
        score=node.score,
        answer=node.answer,
        tokens=node.num_tokens,
        is_cut_off=node.state is NodeState.CUT_OFF,
    )


def _rank(solution: Solution) -> tuple[bool, float]:
    return (not solution.answer, -solution.score)
