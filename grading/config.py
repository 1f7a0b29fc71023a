"""What grading can be told: which answer form to expect, and its budgets.

`profile` changes verdicts; everything else bounds time and memory. A budget that is hit
makes a grade undecided, never wrong.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class GradingProfile(StrEnum):
    """Where a solution's final answer is looked for first (see `grading.extract`)."""

    AUTO = "auto"
    GSM8K = "gsm8k"
    MATH = "math"


class GradingConfig(BaseModel):
    """Settings of a `GradePool`; immutable, unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )

    profile: GradingProfile = GradingProfile.AUTO
    """Where a final answer is looked for first."""
    deadline_seconds: Annotated[float, Field(gt=0, le=60)] = 1.5
    """Wall time of one symbolic comparison, counted from the worker's start on it."""
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes for symbolic comparisons; they have no say in a verdict."""
    memory_mb: Annotated[int, Field(ge=256)] = 1024
    """Address-space limit of one worker, in MiB."""
    jobs_per_worker: Annotated[int, Field(ge=1)] = 2000
    """A worker is replaced after so many comparisons: sympy's caches grow."""
    recycle_mb: Annotated[int, Field(ge=64)] = 256
    """A worker that holds more resident memory, in MiB, after a comparison is replaced."""
    cache_size: Annotated[int, Field(ge=0)] = 20_000
    """Remembered (gold answer, answer) pairs, and as many whole texts (by digest)."""
