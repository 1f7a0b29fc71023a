"""Figures of labels, against values worked out by hand."""

from math import comb

import pytest
from scipy.stats import fisher_exact

from grading.verdict import Verdict
from labeling.noise import MAX_POSITIONS, LabelNoise, Revival, chance_of, revivals
from pipeline.records import LabeledSolution, Problem, StepLabel


def label(correct: int, graded: int, *, reused: int = 0, undecided: int = 0) -> StepLabel:
    return StepLabel(graded + undecided, reused, correct, graded - correct, undecided, 0)


def solution(*labels: StepLabel, verdict: Verdict = Verdict.INCORRECT) -> LabeledSolution:
    steps = tuple(f"step {number}" for number in range(len(labels)))
    problem = Problem("p", "question", "1", "test", "train")
    return LabeledSolution(problem, "p/d/0", steps, labels, "1", verdict)


RIGHT, WRONG = label(1, 1), label(0, 1)


def noise(*solutions: LabeledSolution, threshold: float = 0.0) -> LabelNoise:
    made = LabelNoise(threshold)
    for one in solutions:
        made.tell(one)
    return made


def test_mc_values_are_binned_with_exact_ends_apart() -> None:
    made = noise(
        solution(label(0, 10), label(1, 10), label(9, 10), label(10, 10), label(5, 10), WRONG),
        solution(label(0, 0, undecided=3), label(19, 20), label(3, 10), WRONG),
    )
    bins = made.mc_values()
    assert {name: n for name, n in bins.items() if n} == {
        "0": 1,
        "0.1–0.2": 1,  # the lower bound belongs to the bin: 1/10
        "0.3–0.4": 1,
        "0.5–0.6": 1,
        "0.9–1.0": 2,  # 9/10 and 19/20
        "1": 1,
    }
    assert (made.num_labels, made.num_steps, made.num_dead()) == (7, 10, 1)
    assert made.num_undecided_steps == 1
    assert made.graded == {0: 1, 10: 6, 20: 1}


def test_last_steps_count_as_solutions_only() -> None:
    made = noise(solution(RIGHT, verdict=Verdict.CORRECT), solution(WRONG))
    assert (made.num_labels, made.num_solutions) == (0, 2)
    assert made.solution_verdicts == {Verdict.CORRECT: 1, Verdict.INCORRECT: 1}
    assert made.first_errors == {-1: 1, 0: 1}
    assert made.median_width() == 1.0


def test_positions_hold_means_and_shares_by_the_threshold() -> None:
    made = noise(
        solution(label(4, 8), label(2, 8), WRONG),
        solution(label(8, 8), label(0, 8), WRONG),
        threshold=0.25,
    )
    first, second = made.positions[0], made.positions[1]
    assert (first.num_steps, first.num_dead, first.sum_mc_value) == (2, 0, 1.5)
    assert (second.num_steps, second.num_dead, second.sum_mc_value) == (2, 2, 0.25)
    assert made.first_errors == {1: 2}


def test_far_positions_are_counted_together() -> None:
    made = noise(solution(*[label(1, 1)] * (MAX_POSITIONS + 3), WRONG))
    assert made.positions[MAX_POSITIONS].num_steps == 3
    assert made.first_errors == {MAX_POSITIONS: 1}


def test_interval_widths_are_those_of_wilson() -> None:
    # Wilson, 95 %: 0/10 is 0–0.2775, 5/10 is 0.2366–0.7634, 10/20 is 0.2993–0.7007
    made = noise(solution(label(0, 10), label(5, 10), label(10, 20), WRONG))
    assert {name: n for name, n in made.interval_widths().items() if n} == {
        "0.2–0.3": 1,
        "0.4–0.5": 1,
        "0.5–0.6": 1,
    }
    assert [made.num_wider_than(width) for width in (0.2, 0.3, 0.5, 0.6)] == [3, 2, 1, 0]
    assert made.median_width() == pytest.approx(0.4014, abs=1e-4)


def test_fresh_and_reused_rollouts_are_kept_apart() -> None:
    made = noise(solution(label(3, 10, reused=4), label(3, 10, undecided=2), WRONG))
    assert made.fresh == {6: 1, 12: 1}
    assert made.reused == {4: 1, 0: 1}


def test_a_dead_step_before_a_living_one_is_revived() -> None:
    one = solution(label(5, 10), label(0, 10), label(0, 4), label(2, 10), label(0, 9), WRONG)
    assert revivals(one) == [
        Revival(1, 3, comb(10, 2) / comb(20, 2)),
        Revival(2, 3, comb(10, 2) / comb(14, 2)),
    ]
    made = noise(one, solution(label(0, 5), WRONG), solution(label(0, 0), RIGHT))
    assert (made.num_revived(), made.num_revived_solutions) == (2, 1)
    assert made.num_revived_by_end == 0
    assert made.num_dead() == 4


def test_the_solutions_own_right_answer_revives() -> None:
    made = noise(solution(label(0, 30), label(0, 4), RIGHT, verdict=Verdict.CORRECT))
    assert (made.num_revived(), made.num_revived_by_end) == (2, 2)
    assert made.num_revived(below=0.05) == 1  # 1/31; the other has 1/5


@pytest.mark.parametrize(("dead", "correct", "graded"), [(10, 2, 10), (16, 1, 1), (7, 9, 20)])
def test_chance_is_fishers_exact_test(dead: int, correct: int, graded: int) -> None:
    table = [[0, dead], [correct, graded - correct]]
    expected = fisher_exact(table, alternative="less").pvalue
    assert chance_of(dead, correct, graded) == pytest.approx(expected)
