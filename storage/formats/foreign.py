"""A labelled solution as a foreign row tells it, and the checks that rows go through.

A judgement (a human's, or a hard label of unknown origin) is one graded rollout: what is not
known of it is not invented.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from grading.verdict import Verdict
from pipeline.config import stable_digest
from pipeline.records import StepLabel

Row = Mapping[str, object]

UNLABELLED = StepLabel(0, 0, 0, 0, 0, 0)

_MAX_SHOWN = 60


class BadRowError(ValueError):
    """A row that is not of its format; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ForeignSolution:
    """A question, the steps of a solution, and a label a step (as many, at least 1).

    `verdict` is None where the final answer is to be compared with the gold one. `name` tells
    solutions of one question apart; "" names it by its steps. `source` "" is the file's name.
    """

    question: str
    steps: tuple[str, ...]
    labels: tuple[StepLabel, ...]
    final_answer: str
    verdict: Verdict | None
    gold_answer: str = ""
    source: str = ""
    generator: str = ""
    name: str = ""

    @property
    def problem_id(self) -> str:
        """The question's own name, whatever row and file it comes from."""
        return f"q-{stable_digest([self.question])}"


def judged(is_correct: bool | None) -> StepLabel:
    """The label of one judgement; None is no judgement."""
    if is_correct is None:
        return UNLABELLED
    return StepLabel(1, 0, int(is_correct), int(not is_correct), 0, 0)


def verdict_of(label: StepLabel) -> Verdict:
    """What the last step's label says of the solution: decided only where it is unanimous."""
    if label.num_graded == 0 or 0 < label.num_correct < label.num_graded:
        return Verdict.UNDECIDED
    return Verdict.CORRECT if label.num_correct else Verdict.INCORRECT


def joined_steps(texts: Sequence[str], separator: str) -> tuple[str, ...]:
    """Steps whose concatenation is `separator.join(texts)`.

    White space between two texts belongs to the beginning of the second: no step but the last
    ends in it (`labeling.steps`).
    """
    steps: list[str] = []
    carried = ""
    for index, text in enumerate(texts):
        is_last = index == len(texts) - 1
        body = text if is_last else text.rstrip()
        steps.append(carried + (separator if index else "") + body)
        carried = text[len(body) :]
    return tuple(steps)


def required(row: Row, name: str) -> object:
    """The value under `name`, which may be null."""
    if name not in row:
        raise BadRowError(f"no {name!r}; it has {', '.join(sorted(map(repr, row)))[:200]}")
    return row[name]


def text_in(row: Row, name: str) -> str:
    """The text under `name`, which is not blank."""
    value = required(row, name)
    if not isinstance(value, str):
        raise BadRowError(f"{name!r} is {shown(value)}, not a text")
    if not value.strip():
        raise BadRowError(f"{name!r} is empty")
    return value


def flag_in(row: Row, name: str) -> bool:
    """The boolean under `name`."""
    value = required(row, name)
    if not isinstance(value, bool):
        raise BadRowError(f"{name!r} is {shown(value)}, not true or false")
    return value


def index_in(row: Row, name: str, *, low: int, high: int) -> int:
    """The whole number under `name`, from `low` (inclusive) to `high` (exclusive)."""
    value = required(row, name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
        raise BadRowError(f"{name!r} is {shown(value)}, not a whole number in [{low}, {high})")
    return value


def list_in(row: Row, name: str) -> list[object]:
    """The list under `name`."""
    value = required(row, name)
    if not isinstance(value, list):
        raise BadRowError(f"{name!r} is {shown(value)}, not a list")
    return cast("list[object]", value)


def row_in(value: object, name: str) -> Row:
    """An object (a JSON object, an Arrow struct), called `name` in the message."""
    if not isinstance(value, dict):
        raise BadRowError(f"{name} is {shown(value)}, not an object")
    return cast("Row", value)


def texts_in(row: Row, name: str) -> list[str]:
    """The list of texts under `name`: at least one, none blank."""
    texts = list_in(row, name)
    if not texts:
        raise BadRowError(f"{name!r} is an empty list")
    for index, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise BadRowError(f"step {index} of {name!r} is {shown(text)}, which is no step")
    return cast("list[str]", texts)


def shown(value: object) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
