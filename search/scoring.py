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

QuestionAndSteps = tuple[str, Sequence[str]]
"""A question and the steps written so far; `"".join(steps)` is the solution's text."""


class StepScorer(Protocol):
    """Anything that scores steps."""

    def score(self, items: Sequence[QuestionAndSteps]) -> list[tuple[float, ...]]:
        """The scores of each item, in order: one a step, each in [0, 1].

        The score of a step depends on the question and the steps up to it only.
        """
        ...


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
