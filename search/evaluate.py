"""Accuracy against N, with intervals: is the PRM better than counting answers?

Every method picks from the same candidates. A problem's accuracy at N is the mean over
its disjoint groups of N candidates (`groups_of`); the accuracy is the mean over problems.
Intervals are 95 % percentile bootstraps over *problems* with one set of resamples for all
methods, so the differences and ratios to the majority vote are paired (Efron &
Tibshirani 1993, chapter 13).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grading.verdict import Verdict
from pipeline.errors import DataError
from search.best_of_n import (
    AnswerKey,
    Candidate,
    ProblemCandidates,
    best_of_n,
    groups_of,
    majority_vote,
    weighted_vote,
)
from search.scoring import Aggregation

Floats = NDArray[np.float64]


class Method(StrEnum):
    """How a solution is picked. `pass@1` is a random candidate's accuracy, `pass@n`
    the share of groups with any correct candidate: the bounds of every picking method.
    """

    RANDOM_PICK = "pass@1"
    ANY_CORRECT = "pass@n"
    MAJORITY_VOTE = "majority-vote"
    BEST_OF_N = "best-of-n"
    WEIGHTED_VOTE = "weighted-vote"


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """One cell of the table; `low` and `high` bound the 95 % interval. Shares in [0, 1].

    `aggregation` is None for methods without scores.
    """

    method: Method
    aggregation: Aggregation | None
    n: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MajorityComparison:
    """A method against the majority vote at the same N, paired over problems.

    A ratio (or a bound of it) is None where the majority vote is never right.
    """

    method: Method
    aggregation: Aggregation | None
    n: int
    difference: float
    difference_low: float
    difference_high: float
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The table, its comparisons, and what they rest on."""

    num_problems: int
    num_candidates: int
    num_undecided: int
    """Candidates with an undecided verdict: counted as not correct."""
    num_without_answer: int
    rows: tuple[AccuracyRow, ...]
    comparisons: tuple[MajorityComparison, ...]

    def as_json(self) -> dict[str, Any]:
        """A JSON object (no NaN in it)."""
        return asdict(self)

    def row(self, method: Method, *, n: int, aggregation: Aggregation | None = None) -> AccuracyRow:
        """The row of a method at N. Raises KeyError where there is none."""
        for row in self.rows:
            if (row.method, row.aggregation, row.n) == (method, aggregation, n):
                return row
        raise KeyError((method, aggregation, n))


def accuracy_against_n(
    problems: Sequence[ProblemCandidates],
    *,
    ns: Sequence[int],
    aggregations: Sequence[Aggregation] = tuple(Aggregation),
    answer_key: AnswerKey = str.strip,
    num_resamples: int = 2000,
    seed: int = 0,
) -> SearchReport:
    """The accuracy of every method at every N of `ns`, on scored candidates.

    Raises DataError for no problems, for a problem with fewer candidates than the largest
    N, and for candidates without scores.
    """
    _check(problems, ns)
    weights = _resampling_weights(len(problems), num_resamples, seed)
    chance = _accuracies(problems, 1, _any_correct)
    rows = [_row((Method.RANDOM_PICK, None), 1, chance, weights)]
    comparisons: list[MajorityComparison] = []
    for n in ns:
        correct_by_method = {
            key: _accuracies(problems, n, judge)
            for key, judge in _judges(aggregations, answer_key).items()
        }
        majority = correct_by_method[Method.MAJORITY_VOTE, None]
        for key, correct in correct_by_method.items():
            rows.append(_row(key, n, correct, weights))
            if key[0] in (Method.BEST_OF_N, Method.WEIGHTED_VOTE):
                comparisons.append(_comparison(key, n, correct, majority, weights))
    candidates = [candidate for problem in problems for candidate in problem.candidates]
    return SearchReport(
        num_problems=len(problems),
        num_candidates=len(candidates),
        num_undecided=sum(c.verdict is Verdict.UNDECIDED for c in candidates),
        num_without_answer=sum(not c.answer.strip() for c in candidates),
        rows=tuple(rows),
        comparisons=tuple(comparisons),
    )


_Key = tuple[Method, Aggregation | None]
_Judge = Callable[[Sequence[Candidate]], bool]


def _check(problems: Sequence[ProblemCandidates], ns: Sequence[int]) -> None:
    if not problems:
        raise DataError("there are no problems to evaluate on; check the evaluation's input")
    if not ns or min(ns) < 1 or len(set(ns)) != len(ns):
        raise ValueError(f"ns = {list(ns)} must be different whole numbers of at least 1")
    for problem in problems:
        if len(problem.candidates) < max(ns):
            raise DataError(
                f"problem {problem.problem_id} has {len(problem.candidates)} candidates, but "
                f"N = {max(ns)} is asked for; sample more solutions or lower N"
            )
        for candidate in problem.candidates:
            if len(candidate.step_scores) != len(candidate.steps):
                raise DataError(
                    f"a candidate of problem {problem.problem_id} has {len(candidate.steps)} "
                    f"steps and {len(candidate.step_scores)} scores; score the candidates first"
                )


def _judges(aggregations: Sequence[Aggregation], answer_key: AnswerKey) -> dict[_Key, _Judge]:
    """Whether each method is right on one group of candidates."""
    judges: dict[_Key, _Judge] = {
        (Method.ANY_CORRECT, None): _any_correct,
        (Method.MAJORITY_VOTE, None): lambda group: (
            majority_vote(group, answer_key=answer_key).is_correct
        ),
    }
    for how in aggregations:
        judges[Method.BEST_OF_N, how] = partial(_best_is_correct, how=how)
    for how in aggregations:
        judges[Method.WEIGHTED_VOTE, how] = partial(
            _weighted_is_correct, how=how, answer_key=answer_key
        )
    return judges


def _any_correct(group: Sequence[Candidate]) -> bool:
    return any(candidate.is_correct for candidate in group)


def _best_is_correct(group: Sequence[Candidate], how: Aggregation) -> bool:
    return best_of_n(group, how=how).is_correct


def _weighted_is_correct(
    group: Sequence[Candidate], how: Aggregation, answer_key: AnswerKey
) -> bool:
    return weighted_vote(group, how=how, answer_key=answer_key).is_correct


def _accuracies(problems: Sequence[ProblemCandidates], n: int, judge: _Judge) -> Floats:
    """Each problem's mean over its groups of `n`: [problems]."""
    return np.array(
        [
            np.mean([judge(group) for group in groups_of(problem.candidates, n)])
            for problem in problems
        ],
        dtype=np.float64,
    )


def _resampling_weights(num_problems: int, num_resamples: int, seed: int) -> Floats:
    """The share of each problem in each resample: [resamples, problems]; rows sum to 1."""
    rng = np.random.default_rng(seed)
    shares = np.full(num_problems, 1 / num_problems)
    return rng.multinomial(num_problems, shares, size=num_resamples) / num_problems


def _row(key: _Key, n: int, correct: Floats, weights: Floats) -> AccuracyRow:
    low, high = _interval(weights @ correct)
    return AccuracyRow(key[0], key[1], n, float(correct.mean()), low, high)


def _comparison(
    key: _Key, n: int, correct: Floats, majority: Floats, weights: Floats
) -> MajorityComparison:
    accuracies, majorities = weights @ correct, weights @ majority
    low, high = _interval(weights @ (correct - majority))
    ratio = ratio_low = ratio_high = None
    if majority.any():
        ratio = float(correct.mean() / majority.mean())
    if majorities.all():
        ratio_low, ratio_high = _interval(accuracies / majorities)
    difference = float((correct - majority).mean())
    return MajorityComparison(*key, n, difference, low, high, ratio, ratio_low, ratio_high)


def _interval(values: Floats) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
