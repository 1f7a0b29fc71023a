"""Foreign rows and files read: golden rows written by hand, and hostile ones."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grading.verdict import Verdict
from pipeline.errors import ConfigError, DataError
from pipeline.records import StepLabel
from storage.formats import math_shepherd, process_bench, reading, rows, trl_stepwise
from storage.formats.foreign import BadRowError, ForeignSolution, joined_steps
from storage.formats.options import ImportFormat, ImportOptions
from storage.formats.reading import ReadingReport, foreign_solutions

YES, NO, UNKNOWN = StepLabel(1, 0, 1, 0, 0, 0), StepLabel(1, 0, 0, 1, 0, 0), StepLabel(*[0] * 6)


def shepherd(text: str, label: str, task: str = "GSM8K") -> ForeignSolution:
    row = {"input": text, "label": label, "task": task}
    (solution,) = math_shepherd.read_row(row, ImportOptions(), Counter())
    return solution


def test_math_shepherd_signs_are_read_at_the_tags_alone() -> None:
    solution = shepherd(
        "Is 3-1 + 2? Step 1: 3-1 = 2 ки\nStep 2: 2+-1 - 1\n+ 0 ки\nStep 3: Step 1: again. "
        "The answer is: -2 ки",
        "Is 3-1 + 2? Step 1: 3-1 = 2 +\nStep 2: 2+-1 - 1\n+ 0 -\nStep 3: Step 1: again. "
        "The answer is: -2 -",
    )
    assert solution == ForeignSolution(
        question="Is 3-1 + 2?",
        steps=(
            "Step 1: 3-1 = 2",
            "\nStep 2: 2+-1 - 1\n+ 0",
            "\nStep 3: Step 1: again. The answer is: -2",
        ),
        labels=(YES, NO, NO),
        final_answer="-2",
        verdict=Verdict.INCORRECT,
        source="GSM8K",
    )


def test_math_shepherd_a_tag_that_the_label_leaves_is_text() -> None:
    solution = shepherd(
        "Сколько? Step 1: ки Мальчики ки\nStep 2: ки ки",
        "Сколько? Step 1: ки Мальчики +\nStep 2: ки -",
    )
    assert solution.steps == ("Step 1: ки Мальчики", "\nStep 2: ки")
    assert solution.labels == (YES, NO)
    assert solution.final_answer == ""


def test_math_shepherd_the_question_ends_at_the_first_start() -> None:
    solution = shepherd(
        "Q. Step 1: Step 1: a ки\nStep 1: b ки\n", "Q. Step 1: Step 1: a -\nStep 1: b +\n"
    )
    assert solution.question == "Q."
    assert solution.steps == ("Step 1: Step 1: a", "\nStep 1: b")
    assert solution.verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("text", "label", "words"),
    [
        ("Q Step 2: a ки", "Q Step 2: a +", "question's end"),
        (" Step 1: a ки", " Step 1: a +", "no question"),
        ("Q Step 1: a ки", "P Step 1: a +", "another question"),
        ("Q Step 1: a ки", "Q Step 1: b +", "parts from"),
        ("Q Step 1: a ки", "Q Step 1: a *", "no step's end"),
        ("Q Step 1: aки", "Q Step 1: a+", "no step's end"),
        ("Q Step 1: a ки b ки", "Q Step 1: a + b +", "no step's end"),
        ("Q Step 1: a ки\nStep 2: b", "Q Step 1: a +\nStep 2: b", "after the last tag"),
        ("Q Step 1: a", "Q Step 1: a", "or there is none"),
        ("Q Step 1: a ки", "Q Step 1: a ки", "or there is none"),
        ("Q Step 1: a ки", "Q Step 1: a + +", "after the last tag"),
        ("Q Step 1: a ки\n ки", "Q Step 1: a +\n +", "step 1 is empty"),
    ],
)
def test_math_shepherd_refuses_what_does_not_align(text: str, label: str, words: str) -> None:
    with pytest.raises(BadRowError) as caught:
        shepherd(text, label)
    assert words in str(caught.value)


def trl(labels: list[object], num_rollouts: int | None = None) -> ForeignSolution:
    completions = ["One.", "Two.", "So #### 3"][: len(labels)]
    row = {"prompt": "What? ", "completions": completions, "labels": labels}
    options = ImportOptions(num_rollouts=num_rollouts)
    (solution,) = trl_stepwise.read_row(row, options, Counter())
    return solution


def test_trl_hard_labels_are_one_judgement_each() -> None:
    solution = trl([True, False, True])
    assert solution.labels == (YES, NO, YES)
    assert solution.steps == ("One.", "\nTwo.", "\nSo #### 3")
    assert (solution.question, solution.final_answer) == ("What?", "3")
    assert solution.verdict is Verdict.CORRECT
    assert trl([1, 0]).labels == (YES, NO)


def test_trl_soft_labels_are_shares_of_the_rollouts_that_are_named() -> None:
    solution = trl([0.333, 1, 0.6667], num_rollouts=3)
    assert solution.labels == (
        StepLabel(3, 0, 1, 2, 0, 0),
        StepLabel(3, 0, 3, 0, 0, 0),
        StepLabel(3, 0, 2, 1, 0, 0),
    )
    assert solution.verdict is Verdict.UNDECIDED
    with pytest.raises(ConfigError, match="--num-rollouts N"):
        trl([0.5])
    with pytest.raises(BadRowError, match=r"0.5 \* 3 = 1.5"):
        trl([0.5], num_rollouts=3)


@pytest.mark.parametrize("label", [2, -1, 1.5, float("nan"), None, "true", [True]])
def test_trl_refuses_what_is_no_label(label: object) -> None:
    with pytest.raises(BadRowError, match="label 1 is"):
        trl([True, label], num_rollouts=2)


def test_trl_refuses_lists_of_other_lengths_and_empty_steps() -> None:
    row = {"prompt": "Q", "completions": ["a", "b"], "labels": [True]}
    for broken in (row, {**row, "completions": [" "]}, {**row, "completions": [], "labels": []}):
        with pytest.raises(BadRowError):
            list(trl_stepwise.read_row(broken, ImportOptions(), Counter()))


def bench(label: object, *, is_right: bool) -> ForeignSolution:
    row = {
        "id": "gsm8k-0",
        "generator": "Qwen2-7B",
        "problem": "What?",
        "steps": ["First.", "Second.", r"So \boxed{3}."],
        "final_answer_correct": is_right,
        "label": label,
    }
    (solution,) = process_bench.read_row(row, ImportOptions(), Counter())
    return solution


def test_process_bench_labels_up_to_the_first_error() -> None:
    wrong = bench(1, is_right=True)
    assert wrong.labels == (YES, NO, UNKNOWN)
    assert wrong.verdict is Verdict.CORRECT
    assert wrong.steps == ("First.", "\n\nSecond.", "\n\nSo \\boxed{3}.")
    assert (wrong.final_answer, wrong.name, wrong.generator) == ("3", "gsm8k-0", "Qwen2-7B")
    assert bench(0, is_right=False).labels == (NO, UNKNOWN, UNKNOWN)
    right = bench(-1, is_right=True)
    assert right.labels == (YES, YES, YES)
    for label in (3, -2, 1.0, True, None):
        with pytest.raises(BadRowError, match="'label' is"):
            bench(label, is_right=False)


def test_steps_joined_lose_nothing() -> None:
    assert joined_steps(["a \n", " b", "c\t"], "\n") == ("a", " \n\n b", "\nc\t")
    assert joined_steps(["a "], "\n") == ("a ",)


def read(
    *files: Path, strict: bool = False, kind: ImportFormat = ImportFormat.TRL_STEPWISE
) -> tuple[list[ForeignSolution], ReadingReport]:
    report = ReadingReport()
    seen: list[tuple[int, int]] = []
    solutions = foreign_solutions(
        files,
        kind,
        ImportOptions(),
        strict=strict,
        report=report,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    listed = list(solutions)
    assert (
        not seen or seen[-1][0] == seen[-1][1] == sum(file.stat().st_size for file in files) >> 10
    )
    return listed, report


def line(prompt: str = "Q", step: str = "a") -> bytes:
    row = {"prompt": prompt, "completions": [step], "labels": [True]}
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def test_malformed_lines_are_counted_with_their_numbers_and_a_cut_last_one_is_told(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(
        b"\xef\xbb\xbf" + line("First", "x\u2028y\u0000\u001b[31m")
        + b"\n[1]\nnot json\n\xff\xfe\n"
        + b'{"prompt": "\\ud800", "completions": ["a"], "labels": [true]}\n'
        + b'{"prompt": "\xed\xa0\x80", "completions": ["a"], "labels": [true]}\n'
        + line("한😀 \\ud")
        + b"[" * 100_000 + b"\n"
        + b'{"prompt": ' + b"9" * 5000 + b"}\n"
        + line("Last")
        + line("Cut")[:-20]
    )  # fmt: skip
    solutions, report = read(file)
    assert [(one.question, one.source) for one in solutions] == [
        ("First", "rows.jsonl"),
        ("한😀 \\ud", "rows.jsonl"),
        ("Last", "rows.jsonl"),
    ]
    assert solutions[0].steps == ("x\u2028y\x00\x1b[31m",)
    assert report.counts == {"rows": 11, "rows kept": 3, "rows malformed": 8}
    assert [row.row for row in report.malformed] == [3, 4, 5, 6, 7, 9, 10, 12]
    reasons = [row.reason for row in report.malformed]
    assert reasons[0] == "not a JSON object"
    assert "half of a surrogate pair" in reasons[3]
    assert "half of a surrogate pair" in reasons[4]
    assert reasons[-1].endswith("the file may be cut off here")
    with pytest.raises(DataError, match=r"rows.jsonl, row 3: not a JSON object; .*--strict"):
        read(file, strict=True)


def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(line("x" * 30_000) + line("y" * 1000) + line("z" * 20_000)[:-1])
    found = rows.numbered_rows(file, on_bytes=lambda _: None, max_line_bytes=10_000)
    told = [(number, row if isinstance(row, str) else row["prompt"]) for number, row in found]
    assert told == [
        (1, "longer than 10,000 bytes"),
        (2, "y" * 1000),
        (3, "longer than 10,000 bytes"),
    ]


def test_all_rows_malformed_or_none_there_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"prompt": 1}\n{}\n')
    with pytest.raises(DataError, match=r"none of 2 rows is of the format trl-stepwise.*row 1"):
        read(file)
    file.write_text("\n \n")
    with pytest.raises(DataError, match="hold no row"):
        read(file)


def test_gzip_and_parquet_give_what_jsonl_gives(tmp_path: Path) -> None:
    made = [
        {"prompt": f"Q{i}", "completions": ["a", "b"], "labels": [True, i > 2]} for i in range(200)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in made).encode()
    plain, packed, parquet = (tmp_path / name for name in ("a.jsonl", "b.jsonl.gz", "c.parquet"))
    plain.write_bytes(lines)
    packed.write_bytes(gzip.compress(lines))
    pq.write_table(pa.Table.from_pylist(made), parquet)
    expected = [(one.question, one.labels) for one in read(plain)[0]]
    assert len(expected) == 200
    for file in (packed, parquet):
        assert [(one.question, one.labels) for one in read(file)[0]] == expected
    _, report = read(plain, packed, parquet)
    assert report.counts == {"rows": 600, "rows kept": 600}


def test_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(line() * 2000)[:-100])
    with pytest.raises(DataError, match=r"a.jsonl.gz cannot be read beyond line \d+ .*cut off"):
        read(packed)
    packed.write_bytes(line())
    with pytest.raises(DataError, match=r"a.jsonl.gz cannot be read beyond line 0"):
        read(packed)
    parquet = tmp_path / "b.parquet"
    parquet.write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=r"b.parquet cannot be read as Parquet"):
        read(parquet)
    listed = tmp_path / "c.json"
    listed.write_text('[\n{"prompt": "Q"}]')
    with pytest.raises(ConfigError, match=r"jq -c '.\[\]' c.json > c.jsonl"):
        read(listed)
    text = tmp_path / "d.txt"
    text.write_text("")
    with pytest.raises(ConfigError, match=r"not a .jsonl"):
        read(text)
    with pytest.raises(ConfigError, match="no such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match="given twice"):
        read(text, text)


def test_only_so_many_malformed_rows_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"{}\n" * (reading.MAX_LISTED + 5) + line())
    _, report = read(file)
    assert len(report.malformed) == reading.MAX_LISTED
    assert report.counts["rows malformed"] == reading.MAX_LISTED + 5
