"""Known steps of a dataset, of ProcessBench files, of candidates; and reports on them."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.evaluation import compare_methods, sample_candidates
from flows.imported import ImportRequest, import_dataset
from flows.known_steps import candidate_steps, dataset_steps, is_held_out, process_bench_steps
from flows.run_config import RunConfig, check_config
from flows.scored_evaluation import NamedScorer, report_exact, report_steps, score_by_all
from flows.stages import generate
from grading.verdict import Verdict
from pipeline.demo.problems import demo_problem
from pipeline.demo.truth import demo_problem_of, step_truths
from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution
from search.best_of_n import Candidate, ProblemCandidates
from search.demo_scorer import demo_oracle
from search.evaluate import Method
from search.known_steps import Truth
from search.scoring import Aggregation, ScorerRole, ScriptedScorer
from search.step_figures import Figure
from storage.dataset import read_labels
from storage.formats.options import ImportFormat, ImportOptions

QUESTIONS = {
    demo_problem(split, index).question: demo_problem(split, index)
    for split in ("train", "test")
    for index in range(12)
}
ORACLE = NamedScorer("oracle", demo_oracle(QUESTIONS))


def config() -> RunConfig:
    return check_config(
        {
            "problems": {"limit": 12},
            "engine": {"kind": "scripted"},
            "steps": {"method": "newline"},
            "evaluate": {"ns": [1, 4], "problems": {"split": "test", "limit": 12}},
        },
        origin="test",
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known") / "dataset"
    generate(config(), folder, on_progress=lambda _: None)
    return folder


def row(**changes: Any) -> dict[str, Any]:
    return {
        "id": "gsm8k-0",
        "generator": "m",
        "problem": "How many?",
        "steps": ["One.", "Two.", "Three."],
        "final_answer_correct": False,
        "label": 1,
        **changes,
    }


def bench(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def read(*files: Path) -> list[Any]:
    return process_bench_steps(files, on_progress=lambda *_: None)


def test_a_dataset_has_its_labels_and_exact_truth(dataset: Path) -> None:
    labels, exact = dataset_steps(dataset, split=None)
    stored = read_labels(dataset)
    assert (labels.truth, exact.truth) == (Truth.LABELS, Truth.EXACT)
    assert len(labels.solutions) == len(exact.solutions) == len(stored) == 48

    def truths(one: LabeledSolution) -> tuple[bool, ...]:
        return step_truths(demo_problem_of(one.problem.problem_id), one.steps)

    for one, by_label, by_truth in zip(stored, labels.solutions, exact.solutions, strict=True):
        assert by_label.truths == tuple(label.num_correct > 0 for label in one.labels)
        assert by_label.soft_labels == tuple(label.mc_value for label in one.labels)
        assert by_label.first_error == one.first_error()
        assert by_truth.truths == truths(one)
        assert by_truth.soft_labels == ()
    with pytest.raises(ConfigError, match="has no split 'test'; it has train"):
        dataset_steps(dataset, split="test")


def test_the_hard_threshold_is_the_datasets_own(dataset: Path, tmp_path: Path) -> None:
    (before, _) = dataset_steps(dataset, split=None)
    file = dataset / "config.json"
    text = file.read_text()
    try:
        file.write_text(text.replace('"hard_threshold": 0.0', '"hard_threshold": 0.4'))
        (after, _) = dataset_steps(dataset, split=None)
    finally:
        file.write_text(text)
    soft = [label for one in after.solutions for label in one.soft_labels]
    known = [truth for one in after.solutions for truth in one.truths]
    assert known == [label > 0.4 for label in soft if label is not None]
    assert after != before


def test_a_scorer_that_knows_the_truth_has_every_figure(dataset: Path) -> None:
    groups = dataset_steps(dataset, split=None)
    blind = NamedScorer("blind", ScriptedScorer(lambda _, steps: 0.5))
    scorers = {ScorerRole.PRM: ORACLE, ScorerRole.SECOND_PRM: blind, ScorerRole.ORM: blind}
    _, exact = report_steps(groups, scorers, threshold=None, seed=0)
    oracle, second = exact.scorers
    value = {name: one.value for name, one in oracle.figures.items()}
    assert value[Figure.AUC] == value[Figure.F1] == value[Figure.ACCURACY] == 1.0
    assert value[Figure.BRIER] == value[Figure.ECE] == 0.0
    assert oracle.threshold.value == 0.5
    assert oracle.threshold.held_out.num_problems + oracle.threshold.tested.num_problems == 12
    assert second.figures[Figure.AUC].value == 0.5
    assert exact.differences[Figure.AUC].value == 0.5
    assert exact.differences[Figure.AUC].low == 0.5


def test_the_tested_part_has_no_question_of_the_held_out_one(dataset: Path) -> None:
    questions = {one.question for one in dataset_steps(dataset, split=None)[0].solutions}
    assert 0 < sum(map(is_held_out, questions)) < len(questions)
    assert all(is_held_out(f" {one}\n ") == is_held_out(one) for one in questions)
    many = [is_held_out(f"How many are {n} and {n}?") for n in range(2000)]
    assert 900 < sum(many) < 1100


def test_candidates_of_demo_problems_have_exact_truth(tmp_path: Path) -> None:
    run = config()
    problems = sample_candidates(run, tmp_path, on_progress=lambda _: None)
    scored = score_by_all(problems, {ScorerRole.PRM: ORACLE, ScorerRole.ORM: ORACLE})
    (report,) = report_exact(scored, threshold=0.5, seed=0)
    assert (report.name, report.num_solutions, len(report.scorers)) == ("candidates-exact", 48, 1)
    assert report.scorers[0].figures[Figure.F1].value == 1.0
    search = compare_methods(run, scored)
    orm = search.row(Method.BEST_OF_N, n=4, aggregation=Aggregation.LAST, scorer=ScorerRole.ORM)
    assert orm.accuracy == search.row(Method.ANY_CORRECT, n=4).accuracy


def test_other_candidates_have_none() -> None:
    (problem, *_) = QUESTIONS.values()
    right = Candidate(("\nx.",), "1", Verdict.UNDECIDED, (0.5,))
    empty = Candidate((), "", Verdict.UNDECIDED)
    for problem_id, question in (
        ("gsm8k-1", problem.question),
        (problem.problem_id, "Another question?"),
        ("demo-train-" + "9" * 5000, "q"),
    ):
        assert candidate_steps([ProblemCandidates(problem_id, question, (right,))]) is None
    group = candidate_steps(
        [
            ProblemCandidates(problem.problem_id, problem.question, (right, empty)),
            ProblemCandidates("other", "q", (right,)),
        ]
    )
    assert group is not None
    assert len(group.solutions) == 1
    assert group.notes == {"without steps": 1, "not of the demo domain": 1}


def test_process_bench_truth_ends_at_the_first_error(tmp_path: Path) -> None:
    rows = [row(), row(problem="2?", label=-1), row(problem="3?", label=0)]
    (group,) = read(bench(tmp_path / "gsm8k.jsonl", *rows))
    assert (group.name, group.truth) == ("processbench-gsm8k", Truth.PROCESS_BENCH)
    assert [one.truths for one in group.solutions] == [
        (True, False, None),
        (True, True, True),
        (False, None, None),
    ]
    assert [one.first_error for one in group.solutions] == [1, -1, 0]
    assert group.solutions[0].steps == ("One.", "\n\nTwo.", "\n\nThree.")
    assert group.notes == {}


def test_parquet_reads_as_jsonl_does(tmp_path: Path) -> None:
    rows = [row(), row(problem="2?", label=-1)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "gsm8k.parquet")
    assert read(tmp_path / "gsm8k.parquet") == read(bench(tmp_path / "gsm8k.jsonl", *rows))


def test_hostile_process_bench_rows_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = bench(
        tmp_path / "a\x1b[2J.b.jsonl",
        row(),
        row(id="again"),
        row(label=3),
        row(label=-2),
        row(label=True),
        row(label=0.5),
        row(steps=[]),
        row(steps=["One.", " \n"]),
        row(steps="One."),
        row(problem=""),
        {},
    )
    with file.open("a") as stream:
        stream.write('nonsense \x1b[2J\n{"label": NaN}\n')
    with caplog.at_level(logging.WARNING):
        (group,) = read(file)
    assert len(group.solutions) == 1
    assert group.notes == {"malformed rows": 11, "repeated solutions": 1}
    assert group.name == "processbench-a-2J"
    assert len(caplog.messages) == 5
    assert (
        "row 3: 'label' is 3, not a whole number in [-1, 3); the row is left out"
        in (caplog.messages[0])
    )
    assert not any("\x1b" in message for message in caplog.messages)


def test_unusable_process_bench_files_are_named(tmp_path: Path) -> None:
    good, bad = bench(tmp_path / "x.jsonl", row()), bench(tmp_path / "bad.jsonl", row(label=9))
    with pytest.raises(ConfigError, match=r"no\.jsonl: there is no such file"):
        read(tmp_path / "no.jsonl")
    with pytest.raises(ConfigError, match=r"x\.jsonl is given twice"):
        read(good, tmp_path / "." / "x.jsonl")
    with pytest.raises(DataError, match=r"none of 1 rows is of the format processbench; .* row 1"):
        read(bad)
    (tmp_path / "y").mkdir()
    (tmp_path / "z").mkdir()
    same = [bench(tmp_path / name / "x.jsonl", row()) for name in ("y", "z")]
    assert [group.name for group in read(*same)] == ["processbench-x", "processbench-x-2"]


def test_imported_judgements_are_known_steps_without_soft_labels(tmp_path: Path) -> None:
    file = bench(tmp_path / "gsm8k.jsonl", row(), row(problem="2?", id="1", label=-1))
    request = ImportRequest(
        (file,), ImportFormat.PROCESS_BENCH, ImportOptions(), split="test", strict=True
    )
    import_dataset(request, tmp_path / "imported", on_progress=lambda *_: None)
    (imported,) = dataset_steps(tmp_path / "imported", split="test")
    (direct,) = read(file)
    by_question = {one.question: one for one in direct.solutions}
    assert {one.question: one for one in imported.solutions} == by_question
