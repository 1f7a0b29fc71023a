"""Boxes inside formulas: what touches them belongs to the answer."""

import pytest

from grading.extract import extract_answer

OPERANDS = [
    (r"$3 \cdot \boxed{7}$", r"3 \cdot 7"),
    (r"$\sqrt{\boxed{7}}$", r"\sqrt{7}"),
    (r"$x \ne \boxed{7}$", r"x \ne 7"),
    (r"\[ x \le \boxed{7} \]", r"x \le 7"),
    (r"$x > \boxed{7}$", "x > 7"),
    (r"$2^{\boxed{7}}$", "2^{7}"),
    (r"$\boxed{x+1}y$", "(x+1)y"),
    (r"\frac{\boxed{2}}{\boxed{7}}", r"\frac{2}{7}"),
    (r"$\boxed{7}x$", "7x"),
    (r"$(1,2)\cup\boxed{(3,4)}$", r"(1,2)\cup (3,4)"),
    (r"$x + |\boxed{-7}|$", "x + |(-7)|"),
    (r"\( \boxed{7} < x \)", "7 < x"),
    (r"$n = 3\cdot\boxed{7}$", r"3\cdot 7"),
    (r"$z = \boxed{2}+\boxed{3}i$", "2+3i"),
    (r"take 3 * \boxed{7} of these", ""),
]
ALONE = [
    (r"$x = \boxed{7}$", "7"),
    (r"$2x = 6 + 8 = \boxed{14}$", "14"),
    (r"$3 + \boxed{7} = 10$", "7"),
    (r"$x \in \boxed{(1,2)}$", "(1,2)"),
    (r"\begin{align*} x &= 2\cdot 3 \\ &= \boxed{6} \end{align*}", "6"),
    (r"$\textcolor{blue}{\boxed{7}}$", "7"),
    (r"$\left(\boxed{7}\right)$", "7"),
    (r"$\text{so }\boxed{7} \text{ cm}$", "7"),
    (r"$\boxed{7}m$", "7"),
    (r"$\therefore \boxed{7}$", "7"),
    (r"\boxed{7} > 3 is enough", "7"),
    (r"Day 1 - \boxed{7}", "7"),
    (r"* \boxed{7}", "7"),
    (r"**\boxed{7}**", "7"),
    (r"> \boxed{7}", "7"),
    (r"<b>\boxed{7}</b>", "7"),
    (r"It is \boxed{7}!", "7"),
    (r"$\boxed{\text{(C)}} 3x + 1$", r"\text{(C)}"),
]


@pytest.mark.parametrize(("text", "answer"), [*OPERANDS, *ALONE])
def test_answers(text: str, answer: str) -> None:
    assert extract_answer(text).answer == answer
