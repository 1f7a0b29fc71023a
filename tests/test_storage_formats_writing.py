"""Labelled solutions written in foreign formats: golden rows, pairs, files."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from grading.verdict import Verdict
from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution, Problem, StepLabel
from storage.formats import math_shepherd, rlhflow, step_pairs, trl_stepwise
from storage.formats.options import ExportFormat, ExportOptions, ImportOptions, LabelKind
from storage.formats.writing import check_suffix, write_foreign

PROBLEM = Problem("p1", "What is {x} + 2?", "4", "openai/gsm8k", "train")


def label(num_correct: int, num_graded: int = 10) -> StepLabel:
    return StepLabel(num_graded, 0, num_correct, num_graded - num_correct, 0, 0)


def solution(
    steps: dict[str, StepLabel],
    *,
    answer: str = "4",
    verdict: Verdict = Verdict.CORRECT,
    problem: Problem = PROBLEM,
) -> LabeledSolution:
    texts, labels = tuple(steps), tuple(steps.values())
    return LabeledSolution(problem, f"s-{hash(texts)}", texts, labels, answer, verdict)


GOOD = solution(
    {"First, x.": label(7), "\nThen 3.\nYes.": label(0), "\n\nSo 4.\n#### 4": label(1, 1)}
)
CUT = solution({"One.": label(10), "\nTwo.": label(0, 0), "\nThree.": label(3)})
BLIND = solution({"One.": label(0, 0), "\nTwo.": label(3)})

Writer = Callable[[Iterable[LabeledSolution], ExportOptions, Counter[str]], Iterable[object]]


def written(
    write: Writer, *solutions: LabeledSolution, **options: object
) -> tuple[list[object], dict[str, int]]:
    counts: Counter[str] = Counter()
    rows = list(write(solutions, ExportOptions.model_validate(options), counts))
    return rows, {what: n for what, n in counts.items() if n}


def test_trl_hard_and_soft() -> None:
    rows, _ = written(trl_stepwise.write_rows, GOOD)
    assert rows == [
        {
            "prompt": "What is {x} + 2?",
            "completions": ["First, x.", "Then 3.\nYes.", "So 4.\n#### 4"],
            "labels": [True, False, True],
        }
    ]
    rows, _ = written(
        trl_stepwise.write_rows, GOOD, labels=LabelKind.SOFT, template="Q: {question}\nA:"
    )
    assert rows == [
        {
            "prompt": "Q: What is {x} + 2?\nA:",
            "completions": ["First, x.", "Then 3.\nYes.", "So 4.\n#### 4"],
            "labels": [0.7, 0.0, 1.0],
        }
    ]
    rows, _ = written(trl_stepwise.write_rows, GOOD, hard_threshold=0.7)
    assert rows[0]["labels"] == [False, False, True]  # type: ignore[index]


def test_trl_ends_before_the_first_step_without_label() -> None:
    rows, counts = written(trl_stepwise.write_rows, CUT, BLIND, GOOD)
    assert [row["completions"] for row in rows] == [  # type: ignore[index]
        ["One."],
        ["First, x.", "Then 3.\nYes.", "So 4.\n#### 4"],
    ]
    assert counts == {
        "solutions kept": 2,
        "solutions kept up to their first step without a label": 1,
        "steps dropped: no label, or after a step without one": 2,
        "solutions dropped: the first step has no label": 1,
    }


def test_rlhflow_turns() -> None:
    rows, _ = written(rlhflow.write_rows, GOOD, CUT)
    assert rows == [
        {
            "conversations": [
                {"role": "user", "content": "What is {x} + 2? First, x."},
                {"role": "assistant", "content": "+"},
                {"role": "user", "content": "Then 3.\nYes."},
                {"role": "assistant", "content": "-"},
                {"role": "user", "content": "So 4.\n#### 4"},
                {"role": "assistant", "content": "+"},
            ]
        },
        {
            "conversations": [
                {"role": "user", "content": "What is {x} + 2? One."},
                {"role": "assistant", "content": "+"},
            ]
        },
    ]


def test_math_shepherd_text_and_signs() -> None:
    rows, _ = written(math_shepherd.write_rows, GOOD)
    text = (
        "What is {x} + 2? Step 1: First, x. ки\nStep 2: Then 3.\nYes. ки\n"
        "Step 3: So 4. The answer is: 4 ки"
    )
    assert rows == [
        {
            "input": text,
            "label": "What is {x} + 2? Step 1: First, x. +\nStep 2: Then 3.\nYes. -\n"
            "Step 3: So 4. The answer is: 4 +",
            "task": "GSM8K",
        }
    ]
    numbered = solution(
        {"Step 1: a": label(1), "\nStep 1: b": label(1), "\nThe answer is: 4\n#### 4": label(1)}
    )
    assert written(math_shepherd.write_rows, numbered, task="MATH")[0] == [
        {
            "input": "What is {x} + 2? Step 1: a ки\nStep 1: b ки\nStep 3: The answer is: 4 ки",
            "label": "What is {x} + 2? Step 1: a +\nStep 1: b +\nStep 3: The answer is: 4 +",
            "task": "MATH",
        }
    ]


def test_math_shepherd_leaves_out_what_would_be_misread() -> None:
    tagged = solution({"Каки": label(1)})
    answerless = solution({"One.": label(0)}, answer=" ", verdict=Verdict.INCORRECT)
    started = solution({"One.": label(1)}, problem=replace(PROBLEM, question="In Step 1: what?"))
    assert written(math_shepherd.write_rows, tagged, answerless, started, CUT) == (
        [],
        {
            "solutions dropped: the text holds the tag ки": 1,
            "solutions dropped: no final answer": 1,
            "solutions dropped: the question holds ' Step 1: '": 1,
            "solutions dropped: a step has no label": 1,
        },
    )
    unknown = replace(GOOD, problem=replace(PROBLEM, source="demo"))
    with pytest.raises(ConfigError, match=r"'demo' of problem 'p1' .* --task"):
        written(math_shepherd.write_rows, unknown)


def test_math_shepherd_read_again_has_the_same_labels_and_text() -> None:
    (row,), _ = written(math_shepherd.write_rows, GOOD)
    (read,) = math_shepherd.read_row(row, ImportOptions(), Counter())  # type: ignore[arg-type]
    assert read.question == PROBLEM.question
    assert [one.hard_label() for one in read.labels] == [True, False, True]
    again = LabeledSolution(
        replace(PROBLEM, source=read.source),
        "s",
        read.steps,
        read.labels,
        read.final_answer,
        Verdict.CORRECT,
    )
    assert written(math_shepherd.write_rows, again)[0] == [row]


_PIECES = [*"abки +-\n\t\u2028#:", "ки", "Step 1: ", " Step 2: ", "The answer is: "]
_TEXTS = st.lists(st.sampled_from(_PIECES), min_size=1).map("".join).filter(str.strip)


@given(
    question=_TEXTS,
    steps=st.lists(st.tuples(_TEXTS, st.booleans()), min_size=1, max_size=4),
    answer=_TEXTS,
)
def test_math_shepherd_whatever_is_written_is_read_as_it_was_meant(
    question: str, steps: list[tuple[str, bool]], answer: str
) -> None:
    made = LabeledSolution(
        replace(PROBLEM, question=question),
        "s",
        tuple(text for text, _ in steps),
        tuple(label(10 * is_right) for _, is_right in steps),
        answer,
        Verdict.CORRECT,
    )
    rows, counts = written(math_shepherd.write_rows, made)
    assert len(rows) + counts.get("solutions kept", 0) != 1
    for row in rows:
        (read,) = math_shepherd.read_row(row, ImportOptions(), Counter())  # type: ignore[arg-type]
        assert read.question == question.strip()
        assert [one.hard_label() for one in read.labels] == [is_right for _, is_right in steps]
        for text, (original, _) in zip(read.steps[:-1], steps[:-1], strict=True):
            assert text.endswith(original.strip())


# after "A": one step high, one low, one between, one with few rollouts; at the root two highs
TREE = [
    solution({"A": label(5), "\nb": label(9), "\nc #### 4": label(1, 1)}),
    solution({"A": label(5), "\n d ": label(1), "\ne": label(0, 1)}, verdict=Verdict.INCORRECT),
    solution({"A": label(5), "\n d ": label(1), "\nf": label(1, 1)}),
    solution({"A": label(5), "\ng": label(5), "\nh": label(1, 1)}),
    solution({"A": label(5), "\ni": label(0, 7), "\nj": label(0, 1)}, verdict=Verdict.INCORRECT),
    solution({"B": label(8)}),
]


def test_pairs_are_siblings_byte_for_byte() -> None:
    rows, counts = written(step_pairs.write_step_dpo, *TREE)
    assert rows == [
        {
            "dataset": "openai/gsm8k",
            "prompt": "What is {x} + 2?",
            "initial_reason_steps": "A",
            "chosen": "\nb",
            "rejected": "\n d ",
            "full_chosen": "\nb\nc #### 4",
            "full_rejected": "\n d \ne",  # of the two solutions, the wrong one
            "answer": "4",
        }
    ]
    texts = ["".join(one.steps) for one in TREE]
    (row,) = rows
    for end in ("chosen", "rejected"):
        assert row["initial_reason_steps"] + row[f"full_{end}"] in texts  # type: ignore[index]
        assert row[f"full_{end}"].startswith(row[end])  # type: ignore[index]
    assert counts == {
        "solutions": 6,
        "prefixes with siblings": 3,  # the root, A, and A d
        "prefixes dropped: no pair": 2,
        "pairs kept": 1,
        "steps dropped: too few graded rollouts": 3,  # i; e and f, which end solutions
        "steps dropped: neither high nor low": 2,  # A and g
    }
    preferences, _ = written(step_pairs.write_preferences, *TREE, template="{question}\n")
    assert preferences == [{"prompt": "What is {x} + 2?\nA", "chosen": "\nb", "rejected": "\n d "}]


def test_pairs_at_the_root_and_of_last_steps_where_few_rollouts_will_do() -> None:
    rows, _ = written(step_pairs.write_preferences, *TREE, min_graded=1)
    assert rows == [
        {"prompt": "What is {x} + 2?A", "chosen": "\nb", "rejected": "\ni"},  # wider than d
        {"prompt": "What is {x} + 2?A\n d ", "chosen": "\nf", "rejected": "\ne"},
    ]
    root, _ = written(step_pairs.write_preferences, *TREE, low=0.5, margin=0.3)
    assert {"prompt": "What is {x} + 2?", "chosen": "B", "rejected": "A"} in root


def test_the_widest_pairs_of_a_prefix_in_a_set_order() -> None:
    labels = {"a": label(8), "b": label(10), "c": label(20, 20), "d": label(2), "e": label(0)}
    solutions = [solution({step: one}) for step, one in labels.items()]

    def pairs(number: int) -> list[str]:
        rows, _ = written(step_pairs.write_preferences, *solutions, pairs_per_prefix=number)
        return [row["chosen"] + row["rejected"] for row in rows]  # type: ignore[index]

    assert pairs(100) == ["be", "ce", "ae", "bd", "cd", "ad"]
    solutions.reverse()
    assert pairs(3) == ["be", "ce", "ae"]
    _, counts = written(step_pairs.write_preferences, *solutions, margin=0.7)
    assert counts["pairs dropped: margin"] == 1
    assert counts["pairs dropped: wider ones at the same prefix"] == 4


def test_problems_with_the_same_steps_do_not_mix() -> None:
    other = replace(PROBLEM, problem_id="p2")
    solutions = [solution({"a": label(10)}), solution({"b": label(0)}, problem=other)]
    assert written(step_pairs.write_preferences, *solutions)[0] == []


def test_a_margin_is_met_despite_rounding() -> None:
    solutions = [solution({"a": label(7)}), solution({"b": label(2)})]
    rows, _ = written(step_pairs.write_preferences, *solutions, high=0.7)
    assert len(rows) == 1


@pytest.mark.parametrize("kind", list(ExportFormat))
def test_jsonl_and_parquet_hold_the_same_rows(kind: ExportFormat, tmp_path: Path) -> None:
    hostile = solution({"\x1b[31m\u2028\x85 \x00,\"'<b>": label(3), "\n--- !!python": label(1, 1)})
    solutions = [*TREE, GOOD, hostile]
    options = ExportOptions(labels=LabelKind.SOFT)
    lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    counts = write_foreign(lines, solutions, kind, options)
    assert write_foreign(table, solutions, kind, options) == counts
    rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert pq.read_table(table).to_pylist() == rows
    assert len(rows) == counts["rows written"] > 0


def test_nothing_to_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("before")
    with pytest.raises(DataError, match="nothing in the dataset makes a row of step-dpo"):
        write_foreign(file, [GOOD], ExportFormat.STEP_DPO, ExportOptions())
    with pytest.raises(ConfigError):
        write_foreign(file, [GOOD, replace(GOOD, problem=replace(PROBLEM, source="?"))],
                      ExportFormat.MATH_SHEPHERD, ExportOptions())  # fmt: skip
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ConfigError, match=r"neither \.jsonl nor \.parquet"):
        check_suffix(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    "options",
    [{"template": "{q}"}, {"task": "math"}, {"low": 0.8}, {"margin": 0}, {"min_graded": 0}],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ExportOptions.model_validate(options)
