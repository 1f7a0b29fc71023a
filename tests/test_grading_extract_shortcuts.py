"""The shortcuts of extraction say what the general rules say, and nothing of other texts."""

import itertools
import time

import pytest

from grading.config import GradingProfile
from grading.extract import Rule, extract_answer
from grading.extract_boxes import boxed_answer
from grading.extract_last_line import announced_number, labelled_number, stated_number
from grading.extract_lone_box import lone_box
from grading.extract_markers import announced_answer
from grading.extract_statement import statement_answer

WORK = "Ann has 3 packs of 12 pens and gives 5 away.\nThat makes 3*12 = 36 and 36 - 5 = 31 pens.\n"
NUMBERS = ("31", "-4", "0.75", "1,250", "12,000.5")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("label", ["", "A: "])
def test_a_number_on_the_last_line(number: str, label: str) -> None:
    text = f"{WORK}{label}{number}\n"
    assert stated_number(text) == number == statement_answer(text)
    assert labelled_number(text) == (number if label else None)
    rule = Rule.ANSWER_LINE if label else Rule.STATEMENT
    for profile in GradingProfile:
        assert extract_answer(text, profile=profile).rule is rule
        assert extract_answer(text, profile=profile, is_truncated=True).rule in (
            Rule.NONE,
            Rule.ANSWER_LINE,
        )


ANNOUNCEMENTS = [
    "The answer is {}", "So the answer is {}.", "Thus, the final answer is {}.", "Answer: {}",
    "Final answer: {}", "Therefore our correct answer is {}.", "my answer: {}.",
]  # fmt: skip


@pytest.mark.parametrize(("line", "number"), list(itertools.product(ANNOUNCEMENTS, NUMBERS)))
def test_a_last_line_that_announces_a_number(line: str, number: str) -> None:
    text = WORK + line.format(number)
    assert announced_number(text) == number
    # A remark behind it leaves the general rule.
    behind = f"{text}\nI hope it helps."
    assert announced_number(behind) is None
    assert announced_answer(behind) == number


@pytest.mark.parametrize(
    "text",
    [
        "A: 31",
        WORK + "A: 31 pens",
        WORK + "A: 7/31",
        WORK + "B: 31",
        WORK + "Note: 31",
        WORK + "= 31",
        WORK + "A: 12,34",
        WORK + "\\[ x = 5\nA: 31",
        WORK + "$$ x = 5\nA: 31",
        WORK + "so <<36-5=\nA: 31",
    ],
)
def test_other_last_lines_are_left_to_the_rules(text: str) -> None:
    assert stated_number(text) is None


def test_the_last_line_counts_before_a_phrase_and_before_a_made_up_problem() -> None:
    assert extract_answer("First result: 5 pens.\nThen 5+2=7.\nA: 7").answer == "7"
    text = "Two and two.\nA: 4\n\nQ: Three and three?\nA: 6"
    assert extract_answer(text).answer == "4"


CONTENTS = ["7", "-3", "\\frac{1}{2}", "x^{2}+1", "\\{1,2\\}", "(3,4)", "\\text{odd}", "1{,}000"]
CLOSINGS = ["$", "$.", "$ .\n", "$$\n"]


@pytest.mark.parametrize(("content", "closing"), list(itertools.product(CONTENTS, CLOSINGS)))
def test_a_lone_box_at_the_end(content: str, closing: str) -> None:
    for opening in ("So it is $", "Thus $x = ", "$$", "so we note: $y="):
        text = f"{opening}\\boxed{{ {content} }}{closing}"
        found = lone_box(text)
        assert found == (content, text.rindex("}") + 1)
        # White space behind it leaves the general rule.
        general = boxed_answer(text + "\n" * 30)
        assert general is not None
        assert (general.answer, general.end) == found


@pytest.mark.parametrize(
    "text",
    [
        "It is not $\\boxed{5}$.",
        "The common mistake is $\\boxed{5}$.",
        "$\\boxed{1}$ and $\\boxed{2}$.",
        "$\\boxed{\\boxed{2}}$.",
        "$x \\ne \\boxed{5}$",
        "$-\\boxed{5}$",
        "$3\\boxed{5}$",
        "$\\boxed{5}\\%$",
        "$\\boxed{5}^2$",
        "$\\boxed{5$",
        "$\\boxed{}$",
        "$\\boxed{ }$.",
        "$\\boxed{...}$",
        "$\\boxed{\\text{answer}}$",
        "$\\boxed{your answer}$",
        "% $\\boxed{5}$",
        "$\\\\boxed{5}$",
        "\\$\\boxed{5}",
        "~~$\\boxed{5}$~~",
        "$\\boxed{5}$. Wait, that is wrong.",
    ],
)
def test_other_boxes_are_left_to_the_rules(text: str) -> None:
    assert lone_box(text) is None


@pytest.mark.parametrize(
    "unit", ["\\boxed{", "$\\boxed{", "}", "{", "\\", "\nA: 1", "the answer is 1\n", "<<", "not "]
)
def test_shortcuts_are_linear(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    begun = time.process_time()
    lone_box(text)
    stated_number(text)
    announced_number(text)
    assert time.process_time() - begun < 1
