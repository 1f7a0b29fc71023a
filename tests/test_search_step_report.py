"""Step figures: hand-computed, against scikit-learn, and what is undefined says why."""

import json
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, roc_auc_score

from pipeline.errors import DataError
from search.calibration import bin_indices, reliability_bins
from search.known_steps import KnownSolution, KnownSteps, Truth, score_known
from search.resampling import difference, mean_over, ratio, resampling_weights, undefined
from search.scoring import ScorerRole, ScriptedScorer
from search.step_figures import Figure, FlatSteps, step_auc
from search.step_report import StepReport, step_report

T, F = True, False


def known(
    question: str,
    truths: tuple[bool | None, ...],
    scores: tuple[float, ...],
    soft: tuple[float | None, ...] = (),
) -> KnownSolution:
    steps = tuple(f"\n{index}" for index in range(len(truths)))
    return KnownSolution(question, steps, truths, soft, scores)


def report(
    *solutions: KnownSolution,
    held_out: Callable[[str], bool] = lambda question: question.startswith("h"),
    threshold: float | None = None,
    second: tuple[KnownSolution, ...] = (),
) -> StepReport:
    groups = {ScorerRole.PRM: KnownSteps("test", Truth.EXACT, solutions)}
    if second:
        groups[ScorerRole.SECOND_PRM] = KnownSteps("test", Truth.EXACT, second)
    return step_report(groups, is_held_out=held_out, threshold=threshold, num_resamples=200)


SOLUTIONS = (
    known("h1", (T, F), (0.9, 0.2)),
    known("h2", (T, T), (0.7, 0.6)),
    known("t1", (T, F, None), (0.8, 0.1, 0.9)),  # found
    known("t2", (F, None), (0.5, 0.3)),  # taken for right up to step 1
    known("t3", (T,), (0.45,)),
    known("t3 ", (T,), (0.2,)),  # the same problem; white space aside
    known("t4", (None, F), (0.9, 0.9)),  # first error unknown
)


def test_counts_and_figures_by_hand() -> None:
    found = report(*SOLUTIONS)
    assert (found.num_problems, found.num_solutions, found.num_undetermined) == (6, 7, 1)
    assert (found.num_steps, found.num_right_steps, found.num_unknown_steps) == (10, 6, 3)
    (prm,) = found.scorers
    value = {name: one.value for name, one in prm.figures.items()}
    # held out: h1 in (0.2, 0.9], h2 up to 0.6; both right in (0.2, 0.6]
    assert prm.threshold.value == pytest.approx(0.4)
    assert prm.threshold.held_out_f1 == 1.0
    assert (prm.threshold.held_out.num_problems, prm.threshold.held_out.num_erroneous) == (2, 1)
    assert (prm.threshold.tested.num_problems, prm.threshold.tested.num_solutions) == (4, 5)
    # right 0.9 0.7 0.6 0.8 0.45 0.2, wrong 0.2 0.1 0.5 0.9
    wins = (3 + 0.5) + (3) + (3) + (3) + (2) + (1 + 0.5)
    assert value[Figure.AUC] == pytest.approx(wins / 24)
    squares = [0.1, 0.3, 0.4, 0.2, 0.55, 0.8, 0.2, 0.1, 0.5, 0.9]
    assert value[Figure.BRIER] == pytest.approx(sum(x * x for x in squares) / 10)
    # tested steps: t1 both right, t2 0.5 wrong, t3 right, "t3 " wrong, t4 0.9 wrong
    assert value[Figure.ACCURACY] == pytest.approx(3 / 6)
    assert value[Figure.ERRONEOUS] == pytest.approx(1 / 2)  # t1; t2 is predicted 1
    assert value[Figure.CORRECT] == pytest.approx(1 / 2)  # t3
    assert value[Figure.F1] == pytest.approx(1 / 2)
    assert Figure.SOFT_ERROR not in value


def test_a_given_threshold_holds_nothing_out() -> None:
    (prm,) = report(*SOLUTIONS, threshold=0.65).scorers
    assert prm.threshold.value == 0.65
    assert prm.threshold.held_out.num_problems == 0
    assert prm.threshold.tested.num_solutions == 7
    assert prm.figures[Figure.ERRONEOUS].value == pytest.approx(3 / 3)
    assert prm.figures[Figure.CORRECT].value == 0.0
    assert prm.figures[Figure.F1].value == 0.0


def test_calibration_by_hand_and_as_in_scikit_learn() -> None:
    scores = np.array([0.1, 0.11, 0.2, 0.95, 1.0, 0.91])
    truths = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    soft = np.array([0.1, 0.5, np.nan, 0.9, 1.0, 0.2])
    assert bin_indices(scores).tolist() == [0, 1, 1, 9, 9, 9]
    bins = reliability_bins(scores, truths, soft)
    assert [one.num_steps for one in bins] == [1, 2, *[0] * 7, 3]
    assert bins[1].mean_score == pytest.approx(0.155)
    assert (bins[1].share_right, bins[1].mean_soft_label) == (0.5, 0.5)
    assert (bins[2].mean_score, bins[2].share_right, bins[2].mean_soft_label) == (None,) * 3
    shares, means = calibration_curve(truths, scores, n_bins=10)
    filled = [one for one in bins if one.num_steps]
    assert [one.share_right for one in filled] == pytest.approx(list(shares))
    assert [one.mean_score for one in filled] == pytest.approx(list(means))

    solutions = [
        known(f"t{i}", (bool(truth),), (score,), (None if math.isnan(label) else label,))
        for i, (score, truth, label) in enumerate(zip(scores, truths, soft, strict=True))
    ]
    (prm,) = report(*solutions, threshold=0.5).scorers
    by_hand = (1 * 0.1 + 2 * abs(0.155 - 0.5) + 3 * abs(2.86 / 3 - 2 / 3)) / 6
    assert prm.figures[Figure.ECE].value == pytest.approx(by_hand)
    soft_by_hand = (abs(0.1 - 0.1) + abs(0.11 - 0.5) + 3 * abs(2.86 / 3 - 0.7)) / 5
    assert prm.figures[Figure.SOFT_ECE].value == pytest.approx(soft_by_hand)
    of_soft = (0 + 0.39**2 + 0.05**2 + 0 + 0.71**2) / 5
    assert prm.figures[Figure.SOFT_ERROR].value == pytest.approx(of_soft)
    assert prm.figures[Figure.BRIER].value == pytest.approx(brier_score_loss(truths, scores))


def many(num_problems: int, noise: float, seed: int) -> list[KnownSolution]:
    rng = random.Random(seed)
    made: list[KnownSolution] = []
    for index in range(num_problems):
        for _ in range(2):
            error = rng.choice([-1, 0, 1, 2])
            truths = tuple(error < 0 or step < error for step in range(3))
            scores = tuple(
                round(min(1.0, max(0.0, 0.3 + 0.4 * truth + rng.gauss(0, noise))), 2)
                for truth in truths
            )
            made.append(known(f"{'h' if index % 2 else 't'}{index}", truths, scores))
    return made


def test_the_resampled_auc_is_scikit_learns_weighted_one() -> None:
    solutions = many(30, 0.3, 1)
    steps = FlatSteps(solutions)
    weights = resampling_weights(30, num_resamples=20, seed=3)
    found = step_auc(steps.scores, steps.truths, steps.problem_index, weights)
    assert found.value == pytest.approx(roc_auc_score(steps.truths, steps.scores))
    expected = [
        roc_auc_score(steps.truths, steps.scores, sample_weight=of_problem[steps.problem_index])
        for of_problem in weights
    ]
    assert found.samples == pytest.approx(expected)


def test_intervals_hold_the_figure_and_paired_differences_are_tighter() -> None:
    good, bad = many(150, 0.25, 2), many(150, 0.25, 2)
    for index, one in enumerate(bad):  # the same scores, a little disturbed
        first, middle, last = one.step_scores
        bad[index] = known(one.question, one.truths, (first, min(1.0, middle + 0.15), last))
    found = report(*good, second=tuple(bad))
    first, second = found.scorers
    for one in (*first.figures.values(), *second.figures.values()):
        assert one.value is not None
        assert one.low is not None
        assert one.high is not None
        assert one.low <= one.value <= one.high
    difference = found.differences[Figure.AUC]
    one, other = first.figures[Figure.AUC], second.figures[Figure.AUC]
    assert difference.value == pytest.approx(one.value - other.value)
    assert difference.high - difference.low < math.hypot(one.high - one.low, other.high - other.low)
    assert report(*good, second=tuple(bad)) == found


@pytest.mark.parametrize(
    ("solutions", "figure", "reason"),
    [
        ([known("t", (T,), (0.5,))], Figure.AUC, "no known step is wrong"),
        ([known("t", (F,), (0.5,))], Figure.AUC, "no known step is right"),
        ([known("t", (None,), (0.5,))], Figure.AUC, "no step is known"),
        ([known("t", (None,), (0.5,))], Figure.BRIER, "no step is known"),
        ([known("t", (None,), (0.5,))], Figure.ECE, "no step is known"),
        ([known("t", (T,), (0.5,))], Figure.ERRONEOUS, "no tested solution has an error"),
        ([known("t", (F,), (0.5,))], Figure.CORRECT, "every tested solution has an error"),
        ([known("t", (F,), (0.5,))], Figure.F1, "every tested solution has an error"),
    ],
)
def test_what_is_undefined_is_null_with_a_reason(
    solutions: list[KnownSolution], figure: Figure, reason: str
) -> None:
    found = report(*solutions, threshold=0.5)
    estimate = found.scorers[0].figures[figure]
    assert (estimate.value, estimate.low) == (None, None)
    assert reason in (estimate.reason or "")
    json.dumps(found.as_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("solutions", "words"),
    [
        ([known("t", (F,), (0.1,))], "lacks solutions with an error, or without (0 problems"),
        ([known("h", (F,), (0.1,))], "lacks solutions with an error, or without (1 problems"),
        ([known("h", (F,), (0.1,)), known("h2", (T,), (0.9,))], "no problem is left to test on"),
    ],
)
def test_too_few_problems_for_a_threshold(solutions: list[KnownSolution], words: str) -> None:
    (prm,) = report(*solutions).scorers
    assert prm.threshold.value is None
    assert words in (prm.threshold.reason or "")
    assert "--threshold" in (prm.threshold.reason or "")
    assert prm.figures[Figure.F1].value is None
    assert prm.figures[Figure.BRIER].value is not None


def test_a_figure_that_some_resample_lacks_has_no_interval() -> None:
    two = [known("t1", (T,), (0.9,)), known("t2", (F,), (0.1,))]
    auc = report(*two, threshold=0.5).scorers[0].figures[Figure.AUC]
    assert (auc.value, auc.low, auc.high) == (1.0, None, None)
    assert "of 200 resamples" in (auc.reason or "")


def test_no_solutions_and_scores_that_are_none_are_refused() -> None:
    with pytest.raises(DataError, match="there is no solution to test"):
        report()
    group = KnownSteps("test", Truth.EXACT, (known("t", (T, F), ()),))
    for bad in (math.nan, 1.5, -0.1, math.inf):
        scorer = ScriptedScorer(lambda _, steps, bad=bad: bad if len(steps) == 2 else 0.5)
        with pytest.raises(DataError, match=r"^out/prm gives step 1 of a solution the score"):
            score_known([group], scorer=scorer, name="out/prm")


def test_a_solution_in_two_groups_is_scored_once() -> None:
    one = known("t", (T, F), ())
    scorer = ScriptedScorer(lambda _, steps: len(steps) / 4)
    seen: list[tuple[int, int]] = []
    groups = [KnownSteps("a", Truth.LABELS, (one,)), KnownSteps("b", Truth.EXACT, (one, one))]
    scored = score_known(groups, scorer=scorer, on_progress=lambda *now: seen.append(now))
    assert [s.step_scores for group in scored for s in group.solutions] == [(0.25, 0.5)] * 3
    assert scorer.num_scored_steps == 2
    assert seen == [(1, 1)]


def test_ratios_and_means_without_anything() -> None:
    weights = resampling_weights(2, num_resamples=4, seed=0)
    assert weights.sum(axis=1) == pytest.approx(1)
    nothing = mean_over(np.zeros(2), np.zeros(2), weights, reason="none there")
    assert nothing.estimate().reason == "none there"
    zero = mean_over(np.zeros(2), np.ones(2), weights, reason="")
    assert ratio(zero, zero, reason="never right").estimate().reason == "never right"
    assert difference(undefined("why"), zero).estimate().reason == "why"
