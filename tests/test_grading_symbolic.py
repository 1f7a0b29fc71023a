"""Reasons tell which rule made two answers equal, so that labels can be audited by them."""

import pytest

from grading.symbolic import compare_symbolically
from grading.verdict import Verdict


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        ("7", " 7 ", "text"),
        ("7", "7.0", "numeric"),
        (r"\frac{7}{2}", "3.5", "exact"),
        ("0.583", r"\frac{7}{12}", "rounding"),
        (r"\frac{7}{12}", "0.5833", "rounding"),
        ("(7, 0.583)", r"(7, \frac{7}{12})", "rounding"),
        ("70", r"70\%", "percent"),
        ("7 m", r"700 \text{ cm}", "units"),
        ("the north side", "north side", "wording"),
        ("C", "(C)", "choice"),
        (r"\sqrt{6+2\sqrt{5}}", r"1+\sqrt{5}", "symbolic"),
        (r"\sin 3u", r"3\sin u - 4\sin^3 u", "numeric-identity"),
        (r"1+2+\cdots+n", r"\frac{n^2+n}{2}", "written-out"),
    ],
)
def test_reasons(gold: str, answer: str, reason: str) -> None:
    grade = compare_symbolically(gold, answer)
    assert grade is not None
    assert grade.verdict is Verdict.CORRECT
    assert grade.reason.replace("exact", "symbolic") == reason.replace("exact", "symbolic")


def test_testing_that_decides_nothing_leaves_no_trace() -> None:
    grade = compare_symbolically(r"(\sin 3u, 1)", r"(3\sin u - 4\sin^3 u, 2)")
    assert grade is not None
    assert (grade.verdict, grade.reason) == (Verdict.INCORRECT, "symbolic")


def test_what_cannot_be_proven_is_left_open() -> None:
    assert compare_symbolically(r"\{t \mid t^3 = 8\}", r"\{2\}") is None
