"""Units, percent and degree signs, clock times: which values are compared, and why."""

import pytest

from grading.grade import compare_answers
from grading.verdict import Verdict

EQUAL = [
    # a single letter is a unit beside a stated one of its dimension
    ("7 km", "7000 m", "units"), ("7000 m", "7 km", "units"), ("250 mL", "0.25 L", "units"),
    ("4 h", "240 min", "units"), ("3 m^2", "30000 cm^2", "units"), ("6 kg", "6000 g", "units"),
    ("-2 km", "-2000 m", "units"), ("2 L", r"2000 \text{ cm}^3", "units"),
    # angles
    (r"120^\circ", r"\frac{2\pi}{3}", "exact"), (r"-60^\circ", r"-\frac{\pi}{3}", "exact"),
    (r"120^\circ", r"\frac{2\pi}{3} \text{ radians}", "units"), (r"45^\circ", "45", "exact"),
    (r"90^\circ", r"\frac{1}{2}\pi radians", "units"),
    # percentages
    (r"-40\%", "-40", "percent"), ("-0.4", r"-40\%", "percent"), (r"40\%", "40", "percent"),
    # clock times
    ("16:45", "4:45 PM", "units"), ("4:45 p.m.", "16:45", "units"), ("8:00 am", "8 a.m.", "units"),
    ("noon", "12 PM", "units"), ("midnight", "0:00", "units"), ("9 o'clock", "9:00", "exact"),
    ("3 m^3", "3000 L", "exact"), ("2 kN", "2000 N", "units"), ("20 C", r"20^\circ C", "exact"),
    ("12:20 AM", "0:20", "units"), ("5:10", "5:10 pm", "units"), ("3.50", "350 cents", "exact"),
]  # fmt: skip
DIFFERENT = [
    ("7 km", "700 m", "units"), ("7 cm", "7 m", "units"), ("7 m", "7", "exact"),
    (r"30^\circ", "30 radians", "units"), (r"60^\circ", "60 cm", "units"),
    (r"-60^\circ", r"\frac{\pi}{3}", "exact"), ("40%", "40 cm", "units"), ("40 kg", "40%", "units"),
    ("3 m^3", "30 L", "exact"), ("3 m", "3 h", "exact"), ("noon", "midnight", "units"),
    ("16:45", "4:45 AM", "units"), ("8 am", "8 pm", "units"), ("15", "3 pm", "units"),
    ("9:15 am", "9:51 am", "units"), ("2 km", r"2000 \text{ g}", "units"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "reason"), EQUAL)
def test_equal(gold: str, answer: str, reason: str) -> None:
    grade = compare_answers(gold, answer)
    assert grade is not None
    assert (grade.verdict, grade.reason) == (Verdict.CORRECT, reason)


@pytest.mark.parametrize(("gold", "answer", "reason"), DIFFERENT)
def test_different(gold: str, answer: str, reason: str) -> None:
    grade = compare_answers(gold, answer)
    assert grade is not None
    assert (grade.verdict, grade.reason) == (Verdict.INCORRECT, reason)
