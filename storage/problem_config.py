"""Which problems to take: the config of `storage.problems`."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from pipeline.config import FrozenConfig
from pipeline.errors import ConfigError

SPLIT_NAME = r"[a-z][a-z0-9_]{0,63}"
"""What a split may be called, as a regular expression: it becomes part of file names."""
_KEYWORD = "all"


def _no_keyword(name: str) -> str:
    if name == _KEYWORD:
        raise ValueError("`load_dataset` takes this for all splits together; name another")
    return name


SplitName = Annotated[str, Field(pattern=f"^{SPLIT_NAME}$"), AfterValidator(_no_keyword)]


def check_split_name(name: str, *, origin: str) -> None:
    """Raises ConfigError where labels of this split could not be published and loaded."""
    if name == _KEYWORD or not re.fullmatch(SPLIT_NAME, name):
        raise ConfigError(
            f"{origin}: a split must not be called {name!r}: a name is of a-z, 0-9 and _, begins "
            f"with a letter, is 64 letters long at most, and is not {_KEYWORD!r}"
        )


class ProblemPreset(StrEnum):
    """Column names and gold-answer form of a well-known dataset."""

    GSM8K = "gsm8k"
    MATH = "math"


class ProblemsConfig(FrozenConfig):
    """Which problems to take.

    `source` is `demo`, a file (.jsonl, .csv, .parquet), a folder that `load_dataset` reads
    (a clone or download of a Hub dataset), or a Hub dataset id; what is here goes before the Hub.
    """

    source: str = "demo"
    """`demo`, a file, a folder or a Hub dataset id, as said above."""
    preset: ProblemPreset | None = None
    """The columns and the gold answers of a well-known dataset: gsm8k or math."""
    question_column: str | None = None
    """None: the preset's, else `question`."""
    answer_column: str | None = None
    """None: the preset's, else `answer`."""
    id_column: str | None = None
    """None names problems by their question."""
    hub_config: str | None = None
    """The configuration (subset) of a Hub dataset that has several, such as `main` of GSM8K."""
    hub_revision: str | None = None
    """A commit, tag or branch of the Hub; a commit can also be read from the local cache."""
    split: SplitName = "train"
    """The split of a dataset or of the demo to read, and the split's name in the labels."""
    start: Annotated[int, Field(ge=0)] = 0
    """The first row to read; rows count from 0."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Rows to read from `start`; None reads all (the demo has no end and needs one)."""
