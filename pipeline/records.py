"""The core records. Counts are stored, ratios derived.

Conventions, said once here: `step_index` is 0-based. Label *i* judges step *i* and is
estimated from rollouts that start *after* it; the last step takes the solution's own
verdict. Undecided grades leave the denominator and are counted. A rollout cut off at
`max_tokens` without an answer is incorrect and counted as truncated. A solution is a
rollout of the root prefix; what the literature calls a continuation is a rollout of a
deeper one (Math-Shepherd, arXiv 2312.08935).
"""

import hashlib
import json
import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from grading.verdict import Verdict


class FinishReason(StrEnum):
    """Why an engine stopped: at an end (`stop`) or at `max_tokens` (`length`)."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Problem:
    """A maths problem with its gold answer. `source` says where it came from."""

    problem_id: str
    question: str
    gold_answer: str
    source: str
    split: str


@dataclass(frozen=True)
class Prefix:
    """A question with the steps written so far; the root has none."""

    problem_id: str
    steps: tuple[str, ...] = ()

    @cached_property
    def prefix_id(self) -> str:
        """32 hex digits of the SHA-256 of the problem's id and the steps."""
        content = json.dumps([self.problem_id, *self.steps], ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def num_steps(self) -> int:
        """The number of steps; 0 at the root."""
        return len(self.steps)

    @property
    def text(self) -> str:
        """The steps' text, exactly as written."""
        return "".join(self.steps)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One graded completion of a prefix; a row of the journal.

    Identified by (problem_id, prefix_id, sampling_digest, rollout_index). `text` is what
    the model wrote after the prefix. `created_at` is in UTC, ISO 8601.
    """

    problem_id: str
    prefix_id: str
    rollout_index: int
    text: str
    final_answer: str
    verdict: Verdict
    verdict_reason: str
    finish_reason: FinishReason
    num_tokens: int
    completer: str
    sampling_digest: str
    grader_version: str
    seed: int
    created_at: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What identifies the row."""
        return (self.problem_id, self.prefix_id, self.sampling_digest, self.rollout_index)

    @property
    def is_truncated(self) -> bool:
        """Cut off at `max_tokens` before an answer was written."""
        return self.finish_reason is FinishReason.LENGTH and not self.final_answer


@dataclass(frozen=True, slots=True)
class StepLabel:
    """The counts of one step's rollouts. `num_reused` of `num_rollouts` were drawn from an
    ancestor prefix and passed through this one; `num_truncated` are among the incorrect.

    `num_correct + num_incorrect + num_undecided == num_rollouts`.
    """

    num_rollouts: int
    num_reused: int
    num_correct: int
    num_incorrect: int
    num_undecided: int
    num_truncated: int

    @property
    def num_graded(self) -> int:
        """Rollouts with a decided verdict: the denominator."""
        return self.num_correct + self.num_incorrect

    @property
    def mc_value(self) -> float:
        """Correct ÷ graded rollouts; NaN where none is graded."""
        return self.num_correct / self.num_graded if self.num_graded else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson score interval of the MC value; (0, 1) where none is graded."""
        return wilson_interval(self.num_correct, self.num_graded)

    def hard_label(self, threshold: float = 0.0) -> bool:
        """Whether the MC value is above `threshold`; by default any correct rollout."""
        return self.num_graded > 0 and self.mc_value > threshold


@dataclass(frozen=True, slots=True)
class LabeledSolution:
    """A solution, its steps, and a label a step (both of the same length, at least 1)."""

    problem: Problem
    solution_id: str
    steps: tuple[str, ...]
    labels: tuple[StepLabel, ...]
    final_answer: str
    verdict: Verdict

    def first_error(self, threshold: float = 0.0) -> int:
        """The 0-based index of the first step whose hard label is false; -1 if none.

        A step without any graded rollout is unknown, not an error.
        """
        for step_index, label in enumerate(self.labels):
            if label.num_graded and not label.hard_label(threshold):
                return step_index
        return -1


def wilson_interval(num_correct: int, num_graded: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share; (0, 1) for no observation.

    Written out (Wilson 1927): the policies ask for it after every draw, and scipy's
    `binomtest` takes a thousand times as long.
    """
    if num_graded == 0:
        return (0.0, 1.0)
    share, z2 = num_correct / num_graded, _Z_95 * _Z_95
    scale = 1 + z2 / num_graded
    centre = (share + z2 / (2 * num_graded)) / scale
    spread = share * (1 - share) / num_graded + z2 / (4 * num_graded * num_graded)
    half_width = _Z_95 * math.sqrt(spread) / scale
    low = centre - half_width if num_correct else 0.0
    high = centre + half_width if num_correct < num_graded else 1.0
    return (low, high)


_Z_95 = 1.959963984540054  # the normal distribution's 97.5 % point
