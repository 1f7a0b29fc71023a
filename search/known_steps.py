"""Solutions whose steps are known to be right or wrong: what step scores are tested against.

The truth of a step comes from one of three places (`Truth`), and may be unknown: after the
first error of a ProcessBench solution nothing is known, nor of a step without a graded
rollout. Only known steps are tested.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from search.scoring import OnProgress, StepScorer, score_all


class Truth(StrEnum):
    """Where the truth of steps comes from."""

    EXACT = "exact"
    """The demo domain's own checker: every step is known."""
    LABELS = "labels"
    """A dataset's hard labels: from rollouts, or imported judgements."""
    PROCESS_BENCH = "processbench"
    """ProcessBench's first errors: known up to and including the first error."""


@dataclass(frozen=True, slots=True)
class KnownSolution:
    """A solution, and for each step whether it is right; None where that is unknown.

    `soft_labels` is as long as `steps` where there are any; a label may be None.
    `step_scores` is as long as `steps` once scored, and empty before.
    """

    question: str
    steps: tuple[str, ...]
    truths: tuple[bool | None, ...]
    soft_labels: tuple[float | None, ...] = ()
    step_scores: tuple[float, ...] = ()

    @property
    def problem_key(self) -> str:
        """What makes two solutions one problem's: the question, white space aside."""
        return " ".join(self.question.split())

    @property
    def first_error(self) -> int | None:
        """The 0-based index of the first wrong step, -1 if none; None where an unknown step
        comes before one is found.
        """
        for step_index, truth in enumerate(self.truths):
            if truth is None:
                return None
            if not truth:
                return step_index
        return -1


@dataclass(frozen=True, slots=True)
class KnownSteps:
    """Solutions to test on. `name` says in our own words which; it names rows and files."""

    name: str
    truth: Truth
    solutions: tuple[KnownSolution, ...]
    notes: dict[str, int] = field(default_factory=dict[str, int])
    """Counts of what was left out while reading, and why."""


def score_known(
    groups: Sequence[KnownSteps],
    *,
    scorer: StepScorer,
    name: str = "the scorer",
    on_progress: OnProgress | None = None,
) -> list[KnownSteps]:
    """The same groups with scores, a solution that stands in several scored once.

    Errors as `score_all`.
    """
    items = [(one.question, one.steps) for group in groups for one in group.solutions]
    scores = iter(score_all(scorer, items, name=name, on_progress=on_progress))
    return [
        replace(
            group,
            solutions=tuple(replace(one, step_scores=next(scores)) for one in group.solutions),
        )
        for group in groups
    ]
