"""The seam between a PRM and everything that uses one, and how step scores become one.

A scorer gives every step a score in [0, 1], the higher the better; `train.scorer` has the
trained one, `ScriptedScorer` here is the double that tests and load tests use. The
aggregations are those of Math-Shepherd (arXiv 2312.08935, min) and of Lightman et al.
(arXiv 2305.20050, product), with the mean and the last step beside them.
"""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from pipeline.errors import DataError

QuestionAndSteps = tuple[str, Sequence[str]]
"""A question and the steps written so far; `"".join(steps)` is the solution's text."""

OnProgress = Callable[[int, int], None]
"""(solutions scored, of how many)"""

_PORTION = 128
"""Solutions a call: progress moves, and a batch is still filled."""


class StepScorer(Protocol):
    """Anything that scores steps."""

    def score(self, items: Sequence[QuestionAndSteps]) -> list[tuple[float, ...]]:
        """The scores of each item, in order: one a step, each in [0, 1].

        The score of a step depends on the question and the steps up to it only.
        """
        ...


class ScorerRole(StrEnum):
    """Which of an evaluation's models gave the scores."""

    PRM = "prm"
    ORM = "orm"
    SECOND_PRM = "second-prm"


class Aggregation(StrEnum):
    """How the scores of a solution's steps become one number."""

    MIN = "min"
    MEAN = "mean"
    LAST = "last"
    PRODUCT = "product"


def aggregate(scores: Sequence[float], how: Aggregation) -> float:
    """One number for a solution, in [0, 1].

    No steps give 0: a solution without content ranks last under every aggregation.
    Raises ValueError for a score that is not a number in [0, 1].
    """
    for step_index, score in enumerate(scores):
        if not 0 <= score <= 1:
            raise ValueError(f"the score of step {step_index} is {score}, not a number in [0, 1]")
    if not scores:
        return 0.0
    match how:
        case Aggregation.MIN:
            return min(scores)
        case Aggregation.MEAN:
            return math.fsum(scores) / len(scores)
        case Aggregation.LAST:
            return scores[-1]
        case Aggregation.PRODUCT:
            return math.prod(scores)


def score_all(
    scorer: StepScorer,
    items: Sequence[QuestionAndSteps],
    *,
    name: str = "the scorer",
    on_progress: OnProgress | None = None,
) -> list[tuple[float, ...]]:
    """The scores of many items, in order, asked for by portions of similar length.

    The same item is scored once. Raises DataError, which names the model `name`, for a score
    that is no number in [0, 1], and ValueError for a number of scores other than that of steps.
    """
    keys = [(question, tuple(steps)) for question, steps in items]
    distinct = sorted(dict.fromkeys(keys), key=lambda key: sum(map(len, key[1])) + len(key[0]))
    scores: dict[tuple[str, tuple[str, ...]], tuple[float, ...]] = {}
    for start in range(0, len(distinct), _PORTION):
        portion = distinct[start : start + _PORTION]
        for key, given in zip(portion, scorer.score(portion), strict=True):
            scores[key] = _checked(given, key[1], name)
        if on_progress is not None:
            on_progress(min(start + _PORTION, len(distinct)), len(distinct))
    return [scores[key] for key in keys]


def _checked(scores: tuple[float, ...], steps: tuple[str, ...], name: str) -> tuple[float, ...]:
    if len(scores) != len(steps):
        raise ValueError(
            f"{name} gave {len(scores)} scores for {len(steps)} steps that begin {steps[:1]!r}"
        )
    for step_index, score in enumerate(scores):
        if not 0 <= score <= 1:
            raise DataError(
                f"{name} gives step {step_index} of a solution the score {score}, not a number in "
                f"[0, 1]; its weights are damaged or its training diverged. The step: "
                f"{steps[step_index][:80]!r}"
            )
    return scores


class ScriptedScorer:
    """A scorer whose scores are known: `judge(question, steps)` scores the last of `steps`.

    `num_scored_steps` counts the steps judged so far.
    """

    def __init__(self, judge: Callable[[str, tuple[str, ...]], float]) -> None:
        self._judge = judge
        self.num_scored_steps = 0

    def score(self, items: Sequence[QuestionAndSteps]) -> list[tuple[float, ...]]:
        """The scores of each item, in order: one a step."""
        return [self._score(question, tuple(steps)) for question, steps in items]

    def _score(self, question: str, steps: tuple[str, ...]) -> tuple[float, ...]:
        self.num_scored_steps += len(steps)
        return tuple(self._judge(question, steps[: end + 1]) for end in range(len(steps)))
