"""Problem readers: every format, every kind of rejected row, errors that name file and row."""

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grading.grade import ungradable_reason
from pipeline.errors import ConfigError, DataError
from storage.problem_config import ProblemsConfig
from storage.problems import LoadedProblems, last_boxed, load_problems

SHARED = Path(__file__).parents[1].parent / "shared" / "data"


def load(source: object, **settings: object) -> LoadedProblems:
    config = ProblemsConfig(source=str(source), **settings)  # type: ignore[arg-type]
    return load_problems(config, ungradable_reason=ungradable_reason)


def rejected(loaded: LoadedProblems) -> dict[int, str]:
    return {one.row: one.reason for one in loaded.rejections}


def golds(loaded: LoadedProblems) -> list[str]:
    return [problem.gold_answer for problem in loaded.problems]


def lines(tmp_path: Path, *rows: object) -> Path:
    file = tmp_path / "p.jsonl"
    file.write_bytes(
        b"".join(
            (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows
        )
    )
    return file


def row(answer: object, question: object = None, **more: object) -> dict[str, object]:
    return {"question": question or f"What is {answer}?", "answer": answer, **more}


@pytest.mark.parametrize(
    ("name", "preset", "count", "first"),
    [("gsm8k_test", "gsm8k", 1319, "18"), ("math500_test", "math", 500, None)],
)
def test_published_sets_are_usable_whole(
    name: str, preset: str, count: int, first: str | None
) -> None:
    file = SHARED / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    loaded = load(file, preset=preset, split="test")
    assert (len(loaded.problems), loaded.rejections) == (count, ())
    problem = loaded.problems[0]
    assert first is None or problem.gold_answer == first
    assert (problem.source, problem.split) == (f"{name}.jsonl", "test")
    assert preset != "gsm8k" or not any("," in gold for gold in golds(loaded))


def test_jsonl_rows_that_cannot_be_used_are_listed_by_line(tmp_path: Path) -> None:
    file = lines(
        tmp_path,
        b"\xef\xbb\xbf" + json.dumps(row("1")).encode(),
        b"",
        b"{broken",
        [1],
        b'{"question": "\xff", "answer": 1}',
        {"answer": "2"},
        row("2", "  "),
        row("2", {"text": "nested"}),
        {"question": "q"},
        row(None),
        row(" "),
        row(["1"]),
        row({"value": 1}),
        row(True),
        row(float("nan")),
        row(float("inf")),
        row("NaN"),
        b'{"question": "q", "answer": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        row("\\frac{1}{"),
        row("1"),
        row("3", "half \ud83d"),
        row("4"),
    )
    loaded = load(file)
    assert golds(loaded) == ["1", "4"]
    reasons = rejected(loaded)
    assert sorted(reasons) == list(range(3, 23))
    assert "not JSON (Expecting property name" in reasons[3]
    assert reasons[4] == "not a JSON object"
    assert "not JSON ('utf-8' codec" in reasons[5]
    assert {reasons[6], reasons[7], reasons[8]} == {"no question in column 'question'"}
    assert {reasons[9], reasons[10], reasons[11]} == {"no gold answer"}
    assert reasons[12] == "gold answer is a list, not a text or a number"
    assert reasons[13] == "gold answer is a dict, not a text or a number"
    assert reasons[14] == "gold answer is a bool, not a text or a number"
    broken = "broken notation or no mathematics"
    for number, shown, why in (
        (15, "nan", "not a number"),
        (16, "inf", "not a number"),
        (17, "NaN", "not a number"),
        (20, "\\\\frac{1}{", broken),
    ):
        assert reasons[number] == f"gold answer '{shown}' cannot be read as an answer: {why}"
    assert "not JSON (Exceeds the limit" in reasons[18]
    assert reasons[19].startswith("not JSON (")
    assert reasons[21] == "the same question as row 1"
    assert "surrogate" in reasons[22]


def test_why_a_gold_answer_cannot_be_graded_is_said(tmp_path: Path) -> None:
    golds = [r"\oint_C f \, dx", "1" + "+1" * 40_000, "so #### (", "1"]
    reasons = rejected(load(lines(tmp_path, *map(row, golds))))
    assert reasons[1].endswith("' cannot be read as an answer: unsupported notation")
    assert reasons[2] == f"gold answer {golds[1][:80]!r} cannot be read as an answer: too large"
    assert reasons[3] == (
        "gold answer 'so #### (' cannot be read as an answer: broken notation or no mathematics; "
        "is this problems.preset = 'gsm8k'?"
    )
    assert sorted(reasons) == [1, 2, 3]


def test_numbers_are_golds(tmp_path: Path) -> None:
    loaded = load(lines(tmp_path, row(18), row(-2.5), row(10**40), row("1,234"), row(0)))
    assert golds(loaded) == ["18", "-2.5", str(10**40), "1,234", "0"]


def test_csv_rows_are_numbered_by_their_first_line(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_bytes(
        b"\xef\xbb\xbfquestion,answer,id\r\n"  # line 1
        b'"two\nlines, ""quoted""",5,a\r\n'  # 2-3
        b"\r\n"  # 4
        b'"three\n\nlines",,b\r\n'  # 5-7
        b"short\r\n"  # 8
        b"x,1,c,extra\r\n"  # 9
        b"y,7,a\r\n"  # 10
        b"z,8,\r\n"  # 11
        b"w,9,d"  # 12
    )
    loaded = load(file, id_column="id")
    assert [(one.problem_id, one.question, one.gold_answer) for one in loaded.problems] == [
        ("a", 'two\nlines, "quoted"', "5"),
        ("d", "w", "9"),
    ]
    assert rejected(loaded) == {
        5: "no gold answer",
        8: "no gold answer",
        9: "4 fields, but the header has 3",
        10: "duplicate id 'a'",
        11: "no id in column 'id'",
    }


@pytest.mark.parametrize("content", [b'q,answer\n"a"b,1\n', b"question,answer\n\xff,1\n"])
def test_broken_csv_names_file_and_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "p.csv"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"p\.csv, line \d: not valid csv"):
        load(file)


def test_parquet(tmp_path: Path) -> None:
    file = tmp_path / "p.parquet"
    table = pa.table(
        {"problem": ["a", None, "c", "d"], "value": pa.array([1, 2, None, 4], pa.int64())}
    )
    pq.write_table(table, file, row_group_size=2)
    loaded = load(file, question_column="problem", answer_column="value")
    assert golds(loaded) == ["1", "4"]
    assert rejected(loaded) == {2: "no question in column 'problem'", 3: "no gold answer"}
    pq.write_table(pa.table({"question": ["a"], "answer": [Decimal("2.50")]}), file)
    assert golds(load(file)) == ["2.50"]
    file.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"p\.parquet cannot be read as Parquet"):
        load(file)


def test_presets(tmp_path: Path) -> None:
    gsm = load(
        lines(tmp_path, row("so 1,200 #### no\n#### 1,200", "a"), row("no mark", "b")),
        preset="gsm8k",
    )
    assert (golds(gsm), rejected(gsm)) == (["1200"], {2: "no gold answer"})
    solution = r"so \boxed{1}, no: \boxed{\frac{1}{2}} and \boxed{"
    rows = [
        {"problem": "a", "answer": "7", "solution": solution},
        {"problem": "b", "solution": solution},
        {"problem": "c", "solution": "none"},
    ]
    loaded = load(lines(tmp_path, *rows), preset="math")
    assert golds(loaded) == ["7", r"\frac{1}{2}"]
    assert rejected(loaded) == {3: "no gold answer"}
    assert last_boxed(r"\boxed {a{b}c}") == "a{b}c"


def test_a_window_of_rows(tmp_path: Path) -> None:
    file = lines(tmp_path, *(row(index) for index in range(10)))
    assert golds(load(file, start=3, limit=2)) == ["3", "4"]
    with pytest.raises(DataError, match=r"no usable problem \(0 rows rejected\).*problems\.start"):
        load(file, start=99)


def test_a_problem_without_an_id_is_named_by_its_question(tmp_path: Path) -> None:
    """So a changed gold answer is a changed problem, not a new one."""
    (one,) = load(lines(tmp_path, row(1, "q"))).problems
    (same,) = load(lines(tmp_path, row("1", " q "))).problems
    (other,) = load(lines(tmp_path, row(2, "q"))).problems
    assert one.problem_id.startswith("q-")
    assert other.problem_id == one.problem_id
    assert same == one
    loaded = load(lines(tmp_path, row(1, "q"), row(2, "q"), row(1, "q")))
    assert [rejection.reason for rejection in loaded.rejections] == [
        "the same question as row 1 with another gold answer: here '2', there '1'",
        "the same question as row 1",
    ]


def test_wrong_columns_and_sources_are_config_errors(tmp_path: Path) -> None:
    file = lines(tmp_path, row(1), row(2))
    with pytest.raises(ConfigError, match=r"has no column 'text'; it has answer, question: set"):
        load(file, question_column="text")
    with pytest.raises(ConfigError, match="has no column 'uid'"):
        load(file, id_column="uid")
    with pytest.raises(DataError, match=r"\(2 rows rejected, row 1: no gold answer\)"):
        load(file, answer_column="gold")
    with pytest.raises(ConfigError, match="there is no such file"):
        load(tmp_path / "none.jsonl")
    (tmp_path / "p.xlsx").write_text("")
    with pytest.raises(ConfigError, match=r"\.xlsx is not a known format"):
        load(tmp_path / "p.xlsx")


def test_demo_problems(tmp_path: Path) -> None:
    loaded = load("demo", start=2, limit=2, split="test")
    assert [one.problem_id for one in loaded.problems] == ["demo-test-000002", "demo-test-000003"]
    with pytest.raises(ConfigError, match=r"has no end; set problems\.limit"):
        load("demo")


def test_a_source_that_cannot_be_a_path_is_a_config_error(tmp_path: Path) -> None:
    for source in ("x" * 300, "x" * 5000 + ".jsonl", "~no-such-user-here/p.jsonl"):
        with pytest.raises(
            ConfigError, match=r"problems\.source = .* cannot be looked up"
        ) as error:
            load(source)
        assert len(str(error.value)) < 300


def test_csv_fields_may_be_long(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text(f'question,answer\n"{"long " * 60_000}",1\nq,2\n')
    loaded = load(file)
    assert golds(loaded) == ["1", "2"]
    assert len(loaded.problems[0].question) == 299_999


def test_columns_of_one_name_are_a_config_error(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("question,answer,answer\nq,1,2\n")
    with pytest.raises(ConfigError, match=r"p\.csv has more than one column 'answer'"):
        load(file)
    file.write_text("question,answer,,\nq,1,,\n")
    assert golds(load(file)) == ["1"]
    file = tmp_path / "p.parquet"
    columns = [pa.array(["q"]), pa.array(["1"]), pa.array(["2"])]
    names = ["question", "answer", "answer"]
    pq.write_table(pa.Table.from_arrays(columns, names=names), file)
    with pytest.raises(ConfigError, match=r"p\.parquet has more than one column 'answer'"):
        load(file)


def test_ids_are_texts_or_whole_numbers(tmp_path: Path) -> None:
    rows = [
        row(index, id=given) for index, given in enumerate([7, True, False, "half \ud83d", 1.5])
    ]
    loaded = load(lines(tmp_path, *rows), id_column="id")
    assert [one.problem_id for one in loaded.problems] == ["7"]
    wrong = "id in column 'id' is a bool, not a text or a whole number"
    assert rejected(loaded) == {
        2: wrong,
        3: wrong,
        4: "id holds half of a surrogate pair, which is no character",
        5: "no id in column 'id'",
    }
