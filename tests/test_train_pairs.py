"""Which pairs are trained on: by length, and by question."""

import pytest

from pipeline.errors import DataError
from train.pairs import EncodedPair, split_pairs


def pair(row: int, question: str, num_prompt: int = 4, num_step: int = 2) -> EncodedPair:
    return EncodedPair(row, question, (7,) * num_prompt, (8,) * num_step, (9,))


def test_longer_pairs_are_dropped_by_their_longer_side() -> None:
    pairs = [pair(1, "a"), pair(2, "a", num_step=5)]
    split = split_pairs(pairs, max_length=6, validation_share=0)
    assert (split.train, split.validation, split.too_long) == ((pairs[0],), (), (pairs[1],))
    with pytest.raises(DataError, match="all 2 pairs are longer than max_length = 5 tokens"):
        split_pairs(pairs, max_length=5, validation_share=0)


def test_questions_are_kept_apart_whole_and_by_their_text_alone() -> None:
    pairs = [pair(row, f"question {row % 50}") for row in range(200)]
    split = split_pairs(pairs, max_length=6, validation_share=0.2)
    trained, kept = ({one.question for one in part} for part in (split.train, split.validation))
    assert not trained & kept
    assert 2 <= len(kept) <= 20
    assert len(split.train) + len(split.validation) == 200
    again = split_pairs(pairs[100:], max_length=6, validation_share=0.2)
    assert {one.question for one in again.validation} == kept


def test_at_least_one_question_is_kept_and_one_trained_on() -> None:
    pairs = [pair(1, "a"), pair(2, "b")]
    for share in (1e-6, 0.5):
        split = split_pairs(pairs, max_length=6, validation_share=share)
        assert len(split.train) == len(split.validation) == 1
    with pytest.raises(DataError, match="all pairs are of one question"):
        split_pairs(pairs[:1], max_length=6, validation_share=0.1)
