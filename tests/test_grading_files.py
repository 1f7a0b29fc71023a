import json
import os
import stat
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grading.files import GradeInputError, grade_file
from grading.verdict import Verdict


def test_grades_a_file_in_order(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "gold": "12", "prediction": "so 12\n#### 12"},
        {"id": 7, "gold": "x^2-1", "prediction": "(x-1)(x+1)", "form": "answer", "kind": "extra"},
        {"id": "c", "gold": "12", "prediction": "13", "form": "answer"},
        {
            "id": "d",
            "gold": "5",
            "prediction": None,
            "prediction_gen": {"unit": "it is 3. ", "count": 20_000, "suffix": r"\boxed{5}"},
        },
        {"id": "e", "gold": "5", "prediction": r"\boxed{", "form": "response"},
    ]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    progress: list[tuple[int, int]] = []
    summary = grade_file(
        source, target, on_progress=lambda done, total: progress.append((done, total))
    )
    graded = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(row["id"], row["verdict"], row["answer"]) for row in graded] == [
        ("a", "correct", "12"),
        (7, "correct", "(x-1)(x+1)"),
        ("c", "incorrect", "13"),
        ("d", "correct", "5"),
        ("e", "incorrect", ""),
    ]
    assert graded[-1]["reason"] == "no-answer"
    assert all(set(row) == {"id", "verdict", "reason", "answer", "seconds"} for row in graded)
    assert summary.by_verdict == Counter({Verdict.CORRECT: 3, Verdict.INCORRECT: 2})
    assert summary.by_reason == Counter((Verdict(row["verdict"]), row["reason"]) for row in graded)
    assert summary.by_rule["bare"] == 2
    assert summary.by_rule.total() == 5
    assert progress == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "expected a JSON object, not list"),
        ('{"gold": "1", "prediction": "1"}', "`id`"),
        ('{"id": "a", "prediction": "1"}', "`gold` is missing"),
        ('{"id": "a", "gold": 1, "prediction": "1"}', "`gold` must be a string"),
        ('{"id": "a", "gold": "1"}', "exactly one of"),
        ('{"id": "a", "gold": "1", "prediction": "1", "form": "maths"}', "'maths'"),
        ('{"id": "a", "gold": "1", "prediction_gen": {"unit": "ab", "count": -1}}', "`count`"),
        ('{"id": "a", "gold": "1", "prediction_gen": {"unit": 3}}', "`unit` must be a string"),
        (
            '{"id": "a", "gold": "1", "prediction_gen": {"unit": "ab", "count": 1000000000000}}',
            "2000000000000 characters",
        ),
    ],
)
def test_bad_rows_name_file_and_line_and_write_nothing(
    tmp_path: Path, line: str, message: str
) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"id": "ok", "gold": "1", "prediction": "1"}\n' + line + "\n")
    with pytest.raises(GradeInputError, match=r"in\.jsonl, line 2: ") as error:
        grade_file(source, target)
    assert message in str(error.value)
    assert not target.exists()


ONE = b'{"id": "a", "gold": "1", "prediction": "1", "form": "answer"}\n'


def one_row(tmp_path: Path) -> Path:
    source = tmp_path / "in.jsonl"
    source.write_bytes(ONE)
    return source


def verdicts(content: str) -> list[str]:
    return [json.loads(line)["verdict"] for line in content.splitlines()]


@pytest.mark.parametrize("is_there", [True, False])
def test_an_output_that_is_a_link_is_followed(tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "out.jsonl", tmp_path / "out.jsonl"
    link.symlink_to("real/out.jsonl")
    if is_there:
        real.write_text("old")
    grade_file(one_row(tmp_path), link)
    assert link.is_symlink()
    assert verdicts(real.read_text()) == ["correct"]
    assert [path.name for path in real.parent.iterdir()] == ["out.jsonl"]


def test_pipes_are_read_and_written_as_they_are(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    os.mkfifo(source)
    os.mkfifo(target)
    with ThreadPoolExecutor(2) as threads:
        threads.submit(source.write_bytes, ONE)
        read = threads.submit(target.read_text)
        grade_file(source, target)
        assert verdicts(read.result(timeout=30)) == ["correct"]
    assert stat.S_ISFIFO(target.stat().st_mode)


GRADE = """
from grading.files import grade_file
print("before")
grade_file("/dev/stdin", "/dev/stdout")
print("after")
"""


@pytest.mark.parametrize("to_file", [True, False])
def test_standard_input_and_output(tmp_path: Path, to_file: bool) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    with log.open("a") as stream:
        done = subprocess.run(
            [sys.executable, "-c", GRADE],
            input=ONE,
            stdout=stream if to_file else subprocess.PIPE,
            check=True,
        )
    printed = log.read_text() if to_file else done.stdout.decode()
    *_, before, row, after = printed.splitlines()
    assert (before, verdicts(row), after) == ("before", ["correct"], "after")
    assert log.read_text().startswith("earlier\n")


def test_an_output_that_cannot_be_written_is_found_before_grading(tmp_path: Path) -> None:
    graded: list[int] = []
    for output, problem in (
        (tmp_path, "the output is a folder, name a file"),
        (tmp_path / "no" / "out.jsonl", "No such file or directory"),
        (tmp_path / "in.jsonl" / "out.jsonl", "Not a directory"),
        (Path("/sys/out.jsonl"), "denied|not permitted|Read-only"),
    ):
        with pytest.raises(OSError, match=problem) as error:
            grade_file(one_row(tmp_path), output, on_progress=lambda done, _: graded.append(done))
        assert str(error.value).endswith(f": '{output}'")
    assert graded == []
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_nothing_repeated_without_end_is_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    generated = '"prediction_gen": {"prefix": "1", "unit": "", "count": 1' + "0" * 30 + "}"
    source.write_text('{"id": 1, "gold": "1", "form": "answer", ' + generated + "}\n")
    assert grade_file(source, target).by_verdict == Counter({Verdict.CORRECT: 1})
    unit = '{"unit": "abc", "count": ' + "9" * 4300 + "}"
    source.write_text('{"id": 1, "gold": "1", "prediction_gen": ' + unit + "}\n")
    with pytest.raises(GradeInputError, match=r"stands for more than 10\^18 characters"):
        grade_file(source, target)


def test_a_byte_order_mark_at_the_beginning_is_no_content(tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"\xef\xbb\xbf" + ONE)
    assert grade_file(source, target).by_verdict == Counter({Verdict.CORRECT: 1})
    source.write_bytes(b"\xef\xbb\xbf\n" + ONE + b"\xef\xbb\xbf" + ONE)
    with pytest.raises(GradeInputError, match="line 3: not JSON"):
        grade_file(source, target)
