"""Splits by the question: stable, of the right shares, and moved no more than needed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from storage.splits import split_of_question

SHARES = {"train": 0.9, "validation": 0.05, "test": 0.05}
QUESTIONS = [f"What is {number} + 1?" for number in range(20_000)]

FIRST = [
    (18, "validation"),
    (42, "test"),
    (48, "validation"),
    (49, "validation"),
    (62, "validation"),
]


def test_shares_come_out_and_stay_for_ever() -> None:
    found = Counter(split_of_question(question, SHARES) for question in QUESTIONS)
    assert 0.89 < found["train"] / len(QUESTIONS) < 0.91
    assert 0.045 < found["validation"] / len(QUESTIONS) < 0.055
    # what these problems were given; another hash would move published data
    first = [split_of_question(question, SHARES) for question in QUESTIONS[:80]]
    assert [(index, split) for index, split in enumerate(first) if split != "train"] == FIRST


def test_another_share_moves_only_what_it_must() -> None:
    wider = {"train": 0.8, "validation": 0.05, "test": 0.15}
    moves = Counter(
        (split_of_question(question, SHARES), split_of_question(question, wider))
        for question in QUESTIONS
    )
    stayed = sum(n for (old, new), n in moves.items() if old == new)
    assert stayed / len(QUESTIONS) > 0.88
    assert not any(moves[old, "train"] for old in ("validation", "test"))


@given(st.text(), st.permutations(list(SHARES.items())))
def test_white_space_and_order_do_not_count(question: str, shares: list[tuple[str, float]]) -> None:
    found = split_of_question(question, SHARES)
    assert split_of_question(f" {question}\n", dict(shares)) == found
    assert split_of_question("\t ".join(question.split(" ")), dict(shares)) == found
