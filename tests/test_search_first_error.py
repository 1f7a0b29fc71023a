"""First errors by threshold: hand-computed, and against trying every threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.first_error import Case, best_threshold, harmonic_mean, predicted_first_error


@pytest.mark.parametrize(
    ("scores", "threshold", "expected"),
    [
        ((0.9, 0.4, 0.2), 0.5, 1),
        ((0.9, 0.5, 0.8), 0.5, -1),  # at the threshold a step is good
        ((0.1, 0.9), 0.5, 0),
        ((), 0.5, -1),
        ((0.0, 0.0), 0.0, -1),
    ],
)
def test_predicted_first_error(scores: tuple[float, ...], threshold: float, expected: int) -> None:
    assert predicted_first_error(scores, threshold) == expected


def test_harmonic_mean() -> None:
    found = harmonic_mean(np.array([0.5, 0.0, 0.0, np.nan]), np.array([1.0, 0.0, 1.0, 0.5]))
    assert found[:3] == pytest.approx([2 / 3, 0, 0])
    assert np.isnan(found[3])


def test_best_threshold_by_hand() -> None:
    cases = [
        Case(1, (0.9, 0.3, 0.1)),  # found for thresholds in (0.3, 0.9]
        Case(0, (0.6, 0.9)),  # in (0.6, 1]
        Case(-1, (0.8, 0.7)),  # up to 0.7
        Case(-1, (0.5, 0.95)),  # up to 0.5
        Case(1, (0.2, 0.4)),  # never: the earlier step scores less
    ]
    # (0.3, 0.5]: 1/3 and 1, F1 1/2; (0.6, 0.7]: 2/3 and 1/2, F1 4/7, the best
    threshold, f1 = best_threshold(cases) or (0, 0)
    assert threshold == pytest.approx(0.65)
    assert f1 == pytest.approx(4 / 7)


def test_one_class_has_no_best_threshold() -> None:
    assert best_threshold([]) is None
    assert best_threshold([Case(0, (0.1,))]) is None
    assert best_threshold([Case(-1, (0.1,))]) is None


SCORES = st.lists(
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.50000001, 0.9, 1.0]), min_size=1, max_size=4
)


@st.composite
def cases(draw: st.DrawFn) -> list[Case]:
    made = [Case(-1, tuple(draw(SCORES))), Case(0, tuple(draw(SCORES)))]
    for _ in range(draw(st.integers(0, 5))):
        scores = tuple(draw(SCORES))
        made.append(Case(draw(st.integers(-1, len(scores) - 1)), scores))
    return made


@given(cases())
def test_no_other_threshold_is_better(cases: list[Case]) -> None:
    def f1(threshold: float) -> float:
        hits = {True: [0, 0], False: [0, 0]}
        for case in cases:
            hit = predicted_first_error(case.step_scores, threshold) == case.first_error
            hits[case.first_error >= 0][hit] += 1
        shares = [right / (wrong + right) for wrong, right in hits.values()]
        return 2 * shares[0] * shares[1] / sum(shares) if sum(shares) else 0.0

    threshold, best = best_threshold(cases) or (-1.0, -1.0)
    assert 0 <= threshold <= 1
    assert f1(threshold) == pytest.approx(best)
    tried = {0.0, 1.0, *(score for case in cases for score in case.step_scores)}
    tried |= {min(1.0, score + 1e-9) for score in tried}
    assert max(map(f1, tried)) <= best + 1e-12
