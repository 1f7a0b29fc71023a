"""What reading and writing a foreign format can be told; each option names who heeds it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from pipeline.config import FrozenConfig

QUESTION = "{question}"


class ImportFormat(StrEnum):
    """Formats that can be read."""

    PRM800K = "prm800k"
    MATH_SHEPHERD = "math-shepherd"
    TRL_STEPWISE = "trl-stepwise"
    PROCESS_BENCH = "processbench"


class ExportFormat(StrEnum):
    """Formats that can be written."""

    TRL_STEPWISE = "trl-stepwise"
    MATH_SHEPHERD = "math-shepherd"
    RLHFLOW = "rlhflow"
    STEP_DPO = "step-dpo"
    TRL_PREFERENCE = "trl-preference"


class Neutral(StrEnum):
    """What PRM800K's rating 0 counts as; `drop` makes no label of it."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    DROP = "drop"


class Kept(StrEnum):
    """What of PRM800K is left out unless named: rows by flag and by how they ended, and the
    ratings of steps that the labeler flagged as not knowing how to label.
    """

    QUALITY_CONTROL = "quality-control"
    SCREENING = "screening"
    GIVE_UP = "give-up"
    BAD_PROBLEM = "bad-problem"
    FLAGGED = "flagged"


class LabelKind(StrEnum):
    """Hard labels are booleans, soft ones MC values."""

    HARD = "hard"
    SOFT = "soft"


class ImportOptions(FrozenConfig):
    """How rows are read."""

    neutral: Neutral = Neutral.CORRECT
    """PRM800K."""
    keep: tuple[Kept, ...] = ()
    """PRM800K."""
    num_rollouts: Annotated[int, Field(ge=1, le=2**20)] | None = None
    """TRL: soft labels are shares of so many rollouts; None reads hard labels only."""
    separator: Annotated[str, Field(min_length=1)] | None = None
    """TRL: the text between two steps; None is a line break."""


class ExportOptions(FrozenConfig):
    """How rows are written. The pairs' defaults are justified in docs/decisions/0015."""

    hard_threshold: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A step's hard label is true where its MC value is above this."""
    labels: LabelKind = LabelKind.HARD
    """TRL stepwise."""
    template: str = QUESTION
    """TRL and Step-DPO: the prompt; `{question}` is the only place holder."""
    task: str | None = None
    """Math-Shepherd: `GSM8K` or `MATH`; None takes it from each problem's source."""
    high: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Pairs: the chosen step's MC value is at least this."""
    low: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Pairs: the rejected step's MC value is at most this."""
    margin: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Pairs: the two MC values differ by at least this."""
    min_graded: Annotated[int, Field(ge=1)] = 8
    """Pairs: each step has at least so many graded rollouts."""
    pairs_per_prefix: Annotated[int, Field(ge=1)] = 1

    @field_validator("template")
    @classmethod
    def _holds_the_question(cls, template: str) -> str:
        if QUESTION not in template:
            raise ValueError(f"the template {template!r} does not contain {QUESTION}")
        return template

    @field_validator("task")
    @classmethod
    def _is_a_task(cls, task: str | None) -> str | None:
        if task not in (None, "GSM8K", "MATH"):
            raise ValueError("Math-Shepherd knows the tasks GSM8K and MATH")
        return task

    @model_validator(mode="after")
    def _high_is_above_low(self) -> "ExportOptions":
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} is not below high = {self.high}")
        return self

    def prompt(self, question: str) -> str:
        """The template with the question in it; braces of LaTeX are only text."""
        return self.template.replace(QUESTION, question)
