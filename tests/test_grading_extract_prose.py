"""Answers in unmarked prose: bold values, competing numbers, checks, restatements."""

import pytest

from grading.extract import extract_answer
from grading.extract_restatement import restated
from grading.grade import compare_answers
from grading.verdict import Verdict

BOLD = [
    ("So Ada keeps **14 cards** of her 52.", "14"),
    ("She pays **$9**, a discount of $3.", "9"),
    ("The total is **42 dollars**. She paid 10 of these already.", "42"),
    ("The total is **42 dollars**. So with tax it is 50.", "50"),
    ("**Ada keeps 14 cards** of her 52.", "14"),
    (r"He walks $\mathbf{6}$ miles with his 2 dogs.", "6"),
    ("She grew **5** million of them.", "5 million"),
    ("**3** + 4 = 7", "7"),
    ("**Step 3:** add them to get 19.", "19"),
    ("**Total:** 42", "42"),
    ("**Sum = 3 + 5 = 8**", "8"),
    ("So it is __8__.", "8"),
    ("*8*", "8"),
    ("It is **not 8** but 9.", "9"),
    ("She sold **90 cups** in all:\n\n- Monday 40\n- Tuesday 50", "90"),
    ("She sold these in all:\n- Monday 40\n- Tuesday 50", "50"),
    ("Hence the curve is **convex**.", "convex"),
    ("The tallest one is listed.\n\n**Norway**", "Norway"),
    ("We are **done**.", ""),
    ("Hence she takes the **red** bus at 9.", "9"),
]
COMPETING = [
    ("She needs 30 minutes for the 5 pages.", "30"),
    ("Leo earned $80 in 4 hours of mowing.", "80"),
    ("Leo pays $12 for 4 tickets.", "12"),
    ("They drive 3 hours and cover 180 miles.", "180"),
    ("After 3 days there are 17 left.", "17"),
    ("The pool is full after 6 hours.", "6"),
    ("He reads 5 books in 20 days.", ""),
    ("Finally, she climbs 2 places to finish in 3rd place.", "3"),
    ("So the tank holds 40 liters: 25 of water and 15 of oil.", "40"),
    ("So the tank holds 40 liters: 25 of water and 10 of oil.", ""),
    ("Sam spends 20 * 3 = 60 dollars to make 4 liters.", "60"),
    ("He is 5'8\".", "5'8"),
    ("The values are 2, 4, 6, and 8.", "2, 4, 6, and 8"),
    ("The trip takes 90 minutes, or 1.5 hours.", "90"),
    ("It costs $3.20, or 320 cents.", "3.20"),
    ("The trip takes 90 minutes, or 2 hours with a break.", ""),
]
CHECKS = [
    ("So x = 19.\n\nCheck: 19 + 2 = 21, so it works.", "19"),
    ("So x = 19.\n\n**Verification:**\n19 + 2 = 21.", "19"),
    ("So x = 19.\n\nLet's verify: 19 + 2 = 21.", "19"),
    ("Let's check n = 3: we get 9.\nSo it is 12.", "12"),
    ("We have x = 19.\nCheck: 19 + 1 = 21 is wrong, hence x = 20.", "20"),
    ("So the total is 19. Let me know if you need the other 3 parts!", "19"),
    ("If you have 19 beans, you can plant 19 of them.", "19"),
]
LAYOUT = [
    ("The answer is:\n```text\n8\n```", "8"),
    ("The answer is:\n```\n8\n```", "8"),
    ("Answer\n======\n8", "8"),
    ("Answer: <strong>8</strong>", "8"),
]
GOING_ON = [
    (r"So it is \boxed{8}k.", "8k"),
    (r"So it is \boxed{8}m long.", "8"),
    (r"\boxed{8} dozen", "8 dozen"),
    (r"\boxed{8} dogs", "8"),
    (r"$\boxed{8}$ or $9$", "8 or 9"),
    (r"\boxed{8} or more", "8"),
    (r"$\boxed{8}, 9$", "8, 9"),
    (r"$\boxed{8}, n > 1$", "8"),
    (r"$(\boxed{8}, 9)$", "(8, 9)"),
    (r"$(7, \boxed{8})$", "(7, 8)"),
    (r"$\boxed{8} : 9$", "8 : 9"),
    (r"Take $x = \boxed{8}, 2x = 16$.", "8"),
    ("So the answer is **not** 8.", ""),
    (r"At least $\boxed{8}$", "At least 8"),
    (r"Thus n can be at most $\boxed{8}$.", "8"),
    (r"\boxed{8}, which contradicts our assumption.", ""),
    (r"When x > 0: \boxed{8}. When x < 0: \boxed{-8}.", "8 or -8"),
    ("Option 1: \\boxed{6}\nOption 2: \\boxed{5}", "6 or 5"),
    (r"If x is even we get 8. Hence \boxed{9}", "9"),
    (r"The answer is $8$ $\frac{1}{3}$.", r"8 \frac{1}{3}"),
    (r"The answer is $8$$\pi$.", r"8 \pi"),
    ("The answer is 8 more than y.", "8 more than y"),
    ("The answer is 8 times as long as 9.", "8 times as long as 9"),
    ("The answer is 8 point 25.", "8 point 25"),
    ("The answer is two of 8 tries.", "two of 8 tries"),
    ("The answer is equation 8.", ""),
    ("The answer is 8, as in Lemma 9.", "8"),
]
RESTATED = [
    (r"The answer is $\frac{3}{8}$ (or 0.375).", r"\frac{3}{8}"),
    (r"The answer is $\frac{3}{8}$ (or 0.35).", r"\frac{3}{8} or 0.35"),
    ("The answer is 2.5 hours, or 150 minutes.", "2.5 hours"),
    ("The answer is 2.5 hours, or 140 minutes.", "2.5 hours, or 140 minutes"),
    (r"\boxed{\frac{1}{4} \text{ or } 25\%}", r"\frac{1}{4}"),
    (r"\boxed{\frac{1}{4} \text{ or } 24\%}", r"\frac{1}{4} \text{ or } 24\%"),
]


@pytest.mark.parametrize(
    ("text", "answer"), [*BOLD, *COMPETING, *CHECKS, *LAYOUT, *GOING_ON, *RESTATED]
)
def test_answers(text: str, answer: str) -> None:
    assert extract_answer(text).answer == answer


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("7/4 or 1.75", "7/4"),
        ("7/4 (or 1.75)", "7/4"),
        ("2 hours or 120 minutes", "2 hours"),
        ("7/4 or 175% or 1.75", "7/4"),
        ("$3 or 300 cents", "$3"),
        (r"$\frac{7}{4}$ or $1.75$", r"\frac{7}{4}"),
        ("$3 or 30 cents", None),
        ("7/4 or 1.7", None),
        ("2 hours or 2 minutes", None),
        ("x or y", None),
        ("4 or 5", None),
        ("color 5", None),
        ("or " * 200, None),
    ],
)
def test_one_value_said_twice(text: str, first: str | None) -> None:
    assert restated(text) == first


@pytest.mark.parametrize(
    ("gold", "answer", "is_correct"),
    [
        ("7/4", "7/4 (or 1.75)", True),
        ("7/4", r"\frac{7}{4} \text{ or } 1.75", True),
        ("7/4", "7/4 or 1.7", False),
        ("7/4", "1.7 or 7/4", False),
        ("2 or 3", "3 or 2", True),
        ("2", "2 or 3", False),
    ],
)
def test_bare_answers_that_say_a_value_twice(gold: str, answer: str, is_correct: bool) -> None:
    grade = compare_answers(gold, answer)
    assert grade is not None
    assert (grade.verdict is Verdict.CORRECT) is is_correct


@pytest.mark.parametrize(
    "answer",
    ["8 more than y", "8k", "8 dozen", "two of 8 tries", "At least 8", "8 or 9", "8 : 9", "8 x"],
)
def test_what_goes_on_is_another_value(answer: str) -> None:
    grade = compare_answers("8", answer)
    assert grade is None or grade.verdict is not Verdict.CORRECT
