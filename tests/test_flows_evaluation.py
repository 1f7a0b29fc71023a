"""Candidates of unseen problems, and hard labels against exact truth."""

from pathlib import Path

import pytest

from flows.evaluation import answer_key, evaluate, sample_candidates, truth_agreement
from flows.roles import resolve_roles
from flows.run_config import RunConfig, check_config
from flows.stages import generate, labeled_solutions
from flows.stored import stored_work
from pipeline.demo.problems import demo_problem
from pipeline.demo.truth import demo_problem_of, step_truths
from pipeline.errors import ConfigError
from pipeline.records import Prefix
from search.evaluate import Method
from search.scoring import Aggregation, ScriptedScorer


def config(**problems: object) -> RunConfig:
    return check_config(
        {
            "problems": {"limit": 6, **problems},
            "engine": {"kind": "scripted"},
            "steps": {"method": "newline"},
            "evaluate": {"ns": [1, 2, 4], "problems": {"split": "test", "limit": 12}},
        },
        origin="test",
    )


def test_a_scorer_that_knows_the_truth_picks_the_right_solution(tmp_path: Path) -> None:
    by_question = {demo_problem("test", i).question: demo_problem("test", i) for i in range(12)}

    def judge(question: str, steps: tuple[str, ...]) -> float:
        return float(step_truths(by_question[question], steps)[-1])

    report = evaluate(config(), tmp_path, scorer=ScriptedScorer(judge), on_progress=lambda _: None)
    assert report.num_problems == 12
    best = report.row(Method.BEST_OF_N, n=4, aggregation=Aggregation.MIN)
    assert best.accuracy == report.row(Method.ANY_CORRECT, n=4).accuracy
    assert best.accuracy > report.row(Method.RANDOM_PICK, n=1).accuracy


def test_candidates_are_found_again_and_are_root_rollouts_only(tmp_path: Path) -> None:
    run = config(split="test", limit=12)
    generate(run, tmp_path, on_progress=lambda _: None)  # a dataset with prefixes' rollouts
    with pytest.raises(ConfigError, match="holds labels, not candidates"):
        sample_candidates(run, tmp_path, on_progress=lambda _: None)
    (tmp_path / "selection.json").unlink()
    problems = sample_candidates(run, tmp_path, on_progress=lambda _: None)
    assert [len(problem.candidates) for problem in problems] == [4] * 12
    root_ids = {one.problem_id: Prefix(one.problem_id).prefix_id for one in problems}
    texts_of = {
        work.problem.problem_id: {
            rollout.text
            for rollout in work.rollouts
            if rollout.prefix_id == root_ids[work.problem.problem_id]
        }
        for work in stored_work(resolve_roles(run), tmp_path)
    }
    for problem in problems:
        texts = texts_of[problem.problem_id]
        assert {"".join(candidate.steps) for candidate in problem.candidates} == texts
        assert all(candidate.steps[0].startswith(" ") for candidate in problem.candidates)


def test_agreement_with_exact_truth(tmp_path: Path) -> None:
    run = config()
    generate(run, tmp_path, on_progress=lambda _: None)
    solutions = list(labeled_solutions(run, tmp_path))
    agreement = truth_agreement(solutions, threshold=0.0)
    assert agreement.num_steps == sum(len(one.steps) - 1 for one in solutions)
    assert agreement.num_missed == 0  # a scripted slip never comes right
    expected = 0
    for one in solutions:
        truths = step_truths(demo_problem_of(one.problem.problem_id), one.steps)[:-1]
        expected += sum(
            truth and not label.num_correct
            for truth, label in zip(truths, one.labels[:-1], strict=True)
        )
    assert agreement.num_false_alarms == expected
    assert agreement.num_agreeing == agreement.num_steps - expected
    assert truth_agreement(solutions, threshold=0.99).num_false_alarms > expected


@pytest.mark.parametrize(
    ("one", "other"),
    [("12", "12.0"), (" 12. ", "12"), ("1,200", "1200"), ("$5", "5"), ("x", " x")],
)
def test_equal_answers_are_one_vote(one: str, other: str) -> None:
    assert answer_key(one) == answer_key(other)


@pytest.mark.parametrize(("one", "other"), [("12", "13"), ("9" * 30, "9" * 29 + "8"), ("nan", "1")])
def test_other_answers_are_other_votes(one: str, other: str) -> None:
    assert answer_key(one) != answer_key(other)
