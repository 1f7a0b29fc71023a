"""Texts that nest deeper than the grammar goes, and notation that states nothing."""

import time

import pytest

from grading.grade import compare_answers
from grading.nesting import is_broken, without_idle_nesting
from grading.verdict import Verdict

N = 400


@pytest.mark.parametrize(
    ("gold", "answer", "verdict", "reason"),
    [
        ("6", "(" * N + "6" + ")" * N, Verdict.CORRECT, "exact"),
        ("6", "(" * N + "7" + ")" * N, Verdict.INCORRECT, "exact"),
        ("6", r"\left(" * N + "6" + r"\right)" * N, Verdict.CORRECT, "exact"),
        ("6", "(" * N + "6", Verdict.INCORRECT, "unparsable-answer"),
        ("6", "[" * N + "]" * N, Verdict.INCORRECT, "unparsable-answer"),
        ("6", r"\frac" * 3_000, Verdict.INCORRECT, "unparsable-answer"),
        ("6", r"\sqrt{" * N + "6" + "}" * N, Verdict.INCORRECT, "exact"),
        ("1", r"\sqrt{" * N + "1" + "}" * N, Verdict.CORRECT, "exact"),
        ("1", r"\sqrt{" * N + "1.01" + "}" * N, Verdict.INCORRECT, "exact"),
        ("6", "(2+" * N + "1" + ")" * N, Verdict.UNDECIDED, "too-large"),
        ("6", r"\def\a{\a\a}\a", Verdict.INCORRECT, "unparsable-answer"),
        ("6", r"\input{notes}", Verdict.INCORRECT, "unparsable-answer"),
        ("6", r"\unheardof{6}", Verdict.UNDECIDED, "unsupported"),
    ],
)
def test_verdicts(gold: str, answer: str, verdict: Verdict, reason: str) -> None:
    grade = compare_answers(gold, answer)
    assert grade is not None
    assert (grade.verdict, grade.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("body", "slim"),
    [
        ("((y))", "(y)"),
        ("((y)+(z))", "((y)+(z))"),
        ("{{{y}}}", "{y}"),
        (r"\lim_{u\to 1}\lim_{u\to 1} u", r"\lim_{u\to 1} u"),
        (r"\lim_{u\to 1}\lim_{v\to 1} u", r"\lim_{u\to 1}\lim_{v\to 1} u"),
        (r"\sqrt{\sqrt{y}}", r"(y)^{\frac{1}{2^{2}}}"),
        (r"\sqrt{\sqrt{y}+1}", r"\sqrt{\sqrt{y}+1}"),
    ],
)
def test_idle_nesting_goes(body: str, slim: str) -> None:
    assert without_idle_nesting(body) == slim


@pytest.mark.parametrize("body", ["{(", "}{", "((2)", "2+", r"\frac{1}{2}\sqrt", "()"])
def test_broken(body: str) -> None:
    assert is_broken(body)


@pytest.mark.parametrize("body", ["[0,1)", "]0,1[", r"\{2\}", "(2)(3)", r"5\%", "x!"])
def test_not_broken(body: str) -> None:
    assert not is_broken(body)


@pytest.mark.parametrize("unit", ["(", "((x)", r"\sqrt{", r"\lim_{x\to0}", "{}", "[", r"\frac"])
def test_linear_time(unit: str) -> None:
    text = unit * (19_000 // len(unit))
    start = time.process_time()
    is_broken(text)
    without_idle_nesting(text.replace("{", "(").replace("}", ")"))
    assert time.process_time() - start < 0.5
