import time

import pytest

from grading.config import GradingProfile
from grading.extract import Extraction, extract_answer

AUTO = [
    (r"So we get \boxed{17}.", "17", "boxed"),
    (r"First \boxed{2}. No, again: \boxed{\frac{3}{\sqrt{5}}}", r"\frac{3}{\sqrt{5}}", "boxed"),
    (r"Both \boxed{3} and \boxed{5} work.", "3, 5", "boxed"),
    (r"It is \boxed{1\frac{1}{2}} or \boxed{\frac{3}{2}}.", r"\frac{3}{2}", "boxed"),
    (r"Set \fbox {9} aside", "9", "boxed"),
    (r"Set \boxed{\{1, 2\}} aside", r"\{1, 2\}", "boxed"),
    (r"Earlier \boxed{8}, but then \boxed{9", "", "boxed"),
    ("5 * 4 = 20\n#### 20", "20", "hashes"),
    ("#### Step 2\nso 7", "7", "last-number"),
    ("The answer is 1,250 dollars because of the tax of 5.", "1,250 dollars", "answer-is"),
    ("**Final Answer:** $x^2+1$ as shown in step 3", "x^2+1", "answer-is"),
    ("So the answer is Tuesday.", "Tuesday", "answer-is"),
    ("The answer is not 6 but 8.", "8", "last-number"),
    ("<think>\\boxed{1}</think>The answer is 2.", "2", "answer-is"),
    ("<think>perhaps \\boxed{1}", "", "none"),
    ("So it falls to r = -7", "-7", "last-number"),
    ("The answer is that they sold 36 cups.", "36", "answer-is"),
    ("The answer is either 7 or 8.", "either 7 or 8", "answer-is"),
    ("The answer is about 4.5", "4.5", "answer-is"),
    ("so 12-5 apples, that is 12-5", "5", "last-number"),
    (r"Therefore $y = \frac{2}{9}$.", r"\frac{2}{9}", "last-number"),
    (r"and then \[ \frac{19", "", "none"),
    (r"-3+\sqrt{2}", r"-3+\sqrt{2}", "whole-text"),
    ("", "", "none"),
]


@pytest.mark.parametrize(("text", "answer", "rule"), AUTO)
def test_auto_profile(text: str, answer: str, rule: str) -> None:
    assert extract_answer(text) == Extraction(answer, rule)


def test_profiles_order_their_markers() -> None:
    text = "We get \\boxed{4}.\n#### 5"
    assert extract_answer(text, profile=GradingProfile.GSM8K).answer == "5"
    assert extract_answer(text, profile=GradingProfile.MATH).answer == "4"
    assert extract_answer(text).answer == "4"
    assert extract_answer("work\nA: 31 + 1", profile=GradingProfile.GSM8K).answer == "31 + 1"


def test_truncated_text_counts_only_explicit_markers() -> None:
    assert extract_answer("we have 6 and then 42", is_truncated=True) == Extraction("", "none")
    assert extract_answer("42", is_truncated=True) == Extraction("", "none")
    assert extract_answer(r"\boxed{42} and furthermore", is_truncated=True).answer == "42"
    assert extract_answer("#### 42\nQ: and", is_truncated=True).answer == "42"


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{" * 50_000,
        r"\boxed{1} " * 50_000,
        "answer is " * 50_000,
        "answer is" + " " * 500_000,
        "#" * 500_000,
        "$1" * 200_000,
        "1,2." * 200_000,
        "\\[" * 200_000,
        "\nA:" * 100_000,
        "<answer>" * 100_000,
    ],
    ids=range(10),
)
def test_hostile_texts_cost_linear_time(text: str) -> None:
    started = time.perf_counter()
    for profile in GradingProfile:
        extract_answer(text, profile=profile)
    assert time.perf_counter() - started < 30  # no hang; a busy machine is slow
