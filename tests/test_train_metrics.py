import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.metrics import agreement, brier, step_auc


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
