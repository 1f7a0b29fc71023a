"""Answers in words: fillers are no more than the answer, other words may be."""

import pytest

from grading.grade import compare_answers
from grading.verdict import Verdict
from grading.wording import same_wording

SAME = [
    ("green", "Green."),
    ("\\text{green}", "The answer is green"),
    ("green", "So it must be green, clearly"),
    ("rhombus", "a rhombus"),
    ("Lena", "Lena is the answer"),
    ("Lena finishes last.", "Lena"),
    ("the map is odd", "odd"),
    ("decreasing", "The sequence is decreasing."),
    ("decreasing", "a decreasing function"),
    ("Lena and Omar", "Omar, Lena"),
    ("yes", "Yes, it always does"),
    ("no", "No, it does not"),
]
OTHER = [
    ("green", "blue"),
    ("Lena", "Lena, Omar"),
    ("Lena", "Lena and Omar"),
    ("Lena, Omar", "Lena, Omar, Ida"),
    ("ellipse", "ellipse, circle"),
    ("increasing", "decreasing"),
    ("the third wheel", "the fourth spoke"),
    ("yes", "No, never"),
    ("yes", "yes, no"),
    ("concave", "not concave"),
    ("the first box", "the second box"),
    ("8 boxes", "9 boxes"),
]
UNSURE = [
    ("green", "The door is green"),
    ("green", "green-blue"),
    ("green", "green was what I thought; blue"),
    ("square", "squares the number"),
    ("cube", "cube root"),
    ("cube root", "cube"),
    ("May", "May to June"),
    ("May to June", "May"),
    ("green", "green or blue"),
    ("green", "neither green nor blue"),
    ("Lena", "Omar beats Lena"),
    ("Lena", "Lena comes second"),
    ("Lena", "Lena says Omar"),
    ("Lena", "the one behind Omar is Lena"),
    ("Lena", "Lena loses to Omar"),
    ("yes", "yes, but only for primes"),
    ("no", "impossible"),
    ("fold along the short side and cut", "cut, then fold along the side"),
]


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        *((*pair, Verdict.CORRECT) for pair in SAME),
        *((*pair, Verdict.INCORRECT) for pair in OTHER),
        *((*pair, Verdict.UNDECIDED) for pair in UNSURE),
    ],
)
def test_wording_is_compared_with_care(gold: str, answer: str, verdict: Verdict) -> None:
    assert same_wording(gold, answer) is verdict


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("\\triangle PQR", "\\angle PQR", Verdict.INCORRECT),
        ("\\triangle PQR", "\\triangle PQR", Verdict.CORRECT),
        ("\\text{no solution}", "no rational solutions", Verdict.INCORRECT),
        ("\\text{no solution}", "There are no real solutions", Verdict.CORRECT),
        ("no rational roots", "no rational root", Verdict.CORRECT),
    ],
)
def test_figures_and_set_phrases_keep_their_kind(gold: str, answer: str, verdict: Verdict) -> None:
    grade = compare_answers(gold, answer)
    assert grade is not None
    assert grade.verdict is verdict
