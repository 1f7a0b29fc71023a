"""The table of problems: rows are added, the last one counts, a question never changes."""

import random
from dataclasses import replace
from pathlib import Path

from pipeline.records import Problem
from storage.problem_table import changed_golds, compare_problems, read_problems, write_problems

PROBLEM = Problem("p", "Q?", "1", "test", "train")
OTHER = Problem("q", "R?", "2", "test", "test")


def test_problems_are_added_once(tmp_path: Path) -> None:
    assert write_problems(tmp_path, [PROBLEM]).new == ("p",)
    changes = write_problems(tmp_path, [OTHER, PROBLEM])
    assert (changes.new, changes.unchanged, changes.problems) == (("q",), ("p",), (OTHER, PROBLEM))
    assert read_problems(tmp_path) == [PROBLEM, OTHER]
    parts = sorted((tmp_path / "problems").iterdir())
    assert write_problems(tmp_path, [PROBLEM, OTHER]).unchanged == ("p", "q")
    assert sorted((tmp_path / "problems").iterdir()) == parts


def test_a_changed_gold_answer_keeps_the_id_and_the_last_counts(tmp_path: Path) -> None:
    write_problems(tmp_path, [PROBLEM, OTHER])
    assert changed_golds(tmp_path) == {}
    changed = replace(PROBLEM, gold_answer="7")
    assert write_problems(tmp_path, [changed]).changed_gold == ("p",)
    assert read_problems(tmp_path) == [changed, OTHER]
    assert changed_golds(tmp_path) == {"p": "7"}
    assert write_problems(tmp_path, [changed]).unchanged == ("p",)
    assert write_problems(tmp_path, [PROBLEM]).changed_gold == ("p",)
    assert changed_golds(tmp_path) == {}  # as it was at first


def test_a_changed_question_is_a_problem_of_its_own(tmp_path: Path) -> None:
    write_problems(tmp_path, [PROBLEM])
    reworded = replace(PROBLEM, question="Q, please?")
    changes = write_problems(tmp_path, [reworded, OTHER])
    new_id = changes.changed_question["p"]
    assert new_id.startswith("p~")
    assert len(new_id) == len("p~") + 8
    assert changes.new == (new_id, "q")
    assert changes.problems == (replace(reworded, problem_id=new_id), OTHER)
    assert read_problems(tmp_path) == [PROBLEM, *changes.problems]
    again = write_problems(tmp_path, [reworded])
    assert (again.unchanged, dict(again.changed_question)) == ((new_id,), {"p": new_id})
    gold = write_problems(tmp_path, [replace(reworded, gold_answer="9")])
    assert gold.changed_gold == (new_id,)
    back = write_problems(tmp_path, [PROBLEM])
    assert (back.unchanged, dict(back.changed_question)) == (("p",), {})


def test_ids_of_the_source_that_look_like_ours_do_not_meet_them() -> None:
    reworded = replace(PROBLEM, question="Q, please?")
    new_id = compare_problems([PROBLEM], [reworded]).changed_question["p"]
    impostor = replace(OTHER, problem_id=new_id)
    for problems in ([reworded, impostor], [impostor, reworded]):
        changes = compare_problems([PROBLEM], problems)
        assert len({one.problem_id for one in changes.problems}) == 2
        assert {one.question for one in changes.problems} == {"Q, please?", "R?"}


def test_any_history_of_sources_keeps_questions_apart(tmp_path: Path) -> None:
    rng = random.Random(0)
    questions: dict[str, str] = {}
    for _ in range(30):
        source = [
            Problem(name, rng.choice("ABC"), rng.choice("12"), "test", "train")
            for name in rng.sample("xyz", rng.randint(1, 3))
        ]
        changes = write_problems(tmp_path, source)
        stored = {problem.problem_id: problem for problem in read_problems(tmp_path)}
        for given, kept in zip(source, changes.problems, strict=True):
            assert stored[kept.problem_id] == replace(given, problem_id=kept.problem_id)
            assert kept.problem_id.partition("~")[0] == given.problem_id
            assert questions.setdefault(kept.problem_id, given.question) == given.question
        assert len(stored) <= 9
