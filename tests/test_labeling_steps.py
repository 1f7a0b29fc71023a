"""Splitting into steps: loss-less, never inside protected spans, linear on hostile text."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeling.steps import StepMethod, split_steps

PIECES = st.sampled_from(
    [
        "a", "x=3", "Step 1: go", "**Step 2** on", "### Step 3", "#### 42", "####", ".", " ", "\n",
        "\n\n", "\t", "\r\n", "\u2028", "\u00a0", "$$", "\\[", "\\]", "\\begin{a}", "\\end{a}",
        "\\\\", "\\$", "```", "---", "é", "数", "\u0000", "\ud800",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join))
METHODS = st.sampled_from(list(StepMethod))


@given(TEXTS, METHODS)
def test_no_character_is_lost_and_no_prefix_ends_in_white_space(
    text: str, method: StepMethod
) -> None:
    steps = split_steps(text, method)
    has_content = any(character.isalnum() for character in text)
    assert bool(steps) == has_content
    if steps:
        assert "".join(steps) == text
    for step in steps:
        assert any(character.isalnum() for character in step)
    for step in steps[:-1]:
        assert not step[-1].isspace()


@given(st.lists(PIECES, max_size=12).map("".join), METHODS)
def test_no_cut_falls_inside_a_display(body: str, method: StepMethod) -> None:
    clean = re.sub(r"\$\$|\\\[|\\\]|\\begin\S*|\\end\S*|```|\\+|\$+|`+", "", body)
    for opening, closing in (
        ("$$", "$$"),
        (r"\[", r"\]"),
        (r"\begin{align}", r"\end{align}"),
        ("```", "```"),
    ):
        display = f"{opening} {clean} {closing}"
        steps = split_steps(f"one\n\n{display}\n\ntwo", method)
        assert any(display in step for step in steps), (display, steps)


@pytest.mark.parametrize(
    ("method", "text", "steps"),
    [
        (StepMethod.NEWLINE, "a\nb\n#### 3", ("a", "\nb\n#### 3")),
        (StepMethod.NEWLINE, " a\n\n  b \n", (" a", "\n\n  b \n")),
        (StepMethod.NEWLINE, "a\n---\nb", ("a\n---", "\nb")),
        (StepMethod.NEWLINE, "---\na\nb", ("---\na", "\nb")),
        (StepMethod.NEWLINE, "#### 3\na", ("#### 3", "\na")),
        (StepMethod.BLANK_LINE, "a\nb\n \nc", ("a\nb", "\n \nc")),
        (StepMethod.MARKER, "Step 1: a\nb\nStep 2: c", ("Step 1: a\nb", "\nStep 2: c")),
        (StepMethod.MARKER, "x\n#### Step 2: c", ("x", "\n#### Step 2: c")),
        (StepMethod.MARKER, "x\nStepping 2\nStep two", ("x\nStepping 2\nStep two",)),
        (StepMethod.AUTO, "a\nb\n\nStep 1: c", ("a\nb", "\n\nStep 1: c")),
        (StepMethod.AUTO, "a\nb\n\nc", ("a\nb", "\n\nc")),
        (StepMethod.AUTO, "a\nb", ("a", "\nb")),
        (StepMethod.AUTO, "a b", ("a b",)),
        (StepMethod.AUTO, " \n. \n", ()),
        (StepMethod.NEWLINE, "a\n\\begin{x}\n\\begin{y}\nq\n\\end{y}\n\\end{x}\nb",
         ("a", "\n\\begin{x}\n\\begin{y}\nq\n\\end{y}\n\\end{x}", "\nb")),
        (StepMethod.NEWLINE, "a\n\\begin{x}\n\\begin{y}\nq\n\\end{y}",
         ("a", "\n\\begin{x}", "\n\\begin{y}\nq\n\\end{y}")),
        (StepMethod.NEWLINE, "u \\\\[2pt]\nv\nw \\]", ("u \\\\[2pt]", "\nv", "\nw \\]")),
        (StepMethod.NEWLINE, "\\$\\$5\nb $$", ("\\$\\$5", "\nb $$")),
        (StepMethod.NEWLINE, "$$ 1\n2", ("$$ 1", "\n2")),
    ],
)  # fmt: skip
def test_cuts(method: StepMethod, text: str, steps: tuple[str, ...]) -> None:
    assert split_steps(text, method) == steps


HOSTILE = [
    "\\[",
    "\\[\n",
    "$$",
    "$$\n",
    "\\begin\n",
    "\\end",
    "```",
    "\n-",
    " \n",
    "\n",
    " ",
    "a\n",
]


@pytest.mark.parametrize("unit", [*HOSTILE, "#### ", "\n#### ", "\\\\[", "\nStep 1"])
def test_hostile_text_takes_linear_time(unit: str) -> None:
    text = "a" + unit * (200_000 // len(unit)) + "b"
    started = time.process_time()
    for method in (StepMethod.NEWLINE, StepMethod.AUTO):
        assert "".join(split_steps(text, method)) == text
    assert time.process_time() - started < 4.0  # quadratic ones take minutes
