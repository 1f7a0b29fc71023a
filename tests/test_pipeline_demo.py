"""The demo domain: reproducible problems, right answers, exact truth."""

import random
from itertools import takewhile

import pytest

from labeling.steps import StepMethod, split_steps
from pipeline.demo.problems import MAX_STEPS, MAX_VALUE, MIN_STEPS, demo_problem, demo_seed
from pipeline.demo.student import Line, Style, reference_lines, solution_text, student_lines
from pipeline.demo.truth import demo_problem_of, step_truths


def test_problems_are_pure_functions_of_split_and_index() -> None:
    problem = demo_problem("train", 0)
    assert problem == demo_problem("train", 0) == demo_problem_of("demo-train-000000")
    assert problem.question.startswith("Max starts with 58 coins. Max finds 38 coins.")
    assert problem.gold_answer == "94"


def test_splits_are_disjoint() -> None:
    train = {demo_problem("train", index).question for index in range(400)}
    test = {demo_problem("test", index).question for index in range(400)}
    assert len(train) == len(test) == 400
    assert not train & test
    assert demo_seed("train", 1) != demo_seed("test", 1)


def test_reference_solutions_reach_the_gold_answer_and_are_true() -> None:
    for index in range(300):
        problem = demo_problem("test", index)
        lines = reference_lines(problem)
        assert MIN_STEPS <= len(lines) <= MAX_STEPS
        assert str(lines[-1].value) == problem.gold_answer
        for line in lines:
            assert eval(line.expression.replace("/", "//")) == line.value
            assert 0 <= line.value <= MAX_VALUE
        steps = split_steps(solution_text(lines, problem.thing), StepMethod.NEWLINE)
        assert len(steps) == len(lines)
        assert all(step_truths(problem, steps))


@pytest.mark.parametrize(("hasty_share", "share_right"), [(0.0, 0.96), (0.5, 0.54), (1.0, 0.28)])
def test_nothing_is_true_after_a_slip(hasty_share: float, share_right: float) -> None:
    num_right = 0
    for index in range(300):
        problem, rng = demo_problem("train", index), random.Random(index)
        lines = student_lines(problem, rng, hasty_share=hasty_share)
        reference = reference_lines(problem)
        steps = split_steps(solution_text(lines, problem.thing), StepMethod.NEWLINE)
        truths = step_truths(problem, steps)
        values = zip(map(stated, lines), map(stated, reference), strict=False)
        num_true = len(list(takewhile(lambda pair: pair[0] == pair[1], values)))
        assert truths == tuple(position < num_true for position in range(len(steps)))
        num_right += num_true == len(steps)
    assert num_right / 300 == pytest.approx(share_right, abs=0.1)


def stated(line: Line) -> tuple[str, int]:
    return line.expression, line.value


def test_operands_in_another_order_are_true_and_rubbish_is_not() -> None:
    problem = demo_problem("train", 0)  # 58+38=96, 96+31=127, ...
    steps = [" Max has 38+58=96 coins.", "\nMax has 96+31=127 coins."]
    assert step_truths(problem, steps) == (True, True)
    assert step_truths(problem, [" Max has 95+1=96 coins.", steps[1]]) == (False, False)
    assert step_truths(problem, [" Leo has 58+38=96 coins."]) == (False,)
    assert step_truths(problem, ["42"] * 30) == (False,) * 30
    assert step_truths(problem, []) == ()


def test_unknown_id() -> None:
    with pytest.raises(ValueError, match="'q-1' is not the id of a demo problem"):
        demo_problem_of("q-1")


def test_solution_text() -> None:
    lines = (Line("Mia", "1+2", 3), Line("Mia", "3*2", 6))
    assert solution_text(lines, "eggs") == " Mia has 1+2=3 eggs.\nMia has 3*2=6 eggs.\n#### 6"
    hasty = (lines[0], Line("Mia", "3*2", 6, Style.HASTY))
    assert solution_text(hasty, "eggs") == " Mia has 1+2=3 eggs.\n3*2=6.\n#### 6"
