"""What each policy asks for on scripted outcomes, alone and under a budget."""

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grading.verdict import Verdict
from labeling.allocate import Allocator
from labeling.estimate import label_problem
from labeling.policies import first_error, uncertain_first
from labeling.policies.config import AllocationConfig, AllocationPolicy, BudgetConfig
from labeling.steps import StepConfig, StepMethod
from labeling.tree import Node, PrefixTree
from pipeline.records import FinishReason, LabeledSolution, Prefix, Problem, Rollout, StepLabel

PROBLEM = Problem("p", "q", "1", "test", "train")
STEPS = StepConfig(method=StepMethod.NEWLINE)
BUDGET = BudgetConfig(rollouts=10_000)

Outcome = Callable[[tuple[str, ...], int], tuple[str, bool | None]]
"""(steps of the prefix, index) → the rollout's text and whether it is correct."""


def rollout(steps: Sequence[str], index: int, text: str, is_right: bool | None) -> Rollout:
    """`is_right` is None where the grader could not decide."""
    verdict = {True: Verdict.CORRECT, False: Verdict.INCORRECT, None: Verdict.UNDECIDED}[is_right]
    return Rollout(
        "p", Prefix("p", tuple(steps)).prefix_id, index, text, "1", verdict, "r",
        FinishReason.STOP, 1, "c", "d", "g", index, "now",
    )  # fmt: skip


class Play:
    """A policy played to its end on solutions (text, is right) and scripted outcomes."""

    def __init__(
        self,
        solutions: Sequence[tuple[str, bool]],
        outcome: Outcome,
        config: AllocationConfig,
        stored: Sequence[Rollout] = (),
    ) -> None:
        self.asks: list[tuple[tuple[str, ...], int]] = []
        self.config = config
        self.rollouts = [rollout((), i, text, right) for i, (text, right) in enumerate(solutions)]
        self.rollouts += stored
        self.tree = PrefixTree(PROBLEM, method=STEPS.method)
        for one in self.rollouts:
            if one.prefix_id == Prefix("p").prefix_id:
                self.tree.tell_solution(one)
            else:
                self.tree.tell(one)
        allocator = Allocator(self.tree, config)
        while asks := allocator.ask():
            for wanted in asks:
                self._draw(self.tree.nodes[wanted.prefix_id], wanted.num_samples, outcome)
        allocator.close()

    def _draw(self, node: Node, num_samples: int, outcome: Outcome) -> None:
        steps = node.prefix.steps
        self.asks.append((steps, num_samples))
        for index in range(node.next_index, node.next_index + num_samples):
            drawn = rollout(steps, index, *outcome(steps, index))
            self.rollouts.append(drawn)
            self.tree.tell(drawn)

    @property
    def num_drawn(self) -> int:
        return sum(num for _, num in self.asks)

    def labels(self) -> list[LabeledSolution]:
        made = label_problem(PROBLEM, self.rollouts, steps=STEPS, allocation=self.config).solutions
        nodes = [node for solution in self.tree.solutions for node in solution.nodes]
        assert [node.tally.label for node in nodes] == [
            label for solution in made for label in solution.labels[:-1]
        ]
        return made


def config(policy: AllocationPolicy, **settings_: object) -> AllocationConfig:
    return AllocationConfig(policy=policy, **settings_)  # type: ignore[arg-type]


def lines(count: int, last: str = "z") -> str:
    return "\n".join([*(f"s{index}" for index in range(count - 1)), last])


def marks(pattern: str) -> Outcome:
    """Rollouts that leave every solution's path and turn out as `pattern` says, again and again."""
    return lambda steps, index: ("\nelse\n1", pattern[index % len(pattern)] == "+")


# -- fixed, adaptive, first-success ----------------------------------------------------------


def test_fixed_samples_only_the_deficit() -> None:
    play = Play(
        [(lines(3), True)],
        lambda steps, index: ("\ns1\nw" if index < 5 else "\nelse", True),
        config(AllocationPolicy.FIXED, num_rollouts=16),
    )
    assert play.asks == [(("s0",), 16), (("s0", "\ns1"), 11)]  # 5 passes
    (solution,) = play.labels()
    assert solution.labels[0] == StepLabel(16, 0, 16, 0, 0, 0)
    assert solution.labels[1] == StepLabel(16, 5, 16, 0, 0, 0)


def test_more_passes_than_wanted_ask_for_nothing() -> None:
    play = Play(
        [(lines(3), True)],
        lambda steps, index: ("\ns1\nw", True),
        config(AllocationPolicy.FIXED, num_rollouts=16),
    )
    assert play.asks == [(("s0",), 16)]
    assert play.labels()[0].labels[1] == StepLabel(16, 16, 16, 0, 0, 0)


def test_adaptive_asks_of_a_deeper_prefix_only_when_those_before_it_are_settled() -> None:
    play = Play([(lines(3), False)], marks("+-"), config(AllocationPolicy.ADAPTIVE))
    first, second = ("s0",), ("s0", "\ns1")
    assert play.asks == [
        (first, 10),
        (first, 5),
        (first, 5),
        (second, 10),
        (second, 5),
        (second, 5),
    ]
    textbook = config(AllocationPolicy.ADAPTIVE, reuse=False)
    play = Play([(lines(3), False)], marks("+-"), textbook)
    assert play.asks == [
        (first, 10),
        (second, 10),
        (first, 5),
        (second, 5),
        (first, 5),
        (second, 5),
    ]


def test_adaptive_counts_passes_where_it_decides() -> None:
    """Ten that agree are enough, whoever drew them."""
    play = Play(
        [(lines(3), False)],
        lambda steps, index: ("\ns1\nw" if index < 4 else "\nelse", False),
        config(AllocationPolicy.ADAPTIVE),
    )
    assert play.asks == [(("s0",), 10), (("s0", "\ns1"), 6)]


@pytest.mark.parametrize(
    ("pattern", "draws"),
    [
        ("+", [5]),
        ("----+", [5]),
        ("-----+", [5, 5]),
        ("---------------+", [5, 5, 5, 1]),
        ("-" * 99, [5, 5, 5, 1]),
    ],
)
def test_first_success_stops_at_the_increment_with_a_success(
    pattern: str, draws: list[int]
) -> None:
    play = Play(
        [(lines(2), False)],
        marks(pattern),
        config(AllocationPolicy.FIRST_SUCCESS, num_rollouts=16, reuse=False),
    )
    assert [num for _, num in play.asks] == draws
    assert play.labels()[0].labels[0].hard_label() is ("+" in pattern[:16])


def test_first_success_needs_no_draw_where_a_right_solution_passes() -> None:
    first_success = config(AllocationPolicy.FIRST_SUCCESS)
    play = Play([(lines(4), True), ("s0\nw\nz", False)], marks("-"), first_success)
    assert {steps for steps, _ in play.asks} == {("s0", "\nw")}
    assert play.num_drawn == 15  # 16 with its own ending


@settings(max_examples=60, deadline=None)
@given(
    probability=st.floats(0, 1),
    seed=st.integers(0, 10_000),
    policy=st.sampled_from([AllocationPolicy.FIRST_SUCCESS, AllocationPolicy.FIXED]),
)
def test_hard_labels_of_first_success_are_those_of_fixed(
    probability: float, seed: int, policy: AllocationPolicy
) -> None:
    """Without reuse, on the same rollouts, for fewer of them."""

    def outcome(steps: tuple[str, ...], index: int) -> tuple[str, bool]:
        return "\nelse", random.Random(f"{seed}/{steps}/{index}").random() < probability

    solutions = [(lines(4), False), ("s0\nw\nx\nz", False)]
    fixed = Play(solutions, outcome, config(AllocationPolicy.FIXED, reuse=False))
    other = Play(solutions, outcome, config(policy, reuse=False))
    for one, two in zip(fixed.labels(), other.labels(), strict=True):
        hard = [label.hard_label() for label in one.labels]
        assert hard == [label.hard_label() for label in two.labels]
    assert other.num_drawn <= fixed.num_drawn == 16 * len(fixed.tree.nodes)


# -- first-error -----------------------------------------------------------------------------


def right_until(num_right: int) -> Outcome:
    """Monotone truth: prefixes of at most `num_right` steps can be saved, others not."""
    return lambda steps, index: ("\nelse", len(steps) <= num_right and index % 3 == 1)


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("num_steps", [1, 2, 3, 5, 8, 13])
def test_the_search_finds_the_first_error_of_fixed_in_fewer_prefixes(
    num_steps: int, reuse: bool
) -> None:
    for num_right in range(num_steps):
        solutions, outcome = [(lines(num_steps), False)], right_until(num_right)
        search = Play(solutions, outcome, config(AllocationPolicy.FIRST_ERROR, reuse=reuse))
        fixed = Play(solutions, outcome, config(AllocationPolicy.FIXED, reuse=reuse))
        assert search.labels()[0].first_error() == fixed.labels()[0].first_error() == num_right
        visited = {steps for steps, _ in search.asks}
        assert len(visited) <= math.ceil(math.log2(num_steps)) if num_steps > 1 else not visited


def test_the_search_halves_the_steps_and_leaves_the_others_without_a_label() -> None:
    first_error_ = config(AllocationPolicy.FIRST_ERROR)
    play = Play([(lines(8), False)], right_until(4), first_error_)
    assert [(len(steps), num) for steps, num in play.asks] == [
        (4, 5), (6, 5), (6, 5), (6, 5), (5, 5), (5, 5), (5, 5)
    ]  # fmt: skip
    (solution,) = play.labels()
    labelled = [bool(label.num_graded) for label in solution.labels]
    assert labelled == [False, False, False, True, True, True, False, True]
    assert solution.first_error() == 4


def test_a_right_solution_asks_for_nothing_and_keeps_its_own_ending() -> None:
    play = Play([(lines(4), True)], marks("-"), config(AllocationPolicy.FIRST_ERROR))
    assert play.asks == []
    assert play.labels()[0].labels == (StepLabel(1, 1, 1, 0, 0, 0),) * 3 + (
        StepLabel(1, 0, 1, 0, 0, 0),
    )
    textbook = config(AllocationPolicy.FIRST_ERROR, reuse=False)
    play = Play([(lines(4), True)], marks("-"), textbook)
    assert [label.num_graded for label in play.labels()[0].labels] == [0, 0, 0, 1]


def test_a_correct_pass_saves_the_search_the_prefixes_before_it() -> None:
    """The right solution shares four of seven prefixes with the wrong one."""
    right = ("s0\ns1\ns2\ns3\nr\nz", True)
    play = Play([(lines(8), False), right], right_until(4), config(AllocationPolicy.FIRST_ERROR))
    assert [len(steps) for steps, _ in play.asks] == [6, 6, 6, 5, 5, 5]
    assert play.labels()[0].first_error() == 4


def test_settled_prefixes_are_free_for_the_next_solution() -> None:
    twins = [(lines(8), False), (lines(8, last="y"), False)]
    one = Play(twins[:1], right_until(4), config(AllocationPolicy.FIRST_ERROR))
    two = Play(twins, right_until(4), config(AllocationPolicy.FIRST_ERROR))
    assert {steps for steps, _ in one.asks} == {steps for steps, _ in two.asks}
    assert [solution.first_error() for solution in two.labels()] == [4, 4]


def test_a_late_pass_moves_the_search_on() -> None:
    """The middle looked wrong; a rollout of an earlier prefix then passes it and is correct."""

    def outcome(steps: tuple[str, ...], index: int) -> tuple[str, bool]:
        if len(steps) == 2:
            return "\ns2\ns3\nelse", index == 0
        return "\nelse", False

    play = Play([(lines(8), False)], outcome, config(AllocationPolicy.FIRST_ERROR))
    assert list(dict.fromkeys(len(steps) for steps, _ in play.asks)) == [4, 2, 6, 5]
    assert play.labels()[0].first_error() == 4


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    paths=st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=7), min_size=1, max_size=4),
    reuse=st.booleans(),
)
def test_the_search_always_ends_with_the_first_labelled_wrong_step_searched_for(
    seed: int, paths: list[list[str]], reuse: bool
) -> None:
    def outcome(steps: tuple[str, ...], index: int) -> tuple[str, bool]:
        rng = random.Random(f"{seed}/{steps}/{index}")
        tail = [rng.choice("ab") for _ in range(rng.randint(1, 4))]
        return "\n" + "\n".join(tail), rng.random() < rng.choice([0.0, 0.02, 0.3])

    rng = random.Random(seed)
    solutions = [("\n".join(path), rng.random() < 0.3) for path in paths]
    play = Play(solutions, outcome, config(AllocationPolicy.FIRST_ERROR, reuse=reuse))
    for solution, labeled in zip(play.tree.solutions, play.labels(), strict=True):
        is_right = labeled.verdict is Verdict.CORRECT
        assert first_error.next_prefix(solution, is_right=is_right) is None
        if not is_right:
            error = labeled.first_error()
            hard = [label.hard_label() for label in labeled.labels]
            assert error >= 0
            assert not hard[error]
            if error > 0:
                assert hard[error - 1]  # nothing between the last right and the first wrong step
    again = Play(solutions, outcome, play.config, play.rollouts[len(solutions) :])
    assert again.asks == []
    assert again.labels() == play.labels()


def test_a_prefix_that_no_rollout_decides_is_not_taken_for_wrong() -> None:
    def outcome(steps: tuple[str, ...], index: int) -> tuple[str, bool | None]:
        is_open = len(steps) == 4
        return "\nelse", None if is_open else len(steps) < 6 and index > 2

    textbook = config(AllocationPolicy.FIRST_ERROR, reuse=False)
    play = Play([(lines(8), False)], outcome, textbook)
    assert list(dict.fromkeys(len(steps) for steps, _ in play.asks)) == [4, 3, 6, 5]
    (solution,) = play.labels()
    assert solution.first_error() == 5
    assert [label.num_graded > 0 for label in solution.labels] == [
        False, False, True, False, True, True, False, True
    ]  # fmt: skip
    every_time = Play([(lines(8), False)], lambda _steps, _index: ("\nelse", None), textbook)
    assert len({steps for steps, _ in every_time.asks}) == 7  # all are asked, and then it ends


def test_a_later_solutions_pass_moves_an_earlier_search_on() -> None:
    """The first search ends with a wrong step that the second solution's rollouts pass."""

    def outcome(steps: tuple[str, ...], index: int) -> tuple[str, bool | None]:
        if steps == ("s0", "\ns1", "\nt"):
            return "", False
        return ("\ns1\ns2\ns3\nelse", index == 14) if len(steps) == 1 else ("\nelse", False)

    stored = [rollout(("s0",), index, *outcome(("s0",), index)) for index in range(15)]
    solutions = [("s0\ns1\ns2\ns3\nz", False), ("s0\ns1\nt\nz", False)]
    play = Play(solutions, outcome, config(AllocationPolicy.FIRST_ERROR), stored)
    for solution in play.tree.solutions:
        assert first_error.next_prefix(solution, is_right=False) is None


# -- uncertain-first -------------------------------------------------------------------------


def test_uncertain_first_begins_with_the_minimum() -> None:
    uncertain = config(AllocationPolicy.UNCERTAIN_FIRST, budget=BUDGET)
    play = Play([(lines(3), False)], marks("+-"), uncertain)
    assert play.asks == [(("s0",), 10), (("s0", "\ns1"), 10)]


def test_the_widest_intervals_come_first_and_narrow_ones_not_at_all() -> None:
    uncertain = config(AllocationPolicy.UNCERTAIN_FIRST, budget=BUDGET, reuse=False)
    outcomes = {1: "-" * 10, 2: "+-" * 5, 3: "+---------", 4: "++-++-++++"}
    play = Play(
        [(lines(5), False)], lambda steps, i: ("\ne", outcomes[len(steps)][i] == "+"), uncertain
    )
    nodes = list(play.tree.nodes.values())
    chosen = uncertain_first.widest(nodes, uncertain, num_nodes=9)
    assert [node.prefix.num_steps for node in chosen] == [2, 4, 3]
    assert uncertain_first.widest(nodes, uncertain, num_nodes=1) == chosen[:1]


def test_a_budget_is_not_poured_into_what_cannot_be_graded() -> None:
    uncertain = config(AllocationPolicy.UNCERTAIN_FIRST, budget=BUDGET, reuse=False)
    halves: dict[int, Callable[[int], bool | None]] = {
        1: lambda _index: None,
        2: lambda i: i % 2 == 0,
        3: lambda i: None if i % 5 else i == 0,  # one of five is graded
    }
    play = Play([(lines(4), False)], lambda steps, i: ("\ne", halves[len(steps)](i)), uncertain)
    chosen = uncertain_first.widest(play.tree.nodes.values(), uncertain, num_nodes=9)
    assert [node.prefix.num_steps for node in chosen] == [2, 3]


def test_uncertain_first_needs_a_budget() -> None:
    with pytest.raises(ValueError, match=r"budget\.tokens, budget\.rollouts or budget\.minutes"):
        config(AllocationPolicy.UNCERTAIN_FIRST)
