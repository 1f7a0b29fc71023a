r"""An answer that restates what was asked: `\gcd(a, b) = 6` states 6."""

import pytest

from grading.equivalence import SYMBOLIC
from grading.grade import compare_answers, compare_with
from grading.verdict import Verdict


def verdict_of(gold: str, answer: str) -> Verdict:
    grade = compare_answers(gold, answer) or compare_with(SYMBOLIC, gold, answer)
    return Verdict.UNDECIDED if grade is None else grade.verdict


@pytest.mark.parametrize(
    "left",
    [
        r"\lfloor t \rfloor", r"\gcd(m,n)", r"\text{lcm}(m,n)", r"\binom{m}{2}", "g(3)-g(1)",
        r"\sum_{i=1}^{n} a_i", r"\int_0^2 g(t)\,dt", r"\lim_{t\to 2} g(t)", r"\log_3 y",
        "CD^2", "R^2", "100a+10b+c", "1000p+q", r"\sin B + \cos C", r"y^3+\frac{1}{y^3}",
        r"\sqrt{pq}", r"\min(p+q)", r"\max g", r"\mathbb{E}[Y]", r"(g\circ h)(0)",
        r"\operatorname{Var}(Y)",
    ],
)  # fmt: skip
def test_its_right_side_is_the_answer(left: str) -> None:
    assert verdict_of("18", f"{left} = 18") is Verdict.CORRECT
    assert verdict_of("18", f"{left} = 19") is Verdict.INCORRECT


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("18", "x+y=18"), ("18", "x^2+y^2=18"), ("18", "3x=18"), ("18", "3x+y=18"),
        ("18", "3p=18"), ("18", r"3\sqrt{y}=18"), ("18", r"\frac{2}{t}=18"),
        ("0", "2a+b=0"), ("18", "-CD=18"), ("18", "p^2+p=18"),
        ("18", r"\gcd(12,18)=18"), ("18", r"\gcd(m,n)>18"),
        ("18", r"\int_0^1 x\,dx=18"), ("18", r"\max g \le h = 18"), ("b", "g(1)+g(2)=b"),
        ("a-b", r"\sum_{j=1}^\infty \frac{1}{j^k}=a+b"),
    ],
)  # fmt: skip
def test_other_equations_state_no_value(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) is Verdict.INCORRECT


def test_a_sum_may_equal_letters() -> None:
    assert verdict_of("a-b", r"\sum_{i=1}^\infty \frac{1}{i^k}=a-b") is Verdict.CORRECT


def test_a_gold_answer_may_restate_too() -> None:
    assert verdict_of(r"\min = 3", "3") is Verdict.CORRECT
    assert verdict_of(r"\min = 3", "4") is Verdict.INCORRECT
