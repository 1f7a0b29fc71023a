"""Words that change a number, in bare answers: they are calculated or match nothing."""

import pytest

from grading.arithmetic_words import phrase_value
from grading.grade import compare_answers
from grading.modifiers import changes_name, changes_number, phrase_after, phrase_before
from grading.verdict import Verdict


def _is_equal(gold: str, answer: str) -> bool:
    grade = compare_answers(gold, answer)
    return grade is not None and grade.verdict is Verdict.CORRECT


CALCULATED = [
    ("1/2", "half of 1"),
    ("7/10", "7 tenths"),
    ("0.07", "7 \\text{ hundredths}"),
    ("84", "7 dozens"),
    ("84", "7 dozen eggs"),
    ("7000000", "7 millions"),
    ("7000000", "7 million dollars"),
    ("7000000", "7 \\text{ million people}"),
    ("7.25", "7 point two five"),
    ("-7", "7 degrees below zero"),
    ("-7", "minus 7"),
    ("14", "twice 7"),
    ("14", "7 doubled"),
    ("49", "7 squared"),
    ("\\sqrt{7}", "the square root of 7"),
    ("1/7", "the reciprocal of seven"),
    ("3.5", "7 divided by two"),
    ("8", "7 increased by one"),
    ("4", "3 less than 7"),
    ("7.5", "7 and a half"),
    ("7.5", "7 hours thirty minutes"),
    ("7.5", "7 feet six inches"),
]
COUNTED = [
    "7 apples", "seven apples", "7 red apples", "7 more apples", "7 ways",
    "7 \\text{ different ways}",
    "7 times", "7 people left", "7 real solutions", "7 \\text{ integers}", "7 pieces of cake",
    "7 groups of two", "7 years old", "the 7th day", "7th", "7 quarters", "7 points",
    "x=7 is correct", "Number of cats = 7", "The product is 7", "sum of roots = 7",
]  # fmt: skip
CHANGED = [
    "half of 7", "7 tenths", "7 \\text{ thirds}", "7 thousands", "7 crore", "7 point one",
    "7 below zero", "7 times two", "7 tripled", "7 with a remainder of 1", "7 remainder 1",
    "7 feet two inches", "7 dollars fifty", "the 7th prime", "7th root", "7 percent of 30",
    "7 less", "7 or six", "7 is wrong", "7 \\text{ is wrong}", "7 is false", "7 excluded",
    "7 (rejected)", "7 \\text{ (extraneous)}", "not x=7", "it is false that x=7", "half of x=7",
    "negative x = 7", "wrong: 7", "x \\text{ is not } 7", "anything but 7", "7 cannot be", "7? no",
    "seven excluded", "7, I mean 8", "7, which is wrong",
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer"), CALCULATED)
def test_simple_phrases_are_calculated(gold: str, answer: str) -> None:
    assert _is_equal(gold, answer)


@pytest.mark.parametrize("answer", COUNTED)
def test_ordinary_words_count_things(answer: str) -> None:
    assert _is_equal("7", answer)


@pytest.mark.parametrize("answer", CHANGED)
def test_changed_and_denied_numbers_are_not_the_number(answer: str) -> None:
    assert not _is_equal("7", answer)


def test_a_denied_statement_is_not_the_statement() -> None:
    assert not _is_equal("y = 3x - 1", "not y = 3x - 1")
    assert _is_equal("y = 3x - 1", "the line y = 3x - 1")


@pytest.mark.parametrize(
    ("answer", "is_choice"),
    [
        ("Option C", True),
        ("Option C is correct", True),
        ("(C) is the right answer", True),
        ("(c)", True),
        ("C. 12", True),
        ("\\text{(C)} 12", True),
        ("Option C is wrong", False),
        ("(C) is false", False),
        ("Option C and Option D", False),
        ("\\text{(C)} \\text{ or } 12", False),
        ("\\text{(C)}y", False),
        ("(d)", False),
        ("not (C)", False),
    ],
)
def test_choices_that_are_denied_or_doubled_do_not_count(answer: str, is_choice: bool) -> None:
    assert _is_equal("\\text{(C)}", answer) is is_choice


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("(-2, \\sqrt{5}]", "\\textbf{(-2, \\sqrt{5}]}"),
        ("(-2, 5]", "\\hbox{(-2, 5]}"),
        ("12,500", "{\\bf 12,500}"),
        ("12,500", "\\large{12,500}"),
        ("(-2, 5]", "\\therefore (-2, 5]"),
        ("(-2, 5]", "\\text{Answer: } (-2, 5]"),
        ("7.5 \\text{ cm}", "(7.5 \\text{ cm})"),
        ("(2, 3)", '"(2, 3)"'),
        ("(2, 3)", "`(2, 3)`"),
        ("(2, 3)", "“(2, 3)”"),
        ("(2, 3)", "$(2, 3)$, which is the answer"),
        ("7 \\pi", "\\pi 7"),
        ("1, 4, 9", "1\n4\n9"),
        ("7", "7 \\checkmark"),
        ("7", "x = 7 \\quad \\blacksquare"),
        ("7", "7 \\square"),
        ("7", "7. Q.E.D."),
        ("7", "7 ∎"),
    ],
)
def test_wrapping_says_nothing(gold: str, answer: str) -> None:
    assert _is_equal(gold, answer)


def test_words_before_and_behind_a_number() -> None:
    assert phrase_before("so it is twice ") == len("so it is ")
    assert phrase_before("so it is ") is None
    assert phrase_after("3 tenths of it", 1) == len("3 tenths")
    assert phrase_after("3 apples", 1) is None
    assert changes_number(["groups", "two"])
    assert not changes_number(["groups", "of", "two"])
    assert changes_name(["twice", "x"])
    assert not changes_name(["twice", "the", "number"])
    assert phrase_value("seven apples") is None
    assert phrase_value("half " * 30) is None
