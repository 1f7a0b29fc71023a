"""The three-valued result of grading an answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Undecided means that the grader could not tell; it is never counted as wrong."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Grade:
    """A verdict, why, and the final answer that was graded ("" where none was found).

    `reason` is the rule that decided. Correct: `text`, `numeric` (plain decimals), `exact`,
    `rounding`, `percent` (a sign that one side lacks), `units` (converted), `choice`, `wording`,
    `written-out` (dots), `symbolic`, `numeric-identity` (tested at many points, not proven).
    Incorrect: one of those, `no-answer`, `unparsable-answer`, `unparsable-gold` (an empty one).
    Undecided: `unparsable-gold`, `unsupported` notation, `too-large`, `condition` (two that
    differ), `wording`, `unproven`, and what became of the worker: `timeout`, `memory`,
    `worker-died`, `failed-<error>`.
    """

    verdict: Verdict
    reason: str
    answer: str


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """CORRECT if every one is, INCORRECT at the first that is."""
    result = Verdict.CORRECT
    for verdict in verdicts:
        if verdict is Verdict.INCORRECT:
            return verdict
        if verdict is Verdict.UNDECIDED:
            result = verdict
    return result


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """CORRECT at the first that is, INCORRECT if every one is."""
    result = Verdict.INCORRECT
    for verdict in verdicts:
        if verdict is Verdict.CORRECT:
            return verdict
        if verdict is Verdict.UNDECIDED:
            result = verdict
    return result
