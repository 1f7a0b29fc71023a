"""Agreement with human labels, by hand."""

import pytest

from grading.verdict import Verdict
from labeling.agreement import Agreement, HumanLabels
from pipeline.records import LabeledSolution, Problem, StepLabel


def solution(question: str, **steps: str) -> LabeledSolution:
    """Steps by their text; + is right, - wrong, ? without a label."""
    counts = {"+": (1, 1, 0), "-": (1, 0, 1), "?": (0, 0, 0)}
    labels = [
        StepLabel(total, 0, correct, incorrect, 0, 0)
        for total, correct, incorrect in (counts[mark] for mark in steps.values())
    ]
    problem = Problem("p", question, "1", "test", "train")
    return LabeledSolution(problem, "s", tuple(steps), tuple(labels), "1", Verdict.CORRECT)


def agreement(human: list[LabeledSolution], ours: list[LabeledSolution]) -> Agreement:
    labels = HumanLabels()
    for one in human:
        labels.tell(one)
    made = Agreement(labels, 0.0)
    for one in ours:
        made.tell(one)
    return made


def test_prefixes_are_matched_by_question_and_all_steps_so_far() -> None:
    made = agreement(
        [solution("Q  1", a="+", b="-", c="+"), solution("Q 2", a="-")],
        [solution("Q 1 ", a="+", b="+"), solution("Q 1", x="+", b="-"), solution("Q 3", a="-")],
    )
    assert (made.both_good, made.our_good_human_bad, made.num_prefixes) == (1, 1, 2)
    assert made.num_solutions == 2


def test_a_shared_prefix_counts_once_and_unlabelled_steps_do_not() -> None:
    made = agreement(
        [solution("Q", a="+", b="?", c="-")],
        [solution("Q", a="+", b="-"), solution("Q", a="+", b="+", c="?")],
    )
    assert (made.both_good, made.num_prefixes) == (1, 1)


def test_the_majority_of_people_counts_and_a_tie_is_no_label() -> None:
    people = [solution("Q", a="+", b="-"), solution("Q", a="+", b="+"), solution("Q", a="-")]
    made = agreement(people, [solution("Q", a="+", b="-")])
    assert (made.both_good, made.num_prefixes) == (1, 1)
    assert made.human.num_steps == 5


def test_kappa_is_cohens() -> None:
    # 20 both good, 5 ours good, 10 theirs good, 15 both bad: the textbook example, 0.4
    made = Agreement(HumanLabels(), 0.0, 20, 15, 5, 10)
    assert made.agreement == 0.7
    assert made.kappa == pytest.approx(0.4)
    assert Agreement(HumanLabels(), 0.0, 7).kappa is None
    assert Agreement(HumanLabels(), 0.0).agreement is None


def test_first_errors_need_every_step_up_to_it_labelled() -> None:
    people = [
        solution("Q", a="+", b="-"),  # stops at the first error
        solution("R", a="+", b="+"),
        solution("S", a="?", b="-"),
    ]
    ours = [
        solution("Q", a="+", b="-", c="+"),  # found
        solution("Q", a="-", b="-"),  # too early
        solution("R", a="+", b="+"),  # none, and none found
        solution("R", a="+", b="-"),  # a false alarm
        solution("R", a="+", z="-"),  # nobody labelled z
        solution("S", a="+", b="-"),  # nobody labelled a
    ]
    made = agreement(people, ours)
    assert (made.num_wrong_solutions, made.num_wrong_found) == (2, 1)
    assert (made.num_right_solutions, made.num_right_found) == (2, 1)
    assert made.first_error_f1 == pytest.approx(0.5)
    assert agreement(people, ours[:2]).first_error_f1 is None
