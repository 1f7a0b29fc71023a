r"""Equal values of other things: conditions, labels, counted nouns, ambiguous quotients."""

import pytest

from grading.contradictions import other_quotient, say_other_things
from grading.equivalence import SYMBOLIC
from grading.grade import compare_answers, compare_with
from grading.verdict import Verdict


def verdict_of(gold: str, answer: str) -> Verdict:
    grade = compare_answers(gold, answer) or compare_with(SYMBOLIC, gold, answer)
    return Verdict.UNDECIDED if grade is None else grade.verdict


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("7", r"7 \text{ if } k \text{ is odd}"), ("3^k", r"3^k \text{ for odd } k"),
        ("t^3", r"t^3, t<0"), ("g(t)=2t", r"g(t)=2t \text{ for some } t"),
        ("g(t)=2t", r"g(t)=2t \text{ for all } t \ne 1"), ("k+2", r"k+2 \text{ when } k \ge 3"),
        ("3^k", r"3^k \text{ for positive } k"), (r"\text{Length}=9", r"\text{Width}=9"),
        (r"4 \text{ pencils}", r"4 \text{ rulers}"), ("4 cats", "4 dogs"), ("8", "8 mod 9"),
        ("8", "8^*"), ("8", r"8 \text{ to } 1"), ("1/pq", "q/p"), (r"\frac{1}{pq}", "1/pq"),
        (r"\text{infinitely many}", r"\infty"), (r"\infty", r"\text{infinitely many}"),
    ],
)  # fmt: skip
def test_undecided(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("g(t)=2t", r"g(t)=2t \text{ for all real } t"), ("g(t)=2t", r"g(t)=2t, t \in \mathbb{R}"),
        ("3^k", r"3^k \text{ for positive integers } k"), ("4k", r"4k \text{ for some integer } k"),
        ("4k", r"4k, k \in \mathbb{Z}"), (r"t^3, t>0", "t^3"), ("8", "17 mod 9"),
        (r"\text{Length}=9", r"\text{the length is } 9"), (r"\text{Length}=9", "9"),
        (r"4 \text{ pencils}", r"4 \text{ red pencils}"), (r"4 \text{ pencils}", "4"),
        ("4 cats", "4 altogether"), ("1/pq", "1 / pq"), (r"\frac{dy}{dt}", "dy/dt"),
        ("P(X)=0.3", "P(X)=3/10"),
        ("y=3t", r"y=3t \text{ where } t \text{ is the number of days}"),
        ("g(t)=2t", "g(u)=2u"), (r"\binom{7}{2}", "C(7,2)"),
        ("21", "C(7,2)"), ("(7,2)", "C(7,2)"), ("C", "(c)"), ("(c)", "C"), ("12_{10}", "12"),
        ("12", "12_{10}"), (r"4\mathbf{i}-\mathbf{j}", "(4,-1)"), ("(0,4)", r"4\hat{j}"),
        ("3 hours and 15 minutes", "3.25 hours"), ("195 minutes",
        r"3 \text{ hours and } 15 \text{ minutes}"), ("y=7", r"\text{y=7}"),
        ("3-2i", r"\text{3-2i}"), ("7t^4", r"\text{7t^4}"), ("40 inches^2",
        r"{40 \mbox{ inches}^2}"), ("8", "*8*"), (r"\text{multiples of }3", "the multiples of 3"),
    ],
)  # fmt: skip
def test_equal(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) is Verdict.CORRECT


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("P(X)=0.3", "P(Y)=0.3"), ("C", "(d)"), ("C", "c"), ("(4,-1)", "4i-j"), ("12_7", "12_{10}"),
        ("(4,-1)", r"4\mathbf{i}+\mathbf{j}"), ("22", "C(7,2)"), ("A", r"\text{A+}"),
        ("3 hours and 15 minutes", "3.15 hours"), (r"\text{multiples of }3", "multiples of 4"),
    ],
)  # fmt: skip
def test_different(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) is Verdict.INCORRECT


def test_words_of_both_must_share_none() -> None:
    assert say_other_things("4 cats", "4 dogs")
    assert not say_other_things("4 cats", "4 cat")
    assert not say_other_things("4 cats", "4 altogether")


def test_other_quotient() -> None:
    assert other_quotient("2/ab + 1") == "2/(ab) + 1"
    assert other_quotient(r"dy/dx") is None
    assert other_quotient("km/hr") is None
    assert other_quotient("1/2x") is None
