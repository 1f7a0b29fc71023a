"""Labels are a pure function of the rollouts, whatever their order."""

import random

from grading.verdict import Verdict
from labeling.estimate import label_problem
from labeling.policies.config import AllocationConfig
from labeling.steps import StepConfig, StepMethod
from pipeline.records import FinishReason, LabeledSolution, Prefix, Problem, Rollout, StepLabel

PROBLEM = Problem("p", "q", "1", "test", "train")
OK, BAD, OPEN = Verdict.CORRECT, Verdict.INCORRECT, Verdict.UNDECIDED


def rollout(
    steps: tuple[str, ...], index: int, verdict: Verdict, text: str = "x", *, cut: bool = False
) -> Rollout:
    return Rollout(
        "p", Prefix("p", steps).prefix_id, index, text, "" if cut else "1", verdict, "r",
        FinishReason.LENGTH if cut else FinishReason.STOP, 1, "c", "dd", "g", index, "now",
    )  # fmt: skip


ROLLOUTS = [
    rollout((), 0, OK, "a\nb\n#### 1"),
    rollout((), 1, BAD, "a\nc\nd"),
    rollout((), 2, OPEN, " \n"),
    rollout((), 3, OK, "late"),
    rollout(("a",), 0, OK),
    rollout(("a",), 1, BAD, cut=True),
    rollout(("a",), 2, OPEN),
    rollout(("a", "\nc"), 0, BAD),
    rollout(("z",), 0, OK),
]


def labels(rollouts: list[Rollout], *, reuse: bool = False) -> list[LabeledSolution]:
    return label_problem(
        PROBLEM,
        rollouts,
        steps=StepConfig(method=StepMethod.NEWLINE),
        allocation=AllocationConfig(solutions_per_problem=3, reuse=reuse),
    ).solutions


def test_counts() -> None:
    first, second = labels(ROLLOUTS)  # solution 2 has no step, solution 3 is not asked for
    shared = StepLabel(3, 0, 1, 1, 1, 1)
    assert first.solution_id == "p/dd/0"
    assert first.steps == ("a", "\nb\n#### 1")
    assert first.labels == (shared, StepLabel(1, 0, 1, 0, 0, 0))
    assert (first.verdict, first.first_error()) == (OK, -1)
    assert second.labels == (shared, StepLabel(1, 0, 0, 1, 0, 0), StepLabel(1, 0, 0, 1, 0, 0))
    assert second.first_error() == 1


def test_the_order_of_rows_does_not_matter() -> None:
    expected = labels(ROLLOUTS)
    rng = random.Random(5)
    for _ in range(20):
        rng.shuffle(ROLLOUTS)
        assert labels(ROLLOUTS) == expected


def test_no_rollouts_give_no_labels() -> None:
    assert labels([]) == []
