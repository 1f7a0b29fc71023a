"""The three-valued result of grading an answer."""

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

    `reason` is a short machine-readable word such as `numeric`, `no-answer`, `timeout`.
    """

    verdict: Verdict
    reason: str
    answer: str
