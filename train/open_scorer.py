"""Open the model that a command names as its step scorer. One place knows the kinds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from train.scorer import PrmScorer


class OpenedScorer(Protocol):
    """A `search.scoring.StepScorer` that also knows how it wants to be read."""

    @property
    def aggregation(self) -> str:
        """A name of `search.scoring.Aggregation`: how its step scores rank solutions."""
        ...

    @property
    def threshold(self) -> float:
        """From this score on a step counts as good."""
        ...

    def score(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[float, ...]]:
        """The scores of each (question, steps), in order: one a step, each in [0, 1]."""
        ...


def open_scorer(source: str | Path) -> OpenedScorer:
    """The scorer in the folder `source`.

    Raises DataError for what is no PRM.
    """
    return PrmScorer.load(Path(source))
