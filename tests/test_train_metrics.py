import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.metrics import agreement, best_threshold, brier, step_auc


def test_golden() -> None:
    scores, labels = [0.9, 0.4, 0.6, 0.1], [True, True, False, False]
    # good against bad: 0.9 beats both, 0.4 beats 0.1 only
    assert step_auc(scores, labels) == 0.75
    assert brier(scores, [1.0, 1.0, 0.0, 0.0]) == pytest.approx((0.01 + 0.36 + 0.36 + 0.01) / 4)
    assert agreement(scores, labels) == 0.5
    assert agreement(scores, labels, threshold=0.35) == 0.75


def test_ties_count_half_and_one_kind_has_no_auc() -> None:
    assert step_auc([0.5, 0.5, 0.5], [True, False, False]) == 0.5
    assert step_auc([0.5, 0.6], [True, True]) is None
    assert step_auc([], []) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=20))
def test_auc_is_the_share_of_pairs_in_order(rows: list[tuple[int, bool]]) -> None:
    good = [score for score, label in rows if label]
    bad = [score for score, label in rows if not label]
    pairs = [(g > b) + 0.5 * (g == b) for g in good for b in bad]
    expected = pytest.approx(sum(pairs) / len(pairs)) if pairs else None
    assert step_auc([score for score, _ in rows], [label for _, label in rows]) == expected


def test_the_best_threshold_parts_good_from_bad() -> None:
    assert best_threshold([0.1, 0.4, 0.6, 0.9], [False, False, True, True]) == pytest.approx(0.5)
    # cuts: below 0.2 one of two bad ones, below 0.5 both but one of three good ones
    scores, labels = [0.1, 0.3, 0.4, 0.6, 0.8], [False, True, False, True, True]
    assert best_threshold(scores, labels) == pytest.approx(0.5)
    assert best_threshold([0.5, 0.5, 0.9], [True, False, True]) == pytest.approx(0.7)
    assert best_threshold([0.2, 0.3], [True, True]) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_best_threshold_is_the_best_of_all(seed: int) -> None:
    rng = random.Random(seed)
    scores = [rng.randrange(8) / 8 for _ in range(40)]
    labels = [rng.random() < 0.2 + 0.6 * score for score in scores]

    def recalls(threshold: float) -> float:
        good = [score >= threshold for score, label in zip(scores, labels, strict=True) if label]
        bad = [score < threshold for score, label in zip(scores, labels, strict=True) if not label]
        return sum(good) / len(good) + sum(bad) / len(bad)

    best = best_threshold(scores, labels)
    assert best is not None
    assert recalls(best) == pytest.approx(max(recalls(index / 16) for index in range(18)))
