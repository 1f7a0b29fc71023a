"""The policies' questions, on recorded rollouts."""

import pytest

from grading.verdict import Verdict
from labeling.allocate import Allocator, Ask
from labeling.policies.config import AllocationConfig, AllocationPolicy
from labeling.steps import StepMethod
from labeling.tree import PrefixTree
from pipeline.records import FinishReason, Prefix, Problem, Rollout

PROBLEM = Problem("p", "q", "1", "test", "train")
NODE = Prefix("p", ("a",)).prefix_id
VERDICTS = {"+": Verdict.CORRECT, "-": Verdict.INCORRECT, "?": Verdict.UNDECIDED}


def rollout(prefix_id: str, index: int, text: str = "", mark: str = "-") -> Rollout:
    return Rollout(
        "p", prefix_id, index, text, "1", VERDICTS[mark], "numeric", FinishReason.STOP, 1, "c",
        "d", "g", index, "now",
    )  # fmt: skip


def tree(marks: str) -> PrefixTree:
    made = PrefixTree(PROBLEM, method=StepMethod.NEWLINE)
    made.tell_solution(rollout(Prefix("p").prefix_id, 0, "a\nb"))
    for index, mark in enumerate(marks):
        made.tell(rollout(NODE, index, mark=mark))
    return made


def textbook(**settings: object) -> AllocationConfig:
    """A config without reuse, so that only a prefix's own rollouts count."""
    return AllocationConfig(reuse=False, **settings)  # type: ignore[arg-type]


def ask(made: PrefixTree, config: AllocationConfig) -> list[Ask]:
    return Allocator(made, config).ask()


def num_asked(marks: str, config: AllocationConfig) -> int:
    asked = ask(tree(marks), config)
    assert all(one.prefix_id == NODE for one in asked)
    return sum(one.num_samples for one in asked)


def drawn_until_enough(outcomes: str, config: AllocationConfig) -> list[int]:
    """The sizes of the draws when the rollouts turn out as `outcomes` says."""
    draws: list[int] = []
    while (num := num_asked(outcomes[: sum(draws)], config)) > 0:
        draws.append(num)
    return draws


def test_fixed_draws_k_once() -> None:
    config = textbook(policy=AllocationPolicy.FIXED, num_rollouts=16)
    assert drawn_until_enough("+" * 99, config) == [16]
    assert num_asked("+" * 7, config) == 9
    assert num_asked("?" * 16, config) == 0
    assert num_asked("?" * 17, config) == 0


@pytest.mark.parametrize(
    ("outcomes", "draws"),
    [
        ("+" * 99, [10]),
        ("-" * 99, [10]),
        ("+-" * 50, [10, 5, 5]),
        ("-" * 9 + "+" + "-" * 89, [10, 5]),  # width 0.386, then 0.287 at 1 of 15
        ("?" * 99, [10, 5, 5]),
        ("?" + "+" * 98, [10, 5]),  # nine graded of ten are not enough
    ],
)
def test_adaptive_stops_where_the_interval_is_narrow(outcomes: str, draws: list[int]) -> None:
    assert drawn_until_enough(outcomes, textbook()) == draws


def test_decision_points_do_not_move_after_a_resume_in_between() -> None:
    outcomes = "-" * 9 + "+" + "-" * 89
    config = textbook(max_interval_width=0.32)
    assert drawn_until_enough(outcomes, config) == [10, 5]
    for num_stored in (11, 12, 13, 14):  # narrow enough at 14, but 15 is the next point
        assert num_asked(outcomes[:num_stored], config) == 15 - num_stored
    assert num_asked(outcomes[:4], config) == 6


def test_the_last_increment_ends_at_the_maximum() -> None:
    config = textbook(min_rollouts=3, max_rollouts=10, increment=4)
    assert drawn_until_enough("+-" * 9, config) == [3, 4, 3]


def test_undecided_rollouts_leave_the_denominator() -> None:
    made = tree("+?-?+")
    Allocator(made, textbook()).close()
    label = made.nodes[NODE].tally.label
    assert (label.num_rollouts, label.num_graded, label.num_undecided) == (5, 3, 2)
    assert label.mc_value == pytest.approx(2 / 3)


def test_a_prefix_with_draws_under_way_is_left_alone() -> None:
    made = tree("+" * 4)
    allocator = Allocator(made, textbook())
    made.nodes[NODE].num_pending = 6
    assert allocator.ask() == []
    made.nodes[NODE].num_pending = 0
    assert allocator.ask() == [Ask(NODE, 6)]


def test_gaps_that_lost_rows_leave_are_drawn_again() -> None:
    made = tree("")
    for index in (0, 1, 4, 5):
        made.tell(rollout(NODE, index))
    node = made.nodes[NODE]
    assert (node.next_index, node.num_drawable(9)) == (2, 2)
    made.tell(rollout(NODE, 2))
    made.tell(rollout(NODE, 3))
    assert (node.next_index, node.num_drawable(9)) == (6, 9)


def test_min_above_max_is_refused() -> None:
    with pytest.raises(ValueError, match="min_rollouts = 30 is above max_rollouts = 20"):
        AllocationConfig(min_rollouts=30)
