"""Accuracy against N, with intervals: is the PRM better than counting answers?

Every method picks from the same candidates. A problem's accuracy at N is the mean over
its disjoint groups of N candidates (`groups_of`); the accuracy is the mean over problems.
Intervals are bootstraps over problems (`search.resampling`) with one set of resamples for all
methods, so differences and ratios are paired. An ORM ranks by its last score only (Uesato et
al., arXiv 2211.14275).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any, cast

import numpy as np

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
from search.resampling import (
    NUM_RESAMPLES,
    Floats,
    Resampled,
    complement,
    difference,
    ratio,
    resampling_weights,
)
from search.scoring import Aggregation, ScorerRole


class Method(StrEnum):
    """How a solution is picked. `pass@1` is a random candidate's accuracy, `pass@n`
    the share of groups with any correct candidate: the bounds of every picking method.
    """

    RANDOM_PICK = "pass@1"
    ANY_CORRECT = "pass@n"
    MAJORITY_VOTE = "majority-vote"
    BEST_OF_N = "best-of-n"
    WEIGHTED_VOTE = "weighted-vote"


class Baseline(StrEnum):
    """What a method with scores is compared with, at the same N: the majority vote, or the same
    method by the ORM's scores or, aggregated alike, by the second PRM's.
    """

    MAJORITY_VOTE = "majority-vote"
    ORM = "orm"
    SECOND_PRM = "second-prm"


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """One cell of the table; `low` and `high` bound the 95 % interval. Shares in [0, 1].

    `scorer` and `aggregation` are None for methods without scores.
    """

    scorer: ScorerRole | None
    method: Method
    aggregation: Aggregation | None
    n: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method with scores against a baseline, paired over problems.

    `ratio` is of accuracies, `wrong_ratio` of wrong picks (1 - accuracy). A ratio is None
    where the baseline's is 0, and its bounds where that is so in some resample.
    """

    scorer: ScorerRole
    method: Method
    aggregation: Aggregation
    n: int
    baseline: Baseline
    difference: float
    difference_low: float
    difference_high: float
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    wrong_ratio: float | None
    wrong_ratio_low: float | None
    wrong_ratio_high: float | None


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The table, its comparisons, and what they rest on."""

    num_problems: int
    num_candidates: int
    num_undecided: int
    """Candidates with an undecided verdict: counted as not correct."""
    num_without_answer: int
    rows: tuple[AccuracyRow, ...]
    comparisons: tuple[Comparison, ...]

    def as_json(self) -> dict[str, Any]:
        """A JSON object (no NaN in it)."""
        return asdict(self)

    def row(
        self,
        method: Method,
        *,
        n: int,
        aggregation: Aggregation | None = None,
        scorer: ScorerRole = ScorerRole.PRM,
    ) -> AccuracyRow:
        """The row of a method at N. Raises KeyError where there is none."""
        for row in self.rows:
            found = (row.method, row.aggregation, row.n)
            if found == (method, aggregation, n) and row.scorer in (None, scorer):
                return row
        raise KeyError((scorer, method, aggregation, n))


def accuracy_against_n(
    problems: Sequence[ProblemCandidates],
    *,
    ns: Sequence[int],
    others: Mapping[ScorerRole, Sequence[ProblemCandidates]] | None = None,
    aggregations: Sequence[Aggregation] = tuple(Aggregation),
    answer_key: AnswerKey = str.strip,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> SearchReport:
    """The accuracy of every method at every N of `ns`, on candidates that the PRM scored.

    `others` are the same candidates with another model's scores. Raises DataError for no
    problems, for a problem with fewer candidates than the largest N, and for candidates
    without scores.
    """
    scored = {ScorerRole.PRM: problems, **(others or {})}
    for one in scored.values():
        _check(one, ns)
    weights = resampling_weights(len(problems), num_resamples=num_resamples, seed=seed)
    chance = _accuracy(problems, 1, _any_correct, weights)
    rows = [_row((None, Method.RANDOM_PICK, None), 1, chance)]
    comparisons: list[Comparison] = []
    for n in ns:
        accuracies = {
            key: _accuracy(scored[key[0] or ScorerRole.PRM], n, judge, weights)
            for key, judge in _judges(scored, aggregations, answer_key).items()
        }
        rows += [_row(key, n, one) for key, one in accuracies.items()]
        comparisons += _comparisons(accuracies, n)
    candidates = [candidate for problem in problems for candidate in problem.candidates]
    return SearchReport(
        num_problems=len(problems),
        num_candidates=len(candidates),
        num_undecided=sum(c.verdict is Verdict.UNDECIDED for c in candidates),
        num_without_answer=sum(not c.answer.strip() for c in candidates),
        rows=tuple(rows),
        comparisons=tuple(comparisons),
    )


_Key = tuple[ScorerRole | None, Method, Aggregation | None]
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


def _judges(
    scorers: Iterable[ScorerRole], aggregations: Sequence[Aggregation], answer_key: AnswerKey
) -> dict[_Key, _Judge]:
    """Whether each method is right on one group of candidates."""
    judges: dict[_Key, _Judge] = {
        (None, Method.ANY_CORRECT, None): _any_correct,
        (None, Method.MAJORITY_VOTE, None): lambda group: (
            majority_vote(group, answer_key=answer_key).is_correct
        ),
    }
    for scorer in scorers:
        hows = (Aggregation.LAST,) if scorer is ScorerRole.ORM else aggregations
        for how in hows:
            judges[scorer, Method.BEST_OF_N, how] = partial(_best_is_correct, how=how)
        for how in hows:
            judges[scorer, Method.WEIGHTED_VOTE, how] = partial(
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


def _accuracy(
    problems: Sequence[ProblemCandidates], n: int, judge: _Judge, weights: Floats
) -> Resampled:
    """The mean over problems of each one's mean over its groups of `n`."""
    shares = np.array(
        [
            np.mean([judge(group) for group in groups_of(problem.candidates, n)])
            for problem in problems
        ],
        dtype=np.float64,
    )
    return Resampled(float(shares.mean()), weights @ shares)


def _row(key: _Key, n: int, accuracy: Resampled) -> AccuracyRow:
    return AccuracyRow(*key, n, *_figures(accuracy))


def _comparisons(accuracies: Mapping[_Key, Resampled], n: int) -> list[Comparison]:
    return [
        _comparison(key, n, baseline, accuracy, accuracies[other])
        for key, accuracy in accuracies.items()
        for baseline, other in _baselines(key).items()
        if other in accuracies
    ]


def _baselines(key: _Key) -> dict[Baseline, _Key]:
    scorer, method, how = key
    if scorer is None:
        return {}
    baselines: dict[Baseline, _Key] = {Baseline.MAJORITY_VOTE: (None, Method.MAJORITY_VOTE, None)}
    if scorer is ScorerRole.PRM:
        baselines[Baseline.ORM] = (ScorerRole.ORM, method, Aggregation.LAST)
        baselines[Baseline.SECOND_PRM] = (ScorerRole.SECOND_PRM, method, how)
    return baselines


def _comparison(
    key: _Key, n: int, baseline: Baseline, accuracy: Resampled, other: Resampled
) -> Comparison:
    scorer, method, how = key
    assert scorer is not None
    assert how is not None
    wrong = ratio(complement(accuracy), complement(other), reason="the baseline is never wrong")
    return Comparison(
        scorer,
        method,
        how,
        n,
        baseline,
        *_figures(difference(accuracy, other)),
        *_ratio_figures(ratio(accuracy, other, reason="the baseline is never right")),
        *_ratio_figures(wrong),
    )


def _figures(one: Resampled) -> tuple[float, float, float]:
    """Of what is defined in every resample."""
    found = _ratio_figures(one)
    assert None not in found
    return cast("tuple[float, float, float]", found)


def _ratio_figures(one: Resampled) -> tuple[float | None, float | None, float | None]:
    estimate = one.estimate()
    return estimate.value, estimate.low, estimate.high
