"""Passes: which rollouts count for which prefixes, and that nothing else does."""

import random
import re
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grading.verdict import Verdict
from labeling.allocate import Allocator
from labeling.estimate import label_problem
from labeling.policies.config import AllocationConfig, AllocationPolicy
from labeling.steps import StepConfig, StepMethod, split_steps
from labeling.tree import PrefixTree, Tally, build_tree
from pipeline.records import FinishReason, Prefix, Problem, Rollout, StepLabel

PROBLEM = Problem("p", "q", "1", "test", "train")
OK, BAD, OPEN = Verdict.CORRECT, Verdict.INCORRECT, Verdict.UNDECIDED
MANY = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=1024)


def rollout(
    steps: Sequence[str], index: int, text: str, verdict: Verdict = BAD, *, cut: bool = False
) -> Rollout:
    return Rollout(
        "p", Prefix("p", tuple(steps)).prefix_id, index, text, "" if cut else "1", verdict, "r",
        FinishReason.LENGTH if cut else FinishReason.STOP, 1, "c", "d", "g", index, "now",
    )  # fmt: skip


def tallies(
    rollouts: Sequence[Rollout],
    config: AllocationConfig = MANY,
    *,
    method: StepMethod = StepMethod.NEWLINE,
    solutions: Sequence[Rollout] | None = None,
) -> dict[tuple[str, ...], Tally]:
    """The counts by steps when everything stored is counted."""
    tree = build_tree(PROBLEM, rollouts, method=method, solutions=solutions)
    Allocator(tree, config, reuse_solutions=solutions is None).close()
    return {node.prefix.steps: node.tally for node in tree.nodes.values()}


SOLUTION = rollout((), 0, "a\nb\nc\nd")
A, AB, ABC = ("a",), ("a", "\nb"), ("a", "\nb", "\nc")


def test_a_solution_counts_for_no_prefix_that_it_has_brought() -> None:
    """It goes on after them, or they would be no nodes: its ending is chosen by that."""
    assert tallies([SOLUTION]) == {steps: Tally() for steps in (A, AB, ABC)}
    again = rollout((), 1, "a\nb\nc\nd", OK)
    assert tallies([SOLUTION, again])[ABC] == Tally(correct=1, reused=1)


@pytest.mark.parametrize("policy", [AllocationPolicy.FIRST_SUCCESS, AllocationPolicy.FIRST_ERROR])
def test_for_hard_labels_a_right_solution_proves_its_own_prefixes(policy: AllocationPolicy) -> None:
    found = tallies([rollout((), 0, "a\nb\nc", OK)], AllocationConfig(policy=policy))
    assert found == {A: Tally(correct=1, reused=1), AB: Tally(correct=1, reused=1)}


def test_a_prefix_of_the_second_solution_does_not_count_the_first_that_ends_there() -> None:
    """Had the first gone on there, it would have brought the prefix."""
    rows = [rollout((), 0, "a", OK), rollout((), 1, "a\nz"), rollout((), 2, "a", OK)]
    assert tallies(rows) == {A: Tally(correct=1, reused=1)}


def test_without_reuse_only_own_rollouts_count() -> None:
    rows = [SOLUTION, rollout(A, 0, "\nb\nc\nd", OK), rollout(AB, 0, "\nz")]
    found = tallies(rows, MANY.model_copy(update={"reuse": False}))
    assert found == {A: Tally(correct=1), AB: Tally(incorrect=1), ABC: Tally()}


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("\nb\nc\nd", [AB, ABC]),
        ("\nb\nc\nz", [AB, ABC]),
        ("\nb\nz\nc\nd", [AB]),  # leaves the solution's path
        ("\nb\nc", [AB, ABC]),  # stops at c, as a fresh rollout of it may
        ("\nb", [AB]),
        ("\nb\nc\n", [AB, ABC]),
        ("\nb\nc\n---", [AB, ABC]),
        ("\nb\nc\n#### 5", [AB, ABC]),  # the answer becomes a part of the step before it
        ("\nb\nc\n\nd", [AB, ABC]),
        ("\nb\nc and more\nd", [AB, ABC]),  # from c on everything is drawn as after c
        ("\nb\ncd\nd", [AB]),  # goes on in the word
        ("\nb\nc.\nd", [AB]),
        ("\n\nb\nc\nd", []),  # another text between the steps is another prefix
        ("\nb \nc\nd", [AB]),  # so is white space of its own
        ("\nB\nc\nd", []),
        (" and\nb\nc\nd", []),
        ("", []),
    ],
)
@pytest.mark.parametrize("method", [StepMethod.NEWLINE, StepMethod.AUTO])
def test_a_pass_has_the_same_text(
    text: str, reached: list[tuple[str, ...]], method: StepMethod
) -> None:
    found = tallies([SOLUTION, rollout(A, 0, text, OK)], method=method)
    assert found[A] == Tally(correct=1)
    for steps in (AB, ABC):
        passes = int(steps in reached)
        assert found[steps] == Tally(correct=passes, reused=passes)


@pytest.mark.parametrize("text", ["\nb\nc\n\nd", "\nb\nStep 2: c\nd", "\nb\n\n$$\nc"])
def test_what_follows_a_prefix_does_not_decide_whether_it_was_passed(text: str) -> None:
    """With `auto` a later blank line or marker changes where all steps are cut."""
    found = tallies([SOLUTION, rollout(A, 0, text, OK)], method=StepMethod.AUTO)
    assert found[AB] == Tally(correct=1, reused=1)


def test_a_step_that_begins_as_another_is_passed_with_it() -> None:
    """ "b" may go on as "b and more": both are prefixes of the longer text."""
    rows = [SOLUTION, rollout((), 1, "a\nb and more\nc", OK), rollout(A, 0, "\nb and more\nz")]
    found = tallies(rows)
    assert found[AB] == Tally(correct=1, incorrect=1, reused=2)
    assert found["a", "\nb and more"] == Tally(incorrect=1, reused=1)


def test_text_that_closes_an_open_display_is_a_pass() -> None:
    solution = rollout((), 0, "a $$\nb\nc")
    rows = [solution, rollout(("a $$",), 0, "\nb $$\nc", OK), rollout(("a $$",), 1, "\nb\nc", OK)]
    found = tallies(rows)
    assert found["a $$",] == Tally(correct=2)
    assert found["a $$", "\nb"] == Tally(correct=2, reused=2)


def test_verdicts_and_cut_offs_are_passed_on_as_they_are() -> None:
    rows = [
        SOLUTION,
        rollout(A, 0, "\nb\nc", OPEN),
        rollout(A, 1, "\nb\nc", BAD, cut=True),
        rollout(A, 2, "\nb\nc", OK),
        rollout(A, 3, "\nb", BAD, cut=True),  # cut inside b: it may have become another step
    ]
    assert tallies(rows)[AB] == Tally(correct=1, incorrect=1, undecided=1, truncated=1, reused=3)
    assert tallies(rows)[AB].label == StepLabel(3, 3, 1, 1, 1, 1)


def test_every_solution_counts_for_the_prefixes_that_it_shares() -> None:
    rows = [SOLUTION, rollout((), 1, "a\nb\nx", OK), rollout((), 2, "a", OK)]
    found = tallies(rows)
    assert found[A] == Tally(correct=2, reused=2)  # the one that stops there, too
    assert found[AB] == Tally(correct=1, reused=1)
    assert found[ABC] == Tally()


def test_solutions_of_another_generator_are_never_counted() -> None:
    others = [rollout((), 0, "a\nb\nc\nd", OK), rollout((), 1, "a\nb\nx", OK)]
    own_root = rollout((), 0, "a\nb\nc\nq", OK)  # the completer's own, in the same folder
    rows = [own_root, rollout(A, 0, "\nb\nc\nd", OK), rollout(AB, 0, "\nz")]
    found = tallies(rows, solutions=others)
    assert found == {
        A: Tally(correct=1),
        AB: Tally(correct=1, incorrect=1, reused=1),
        ABC: Tally(correct=1, reused=1),
    }
    (first, second) = label_problem(
        PROBLEM,
        rows,
        steps=StepConfig(method=StepMethod.NEWLINE),
        allocation=MANY,
        solutions=others,
    ).solutions
    assert first.labels[-1] == second.labels[-1] == StepLabel(1, 0, 1, 0, 0, 0)
    assert first.labels[0] == StepLabel(1, 0, 1, 0, 0, 0)


def test_rollouts_beyond_a_gap_wait_and_hand_nothing_down() -> None:
    rows = [SOLUTION, *(rollout(A, index, "\nb\nc\nd", OK) for index in (0, 1, 3))]
    assert tallies(rows)[A] == Tally(correct=2)
    assert tallies(rows)[AB] == Tally(correct=2, reused=2)
    whole = [*rows, rollout(A, 2, "\nb\nc\nd", OK)]
    assert tallies(whole)[AB] == Tally(correct=4, reused=4)


def test_a_duplicate_row_counts_once() -> None:
    row = rollout(A, 0, "\nb\nc", OK)
    assert tallies([SOLUTION, SOLUTION, row, row])[AB] == Tally(correct=1, reused=1)


def test_an_unfinished_prefix_hands_down_all_that_it_has() -> None:
    """Eleven of an alternating twenty: ten decided upon, one waiting; all pass through b."""
    rows = [SOLUTION, *(rollout(A, i, "\nb\nz", OK if i % 2 else BAD) for i in range(12))]
    found = tallies(rows, AllocationConfig())
    assert found[A] == Tally(correct=6, incorrect=6)
    assert found[AB] == Tally(correct=6, incorrect=6, reused=12)


def test_a_lost_solution_comes_back_at_its_place() -> None:
    tree = build_tree(PROBLEM, [rollout((), i, f"a\n{i}\nz") for i in (0, 2)], method="newline")  # type: ignore[arg-type]
    tree.tell_solution(rollout((), 1, "a\n1\nz"))
    assert [one.rollout.rollout_index for one in tree.solutions] == [0, 1, 2]


def test_rollouts_told_before_their_solution_wait_for_it() -> None:
    tree = PrefixTree(PROBLEM, method=StepMethod.NEWLINE)
    tree.tell(rollout(AB, 0, "\nz", OK))
    tree.tell_solution(SOLUTION)
    assert list(tree.nodes[Prefix("p", AB).prefix_id].fresh) == [0]


def brute_force(rollouts: Sequence[Rollout]) -> dict[tuple[str, ...], Tally]:
    """Every rollout counts for every prefix of a solution that its whole text begins with,
    but no solution for a prefix that it or a later one is the first to go on after.
    """
    steps_of = {Prefix("p", steps).prefix_id: steps for steps in all_steps()}
    found: dict[tuple[str, ...], Tally] = {}
    first: dict[tuple[str, ...], int] = {}
    for one in rollouts:
        if one.prefix_id == Prefix("p").prefix_id:
            steps = split_steps(one.text, StepMethod.NEWLINE)
            for k in range(1, len(steps)):
                found[steps[:k]] = Tally()
                first[steps[:k]] = min(one.rollout_index, first.get(steps[:k], one.rollout_index))
    for steps, tally in found.items():
        for one in rollouts:
            start = steps_of[one.prefix_id]
            whole = "".join(start) + one.text
            is_own = start == steps
            passes = len(start) < len(steps) and re.match(
                re.escape("".join(steps)) + r"(\s|$)", whole
            )
            is_late = start != () or one.rollout_index > first[steps]
            if is_own or (passes and is_late and start in {(), *found}):
                tally.add(one)
                tally.reused += not is_own
    return found


def all_steps() -> list[tuple[str, ...]]:
    lines = [["a", "b"], ["\na", "\nb"], ["\na", "\nb"]]
    return [()] + [steps for n in (1, 2, 3) for steps in product(*lines[:n])]


STARTS = st.sampled_from(all_steps())
TEXTS = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map("\n".join)


@settings(max_examples=150, deadline=None)
@given(
    drawn=st.lists(st.tuples(STARTS, TEXTS, st.sampled_from([OK, BAD, OPEN])), max_size=25),
    seed=st.integers(0, 99),
)
def test_counts_are_those_of_a_brute_force_in_any_order(
    drawn: list[tuple[tuple[str, ...], str, Verdict]], seed: int
) -> None:
    taken: dict[tuple[str, ...], int] = {}
    rows: list[Rollout] = []
    for steps, text, verdict in drawn:
        index = taken[steps] = taken.get(steps, -1) + 1
        rows.append(rollout(steps, index, "\n" * bool(steps) + text, verdict))
    expected = brute_force(rows)
    random.Random(seed).shuffle(rows)
    assert tallies(rows) == expected
