"""Declared decimal precision, rule by rule."""

from fractions import Fraction

import pytest

from grading.expression import parse_body
from grading.rounding import agrees_by_rounding, declared_decimal
from grading.scalars import value_bounds


def agrees(gold: str, answer: str, *, is_component: bool = False) -> bool | None:
    return agrees_by_rounding(
        parse_body(gold), parse_body(answer), bounds=value_bounds, is_component=is_component
    )


@pytest.mark.parametrize(
    ("text", "value", "last_place", "num_digits"),
    [
        ("12.540", Fraction(627, 50), Fraction(1, 1000), 5),
        ("-0.05", Fraction(-1, 20), Fraction(1, 100), 1),
        ("6.67%", Fraction(667, 10_000), Fraction(1, 10_000), 3),
        (r"2.5 \times 10^{-3}", Fraction(1, 400), Fraction(1, 10_000), 2),
        ("137%", Fraction(137, 100), Fraction(1, 100), 3),
    ],
)
def test_declared(text: str, value: Fraction, last_place: Fraction, num_digits: int) -> None:
    decimal = declared_decimal(parse_body(text))
    assert decimal is not None
    assert (decimal.value, decimal.last_place, decimal.num_digits) == (
        value,
        last_place,
        num_digits,
    )


@pytest.mark.parametrize(
    "text", ["12", "12.0", "7/2", "x", "0.5x", "100%", r"2.5 \times 10^{3}", "1.5+1.5"]
)
def test_not_declared(text: str) -> None:
    assert declared_decimal(parse_body(text)) is None


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("0.667", "2/3", True), ("0.666", "2/3", False), ("0.668", "2/3", False),
        ("0.67", "2/3", None),
        ("1.414", r"\sqrt{2}", True), ("1.415", r"\sqrt{2}", False), ("-0.667", "-2/3", True),
        ("-0.667", "2/3", False), ("2/3", "0.6667", True), ("2/3", "0.6666", False),
        ("2/3", "0.667", None),
        ("3/8", "0.3751", None), ("12.5", "12.54", None), ("12.5", "12.546", True),
        ("12.5", "12.556", False),
        ("3.125", "3.125", None), ("0.125", "0.12", None), ("137%", "1.3745", True),
        ("0.312", "5/16", True), ("0.313", "5/16", True), ("0.188", "3/16", True),
        ("0.187", "3/16", False), ("-0.188", "-3/16", True), ("-0.187", "-3/16", False),
        ("0.314", "0.314999", False), ("3.14", "3149/1000", False), ("3.15", "3149/1000", True),
        ("7", "7.00001", None),
        ("7", r"\frac{700001}{100000}", None), ("2.50", r"\frac{5}{2}", True), ("2.5", "x", None),
    ],
)  # fmt: skip
def test_rules(gold: str, answer: str, expected: bool | None) -> None:
    assert agrees(gold, answer) is expected


def test_two_digits_suffice_beside_an_agreeing_component() -> None:
    assert agrees("1/3", "0.33", is_component=True) is True
    assert agrees("1/3", "0.34", is_component=True) is False
    assert agrees("1/3", "0.3", is_component=True) is None
    assert agrees("0.33", "1/3", is_component=True) is True
