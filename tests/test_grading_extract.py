import random
import time

import pytest

from grading.config import GradingProfile
from grading.extract import Rule, embedded_answer, extract_answer, gold_answer
from grading.grade import compare_answers
from grading.verdict import Verdict

BOXES = [
    (r"So we get \boxed{17}.", "17"),
    (r"First \boxed{2}. No, again: \boxed{\frac{3}{\sqrt{5}}}", r"\frac{3}{\sqrt{5}}"),
    (r"Set \fbox {9} aside", "9"),
    (r"\framebox[2cm]{9}", "9"),
    (r"$\bbox[5px,border:1px solid red]{9}$", "9"),
    (r"\beginboxed{9}", "9"),
    (r"\boxed 19 it is", "19"),
    (r"\boxed\{19\}", "19"),
    (r"Set \boxed{\{1, 2\}} aside", r"\{1, 2\}"),
    (r"\\boxed{\\left(2, \\frac{1}{3}\\right)}", r"\left(2, \frac{1}{3}\right)"),
    (r"\boxed{\begin{pmatrix}1\\2\end{pmatrix}}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\boxed{\boxed{6}}", "6"),
    (r"\boxed{\frac{\boxed{3}}{4}}", r"\frac{3}{4}"),
    (r"It grew by \boxed{19}\%.", r"19\%"),
    (r"It grew by $\boxed{19}$ percent.", r"19\%"),
    (r"which is $\boxed{212}_3$", "212_3"),
    (r"so $x = -\boxed{3}$", "-3"),
    (r"$5-\boxed{3}$ remains", "5-3"),
    (r"\boxed{8} where \boxed{} marks the result", "8"),
    (r"\boxed{}", ""),
    (r"Earlier \boxed{8}, but then \boxed{9", ""),
    (r"\boxed{\sqrt{2}", r"\sqrt{2}"),
    (r"$\boxed{19$ as wanted", "19"),
    (r"\boxed{9} " * 300 + r"\boxed{8}", "8"),
    (r"an area of $\boxed{7}\pi$.", r"7\pi"),
    (r"a side of $\boxed{4}\sqrt{3}$", r"4\sqrt{3}"),
    (r"about $\boxed{1.5} \times 10^{4}$", r"1.5 \times 10^{4}"),
    (r"the product is $\boxed{x+1}^2$", r"(x+1)^2"),
    (r"so $\boxed{7}x + 1$ is that line", "7x + 1"),
    (r"and $\boxed{7}\pi r$ is its length", r"7\pi r"),
    (r"which gives $u = -\boxed{-6}$", "6"),
    (r"that is: -\boxed{-6}", "-6"),
    ("Hence\n\\begin{boxed}\n19\n\\end{boxed}", "19"),
]
JOINED_BOXES = [
    (r"Both \boxed{3} and \boxed{5} work.", "3, 5"),
    (r"\boxed{3}, \boxed{4}, and \boxed{5}", "3, 4, 5"),
    (r"$$\boxed{(1, 4)} \qquad \text{and} \qquad \boxed{(4, 1)}$$", "(1, 4), (4, 1)"),
    (r"$\boxed{2}\boxed{5}$", "2, 5"),
    (r"\[ \boxed{2} \quad \boxed{5} \]", "2, 5"),
    (r"\boxed{6} cats and \boxed{2} dogs", "6, 2"),
    (r"\boxed{6} \text{ in case (i) and } \boxed{2} \text{ in case (ii)}", "6, 2"),
    (r"\( u_1 = \boxed{t} \) and \( u_2 = \boxed{t^2} \)", "u_1 = t, u_2 = t^2"),
    (r"$x = \boxed{3}$ or $x = \boxed{4}$", "3 or 4"),
    (r"either \boxed{3} or perhaps \boxed{4}", "3 or 4"),
    ("(a) \\boxed{3}\n(b) \\boxed{4}", "3, 4"),
    (r"\boxed{1\frac{1}{2}} or \boxed{\frac{3}{2}}.", r"\frac{3}{2}"),
    (r"$\boxed{\frac{1}{3}} \approx \boxed{0.33}$", r"\frac{1}{3}"),
    (r"in the ratio $\boxed{2}:\boxed{3}$", "2:3"),
    (r"\boxed{(0,1)} \cup \boxed{(2,3)}", r"(0,1) \cup (2,3)"),
    (r"Mia earns \boxed{12} and Leo earns \boxed{15}.", "12, 15"),
    (r"We earn \boxed{12} and So earns \boxed{15}.", "15"),
    (r"\boxed{1} la la la la la \boxed{2}", "2"),
    (r"\boxed{7}, so in all we get \boxed{9}", "9"),
    (r"\boxed{7}. The second one is \boxed{9}", "9"),
    (r"\boxed{7} \boxed{9}", "7, 9"),
    ("\\boxed{7}\n\\boxed{9}", "9"),
    ("\\boxed{7}. \\boxed{8}.\n\\boxed{9}", "7, 8, 9"),
]
TAKEN_BACK = [
    (r"Hence \boxed{3}. Wait, that's wrong. The answer is 4.", "4"),
    (r"Hence \boxed{3}. Wait, that is not right.", ""),
    (r"Hence \boxed{3}. Actually, the correct answer is 8.", "8"),
    (r"Hence \boxed{3}. Wait, is the answer 8? No.", "3"),
    (r"Hence \boxed{3}. Actually, the answer is in the box.", "3"),
    (r"I tried \boxed{4}; but \boxed{3} is not correct.", "4"),
    (r"We conclude \boxed{6}, not \boxed{5}.", "6"),
    (r"So \boxed{6}. ~~So \boxed{5}~~", "6"),
    (r"So \boxed{6}. Not $\cancel{\boxed{5}}$", "6"),
    (r"\boxed{7}. Let me double check: 3+4=7, so it is right.", "7"),
    ("The answer is 7. Wait, no, that is wrong.", ""),
    ("\\boxed{200} is the interest.\n\nFinal answer: $1200$", "1200"),
    (r"\boxed{3} and this is my final answer.", "3"),
]
MARKERS = [
    ("The answer is:\nu = 4\nv = 9", "u = 4, v = 9"),
    ("**Answer:**\n$u = 4$\n$v = 9$\n", "u = 4, v = 9"),
    ("Answer:\nu = 4\nu = 9", "u = 4"),
    ("Answer - 19", "19"),
    ("The answer is minus 19.", "-19"),
    ("The answer is 21 minus 2.", "21 minus 2"),
    ("The answer is 1,250 dollars because of the tax of 5.", "1,250 dollars"),
    ("**Final Answer:** $x^2+1$ as shown in step 3", "x^2+1"),
    ("So the answer is Tuesday.", "Tuesday"),
    ("The answer is not 6 but 8.", "8"),
    ("The answer is that they sold 36 cups.", "36"),
    ("The answer is either 7 or 8.", "either 7 or 8"),
    ("The answer is 7. Or maybe 8.", "7 or 8"),
    ("The answer is about 4.5", "4.5"),
    ("The answer is $3$ or $5$.", "3 or 5"),
    ("The answer is x < 5.", "x < 5"),
    ("The answer is -5.", "-5"),
    ("The answer is all integers greater than 2.", "all integers greater than 2"),
    ("The answer is at least 5.", "at least 5"),
    ("The answer to the first part is therefore 12.", "12"),
    ("The result is 12.", "12"),
    ("The solution is $x \\ne 7$", "x \\ne 7"),
    ("So $x <= 9$ is our answer.", "x <= 9"),
    ("So we get 12 as the final answer.", "12"),
    ("Hence Tuesday is the answer.", "Tuesday"),
    ("The correct option is (C).", "(C)"),
    ("The answer is \\frac{1}{2} and not \\frac{1}{3}.", "\\frac{1}{2}"),
    ("**Answer:**\n- $x=1$\n- $y=2$", "x=1, y=2"),
    ("Final Answer: The largest $n$ is 34. I hope it is correct.", "34"),
    ("The answer is 5. Let me check whether the answer is right.", "5"),
    ("## Final Answer\n$42$", "42"),
    ("Answer: Let x be 5. Then 2x = 10. He has 10 apples.", "10"),
    ("The answer is 42.\n\nQuestion: What is 2+2?\nThe answer is 4.", "42"),
    ("The answer is 42.<|im_end|>\nThe answer is 4.", "42"),
    ("3+4=7. So the answer is", ""),
    ("The answer is $\\frac{3", ""),
    ("The final answer is 3 +", ""),
]
LANGUAGES = [
    ("综合以上分析，应选B.", "B"),
    ("故选：AC", "AC"),
    ("选A是错误的，所以选D。", "D"),
    ("所以最终答案是：B。", "B"),
    ("答案是 12 个苹果。", "12"),
    ("因此，答案为：$\\frac{1}{2}$。", r"\frac{1}{2}"),
    ("答えは x = 3 です。", "x = 3"),
    ("따라서 정답은 12입니다.", "12"),
    ("La réponse est donc 3,25.", "3.25"),
    ("La respuesta es 3,5.", "3.5"),
    ("Die Antwort lautet 1.234,5.", "1234.5"),
    ("La risposta è 12.", "12"),
    ("A resposta é 12.", "12"),
    ("Ответ: 12,5.", "12.5"),
    ("Odpowiedź: 12", "12"),
    ("Đáp số: 12", "12"),
]
HASHES = [
    ("5 * 4 = 20\n#### 20", "20"),
    ("#### 20 cats", "20 cats"),
    ("#### **20**", "20"),
    ("#### The answer is 20.", "20"),
    ("#### 19\nNo: #### 20", "20"),
    ("He has 20 eggs.\n#### ", ""),
]
UNMARKED = [
    ("We add them up to 19.\n\n4. Check: all is well.", "19"),
    ("I do not know.\n\n4. Summary: nothing came out.", ""),
    ("So it would be 19. But 19 is wrong.", ""),
    ("The total is not 19.", ""),
    ("Could the total be 19?", ""),
    ("The total is 19. Shall I go on for 3 more?", "19"),
    ("In the end it equals negative 19.", "-19"),
    ("Take 21 minus 2, which is 19", "19"),
    ("**C**", "C"),
    ("So I pick option C.", "C"),
    ("The total is 19, not 21.", "19"),
    ("There are 19 days, not counting the first 2.", "2"),
    ("#### Step 2\nso 7", "7"),
    ("#### Total cost\nThe total is 42.", "42"),
    ("So it falls to r = -7", "-7"),
    (r"Therefore $y = \frac{2}{9}$.", r"y = \frac{2}{9}"),
    ("We find that $x \\gt 7$.", r"x \gt 7"),
    ("So x <= 2.", "x <= 2"),
    ("We get\n\\[\nx = 5\n\\]\nas desired.", "x = 5"),
    ("There are $12$ of them for all $n$.", "12"),
    ("Solving gives $x=2$ or $x=3$.", "x=2 or x=3"),
    ("The ordered pair is (7, 6).", "(7, 6)"),
    ("Thus, the probability is 2/3.", "2/3"),
    ("The expression equals 3x + 2.", "3x + 2"),
    (r"so $ 1 + \$ 2 = \frac{5}{3} $", r"1 + \$ 2 = \frac{5}{3}"),
    ("She ran 20 + 30 = 50 miles in 7 hours.", "50"),
    ("He paid $4 + $2 = $6.", "6"),
    ("It costs €12.50.", "12.50"),
    ("He has 42 eggs.\n\nI hope this helps!", "42"),
    ("He has 42 eggs and 3 hens.", ""),
    ("The plate says AB3K.", ""),
    ("We are done with step 3.", ""),
    ("I don't know. Perhaps 5?", ""),
    ("We have 7 apples, which makes 42, and then we need to", ""),
    ("Let me compute 5*6", ""),
    (r"and then \[ \frac{19", ""),
    ("He has 5 apples. Now let me count the pears.", ""),
    ("There is no real solution.", "no real solution"),
    ("Yes, because 3 divides 12.", "Yes"),
    ("所以小明还剩5个苹果。", "5"),
    ("-3+\\sqrt{2}", "-3+\\sqrt{2}"),
    ("", ""),
]


def _texts(*tables: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [row for table in tables for row in table]


@pytest.mark.parametrize(
    ("text", "answer"),
    _texts(BOXES, JOINED_BOXES, TAKEN_BACK, MARKERS, LANGUAGES, HASHES, UNMARKED),
)
def test_answers(text: str, answer: str) -> None:
    assert extract_answer(text).answer == answer


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (r"\boxed{4}", Rule.BOXED),
        ("<answer> 4 </answer>", Rule.TAG),
        ("#### 4", Rule.HASHES),
        ("The answer is 4.", Rule.ANSWER_IS),
        ("4", Rule.WHOLE_TEXT),
        ("So he has 4.", Rule.STATEMENT),
        ("So he left.", Rule.NONE),
    ],
)
def test_the_rule_that_decided_is_told(text: str, rule: Rule) -> None:
    assert extract_answer(text).rule is rule


def test_thinking_holds_no_answer() -> None:
    assert extract_answer("<think>\\boxed{1}</think>The answer is 2.").answer == "2"
    assert extract_answer("\\boxed{1}</think>The answer is 2.").answer == "2"
    assert extract_answer("<think>perhaps \\boxed{1}").rule is Rule.NONE


def test_tags_hold_sentences_and_boxes() -> None:
    assert extract_answer("<answer>The answer is 42.</answer>").answer == "42"
    assert extract_answer("<answer>\\boxed{42}</answer>").answer == "42"
    assert extract_answer("<answer>$x=2$</answer> as above 3").answer == "$x=2$"


def test_profiles_order_their_markers() -> None:
    text = "We get \\boxed{4}.\n#### 5"
    assert extract_answer(text, profile=GradingProfile.GSM8K).answer == "5"
    assert extract_answer(text, profile=GradingProfile.MATH).answer == "4"
    assert extract_answer(text).answer == "4"
    line = extract_answer("work\nA: 31 + 1", profile=GradingProfile.GSM8K)
    assert (line.answer, line.rule) == ("31 + 1", Rule.ANSWER_LINE)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("we have 6 and then 42", ""),
        ("42", ""),
        ("The answer is 4", ""),
        ("#### 4", ""),
        (r"\boxed{\frac{3}{4}", ""),
        ("The answer is 42. And", "42"),
        (r"\boxed{42} and furthermore", "42"),
        ("#### 42\nQ: and", "42"),
    ],
)
def test_truncated_text_counts_only_complete_markers(text: str, answer: str) -> None:
    assert extract_answer(text, is_truncated=True).answer == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"By symmetry we are done: \(\boxed{\text{B}}\).", r"\text{B}"),
        (r"x \in \boxed{(1,2)}.$", "(1,2)"),
        (r"$\boxed{1}\boxed{2}$", "1, 2"),
        (r"so \boxed{3 \text{ or } 4", r"3 \text{ or } 4"),
        (r"\\boxed{\\frac{1}{2}}", r"\frac{1}{2}"),
        ("$1/4$", "1/4"),
        ("We add. The final answer is $5$. Note: this is wrong.", "5"),
        ("Then half of them leave. So $5$ of them stay.", "5"),
        (r"\frac{1}{", r"\frac{1}{"),
        ("", ""),
    ],
)
def test_gold_answers_that_are_whole_solutions(text: str, answer: str) -> None:
    assert gold_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer \\[ 5 \\]", "5"),
        ("Answer $ 5 $", "5"),
        ("Answer $$\n5\n$$", "5"),
        ("Answer $ \n 5 \n $", None),
        ("Answer \\(\n5\n\\)", None),
        ("Final answer: 5", "5"),
        ("First do 3*4.\n12", "12"),
        ("it's not 5, it's 1,000.5m²", "1,000.5"),
        ("Total: 2,74 $ etc.", "2,74"),
        ("The number is $x > 5$.", "x > 5"),
        ("odd $n$", None),
        ("all real $x$ such that $x>3$", None),
        ("5 is wrong", None),
        ("5 is not the answer", None),
        ("5 is correct", "5"),
        ("AB3K", None),
        ("exit(0)", None),
        ("__import__('os')", None),
        ("", None),
    ],
)
def test_answers_embedded_in_a_sentence(text: str, answer: str | None) -> None:
    assert embedded_answer(text) == answer


def test_joined_boxes_compare_with_a_list() -> None:
    answer = extract_answer(r"Thus $\boxed{x = 2}$ or $\boxed{x = 7}$.").answer
    grade = compare_answers("2, 7", answer)
    assert grade is not None
    assert grade.verdict is Verdict.CORRECT


_HOSTILE = [
    r"\boxed{" * 50_000,
    r"\boxed{1} " * 50_000,
    r"\boxed{1}, " * 50_000,
    "\\boxed{" + "{}" * 100_000 + "}",
    "box " * 100_000,
    "~~\\boxed{1}~~" * 10_000,
    "answer is " * 50_000,
    "answer is" + " " * 500_000,
    "the answer to " * 20_000,
    "#" * 500_000,
    "####\n" * 50_000,
    "$1" * 200_000,
    "1,2." * 200_000,
    "1 and " * 50_000,
    "\\[" * 200_000,
    "\nA:" * 100_000,
    "<answer>" * 100_000,
    "</answer>" * 50_000,
    "<think>" * 50_000,
    "not " * 50_000 + "\\boxed{3}",
]


@pytest.mark.parametrize("text", _HOSTILE, ids=range(len(_HOSTILE)))
def test_hostile_texts_cost_linear_time(text: str) -> None:
    started = time.perf_counter()
    for profile in GradingProfile:
        extract_answer(text, profile=profile)
    gold_answer(text)
    embedded_answer(text)
    assert time.perf_counter() - started < 30  # no hang; a busy machine is slow


_PIECES = r"""
    \boxed{ } { $ $$ \( \) \[ \] and or , the answer is #### 3 4.5 x = < \frac{1}{2} ~~ <answer> A:
    </answer> not wrong Wait, that's . 答案是 é ’ \ - % ( [ ) ] Final answer: is our answer <think>
    </think> 1,000 \text{ and } \begin{align} \end{align} ² | ` ** / İ \cancel{ <|im_end|> Problem:
"""


def test_no_mixture_of_pieces_raises() -> None:
    draw = random.Random(5)
    for _ in range(1_500):
        pieces = draw.choices([*_PIECES.split(), "\n", "is", "\\boxed{"], k=draw.randint(1, 25))
        text = draw.choice(["", " "]).join(pieces)
        assert extract_answer(text).rule in Rule
        assert extract_answer(text, is_truncated=True).rule not in (Rule.STATEMENT, Rule.WHOLE_TEXT)
        assert isinstance(gold_answer(text), str)
        embedded_answer(text)
