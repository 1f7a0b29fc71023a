"""`stepmark import` and `stepmark export`: whole folders, round trips, refusals, memory."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from typer.testing import CliRunner

from flows.cli import app
from flows.imported import MAKER_FILE, remove_abandoned
from flows.run_config import check_config
from flows.stages import generate
from grading.verdict import Verdict
from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution
from storage.dataset import labels_path, read_labels, read_manifest, stored_labels
from storage.lock_holder import this_process
from storage.problem_table import read_problems
from train.labels import read_labels as read_training_rows

CONFIG = {
    "problems": {"limit": 12},
    "engine": {"kind": "scripted"},
    "steps": {"method": "newline"},
    "labels": {"hard_threshold": 0.3},
}


def stepmark(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def rows_in(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write_rows(file: Path, rows: Sequence[object]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("formats") / "ours"
    generate(check_config(CONFIG, origin="test"), out, on_progress=lambda _: None)
    return out


def trl_row(question: str, *steps: tuple[str, bool]) -> dict[str, object]:
    texts, labels = zip(*steps, strict=True)
    return {"prompt": question, "completions": list(texts), "labels": list(labels)}


def hard(solutions: Sequence[LabeledSolution], threshold: float) -> dict[str, list[list[bool]]]:
    found: dict[str, list[list[bool]]] = {}
    for one in solutions:
        labels = [label.hard_label(threshold) for label in one.labels]
        found.setdefault(one.problem.question, []).append(labels)
    return {question: sorted(labels) for question, labels in found.items()}


def without_repeats(solutions: Sequence[LabeledSolution]) -> list[LabeledSolution]:
    return list({(one.problem.question, one.steps): one for one in solutions}.values())


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_ours_to_trl_to_ours_keeps_every_hard_label_and_text(
    ours: Path, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"trl.{suffix}"
    shown = stepmark("export", ours, "trl-stepwise", "--out", file)
    assert "rows written" in shown
    stepmark("import", "trl-stepwise", file, "--out", tmp_path / "back")
    before, after = without_repeats(read_labels(ours)), read_labels(tmp_path / "back")
    assert hard(before, 0.3) == hard(after, 0.0)
    texts = sorted("".join(one.steps).strip() for one in before)  # ours begin with a space
    assert texts == sorted("".join(one.steps) for one in after)
    assert {one.verdict for one in after} == {Verdict.CORRECT, Verdict.INCORRECT}
    answers = {"".join(one.steps).strip(): one.final_answer for one in before}
    assert answers == {"".join(one.steps): one.final_answer for one in after}


def test_ours_to_math_shepherd_to_ours_and_to_the_same_file(ours: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    stepmark("export", ours, "math-shepherd", "--task", "GSM8K", "--out", first)
    stepmark("import", "math-shepherd", first, "--out", tmp_path / "back")
    assert hard(without_repeats(read_labels(ours)), 0.3) == hard(read_labels(tmp_path / "back"), 0)
    stepmark("export", tmp_path / "back", "math-shepherd", "--out", second)
    lines = set(first.read_text(encoding="utf-8").splitlines())
    assert set(second.read_text(encoding="utf-8").splitlines()) == lines


def test_pairs_of_a_generated_dataset_are_its_solutions_texts(ours: Path, tmp_path: Path) -> None:
    file = tmp_path / "pairs.parquet"
    stepmark(
        "export", ours, "step-dpo", "--margin", 0.3, "--low", 0.4, "--high", 0.7, "--out", file
    )
    rows = pq.read_table(file).to_pylist()
    assert rows
    solutions = read_labels(ours)
    texts = {(one.problem.question, "".join(one.steps)) for one in solutions}
    answers = {one.problem.question: one.problem.gold_answer for one in solutions}
    for row in rows:
        assert all(isinstance(value, str) for value in row.values())
        for end in ("full_chosen", "full_rejected"):
            assert (row["prompt"], row["initial_reason_steps"] + row[end]) in texts
        assert row["answer"] == answers[row["prompt"]]


def test_an_imported_folder_is_a_dataset(tmp_path: Path) -> None:
    rows = [
        trl_row("Why b?", ("One.", True), ("So #### 3", False)),
        trl_row("Why a?", ("Uno.", True)),
        trl_row("Why b?", ("One.", True), ("So #### 3", False)),
        trl_row("Why b? ", ("One.", False), ("So #### 3", False)),
        trl_row("Why b?", ("Due.", True)),
        {"prompt": "broken"},
    ]
    file, out = write_rows(tmp_path / "mine.jsonl", rows), tmp_path / "out"
    out.mkdir()
    shown = stepmark("import", "trl-stepwise", file, "--split", "test", "--out", out)
    assert "mine.jsonl, row 6: no 'completions'" in shown.replace("\n", "")
    solutions = read_labels(out)
    assert [one.problem.question for one in solutions].count("Why b?") == 2
    ids = [one.problem.problem_id for one in solutions]
    assert ids == sorted(ids)
    assert [p.question for p in read_problems(out)] == list(
        dict.fromkeys(one.problem.question for one in solutions)
    )
    manifest = read_manifest(out)
    imported = manifest["imported"]
    assert isinstance(imported, dict)
    assert imported["counts"] == {
        "rows": 6,
        "rows kept": 5,
        "rows malformed": 1,
        "solutions kept": 3,
        "solutions dropped: duplicate": 1,
        "solutions dropped: same steps, other labels": 1,
    }
    assert imported["format"] == "trl-stepwise"
    assert imported["options"]["split"] == "test"
    assert imported["files"][0]["name"] == "mine.jsonl"
    assert len(imported["files"][0]["sha256"]) == 64
    counts = manifest["counts"]
    assert isinstance(counts, dict)
    assert (counts["problems"], counts["labeled_solutions"], counts["labeled_steps"]) == (2, 3, 4)
    assert manifest["completer"] == "trl-stepwise"
    training = list(read_training_rows(labels_path(out), split="test"))
    loaded = load_dataset("parquet", data_dir=str(out / "labels"), split="test", streaming=True)
    assert [row["solution_id"] for row in loaded] == [one.solution_id for one in solutions]
    assert sorted(row.steps for row in training) == [("Due.",), ("One.", "\nSo #### 3"), ("Uno.",)]
    assert "Why b?" in stepmark("show", out, "--limit", 3)
    assert json.loads((out / "config.json").read_text())["train"]["split"] == "test"
    assert not list(out.glob(".*"))
    assert "All is in order." in stepmark("verify", out)
    with pytest.raises(ConfigError, match="imported labels, not labels"):
        generate(check_config(CONFIG, origin="test"), out, on_progress=lambda _: None)
    with pytest.raises(ConfigError, match="not an empty folder"):
        stepmark("import", "trl-stepwise", file, "--out", out)
    with pytest.raises(ConfigError, match="no split 'train'; it has test"):
        stepmark("export", out, "rlhflow", "--split", "train", "--out", tmp_path / "x.jsonl")
    again = tmp_path / "again"
    stepmark("import", "trl-stepwise", file, "--split", "test", "--out", again)
    name = "test-00000-of-00001.parquet"
    assert (labels_path(out) / name).read_bytes() == (labels_path(again) / name).read_bytes()


def prm_row(text: str, gold: str, rating: int = 1) -> dict[str, object]:
    completion = {"text": text, "rating": rating, "flagged": None}
    return {
        "generation": 1,
        "is_quality_control_question": False,
        "is_initial_screening_question": False,
        "question": {"problem": "What?", "ground_truth_answer": gold},
        "label": {
            "finish_reason": "solution",
            "steps": [
                {"completions": [completion], "human_completion": None, "chosen_completion": 0}
            ],
        },
    }


def test_prm800k_answers_are_graded_against_the_gold_answer(tmp_path: Path) -> None:
    rows = [
        prm_row("A half.\n\n# Answer\n\n0.5", "\\frac12"),
        prm_row("Two.\n\n# Answer\n\n2", "\\frac12", rating=-1),
        prm_row("No end yet.", "\\frac12", rating=0),
        prm_row("Other gold.", "7"),
    ]
    file, out = write_rows(tmp_path / "phase2_train.jsonl", rows), tmp_path / "out"
    shown = stepmark("import", "prm800k", file, "--neutral", "incorrect", "--out", out)
    assert "another gold answer" in shown
    found = {one.steps[0][:4]: one for one in stored_labels(out)}
    assert {name: (one.verdict.value, one.final_answer) for name, one in found.items()} == {
        "A ha": ("correct", "0.5"),
        "Two.": ("incorrect", "2"),
        "No e": ("undecided", ""),
        "Othe": ("undecided", ""),
    }
    assert [found[name].labels[0].hard_label() for name in found] == [True, False, False, True]
    assert {one.problem.gold_answer for one in found.values()} == {"\\frac12"}
    table = pq.read_table(labels_path(out) / "train-00000-of-00001.parquet")
    assert set(table["completer"].to_pylist()) == {"human"}
    versions = table["grader_version"].to_pylist()
    assert sum(version == "" for version in versions) == 2
    assert read_problems(out)[0].source == "phase2_train.jsonl"


def test_every_row_of_prm800k_is_kept_malformed_or_dropped_for_a_reason(tmp_path: Path) -> None:
    good, unrated = prm_row("One.", "1"), prm_row("Two.", "1", rating=0)
    rows = [
        good,
        {**good, "is_quality_control_question": True},
        {**good, "is_initial_screening_question": True},
        {**good, "label": {**good["label"], "finish_reason": "give_up"}},  # type: ignore[dict-item]
        {**good, "label": {**good["label"], "finish_reason": "bad_problem"}},  # type: ignore[dict-item]
        unrated,
        {},
        good,
    ]
    file = write_rows(tmp_path / "phase1_train.jsonl", rows)
    counts: dict[str, dict[str, int]] = {}
    for name, options in {"a": [], "b": ["--keep", "give-up", "--keep", "screening"]}.items():
        chosen = ["--neutral", "drop", *options]
        stepmark("import", "prm800k", file, *chosen, "--out", tmp_path / name)
        imported = read_manifest(tmp_path / name)["imported"]
        assert isinstance(imported, dict)
        counts[name] = imported["counts"]
        parts = [n for what, n in counts[name].items() if what.startswith("rows ")]
        assert sum(parts) == counts[name]["rows"] == 8
    assert counts["a"] == {
        "rows": 8,
        "rows kept": 2,
        "rows malformed": 1,
        "rows dropped: quality-control": 1,
        "rows dropped: screening": 1,
        "rows dropped: give-up": 1,
        "rows dropped: bad-problem": 1,
        "rows dropped: no label": 1,
        "steps of a path without label: neutral": 1,
        "solutions kept": 1,
        "solutions dropped: duplicate": 1,
    }
    assert counts["b"]["rows kept"] == 4


def test_process_bench_keeps_its_ids_and_generators(tmp_path: Path) -> None:
    row = {
        "id": "gsm8k-7",
        "generator": "Qwen2-7B",
        "problem": "What?",
        "steps": ["a", "b"],
        "final_answer_correct": True,
        "label": 0,
    }
    file, out = write_rows(tmp_path / "gsm8k.jsonl", [row]), tmp_path / "out"
    stepmark("import", "processbench", file, "--out", out)
    (solution,) = stored_labels(out)
    assert solution.solution_id == f"{solution.problem.problem_id}/processbench/gsm8k-7"
    assert (solution.first_error(), solution.verdict) == (0, Verdict.CORRECT)
    table = pq.read_table(labels_path(out) / "train-00000-of-00001.parquet")
    assert table["generator"].to_pylist() == ["Qwen2-7B"]
    assert table["hard_label"].to_pylist() == [[False, None]]


def test_what_cannot_be_done_is_refused_and_leaves_nothing(tmp_path: Path, ours: Path) -> None:
    soft = {"prompt": "Q", "completions": ["a"], "labels": [0.25]}
    file, out = write_rows(tmp_path / "soft.jsonl", [soft]), tmp_path / "out"
    cases: list[tuple[type[Exception], str, list[object]]] = [
        (ConfigError, r"soft.jsonl, row 1: label 0 is 0.25.*--num-rollouts", []),
        (DataError, r"none of 1 rows.*no share of 3", ["--num-rollouts", 3]),
        (DataError, r"row 1: .*no share of 3.*--strict", ["--num-rollouts", 3, "--strict"]),
        (ConfigError, r"--neutral is only for prm800k, not for trl", ["--neutral", "drop"]),
        (ConfigError, r"--num-rollouts: ", ["--num-rollouts", 0]),
        (ConfigError, r"--split: .*pattern", ["--split", "../x", "--num-rollouts", 4]),
        (ConfigError, r"--split: .*takes this for all", ["--split", "all", "--num-rollouts", 4]),
    ]
    for error, words, options in cases:
        with pytest.raises(error, match=words):
            stepmark("import", "trl-stepwise", file, "--out", out, *options)
        assert [one.name for one in tmp_path.iterdir()] == ["soft.jsonl"]
    stepmark("import", "trl-stepwise", file, "--num-rollouts", 4, "--out", out)
    assert next(stored_labels(out)).labels[0].num_incorrect == 3
    target = tmp_path / "x.jsonl"
    with pytest.raises(ConfigError, match="--labels is only for trl-stepwise, not for rlhflow"):
        stepmark("export", ours, "rlhflow", "--labels", "soft", "--out", target)
    with pytest.raises(ConfigError, match="--template: the template 'Q' does not contain"):
        stepmark("export", ours, "trl-stepwise", "--template", "Q", "--out", target)
    with pytest.raises(ConfigError, match=r"low = 0.9 is not below high = 0.8"):
        stepmark("export", ours, "step-dpo", "--low", 0.9, "--out", target)
    assert not target.exists()
    with pytest.raises(ConfigError, match="s3://bucket/x"):
        stepmark("import", "trl-stepwise", file, "--num-rollouts", 4, "--out", "s3://bucket/x")
    with pytest.raises(ConfigError, match=r"s3://bucket/x\.jsonl"):
        stepmark("export", ours, "rlhflow", "--out", "s3://bucket/x.jsonl")


_IMPORT = """
import sys
from pathlib import Path
from flows.imported import ImportRequest, import_dataset
from storage.formats.options import *
kind, options = ImportFormat.TRL_STEPWISE, ImportOptions()
request = ImportRequest((Path(sys.argv[1]),), kind, options, "train", False)
import_dataset(request, Path(sys.argv[2]), on_progress=lambda *_: print("on", flush=True))
print(open("/proc/self/status").read())
"""


def test_a_killed_import_leaves_no_dataset_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    rows = [trl_row(f"Q{i}", ("a" * 200, True)) for i in range(20_000)]
    file, out = write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "out"
    command = [sys.executable, "-c", _IMPORT, str(file), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    assert not out.exists()
    assert list(tmp_path.glob(".out.*.tmp"))
    small = write_rows(tmp_path / "small.jsonl", rows[:2])
    stepmark("import", "trl-stepwise", small, "--out", out)
    assert not list(tmp_path.glob(".out.*.tmp"))
    assert len(read_labels(out)) == 2


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    def peak_mib(num_rows: int) -> int:
        steps = [(f"Step {k} " + "x" * 500, True) for k in range(20)]
        rows = [trl_row(f"Q{i} of {num_rows}", *steps) for i in range(num_rows)]
        file = write_rows(tmp_path / f"{num_rows}.jsonl", rows)
        command = [sys.executable, "-c", _IMPORT, str(file), str(tmp_path / f"out{num_rows}")]
        shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        return int(re.findall(r"VmHWM:\s+(\d+)", shown)[0]) >> 10

    # the larger file has 110 MB, and its rows as Python objects more
    assert peak_mib(10_000) < peak_mib(1000) + 40


@pytest.mark.parametrize("name", ["data", "*", "[a]"])
def test_an_import_removes_only_what_a_dead_import_left(tmp_path: Path, name: str) -> None:
    dead = replace(this_process(), pid=999_999_999)
    folders = {
        f".{name}.999999999.tmp": dead,
        f".{name}.{os.getpid()}.tmp": this_process(),
        f".{name}.2024.tmp": None,  # the user's: no file says that an import made it
        f".{name}.999999998.tmp": dead,  # a copy
        f".{name}.999999997.tmp": replace(dead, pid=999_999_997, host="elsewhere"),
        f".{name}.x.tmp": dead,
        f".{name}.v2.999999999.tmp": dead,
        ".data.backup.tmp": dead,
        ".other.999999999.tmp": dead,
    }
    for folder, maker in folders.items():
        (tmp_path / folder).mkdir()
        if maker is not None:
            (tmp_path / folder / MAKER_FILE).write_bytes(maker.as_bytes())
    remove_abandoned(tmp_path / name)
    left = {folder.name for folder in tmp_path.iterdir()}
    assert folders.keys() - left == {f".{name}.999999999.tmp"}
    row = write_rows(tmp_path / "rows.jsonl", [trl_row("Q", ("a", True))])
    stepmark("import", "trl-stepwise", row, "--out", tmp_path / "new" / name)
    assert not (tmp_path / "new" / name / MAKER_FILE).exists()
