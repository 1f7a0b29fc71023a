"""Pick one of N candidate solutions: best-of-N, majority vote and weighted vote.

Best-of-N takes the highest aggregate score, the majority vote the most frequent answer
(Wang et al., arXiv 2203.11171), the weighted vote the answer with the highest sum of
aggregate scores (Uesato et al., arXiv 2211.14275). Rules shared by all three:

- A candidate without an answer ("") is picked only where no candidate has one.
- Of equals, the candidate (or the answer) that comes first is picked.
- A vote picks the *first* candidate that gives the winning answer.

Which answers are equal is the caller's business: `answer_key` maps an answer to its
normal form; the default strips white space and nothing else.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from grading.verdict import Verdict
from search.scoring import Aggregation, OnProgress, StepScorer, aggregate, score_all

AnswerKey = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A solution to choose from. `answer` is "" where it has none.

    `step_scores` is as long as `steps` once scored, and empty before.
    """

    steps: tuple[str, ...]
    answer: str
    verdict: Verdict
    step_scores: tuple[float, ...] = ()

    @property
    def is_correct(self) -> bool:
        """Whether the verdict is correct; an undecided one counts as not correct here."""
        return self.verdict is Verdict.CORRECT


@dataclass(frozen=True, slots=True)
class ProblemCandidates:
    """A problem and its candidates, in the order in which they were drawn."""

    problem_id: str
    question: str
    candidates: tuple[Candidate, ...]


def score_candidates(
    problems: Sequence[ProblemCandidates],
    *,
    scorer: StepScorer,
    name: str = "the scorer",
    on_progress: OnProgress | None = None,
) -> list[ProblemCandidates]:
    """The same problems with every candidate's `step_scores` filled in; errors as `score_all`."""
    items = [
        (problem.question, candidate.steps)
        for problem in problems
        for candidate in problem.candidates
    ]
    scores = iter(score_all(scorer, items, name=name, on_progress=on_progress))
    return [
        replace(
            problem,
            candidates=tuple(
                replace(candidate, step_scores=next(scores)) for candidate in problem.candidates
            ),
        )
        for problem in problems
    ]


def best_of_n(candidates: Sequence[Candidate], *, how: Aggregation) -> Candidate:
    """The candidate with the highest aggregate score."""
    return max(_eligible(candidates), key=lambda candidate: aggregate(candidate.step_scores, how))


def majority_vote(
    candidates: Sequence[Candidate], *, answer_key: AnswerKey = str.strip
) -> Candidate:
    """The first candidate that gives the most frequent answer."""
    return _vote(candidates, _one_vote, answer_key)


def weighted_vote(
    candidates: Sequence[Candidate], *, how: Aggregation, answer_key: AnswerKey = str.strip
) -> Candidate:
    """The first candidate that gives the answer with the highest sum of aggregate scores."""
    return _vote(candidates, lambda candidate: aggregate(candidate.step_scores, how), answer_key)


def groups_of(candidates: Sequence[Candidate], n: int) -> list[Sequence[Candidate]]:
    """Disjoint groups of `n` candidates, in order; a remainder smaller than `n` is left out.

    The mean over the groups estimates the accuracy at N with less noise than the first
    group alone. Raises ValueError where there are fewer than `n` candidates.
    """
    if not 1 <= n <= len(candidates):
        raise ValueError(f"N = {n}, but there are {len(candidates)} candidates")
    return [candidates[start : start + n] for start in range(0, len(candidates) - n + 1, n)]


def _eligible(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    if not candidates:
        raise ValueError("no candidates to choose from")
    return [candidate for candidate in candidates if candidate.answer.strip()] or candidates


def _one_vote(candidate: Candidate) -> float:  # noqa: ARG001 - all count the same
    return 1.0


def _vote(
    candidates: Sequence[Candidate], weigh: Callable[[Candidate], float], answer_key: AnswerKey
) -> Candidate:
    first: dict[str, Candidate] = {}
    weights: dict[str, list[float]] = {}
    for candidate in _eligible(candidates):
        key = answer_key(candidate.answer)
        first.setdefault(key, candidate)
        weights.setdefault(key, []).append(weigh(candidate))
    # fsum: the winner must not hang on the order in which an answer's weights are added
    return first[max(weights, key=lambda key: math.fsum(weights[key]))]
