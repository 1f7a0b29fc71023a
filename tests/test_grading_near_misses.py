r"""Pairs that differ by a sign, a word or a letter only, and their neighbours that are equal."""

import time

import pytest

from grading import effort
from grading.effort import limited_to, spend, steps_left
from grading.equivalence import SYMBOLIC
from grading.grade import compare_answers, compare_with
from grading.readings import read_text
from grading.sampling import is_sign_safe, sign_patterns
from grading.tokens import UnreadableError

EQUAL = [
    # signs of letters
    ("|u||v|", "|uv|"), (r"\sqrt{u^2v^2w^2}", "|uvw|"), (r"|p|\sqrt{q}", r"\sqrt{p^2q}"),
    (r"\max(0,uv)", r"\frac{uv+|uv|}{2}"), (r"\sqrt{(x-9)^2}", "|9-x|"),
    (r"\sqrt{\frac{u}{v}}", r"\frac{\sqrt{uv}}{v}"), (r"\sqrt{p}\sqrt{q}", r"\sqrt{pq}"),
    # sets
    (r"(2,c)\cup(3,d)", r"(3,d)\cup(2,c)"), (r"U \cap V", r"V \cap U"),
    # letters that say nothing
    (r"m\pi", r"k\pi"), (r"20^\circ + 360^\circ n", r"20^\circ + 360^\circ k"),
    (r"x=(-1)^n\frac{\pi}{3}+n\pi", r"x=(-1)^k\frac{\pi}{3}+k\pi"),
    (r"\frac{\pi}{7}+j\pi, j\in\mathbb{Z}", r"\frac{\pi}{7}+t\pi"),
    (r"3k-1, k\in\mathbb{Z}", r"3m-1, m\in\mathbb{Z}"),
    (r"(s,5s), s\in\mathbb{R}", r"(t,5t), t\in\mathbb{R}"),
    (r"x^4+D, \text{ where } D \text{ is an arbitrary constant}", "x^4+K"),
    ("h(u)=u^3", "h(v)=v^3"),
    # and, or
    ("x=4, x=7", r"x=7 \text{ or } x=4"), (r"x=4 \text{ or } x=7", r"\{7,4\}"),
    (r"(u,v)=(4,7) \text{ or } (u,v)=(7,4)", "(4,7),(7,4)"),
    ("y=3x, y=x-1", r"y=x-1\text{ or }y=3x"),
    (r"u=4 \text{ or } v=7", r"v=7 \text{ or } u=4"), (r"4 \text{ or } 7", "4, 7"),
    # rounding
    ("1.587", r"\sqrt[3]{4}"), ("0.438", r"\frac{7}{16}"), (r"[\sqrt5,\infty)", r"[2.236,\infty)"),
    (r"(\frac13, \frac12)", "(0.33, 0.5)"),
    # signs of percent and degrees
    (r"35^\circ", "35"), ("35", r"35^\circ"), (r"35\%", "35"), ("35", r"35\%"), ("0.35", r"35\%"),
    (r"\frac{35}{2}\%", "17.5"), (r"90^\circ", r"\frac{\pi}{2}"), (r"(150-x)^\circ", "150-x"),
    # congruences
    (r"n \equiv 2 \pmod{5}", "n \\equiv 7 \\pmod 5"), (r"2 \pmod 5", r"7 \pmod 5"),
    (r"n \equiv 2 \pmod{5}", r"2 \pmod 5"), (r"n \equiv 2 \pmod{5}", "2"),
    # names and pairs
    ("(4,7)", "q=7, p=4"), ("(4,7,9)", "z=9, x=4, y=7"), ("(4,7)", "(y,x)=(4,7)"),
    ("(4,7)", "h=4, b=7"), (r"(\pm 4, 0)", "(4,0),(-4,0)"),
    (r"(0,\pm\sqrt{7})", r"(0,\sqrt7),(0,-\sqrt7)"),
    (r"(\pm 4, \pm 9)", r"(\pm 4, \pm\frac{18}{2})"), (r"(\pm 4, \mp 9)", "(4,-9),(-4,9)"),
    ("(4,-7)", "Q(4,-7)"), ("A(1,2), B(3,4)", "(1,2), (3,4)"),
    # equations that state a value
    ("7", "m+n=7"), ("7", "|PQ|=7"), (r"\frac27", r"P(E)=\frac27"), ("7", "3+4=7"), ("7", "g(3)=7"),
    (r"\frac13", r"\int_0^1 x^2\,dx=\frac13"), ("21", r"\binom{7}{2}=21"),
    # thousands
    ("58,500", "(58,500)"), ("58,500", "{58,500}"), ("58,500", "58500"),
]  # fmt: skip
DIFFERENT = [
    ("|u||v|", "uv"), ("|u|+|v|", "|u+v|"), (r"\sqrt{u^2v^2}", "uv"), (r"\max(0,uv)", "uv"),
    (r"|p|\sqrt{q}", r"p\sqrt{q}"), (r"|p|\ln q", r"p\ln q"), ("|u|+|v|=1", "|u+v|=1"),
    (r"\sqrt{p^2q^2r^2s^2}", "pqrs"), ("|p|+|q|+|r|", "|p+q+r|"), (r"|p|\sqrt{pq}", r"p\sqrt{pq}"),
    (r"\sqrt{p^2q}", r"p\sqrt{q}"), (r"\sqrt{(x-3\cdot10^4)^2}", r"3\cdot10^4-x"),
    (r"\sqrt{(\frac{x}{40}-30)^2}", r"30-\frac{x}{40}"), (r"\sqrt{(x-10^8)^2}", "10^8-x"),
    (r"\sqrt{(x-90)^2}+\sqrt{(x-91)^2}", r"\sqrt{(2x-181)^2}"),
    (r"U \cup V", r"U \cap V"), (r"(2,c)\cup(3,d)", r"(2,c)\cap(3,d)"),
    (r"U\cup(V\cap W)", r"U\cap(V\cup W)"),
    (r"\pi r l", r"\pi r h"), (r"A=\pi q^2", r"A=\pi Q^2"), ("(p,q)", "(u,v)"), ("(s,h)", "(b,h)"),
    (r"(r,\theta)", r"(s,\theta)"), ("3k-1", "3m-1"), ("(s,5s)", "(t,5t)"), ("x^4+a", "x^4+b"),
    (r"(s,5s), s\in\mathbb{R}", r"(t,4t), t\in\mathbb{R}"), (r"t\pi", r"s\pi"),
    (r"n^2\pi", r"k^2\pi"), ("(7 + 2x, 1 - x)", "(7+2t, 1-t)"),
    ("x=4, y=7", r"x=4 \text{ or } y=7"), ("(x,y)=(4,7)", r"x=4 \text{ or } y=7"),
    ("x>4, y>7", r"x>4 \text{ or } y>7"), (r"p \land q", r"p \lor q"),
    ("(4,7)", r"x=4 \text{ or } y=7"),
    ("x+y=4, x-y=2", r"x+y=4 \text{ or } x-y=2"),
    ("1.58", r"\sqrt[3]{4}"), ("0.437", r"\frac{7}{16}"), (r"[\sqrt5,\infty)", r"[2.2,\infty)"),
    (r"x > \frac23", "x > 0.67"), ("3.14", r"\frac{3148}{1000}"),
    (r"35^\circ", r"35\%"), (r"35\%", r"35^\circ"), (r"\frac13", r"\frac13\%"),
    (r"\pi", r"3.1416\%"),
    (r"\pi", r"3.1416^\circ"), (r"\pi", r"\pi^\circ"), ("17.5", r"17.49\%"),
    (r"35 \text{ degrees}", r"35\%"),
    (r"2 \pmod 5", r"2 \pmod 6"), (r"n \equiv 2 \pmod{5}", "n=2"),
    (r"n \equiv 2 \pmod{5}", r"2 \pmod 7"),
    ("(4,7)", "q=4, p=7"), ("x=4,y=7", "(7,4)"), (r"(\pm 4, 0)", "(4,-4,0)"),
    (r"(\pm 4, 0)", "(4,0)"),
    ("(4,-7)", "q(4,-7)"), ("(4,-7)", "2(4,-7)"),
    ("7", "x^2+y^2=7"), ("7", "6=7"), ("7", "x+2y=7"), ("0", "x+2y=0"), ("7", "x+y=7"),
    ("7", "3+5=7"),
    ("1", r"\int_0^1 x^2\,dx=1"),
    ("58,500", "58;500"), ("(58,500)", "58,500"), ("58,500", r"(58,501)"), ("58,50", "(5850)"),
]  # fmt: skip


def verdict_of(gold: str, answer: str) -> str:
    grade = compare_with(SYMBOLIC, gold, answer)
    return "undecided" if grade is None else grade.verdict.value


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) == "correct"


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) == "incorrect"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [(r"(\pm 4, \pm 9)", "(4,9),(-4,-9)"), (r"\int_0^1 |u||v|\,dt", r"\int_0^1 uv\,dt")],
)
def test_left_open(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) == "undecided"


@pytest.mark.parametrize(
    ("text", "is_safe"),
    [("x^3-2x", True), (r"\frac{e^x}{y^{-2}}", True), (r"\sqrt{2}x", True), ("2^x", True),
     (r"\sqrt{x}", False), ("|x|y", False), (r"\ln x", False), (r"x^{\frac12}", False),
     (r"\max(x,y)", False), ("(-1)^n", False)],
)  # fmt: skip
def test_sign_safe_trees_are_analytic(text: str, is_safe: bool) -> None:
    assert is_sign_safe(read_text(text).tree) is is_safe


def test_every_sign_pattern_of_few_letters_is_tried() -> None:
    assert len(sign_patterns("abcd")) == 16
    many = sign_patterns("abcdefghij")
    assert {"a": -1, "j": -1} in [{k: v for k, v in signs.items() if v < 0} for signs in many]


HARD = [
    ("+".join(f"a_{{{i}}}b_{{{i}}}" for i in range(500)), r"\int_0^1" * 12 + "x" + " dx" * 12),
    (",".join(rf"\int_0^1 t^{{{i}}} dt" for i in range(50)),
     ",".join(rf"\int_0^2 t^{{{i}}} dt" for i in range(50))),
    ("(x+y+z+1)^{20}", "(x+y+z+2)^{20}"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer"), HARD)
def test_the_fast_tier_leaves_what_is_dear_to_the_worker(gold: str, answer: str) -> None:
    start = time.process_time()
    assert compare_answers(gold, answer) is None
    # About twenty times what the budget allows: the machine may be busy.
    assert time.process_time() - start < 1


def test_a_budget_holds_for_what_is_done_inside() -> None:
    before = steps_left()
    with limited_to(5):
        spend(7)
        assert steps_left() == -2
    assert steps_left() == before
    with pytest.raises(UnreadableError), limited_to(effort.FAST_STEPS):
        raise UnreadableError("too-large")
    assert steps_left() == before
