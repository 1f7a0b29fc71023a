"""Shapes, through text: what the gold answer's shape makes equal and what it keeps apart."""

import pytest

from grading.equivalence import SYMBOLIC
from grading.grade import compare_with
from grading.verdict import Verdict

EQUAL = [
    # sets of reals
    (r"(1,4)\cup[4,6)", "(1,6)"), (r"[0,5] \cap (2,9)", "(2,5]"),
    (r"\mathbb{R} \setminus \{4\}", r"(-\infty,4)\cup(4,\infty)"),
    (r"\{5,6\}\setminus\{6\}", r"\{5\}"),
    (r"(0,\sqrt{12})\cup[2\sqrt{3},7)", "(0,7)"),
    (r"x<3 \text{ or } x>8", r"(-\infty,3)\cup(8,\infty)"),
    ("x>3, x<8", "(3,8)"), ("x<3, x>8", r"(-\infty,3)\cup(8,\infty)"),
    (r"t \le -4 \text{ or } t = 2", r"(-\infty,-4]\cup\{2\}"),
    (r"x \ne 7", r"(-\infty,7)\cup(7,\infty)"),
    (r"x \in \{4, 9\}", r"x = 9 \text{ or } x = 4"), (r"\{x | -2 < x < 2\}", "(-2,2)"),
    (r"2 \le |w| \le 5", r"w \in [-5,-2] \cup [2,5]"), ("|x| < 6", "(-6,6)"),
    ("5 - 2x < 1", r"(2,\infty)"),
    ("0 < 4x < 10", "(0,2.5)"), ("3 > x", "x < 3"), ("x > 4", r"(4, \infty)"),
    (r"[k\pi - \frac{\pi}{7}, k\pi]", r"[n\pi - \frac{\pi}{7}, n\pi]"),
    # names
    ("x = 8", "8"), ("8", "8 = x"), ("(u,v) = (4,9)", "(4,9)"), ("u=4, v=9", "v = 9, u = 4"),
    ("(u,v)=(4,9)", "u=4, v=9"), ("u=4,v=9", "(4,9)"), ("4, 9", "v=9, u=4"),
    ("(1,8),(8,1)", r"(x,y) = (1,8) \text{ and } (8,1)"), ("u=1,v=2;u=3,v=4", "(3,4),(1,2)"),
    (r"\angle PQR = 31^\circ", "31"), ("a:b = 3:4", "b:a = 4:3"), ("a:b = 3:4", "3:4"),
    ("0.6", r"60\%"),
    (r"(-\infty, 2]", r"[-\infty, 2]"), ("(u-1)(u+1) = u^2-1", "-1+u^2"),
    ("|PQ| = 6", "6"), (r"\frac{PQ}{RS} = \frac{1}{6}", r"\frac{1}{6}"), ("2 = u = w = 0", "0"),
    ("z = 2 + 3 = 5", "z = 1 + 4 = 5"), ("x = k\\pi", "n\\pi"),
    ("3Cx + 1", "3cx+1"), ("p < q < r", "p, q, r"),
    ("x^3 + C", "x^3 + c"), ("K e^{-2t}", "k e^{-2t}"), ("a_{m+2}", "a_{2+m}"),
    (r"C_1 \cos x + C_2 \sin x", r"c_1 \cos x + c_2 \sin x"),
    (r"x = 2k\pi \pm \frac{\pi}{5}, k \in \mathbb{Z}",
     r"x = \pm\frac{\pi}{5} + 2\pi k, k \in \mathbb{Z}"),
    (r"n \equiv 5 \pmod 9", r"n = 9t + 5, t \in \mathbb{Z}"),
    ("n = 9t - 4", r"n \equiv 5 \pmod{9}"),
    (r"n \not\equiv 5 \pmod 9", r"n \not\equiv 14 \pmod 9"), (r"u \not\in \{4\}", "u \\ne 4"),
    (r"5\mathbf{i} + \mathbf{k}", r"5\hat{i} + \hat{k}"),
    (r"5\vec{i} + \vec{j}", r"5\hat{\imath} + \hat{\jmath}"),
    (r"\{t \mid t^2 = 25\}", r"\{-5, 5\}"), (r"\{1, 6\}", r"\{t : t^2 - 7t + 6 = 0\}"),
    (r"\{t \in \mathbb{Z} \mid 2t = 7\}", r"\emptyset"), (r"\emptyset", r"x > 8 \land x < 3"),
    (r"x > 3 \land x < 8", "(3,8)"), (r"(6 : 3 + 1) : 3", "1"), ("412_5", r"412_{\text{five}}"),
    ("412_5", "412 base 5"), ("412_5", r"412 \text{ (base five)}"), ("4:7", r"4 \text{ to } 7"),
    ("B, D", "BD"), (r"\frac{du}{dt} = 3t", "3t"), (r"\left.9\right.", "9"),
    ("BDE", "EBD"), ("ACD", "A, C and D"), ("B", "选项B"), ("u = 6", "u &= 6"),
    # statements
    ("y > 3x", r"x < \frac{y}{3}"), (r"x \in \mathbb{R}, x \ne 6", r"(-\infty,6)\cup(6,\infty)"),
    ("x \\ne 4, 6", r"\mathbb{R} \setminus \{4, 6\}"),
    (r"(u,v) \in \{(1,2),(3,4)\}", "(3,4),(1,2)"),
    ("3x - 6y + 9 = 0", "x = 2y - 3"), ("x + 1 < y", "2y > 2x + 2"), ("y - 3 = x^2", "x^2 + 3"),
    ("x = 4", "3x = 12"),
    # sequences and matrices
    (r"\{1,1,5\}", r"\{5,1\}"), ("(1,2),(3,4)", "(3,4),(1,2),(3,4)"), (r"\pm 6", "-6, 6"),
    (r"\begin{pmatrix}7\\8\end{pmatrix}", "(7,8)"), ("4:6", r"\frac{2}{3}"), (r"180^\circ", r"\pi"),
    # rounding
    (r"\frac{2}{3}", "0.6667"), ("0.667", r"\frac{2}{3}"), (r"\sqrt{3}", "1.7320508075688772"),
    ("5.20", "5.2041"), ("683.16", "683.2"), ("70.25", "70.249"), (r"9.09\%", r"\frac{1}{11}"),
    (r"(\frac{3}{4}, \frac{4}{3}]", "(0.75, 1.3333]"),
    (r"(\frac{1}{3}, \frac{1}{2})", "(0.33, 0.5)"), (r"3.33 \times 10^{-2}", r"\frac{1}{30}"),
]  # fmt: skip
DIFFERENT = [
    ("F = ma", r"\frac{F}{a}"), ("y > 3x", r"x > \frac{y}{3}"), ("x > 3", "y > 3"),
    ("(6,6), (1,4)", "[6,6), (1,4)"), ("g(n)=n, h(n)=4", "g(n)=m, h(n)=4"), ("6", "-PQ = 6"),
    ("10", "2x = 10"), ("8", r"\mathbb{Z} 8"), ("1", "-[0,1)"), ("0.5", r"0.5\%"),
    ("a:b = 3:4", "b:a = 3:4"),
    ("(1,4)\\cup(4,6)", "(1,6)"), ("(2,5]", "(2,5)"),
    (r"x<3 \text{ or } x>8", r"x \le 3 \text{ or } x>8"),
    ("5 - 2x < 1", r"[2,\infty)"), (r"x \ne 7", r"x \ne 8"), ("x > 4", "4"), ("(9,4)", "(8,3)"),
    ("x = 8", "y = 8"), ("u=4, v=9", "u=9, v=4"), ("u=4, v=9", "9, 4"), ("(4,9)", "v=4, u=8"),
    ("6 = 2b + d", "2b + d"), ("b + 2d = 0", "0"), ("0", "b + 2d = 0"), ("b + 2d = 5", "5"),
    ("g(x)", "g(y)"), ("x = k\\pi", "2n\\pi"), ("(7 + 2x, 1 - x)", "(7+2t, 1+t)"),
    ("p < q < r", "q, p, r"),
    ("2\\pi r", "2\\pi k"), (r"\min(9, \pi y)", r"\min(9, \pi k)"),
    ("c", r"\text{C}"), ("k", "K"), (r"\frac{1}{2}ab \sin C", r"\frac{1}{2}ab \sin c"),
    ("a + b + c", "a + b + C"), ("a_{m+2}", "a_{m-2}"), ("a_{m+2}", "a_{m+3}"),
    (r"\frac{\partial g}{\partial u}", r"\frac{\partial g}{\partial v}"), ("\\frac{dy}{dx}", "0"),
    (r"n \equiv 5 \pmod 9", r"n = 9t + 4"), (r"n \equiv 5 \pmod 9", r"n = 18t + 5"),
    (r"n \equiv 5 \pmod 9", r"n \not\equiv 5 \pmod 9"),
    (r"5\hat{i} + \hat{k}", r"5\mathbf{i} + \mathbf{j}"),
    (r"\{t \mid t^2 = 25\}", r"\{5\}"), (r"\{t \mid t^2 = 25\}", r"\{t \mid t^2 = 36\}"),
    (r"x > 8 \lor x < 3", r"x > 8 \land x < 3"), ("412_5", r"412_{\text{six}}"), ("4:7", "7 to 4"),
    ("BDE", "BCE"), ("BED", "EDB"), ("B", "选项C"), ("u = 6", "u &= 7"),
    ("a \\nmid b", "a \\mid b"),
    ("F = ma", r"\frac{F}{a}"), ("y > 3x", r"x > \frac{y}{3}"), ("x > 3", "y > 3"),
    (r"x \in \mathbb{R}, x \ne 6", r"\mathbb{R}"), ("x + 1 < y", "2y < 2x + 2"),
    ("y - 3 = x^2", "x^2 - 3"), ("3, 3, 4", "3, 4"),
    ("(1,2),(3,4)", "(1,2)"),
    (r"\begin{pmatrix}7\\8\end{pmatrix}", r"\begin{pmatrix}7&8\end{pmatrix}"), ("4:6", "6:4"),
    (r"\frac{2}{3}", "0.667"), (r"\frac{2}{3}", "0.6666"), ("0.7", r"\frac{2}{3}"), ("5.2", "5.24"),
    ("5.24", "5.2"), ("683.16", "683.1"), ("83.16", "83.2"), ("1.253", "1.25"),
    ("7", "7.0001"), (r"\frac{1}{8}", "0.1249"), (r"\sqrt{3}", "1.73"),
    ("1000", "1001"),
    (r"(\frac{1}{3}, \frac{1}{2})", "(0.34, 0.5)"), ("9.09", r"\frac{1}{11}"), ("8", "800"),
]  # fmt: skip


def verdict_of(gold: str, answer: str) -> Verdict:
    grade = compare_with(SYMBOLIC, gold, answer)
    return Verdict.UNDECIDED if grade is None else grade.verdict


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) is Verdict.CORRECT


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) is Verdict.INCORRECT


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("1", ",".join(["2"] * 20_000)), (",".join(["1", "2"] * 9_000), ",".join(["2"] * 18_000)),
     ("(1, 2)", ",".join(["2"] * 20_000)), ("x = 1", ",".join(["2"] * 20_000))],
)  # fmt: skip
def test_long_lists_differ(gold: str, answer: str) -> None:
    assert verdict_of(gold, answer) is Verdict.INCORRECT


def test_long_lists_match_in_any_order() -> None:
    numbers = [str(number) for number in range(15_000)]
    assert verdict_of(", ".join(numbers), ", ".join(numbers[::-1])) is Verdict.CORRECT
    halves = [f"{number}/2" for number in range(500)]
    assert verdict_of(", ".join(halves), ", ".join(halves[::-1])) is Verdict.CORRECT
    assert verdict_of(", ".join(halves), ", ".join(["7/3", *halves[1:]])) is Verdict.INCORRECT


def test_long_lists_that_can_be_parsed_cost_no_more_than_sorting() -> None:
    numbers = [str(number % 7) for number in range(8_000)]
    assert verdict_of(", ".join(numbers), ",".join(numbers[::-1])) is Verdict.CORRECT
    assert verdict_of(",".join(numbers), ",".join([*numbers[1:], "9"])) is Verdict.INCORRECT
