"""What must hold for any answer: symmetry, stability under re-printing, no slack.

Expressions are built from sympy's constructors and printed by it; the grader reads the print.
"""

from fractions import Fraction
from typing import Any

import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grading.equivalence import SYMBOLIC
from grading.grade import compare_with
from grading.verdict import Verdict

X, Y = sympy.Symbol("x"), sympy.Symbol("y")
INTEGERS = st.integers(-40, 40)
FRACTIONS = st.builds(Fraction, INTEGERS, st.integers(1, 30))
SPACES = st.sampled_from(["", " ", "  ", r"\,", r"\ ", r"\;"])


def verdict_of(gold: str, answer: str) -> Verdict:
    grade = compare_with(SYMBOLIC, gold, answer)
    return Verdict.UNDECIDED if grade is None else grade.verdict


def latex_of(value: Fraction) -> str:
    return sympy.latex(sympy.Rational(value.numerator, value.denominator))


def grown(smaller: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(sympy.Add, smaller, smaller),
        st.builds(sympy.Mul, smaller, smaller),
        st.builds(sympy.Pow, smaller, st.integers(2, 3)),
    )


LEAVES = st.one_of(st.sampled_from([X, Y]), st.builds(sympy.Integer, INTEGERS))
POLYNOMIALS = st.recursive(LEAVES, grown, max_leaves=6)
FUNCTIONS = st.sampled_from([sympy.sin, sympy.cos, sympy.exp])
EXPRESSIONS = st.one_of(
    POLYNOMIALS,
    st.builds(lambda function, inner: function(inner), FUNCTIONS, POLYNOMIALS),
    st.builds(lambda inner, root: inner + sympy.sqrt(root), POLYNOMIALS, st.integers(2, 50)),
    st.builds(lambda inner, lower: inner / (lower**2 + 1), POLYNOMIALS, LEAVES),
)


@st.composite
def shapes(draw: st.DrawFn) -> str:
    """A number, list, tuple, set, interval, union, equation or inequality."""
    first, second = sorted((draw(FRACTIONS), draw(FRACTIONS)))
    low, high = latex_of(first), latex_of(second)
    opener, closer = draw(st.sampled_from("([")), draw(st.sampled_from(")]"))
    kinds = [
        low, f"{low}, {high}", f"({low}, {high})", rf"\{{{low}, {high}\}}", f"x = {low}",
        f"x > {low}", rf"{low} \le x < {high}", rf"x \ne {high}", f"x = {low}, y = {high}",
        rf"(-\infty, {low}{closer} \cup {opener}{high}, \infty)", f"{opener}{low}, {high}{closer}",
        rf"\begin{{pmatrix}} {low} \\ {high} \end{{pmatrix}}", rf"{high} \pm 1", f"{low}:7",
    ]  # fmt: skip
    return draw(st.sampled_from(kinds))


@given(shapes(), shapes())
@settings(max_examples=200)
def test_symmetric(first: str, second: str) -> None:
    assert verdict_of(first, second) is verdict_of(second, first)


@given(shapes())
def test_every_shape_equals_itself_and_is_gradable(shape: str) -> None:
    assert verdict_of(shape, f" {shape} ") is Verdict.CORRECT
    assert verdict_of(shape, f"${shape}$") is Verdict.CORRECT


@given(EXPRESSIONS, SPACES)
@settings(max_examples=80)
def test_stable_under_spaces_and_sizes_of_brackets(expression: Any, space: str) -> None:
    text = sympy.latex(expression)
    plain = text.replace(r"\left", "").replace(r"\right", "")
    spaced = plain.replace("+", f"{space}+{space}").replace("(", rf"\bigl({space}")
    assert verdict_of(text, plain) is Verdict.CORRECT
    assert verdict_of(text, spaced.replace(")", rf"{space}\bigr)")) is Verdict.CORRECT


@given(EXPRESSIONS)
@settings(max_examples=80)
def test_stable_under_reprinting(expression: Any) -> None:
    text = sympy.latex(expression)
    options: list[dict[str, Any]] = [
        {"fold_frac_powers": True},
        {"mul_symbol": "times"},
        {"fold_short_frac": True},
    ]
    for option in options:
        assert verdict_of(text, sympy.latex(expression, **option)) is Verdict.CORRECT
    with sympy.evaluate(False):
        nested = sympy.Add(sympy.Integer(0), expression)
    assert verdict_of(sympy.latex(nested), text) is Verdict.CORRECT


@given(POLYNOMIALS)
@settings(max_examples=80)
def test_expanded_and_factored_are_equal(polynomial: Any) -> None:
    text = sympy.latex(polynomial)
    assert verdict_of(text, sympy.latex(sympy.expand(polynomial))) is Verdict.CORRECT
    assert verdict_of(sympy.latex(sympy.factor(polynomial)), text) is Verdict.CORRECT


@given(EXPRESSIONS, st.sampled_from([1, -1, sympy.Rational(1, 1000), X]))
@settings(max_examples=80)
def test_something_added_makes_it_incorrect(expression: Any, more: Any) -> None:
    other = sympy.latex(expression + more)
    assert verdict_of(sympy.latex(expression), other) is not Verdict.CORRECT
    assert verdict_of(sympy.latex(sympy.expand(expression)), other) is not Verdict.CORRECT


@given(FRACTIONS, FRACTIONS)
def test_different_fractions_differ(first: Fraction, second: Fraction) -> None:
    assume(first != second)
    assert verdict_of(latex_of(first), latex_of(second)) is Verdict.INCORRECT
    pair = f"({latex_of(first)}, 3)", f"({latex_of(second)}, 3)"
    assert verdict_of(*pair) is Verdict.INCORRECT


@given(st.integers(10**3, 10**30), st.integers(1, 9))
def test_integers_are_never_rounded(number: int, step: int) -> None:
    assert verdict_of(str(number), str(number + step)) is Verdict.INCORRECT
    assert verdict_of(str(number), f"{number}.0{step}") is Verdict.INCORRECT
    assert verdict_of(f"{number}.0{step}", str(number)) is Verdict.INCORRECT


@given(st.integers(100, 99_999).filter(lambda n: n % 10), st.integers(1, 3), st.integers(1, 9))
def test_a_change_of_a_declared_digit_is_incorrect(number: int, places: int, step: int) -> None:
    text, other = (f"{n / 10**places:.{places}f}" for n in (number, number + step))
    assert verdict_of(text, other) is Verdict.INCORRECT
    assert verdict_of(text, rf"\frac{{{number + step}}}{{{10**places}}}") is Verdict.INCORRECT


@given(FRACTIONS)
def test_a_decimal_gold_is_matched_by_what_rounds_to_it(value: Fraction) -> None:
    assume(value.denominator not in (1, 2, 4, 5, 8, 10, 16, 20, 25) and abs(value) > 1)
    gold = f"{float(value):.4f}"
    assert verdict_of(gold, latex_of(value)) is Verdict.CORRECT
    off = f"{float(value) + 0.0003:.4f}"
    assert verdict_of(off, latex_of(value)) is Verdict.INCORRECT
    assert verdict_of(latex_of(value), gold) is Verdict.CORRECT
    assert verdict_of(latex_of(value), off) is Verdict.INCORRECT


PIECES = r"""
    1 2 0.5 x y n e i \pi \infty + - = < > \le \ne \in , ; : | ( ) [ ] { } \{ \} ^ _ / \% !
    \frac \sqrt \cup \cap \setminus \pm \sin \log \text{or} \text{and} \text{if} \mathbb{R}
    \mathbb{Z} \emptyset \begin{pmatrix} \end{pmatrix} & \\ \ldots \sum \int \pmod \boxed{ $
    degrees 9^{9^9} 7!
"""
SOUP = st.lists(st.sampled_from(PIECES.split()), max_size=14).map(" ".join)


@given(SOUP, SOUP)
@settings(max_examples=400)
def test_no_text_raises(gold: str, answer: str) -> None:
    forward, backward = verdict_of(gold, answer), verdict_of(answer, gold)
    assert {forward, backward} <= set(Verdict)
    assert verdict_of(gold, gold) is Verdict.CORRECT or not gold.strip()
