"""Problems that stand in test sets: exactly, as a part, or by a shared n-gram."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigError, DataError
from pipeline.records import Problem
from storage.decontamination import (
    Contamination,
    Decontamination,
    DecontaminationConfig,
    Match,
    find_contaminated,
    without_contaminated,
    words_of,
)
from storage.problems import LoadedProblems, Rejection

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"


def problem(number: int, question: str) -> Problem:
    return Problem(f"p{number}", question, "1", "test", "train")


def found(
    tmp_path: Path, questions: list[str], tests: list[str], **settings: object
) -> tuple[Contamination, ...]:
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(json.dumps({"question": one}) for one in tests), encoding="utf-8")
    config = DecontaminationConfig(files=(str(file),), **settings)  # type: ignore[arg-type]
    problems = [problem(number, question) for number, question in enumerate(questions)]
    return find_contaminated(problems, config).found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is $2+2$?", "what is 2 + 2"),
        ("What is 2−2?", "what is 2 - 2"),
        ("A well-known X, e.g. 3×4.", "a well known x e g 3 * 4"),
        ("ﬁve  Straße\n\\frac{1}{2}", "five straße frac 1 2"),
        ("x_1 = 45-year-old", "x 1 = 45 - year old"),
        ("…!", ""),
    ],
)
def test_words_are_lower_case_without_punctuation_but_with_operators(text: str, words: str) -> None:
    assert words_of(text) == words.split()


def test_an_exact_match_is_one_of_words_not_of_characters(tmp_path: Path) -> None:
    hits = found(tmp_path, ["what is 2+2", "What is 2-2?", "…"], ["?!", "What is $2 + 2$?"])
    assert hits == (
        Contamination("p0", Match.EXACT, str(tmp_path / "t.jsonl"), 2, 1.0, "what is 2 + 2"),
    )


def test_thirteen_shared_words_are_contamination_and_twelve_are_not(tmp_path: Path) -> None:
    words = LONG.split()
    thirteen, twelve = " ".join(words[:13]), " ".join(words[:12])
    tests = [f"before {thirteen} after", f"other {twelve} words"]
    assert found(tmp_path, [f"unlike {twelve} ending in these"], tests) == ()
    (hit,) = found(tmp_path, [LONG], tests)
    assert (hit.match, hit.row, hit.words) == (Match.NGRAM, 1, thirteen)
    assert hit.share == pytest.approx(1 / 3)  # fifteen words have three 13-grams


def test_the_row_that_shares_most_is_named_and_a_share_can_be_asked_for(tmp_path: Path) -> None:
    words = LONG.split()
    tests = [" ".join(["x", *words[:13]]), " ".join(["x", *words[1:]]), " ".join(words[:13])]
    (hit,) = found(tmp_path, [LONG], tests)
    assert (hit.row, hit.share) == (2, pytest.approx(2 / 3))
    assert found(tmp_path, [LONG], tests, min_share=0.7) == ()
    assert found(tmp_path, [LONG], tests[:2], ngram=15) == ()


def test_a_repeated_gram_counts_once(tmp_path: Path) -> None:
    question = "a b a b a b c d"  # 2-grams: ab, ba, bc, cd
    (hit,) = found(tmp_path, [question], ["a b z a b a"], ngram=2)
    assert hit.share == pytest.approx(2 / 4)


def test_short_texts_count_where_they_stand_whole_in_the_other(tmp_path: Path) -> None:
    nine, seven = " ".join(LONG.split()[:9]), " ".join(LONG.split()[:7])
    hits = found(tmp_path, [nine, seven, "else"], [f"so {nine}, is it?"])
    assert [(hit.problem_id, hit.match, hit.words) for hit in hits] == [
        ("p0", Match.CONTAINED, nine)
    ]
    hits = found(tmp_path, [f"so {nine} {seven} x", f"y {seven}"], [seven, nine])
    assert [(hit.problem_id, hit.match, hit.row) for hit in hits] == [("p0", Match.CONTAINED, 2)]


def test_every_format_is_read_and_rows_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("problem,n\nunlike,1\nsame words here,2\n", encoding="utf-8")
    table = pa.table({"question": ["unlike", "and these ones"]})
    pq.write_table(table, tmp_path / "b.parquet")
    files = (str(tmp_path / "a.csv"), str(tmp_path / "b.parquet"))
    config = DecontaminationConfig(files=files)
    result = find_contaminated(
        [problem(0, "Same words, here"), problem(1, "And these ones!"), problem(2, "no")], config
    )
    assert result.num_test_rows == {files[0]: 2, files[1]: 2}
    assert [(hit.problem_id, hit.file, hit.row) for hit in result.found] == [
        ("p0", files[0], 3),
        ("p1", files[1], 2),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", '{"question": "a"}\n{oops\n', r"t\.jsonl, line 2: not JSON"),
        ("t.jsonl", '{"question": "a"}\n\n{"q": "b"}\n', r"line 3: no question in column 'quest"),
        ("t.jsonl", '{"question": " "}\n', r"line 1: no question .*the row has question\)"),
        ("t.jsonl", "", r"t\.jsonl has no rows"),
        ("t.csv", 'question\n"a"b\n', r"t\.csv, line 2: not valid csv"),
        ("t.parquet", "PAR1", r"t\.parquet cannot be read as Parquet"),
    ],
)
def test_a_bad_test_set_is_an_error_with_file_and_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    config = DecontaminationConfig(files=(str(tmp_path / name),))
    with pytest.raises(DataError, match=message):
        find_contaminated([problem(0, "a")], config)


def test_a_file_that_is_not_there_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    for name, message in (("no.jsonl", "there is no file"), ("t.txt", "is no .jsonl, .csv or")):
        config = DecontaminationConfig(files=(str(tmp_path / name),))
        with pytest.raises(ConfigError, match=message):
            find_contaminated([problem(0, "a")], config)


def test_excluded_problems_become_rejected_rows_in_their_place() -> None:
    problems = (problem(0, "a"), problem(1, "b"))
    hit = Contamination("p0", Match.EXACT, "t.jsonl", 7, 1.0, "a")
    loaded = LoadedProblems(problems, (Rejection(1, "x"), Rejection(9, "y")), (4, 5))
    kept = without_contaminated(loaded, Decontamination({"t.jsonl": 9}, (hit,)))
    assert (kept.problems, kept.rows) == ((problems[1],), (5,))
    assert kept.rejections[1] == Rejection(4, "contaminated (exact): row 7 of t.jsonl asks it, too")
    assert [one.row for one in kept.rejections] == [1, 4, 9]
    only = LoadedProblems(problems[:1], (), (4,))
    with pytest.raises(DataError, match=r"leaves no problem: all 1 stand in t\.jsonl"):
        without_contaminated(only, Decontamination({"t.jsonl": 9}, (hit,)))
