r"""An answer's text → body, unit, condition, choice; and the comparisons that these offer."""

import random
import time
from fractions import Fraction

import pytest

from grading.grade import compare_answers
from grading.normalize import CleanAnswer, clean_answer, decimal_comma, join_thousands
from grading.numerals import number_of_words, ordinal_value, plain_decimal
from grading.units import split_unit, unit_ratio
from grading.verdict import Verdict
from grading.wording import canonical_phrase, is_prose, same_wording

BODIES = {
    "unicode": [
        ("√11", "\\sqrt{11}"),
        ("∛9", "\\sqrt[3]{9}"),
        ("−4", "-4"),
        ("２５", "25"),
        ("٢٥", "25"),
        ("y⁻²", "y^{-2}"),
        ("b₁₂", "b_{12}"),
        ("4⅔", "4\\frac{2}{3}"),
        ("7\u200b5", "75"),
        ("6\u00a0000", "6000"),
        ("t ≥ 6", "t \\ge 6"),
        ("［3，8］", "[3,8]"),
        ("80°", "80^\\circ"),
        ("ℤ", "\\mathbb{Z}"),
        ("3 × 4", "3 \\times 4"),
        ("\u202e71", "\u202e71"),
    ],
    "escapes": [
        ("\x0crac{5}{9}", "\\frac{5}{9}"),
        ("3 + \x0crac{5}{9}", "3 + \\frac{5}{9}"),
        ("\x08inom{6}{2}", "\\binom{6}{2}"),
        ("\text{blue}", "blue"),
        ("\text{77}", "ext{77}"),
        ("\\\\frac{5}{9}", "\\frac{5}{9}"),
        ("6 \\cdot \\\\sqrt{2}", "6 \\cdot \\sqrt{2}"),
        ("z<sup>4</sup>", "z^{4}"),
        ("c<sub>3</sub>", "c_{3}"),
        ("x &lt; 8", "x < 8"),
    ],
    "latex": [
        ("$\\dfrac{4}{9}$", "\\frac{4}{9}"),
        ("\\left(4,\\ 9\\right]", "(4, 9]"),
        ("\\left.\\frac{1}{x}\\right|", "\\frac{1}{x}|"),
        ("\\displaystyle 6", "6"),
        ("\\color{red}{6}", "6"),
        ("\\textcolor{red}{6}", "6"),
        ("\\boxed{6}", "6"),
        ("\\boxed{6}\\boxed{8}", "6,8"),
        ("\\mathrm{e}^{3}", "e^{3}"),
        ("\\operatorname{sin} 3x", "\\sin 3x"),
        ("8\\,", "8"),
        ("8\\", "8"),
        ("(4, \\sqrt{6}.]", "(4, \\sqrt{6}]"),
        ("\\hspace{2em} 8", "8"),
        ("\\lvert x\\rvert", "| x|"),
        ("\\lvertx\\rvert", "|x|"),
        ("x=6,\\quady=8", "x=6, y=8"),
        ("p \\leqslant 6", "p \\le 6"),
        ("\\begin{cases} p=6 \\\\ q=8 \\end{cases}", "p=6, q=8"),
        ("\\begin{align*} p &= 4+2 \\\\ &= 6 \\end{align*}", "p = 4+2= 6"),
        (
            "\\begin{pmatrix} a \\\\b \\end{pmatrix}",
            "\\begin{pmatrix} a \\\\b \\end{pmatrix}",
        ),
    ],
    "numbers": [
        ("9{,}876", "9876"),
        ("9\\,876\\,543", "9876543"),
        ("9 876", "9876"),
        ("9'876'543", "9876543"),
        ("9,87,6", "9,87,6"),
        ("4.5E+3", "4.5\\times 10^{3}"),
        ("4e-3", "4\\times 10^{-3}"),
        ("8.", "8"),
        (".75", ".75"),
        ("0.\\overline{27}", "(\\frac{27}{99})"),
        ("0.4(6)", "(\\frac{42}{90})"),
        ("0.777...", "(\\frac{7}{9})"),
        ("0.\\dot{7}", "(\\frac{7}{9})"),
        ("2.7182...", "2.7182"),
        ("6, 7, 8, ...", "6, 7, 8, \\ldots"),
        ("5 2/3", "5\\frac{2}{3}"),
        ("5 and 2/3", "5\\frac{2}{3}"),
        ("5 7/3", "5 7/3"),
        ("60 percent", "60%"),
        ("6 million", "6\\times 10^{6}"),
        ("forty-six", "46"),
        ("forty-six pupils", "46"),
        ("three fifths", "\\frac{3}{5}"),
        ("eighth", "8"),
        ("16th floor", "16"),
        ("16^{\\text{th}}", "16"),
        ("three squared", "(3)^{2}"),
        ("4 out of 9", "\\frac{4}{9}"),
        ("4\\sqrt{6} \\approx 9.798", "4\\sqrt{6}"),
        ("y \\approx 9.8", "y = 9.8"),
    ],
    "words": [
        ("The final answer is $6$.", "6"),
        ("Therefore $y < 6$", "y < 6"),
        ("We divide twice.\n$6$", "6"),
        ("\\text{only } y=6", "y=6"),
        ("Total: 6", "6"),
        ("\\text{Width} = 6", "6"),
        ("6 (there are six of them)", "6"),
        ("6 (mod 7)", "6 (mod 7)"),
        ("6, 8, and 9", "6, 8, 9"),
        ("6 \\text{ and } 8", "6, 8"),
        ("y < 6 \\text{ or } y = 8", "y < 6 \\lor y = 8"),
        ("y = 6 or y = 8", "y = 6 \\lor y = 8"),
        ("y = 6 or 8", "y = 6, 8"),
        ("y > 6 and y < 8", "y > 6 \\and y < 8"),
        ("(6,8)or(8,6)", "(6,8), (8,6)"),
        ("both 6 and 8", "6, 8"),
        ("Length: 6, width: 8", "\\text{length}=6, \\text{width}=8"),
        ("6 hens, 8 geese", "\\text{hens}=6, \\text{geese}=8"),
        ("Row 1: 6, 7 and Row 2: 8", "6, 7, 8"),
        ("no real solutions", "\\emptyset"),
        ("any real number", "\\mathbb{R}"),
        ("all real numbers except 6", "\\mathbb{R} \\setminus \\{6\\}"),
        ("The curve f(x+6) is smooth.", "\\text{The curve f(x+6) is smooth}"),
        ("AB = 6", "AB = 6"),
        ("\\sin y = 6", "\\sin y = 6"),
        ("xyz", "xyz"),
        ("2t", "2t"),
    ],
}


@pytest.mark.parametrize(
    ("text", "body"), [pair for pairs in BODIES.values() for pair in pairs], ids=repr
)
def test_the_body_has_one_spelling(text: str, body: str) -> None:
    assert clean_answer(text).body == body


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("36 \\mathrm{~km}", CleanAnswer("36", "km")),
        ("36 \\text{ km}^2", CleanAnswer("36", "km^2")),
        ("36 km/h", CleanAnswer("36", "hour^-1*km")),
        ("36 kilometers per hour", CleanAnswer("36", "hour^-1*km")),
        ("36 \\text{ m s}^{-2}", CleanAnswer("36", "m*second^-2")),
        ("36 \\frac{\\text{m}}{\\text{s}}", CleanAnswer("36", "m*second^-1")),
        ("3\\pi \\text{ square feet}", CleanAnswer("3\\pi", "foot^2")),
        ("6 cm, 8 cm", CleanAnswer("6, 8", "cm")),
        ("6 cm, 8 kg", CleanAnswer("6 cm, 8 kg")),
        ("4 hours 15 minutes", CleanAnswer("\\frac{17}{4}", "hour")),
        ("\\$36", CleanAnswer("36", "dollar")),
        ("$36.50", CleanAnswer("36.50", "dollar")),
        ("36 €", CleanAnswer("36", "euro")),
        ("36 °C", CleanAnswer("36", "degree-c")),
        ("36 pens", CleanAnswer("36")),
        ("36 m", CleanAnswer("36 m")),
        ("36 more than n", CleanAnswer("\\text{36 more than n}")),
        ("k\\pi, k \\in \\mathbb{Z}", CleanAnswer("k\\pi", condition="integer")),
        ("m\\pi \\text{ for any integer } m", CleanAnswer("m\\pi", condition="integer")),
        ("y^3 \\text{ if } y > 6", CleanAnswer("y^3", condition="y>6")),
        ("b_n = 4n, n \\ge 1", CleanAnswer("b_n = 4n", condition="n\\ge1")),
        ("y < 6, y > 1", CleanAnswer("y < 6, y > 1")),
        ("\\forall y > 6, y^2 > 36", CleanAnswer("y^2 > 36", condition="y>6")),
        ("(C)", CleanAnswer("C", choice="C")),
        ("Option C", CleanAnswer("C", choice="C")),
        ("(C) 36", CleanAnswer("36", choice="C")),
        ("C) 36", CleanAnswer("36", choice="C")),
        ("\\textbf{(C)}\\ 36", CleanAnswer("36", choice="C")),
        ("A:B=36", CleanAnswer("A:B=36")),
    ],
)
def test_what_stands_around_the_value_is_set_aside(text: str, clean: CleanAnswer) -> None:
    assert clean_answer(text) == clean


@pytest.mark.parametrize(
    "text", ["\\frac{4}{9}", "(4, 9]", "\\text{hens}=6, \\text{geese}=8", "4\\times 10^{6}", "4%"]
)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean_answer(text).body == text


@pytest.mark.parametrize(
    ("body", "joined"),
    [
        ("98,765", "98765"),
        ("9,876,543.21", "9876543.21"),
        ("98,76,543", "9876543"),
        ("9,87,65", "9,87,65"),
        ("0,876", "0,876"),
        ("98, 765", "98, 765"),
    ],
)
def test_only_well_formed_grouping_is_joined(body: str, joined: str) -> None:
    assert join_thousands(body) == joined


@pytest.mark.parametrize(
    ("text", "decimal"),
    [
        ("432,15", "432.15"),
        ("0,625", "0.625"),
        ("-7,25", "-7.25"),
        ("7,5", None),
        ("7, 25", None),
        ("7,250", None),
    ],
)
def test_decimal_commas(text: str, decimal: str | None) -> None:
    assert decimal_comma(text) == decimal


@pytest.mark.parametrize(
    ("text", "canonical"), [("+007.50", "7.5"), ("-0.0", "0"), ("5.", None), ("５", None)]
)
def test_plain_decimals(text: str, canonical: str | None) -> None:
    assert plain_decimal(text) == canonical


@pytest.mark.parametrize(
    ("phrase", "value"),
    [
        ("sixteen", Fraction(16)),
        ("thirty-two", Fraction(32)),
        ("two hundred and six", Fraction(206)),
        ("four thousand eighty", Fraction(4080)),
        ("two dozen", Fraction(24)),
        ("five eighths", Fraction(5, 8)),
        ("six and a quarter", Fraction(25, 4)),
        ("minus nine", Fraction(-9)),
        ("nine eleven", None),
        ("twenty thirty", None),
        ("a", None),
        ("and", None),
        ("half of them", None),
    ],
)
def test_number_words(phrase: str, value: Fraction | None) -> None:
    assert number_of_words(phrase) == value


def test_ordinals() -> None:
    assert [ordinal_value(word) for word in ("23rd", "5^{th}", "ninth", "n", "23")] == [
        23,
        5,
        9,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("gold", "answer", "ratio"),
    [
        ("m", "cm", Fraction(1, 100)),
        ("minute", "hour", Fraction(60)),
        ("dollar", "cent", Fraction(1, 100)),
        ("km*hour^-1", "m*second^-1", Fraction(18, 5)),
        ("liter", "cm^3", Fraction(1, 1000)),
        ("foot^2", "inch^2", Fraction(1, 144)),
        ("m", "", Fraction(1)),
        ("m", "m^2", None),
        ("m", "kg", None),
        ("euro", "dollar", None),
        ("am", "pm", None),
    ],
)
def test_units_convert_inside_a_dimension(gold: str, answer: str, ratio: Fraction | None) -> None:
    assert unit_ratio(gold, answer) == ratio


@pytest.mark.parametrize("body", ["6s", "6 t", "6x", "6ab", "6s+1", "n!", "6 squared", "6 mod 7"])
def test_letters_that_may_be_variables_are_no_units(body: str) -> None:
    assert split_unit(body) == (body, "")


@pytest.mark.parametrize(
    ("text", "is_words"),
    [
        ("The door stays shut.", True),
        ("a regular hexagon", True),
        ("x + y", False),
        ("\\begin{pmatrix} 6 & 8 \\end{pmatrix}", False),
        ("run(code)", False),
    ],
)
def test_prose_is_told_from_formulas(text: str, is_words: bool) -> None:
    assert is_prose(text) is is_words


def test_set_phrases_stand_for_formulas() -> None:
    assert canonical_phrase("There are no such integers") == "\\emptyset"
    assert canonical_phrase("all integers") == "\\mathbb{Z}"
    assert canonical_phrase("DNE") == canonical_phrase("The limit does not exist.")
    assert canonical_phrase("6") is None


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("C", "(C) 36", Verdict.CORRECT),
        ("36", "(C) 36", Verdict.CORRECT),
        ("C", "(D) 36", Verdict.INCORRECT),
        ("(C) 36", "(C) 37", Verdict.INCORRECT),
        ("6 \\text{ m}", "600 \\text{ cm}", Verdict.CORRECT),
        ("6 cm, 8 cm", "6 mm, 8 mm", Verdict.INCORRECT),
        ("6 \\text{ m}", "6 \\text{ kg}", Verdict.INCORRECT),
        ("Lena: 6, Omar: 8", "Omar: 8, Lena: 6", Verdict.CORRECT),
        ("Lena: 6, Omar: 8", "Omar: 6, Lena: 8", Verdict.INCORRECT),
        ("8, 6", "shortest: 6, longest: 8", Verdict.CORRECT),
        ("6", "6 \\text{ or } 8", Verdict.INCORRECT),
        ("6, 7, 8, \\ldots", "6, 7, 8", Verdict.INCORRECT),
        ("98765", "9,87,65", Verdict.INCORRECT),
        ("52.75", "52,75", Verdict.CORRECT),
        ("n\\pi, n \\in \\mathbb{Z}", "n\\pi, n \\in \\mathbb{N}", Verdict.UNDECIDED),
    ],
)
def test_extras_decide_as_they_should(gold: str, answer: str, verdict: Verdict) -> None:
    grade = compare_answers(gold, answer)
    assert grade is None or grade.verdict is verdict


_PIECE_NAMES = r"""
    \text{ } { $ \( \) \[ ^2 \frac \left \right. \begin{cases} \end{cases} \\ & \in \mathbb{Z}
    \boxed{ \mathrm{ \overline{3} \forall {,} = : ~ | . ... % , ; - / (A) B) 5 1,000 0. E5 (3) and
    or cm where if Lena is twenty third 15th it's e ½ √ ² ¤ £ ， <sup>2</sup>
"""
_PIECES = [*_PIECE_NAMES.split(), "\x0c", "\u202e"]


def test_no_text_makes_it_raise() -> None:
    generator = random.Random(0)
    for _ in range(3_000):
        text = " ".join(generator.choices(_PIECES, k=generator.randint(1, 12)))
        clean_answer(text)
        same_wording(text, "an odd number")


@pytest.mark.parametrize(
    "piece",
    ["1,", "(", "x,", "\\text{", "\\begin{cases}", "a ", "if ", "is ", ", k", "1.1(", "½", "Aa: "],
)
def test_long_hostile_texts_take_linear_time(piece: str) -> None:
    start = time.process_time()
    clean_answer((piece * 20_000)[:20_000])
    same_wording((piece * 20_000)[:20_000], "an odd number")
    assert time.process_time() - start < 1.5
