"""The K-curve, on outcomes and on rollouts written by hand."""

from grading.verdict import Verdict
from labeling.flips import FlipCurve, FlipRow, prefix_outcomes
from labeling.policies.config import AllocationConfig, AllocationPolicy
from labeling.steps import StepConfig, StepMethod
from pipeline.records import FinishReason, Prefix, Problem, Rollout

PROBLEM = Problem("p", "q", "1", "test", "train")
STEPS = StepConfig(method=StepMethod.NEWLINE)
VERDICTS = {"+": Verdict.CORRECT, "-": Verdict.INCORRECT, "?": Verdict.UNDECIDED}


def curve(*outcomes: str, threshold: float = 0.0) -> list[FlipRow]:
    made = FlipCurve(threshold)
    for one in outcomes:
        made.tell([mark == "+" for mark in one])
    return made.rows()


def rollout(steps: tuple[str, ...], index: int, text: str, mark: str) -> Rollout:
    return Rollout(
        problem_id="p",
        prefix_id=Prefix("p", steps).prefix_id,
        rollout_index=index,
        text=text,
        final_answer="1",
        verdict=VERDICTS[mark],
        verdict_reason="text",
        finish_reason=FinishReason.STOP,
        num_tokens=1,
        completer="c",
        sampling_digest="d",
        grader_version="g",
        seed=0,
        created_at="now",
    )


def rollouts(steps: tuple[str, ...], marks: str) -> list[Rollout]:
    return [rollout(steps, index, "\nb\nend", mark) for index, mark in enumerate(marks)]


def test_flips_are_counted_over_all_prefixes_and_those_with_more() -> None:
    # after 1: -, -, +, - ; after 2: -, -(of 2), +, ... ; the stored hard labels: +, -, +, +
    rows = curve("---+", "--", "+-", "-+++++++", "")
    assert rows == [
        # soft labels, all: 0.2, 0.0, 0.5, 0.9; after 1: 0, 0, 1, 0
        FlipRow(1, 4, 4, num_hard_flips=2, num_dead_flips=2, num_soft_flips=3),
        # after 2: 0.0 and 0.5 (whole: 0.2 and 0.9); the others have no more than 2
        FlipRow(2, 4, 2, num_hard_flips=1, num_dead_flips=1, num_soft_flips=2),
        # after 4 of 8: 3/4 = 0.8 against 0.9
        FlipRow(4, 4, 1, num_hard_flips=0, num_dead_flips=0, num_soft_flips=1),
        FlipRow(8, 4, 0, 0, 0, 0),
    ]


def test_a_threshold_can_flip_from_true_to_false() -> None:
    (one, two, *_) = curve("+---", threshold=0.5)
    assert (one.num_hard_flips, one.num_dead_flips) == (1, 0)
    assert (two.num_hard_flips, two.num_soft_flips) == (0, 1)


def test_no_prefix_gives_no_curve_and_one_rollout_one_row() -> None:
    assert curve("", "") == []
    assert curve("+") == [FlipRow(1, 1, 0, 0, 0, 0)]


def test_outcomes_are_those_that_the_label_counts_in_index_order() -> None:
    solution = rollout((), 0, "a\nb\nend", "+")
    stored = [solution, *reversed(rollouts(("a",), "-+?--+")), *rollouts(("a", "\nb"), "--")]
    allocation = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=5, reuse=False)
    assert list(prefix_outcomes(PROBLEM, stored, steps=STEPS, allocation=allocation)) == [
        [False, True, False, False],  # five rollouts, one undecided; the sixth is not counted
        [False, False],
    ]


def test_reused_rollouts_come_first() -> None:
    solutions = [rollout((), 0, "a\nb\nend", "-"), rollout((), 1, "a\nelse", "+")]
    below = [rollout(("a",), 0, "\nb\nend", "-"), rollout(("a",), 1, "\nc\nend", "+")]
    stored = [*solutions, *below, *rollouts(("a", "\nb"), "+-")]
    allocation = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=3)
    assert list(prefix_outcomes(PROBLEM, stored, steps=STEPS, allocation=allocation)) == [
        [True, False, True],  # the second solution's ending, then its two
        [False, True, False],  # the one of them that passes, then its own two
    ]


def test_another_models_solutions_lend_no_outcome() -> None:
    solution = rollout((), 0, "a\nend", "+")
    allocation = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=4)
    found = prefix_outcomes(
        PROBLEM,
        rollouts(("a",), "-+"),
        steps=STEPS,
        allocation=allocation,
        solutions=[solution],
    )
    assert list(found) == [[False, True]]
