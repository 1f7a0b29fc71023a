import json
from collections import Counter
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
    counts = grade_file(
        source, target, on_progress=lambda done, total: progress.append((done, total))
    )
    graded = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(row["id"], row["verdict"], row["reason"], row["answer"]) for row in graded] == [
        ("a", "correct", "text", "12"),
        (7, "correct", "symbolic", "(x-1)(x+1)"),
        ("c", "incorrect", "numeric", "13"),
        ("d", "correct", "text", "5"),
        ("e", "incorrect", "no-answer", ""),
    ]
    assert all(set(row) == {"id", "verdict", "reason", "answer", "seconds"} for row in graded)
    assert counts == Counter({Verdict.CORRECT: 3, Verdict.INCORRECT: 2})
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
