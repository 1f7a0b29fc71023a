import json
import re
from pathlib import Path

import pytest

from grading.grade import compare_answers, is_gradable_gold, ungradable_reason
from grading.verdict import Verdict

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

EQUAL = [
    ("2750", "2,750"), ("2750", "2{,}750"), ("2750", r"\$2,\!750.00"), ("0.5", "1/2"),
    (r"\frac{7}{4}", r"1\frac34"), ("-1.75", r"-1\frac{3}{4}"), ("0.07", r"7\%"), ("7%", "7"),
    ("3", "3 kg"), ("3", r"3 \text{ pears}"), ("45^\\circ", "45"), ("90 degrees", "90°"),
    ("6000", "6e3"), ("2^{40}", "1099511627776"), (r"0.\overline{27}", r"\frac{3}{11}"),
    ("4, 9", "9,4"), (r"\{4,9\}", r"4 \text{ and } 9"), ("(4, -9)", "( 4,−9 )"),
    ("(2,5]", r"\left( 2 , 5 \right]"), ("x > 4", r"(4, \infty)"), ("x=8", "8"), ("8", "x = 8.0"),
    (r"\pm 3", "3, -3"), (r"\text{(C)}", "C"), ("Monday", r"\text{monday}"), ("34_7", "34_{7}"),
    ("34_7", "34"), ("7!", "5040"), ("¾", "0.75"), ("3:5", "6:10"), (r"\sqrt{49}", "7"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix} 1 \\ 2 \end{bmatrix}"),
    ("1" * 5000, "+" + "1" * 5000 + ".0"),
]  # fmt: skip
DIFFERENT = [
    ("2750", "27,50"), ("50", "0.5"), ("5", "500"), ("1/3", "0.33"), ("1e-9", "2e-9"),
    ("12345678901234567890", "12345678901234567891"), ("34_7", "347"), ("34_7", "34_8"),
    ("4,9", "4"), ("4", "4,9"), ("(4,9)", "(9,4)"), ("(4,9)", "(4,9]"), ("x>4", "x<4"),
    (r"\pm 3", "3"), ("A", "B"), ("Monday", "Sunday"), ("evil", "vile"), ("1", "1_000"),
    ("12:00", "1:00"), ("1", "True"), ("0", "exit(0)"), ("1", "}{"), ("1", "1\x00"), ("1", "====="),
    ("3", "3 or 4"), ("-2\\frac{1}{3}", r"-\frac{5}{3}"), ("1", "1" * 5000),
    ("2", "[0]*10**10"), ("7", "__import__('os')"),
]  # fmt: skip
NEEDS_SYMBOLS = [(r"\sin^2 x + \cos^2 x", "1"), (r"\tan x", r"\frac{\sin x}{\cos x}")]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    grade = compare_answers(gold, answer)
    assert grade is not None
    assert grade.verdict is Verdict.CORRECT
    assert grade.answer == answer


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different(gold: str, answer: str) -> None:
    grade = compare_answers(gold, answer)
    assert grade is not None
    assert grade.verdict is Verdict.INCORRECT


@pytest.mark.parametrize(("gold", "answer"), NEEDS_SYMBOLS)
def test_left_to_the_symbolic_tier(gold: str, answer: str) -> None:
    assert compare_answers(gold, answer) is None


@pytest.mark.parametrize(
    ("gold", "answer", "verdict", "reason"),
    [
        ("3", "", Verdict.INCORRECT, "no-answer"),
        ("3", " \n ", Verdict.INCORRECT, "no-answer"),
        ("", "3", Verdict.INCORRECT, "unparsable-gold"),
        (r"\frac{1}{", "3", Verdict.UNDECIDED, "unparsable-gold"),
        ("3", r"\int_0^1 x dx", Verdict.INCORRECT, "exact"),
        ("3", "???", Verdict.INCORRECT, "unparsable-answer"),
        ("1", "9^9^9^9^9", Verdict.INCORRECT, "exact"),
        ("1", "100000!", Verdict.INCORRECT, "exact"),
        ("1", "{" * 10_000 + "1", Verdict.INCORRECT, "unparsable-answer"),
        ("1", "{" * 10_000 + "1" + "}" * 10_000, Verdict.CORRECT, "exact"),
        ("1", "(" * 1_000 + "1" + ")" * 1_000, Verdict.CORRECT, "exact"),
        ("1", "1+" * 20_000 + "1", Verdict.UNDECIDED, "too-large"),
        ("5 cm", "5 km", Verdict.INCORRECT, "units"),
        ("5 cm", "50 mm", Verdict.CORRECT, "units"),
        ("5 cm", "5 kg", Verdict.INCORRECT, "units"),
        ("0.35", "35 cents", Verdict.CORRECT, "exact"),
        ("35", "35 cents", Verdict.CORRECT, "exact"),
        ("3.25", "3,25", Verdict.CORRECT, "exact"),
        ("3.2", "3,2", Verdict.INCORRECT, "exact"),
        (r"\text{Wednesday}", "12", Verdict.INCORRECT, "wording"),
        (r"Adding up, the total is $\boxed{12}$.", "12", Verdict.CORRECT, "exact"),
        ("12", "So in the end we find that the sum is $12$.", Verdict.CORRECT, "exact"),
        ("\\int x", "\\int x", Verdict.CORRECT, "text"),
    ],
)
def test_reasons(gold: str, answer: str, verdict: Verdict, reason: str) -> None:
    grade = compare_answers(gold, answer)
    assert grade is not None
    assert (grade.verdict, grade.reason) == (verdict, reason)


@pytest.mark.parametrize("gold", ["", "  ", r"\frac{1}{", "}{", "1\x00", "(", "7" * 30_000])
def test_bad_golds_are_not_gradable(gold: str) -> None:
    assert not is_gradable_gold(gold)


@pytest.mark.parametrize(
    ("gold", "reason"),
    [(" ", "empty"), (r"\frac{1}{", "unparsable"), ("1" + "+1" * 40_000, "too-large"), ("12", None),
     ("The curve is a circle around the origin.", None)],
)  # fmt: skip
def test_reasons_of_ungradable_golds(gold: str, reason: str | None) -> None:
    assert ungradable_reason(gold) == reason


def test_golds_of_gsm8k_are_gradable() -> None:
    answers = [row["answer"].rpartition("####")[2].strip() for row in _rows("gsm8k_test.jsonl")]
    assert len(answers) == 1319
    assert [gold for gold in answers if not is_gradable_gold(gold.replace(",", ""))] == []


def test_golds_of_math500_are_gradable_and_equal_themselves_only() -> None:
    golds = [row["answer"] for row in _rows("math500_test.jsonl")]
    assert len(golds) == 500
    assert [gold for gold in golds if not is_gradable_gold(gold)] == []
    for gold, other in zip(golds, golds[1:] + golds[:1], strict=True):
        same = compare_answers(gold, f" {gold} ")
        assert same is not None
        assert same.verdict is Verdict.CORRECT
        grade = compare_answers(gold, other)
        if _value_of(gold) != _value_of(other) and grade is not None:
            assert grade.verdict is Verdict.INCORRECT, (gold, other)


def _value_of(gold: str) -> str:
    return re.sub(r"\s|^[a-z] ?=", "", gold)


def _rows(name: str) -> list[dict[str, str]]:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
