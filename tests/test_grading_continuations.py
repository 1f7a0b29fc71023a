"""Sums and products with dots, compared by writing them out."""

import pytest

from grading.continuations import written_out
from grading.equivalence import SYMBOLIC
from grading.expression import parse_body
from grading.grade import compare_with
from grading.verdict import Verdict

EQUAL = [
    (r"1+2+\cdots+n", r"\frac{n(n+1)}{2}"), ("m!", r"1 \cdot 2 \cdots m"),
    ("n!", r"n(n-1)\cdots 2 \cdot 1"), (r"2+4+\cdots+2n", "n^2+n"), ("210", r"1+2+\cdots+20"),
    (r"(y+c_1)(y+c_2)\cdots(y+c_n)",
     r"y^n(1+\frac{c_1}{y})(1+\frac{c_2}{y})\cdots(1+\frac{c_n}{y})"),
    (r"3^1+3^2+\cdots+3^n", r"\frac{3^{n+1}-3}{2}"),
]  # fmt: skip
DIFFERENT = [
    (r"1+2+\cdots+n", r"\frac{n(n-1)}{2}"), ("210", r"1+2+\cdots+21"),
    (r"(y+c_1)(y+c_2)\cdots(y+c_n)", r"(y+c_1)(y+c_2)\cdots(y+c_{n-1})"),
    (r"(y-c_1)(y-c_2)\cdots(y-c_n)", r"(c_1-y)(c_2-y)\cdots(c_n-y)"),
    (r"a_1+a_2+\cdots+a_n", r"d_1+d_2+\cdots+d_n"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    grade = compare_with(SYMBOLIC, gold, answer)
    assert grade is not None
    assert (grade.verdict, grade.reason) == (Verdict.CORRECT, "written-out")


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different(gold: str, answer: str) -> None:
    grade = compare_with(SYMBOLIC, gold, answer)
    assert grade is not None
    assert grade.verdict is Verdict.INCORRECT


@pytest.mark.parametrize(
    "body",
    [
        "n+1",  # no dots
        r"1+\cdots+n",  # one item before them
        r"1+2+4+\cdots+n^3",  # not by equal steps
        r"1+2+\cdots",  # no end
        r"x+y+\cdots+z",
        r"1+2+\cdots+1000000",
    ],
)
def test_dots_that_cannot_be_told(body: str) -> None:
    assert written_out(parse_body(body), parse_body("7")) == []


def test_the_items_are_written_out() -> None:
    pairs = written_out(parse_body(r"t_1+t_2+\cdots+t_n"), parse_body("n"))
    assert [gold for gold, _ in pairs] == [
        parse_body(body) for body in ("t_1+t_2+t_3", "t_1+t_2+t_3+t_4", "t_1+t_2+t_3+t_4+t_5")
    ]
    assert [answer for _, answer in pairs] == [parse_body(str(value)) for value in (3, 4, 5)]
