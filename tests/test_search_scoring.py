import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.scoring import Aggregation, ScriptedScorer, aggregate

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (Aggregation.MIN, 0.25),
        (Aggregation.MEAN, 0.5),
        (Aggregation.LAST, 0.5),
        (Aggregation.PRODUCT, 0.09375),
    ],
)
def test_aggregate_golden(how: Aggregation, expected: float) -> None:
    assert aggregate((0.75, 0.25, 0.5), how) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("how", list(Aggregation))
def test_no_steps_rank_last(how: Aggregation) -> None:
    assert aggregate((), how) == 0.0


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.5])
def test_what_is_no_score_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=r"score of step 1 is"):
        aggregate((0.5, bad), Aggregation.MIN)


@given(SCORES)
def test_aggregates_are_ordered(scores: list[float]) -> None:
    product, low, mean = (
        aggregate(scores, how) for how in (Aggregation.PRODUCT, Aggregation.MIN, Aggregation.MEAN)
    )
    assert 0 <= product <= low
    assert low - 1e-12 <= mean <= max(scores) + 1e-12


def test_scripted_scorer_judges_every_prefix() -> None:
    scorer = ScriptedScorer(lambda question, steps: len("".join(steps)) / 10 * (question == "q"))
    assert scorer.score([("q", ["ab", "c"]), ("other", ["abc"]), ("q", [])]) == [
        (0.2, 0.3),
        (0.0,),
        (),
    ]
    assert scorer.num_scored_steps == 3
