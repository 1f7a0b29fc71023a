import json
import math
import random
from dataclasses import replace

import pytest

from grading.verdict import Verdict
from pipeline.errors import DataError
from search.best_of_n import Candidate, ProblemCandidates
from search.evaluate import Baseline, Method, accuracy_against_n
from search.scoring import Aggregation, ScorerRole

RIGHT, WRONG, UNSURE = Verdict.CORRECT, Verdict.INCORRECT, Verdict.UNDECIDED


def problem(name: str, *rows: tuple[str, Verdict, float]) -> ProblemCandidates:
    candidates = tuple(
        Candidate(("s",), answer, verdict, (score,)) for answer, verdict, score in rows
    )
    return ProblemCandidates(name, "q", candidates)


PROBLEMS = [
    # majority of 4: 2 (wrong); best: 1 (right). Pairs: (1 2) (2 2)
    problem("a", ("1", RIGHT, 0.9), ("2", WRONG, 0.2), ("2", WRONG, 0.3), ("2", WRONG, 0.3)),
    # majority of 4: 3 (right); best: 4 (wrong); weighted: 3. Pairs: (3 3) (4 "")
    problem("b", ("3", RIGHT, 0.5), ("3", RIGHT, 0.5), ("4", WRONG, 0.6), ("", UNSURE, 0.99)),
]


def test_golden_table() -> None:
    report = accuracy_against_n(PROBLEMS, ns=[1, 2, 4], aggregations=[Aggregation.MIN])
    accuracy = {(row.method, row.n): row.accuracy for row in report.rows}
    assert accuracy == {
        (Method.RANDOM_PICK, 1): 0.375,
        (Method.ANY_CORRECT, 1): 0.375,
        (Method.MAJORITY_VOTE, 1): 0.375,
        (Method.BEST_OF_N, 1): 0.375,
        (Method.WEIGHTED_VOTE, 1): 0.375,
        (Method.ANY_CORRECT, 2): 0.5,
        (Method.MAJORITY_VOTE, 2): 0.5,
        (Method.BEST_OF_N, 2): 0.5,
        (Method.WEIGHTED_VOTE, 2): 0.5,
        (Method.ANY_CORRECT, 4): 1.0,
        (Method.MAJORITY_VOTE, 4): 0.5,
        (Method.BEST_OF_N, 4): 0.5,
        (Method.WEIGHTED_VOTE, 4): 1.0,  # a: 0.9 against 0.8; b: 1.0 against 0.6
    }
    assert (report.num_problems, report.num_candidates) == (2, 8)
    assert (report.num_undecided, report.num_without_answer) == (1, 1)
    weighted = next(c for c in report.comparisons if (c.method, c.n) == (Method.WEIGHTED_VOTE, 4))
    assert (weighted.difference, weighted.ratio) == (0.5, 2.0)
    # a resample may hold problem "a" only, where the majority vote is never right
    assert (weighted.ratio_low, weighted.ratio_high) == (None, None)
    assert (weighted.difference_low, weighted.difference_high) == (0.0, 1.0)


def _many(num_problems: int, seed: int) -> list[ProblemCandidates]:
    """Four candidates, half of them right; a score is on the right side of 0.5 in 9 of 10."""
    rng = random.Random(seed)
    made = []
    for index in range(num_problems):
        rows = []
        for _ in range(4):
            right = rng.random() < 0.5
            score = rng.uniform(0.5, 1) if right == (rng.random() < 0.9) else rng.uniform(0, 0.5)
            rows.append(("1" if right else "2", RIGHT if right else WRONG, score))
        made.append(problem(f"p{index}", *rows))
    return made


def test_paired_intervals_hold_the_estimate_and_are_tighter_than_unpaired_ones() -> None:
    report = accuracy_against_n(_many(400, 1), ns=[4], aggregations=[Aggregation.MIN])
    best = report.row(Method.BEST_OF_N, n=4, aggregation=Aggregation.MIN)
    majority = report.row(Method.MAJORITY_VOTE, n=4)
    comparison = next(c for c in report.comparisons if c.method is Method.BEST_OF_N)
    assert best.accuracy > majority.accuracy
    assert best.low < best.accuracy < best.high
    assert comparison.difference == pytest.approx(best.accuracy - majority.accuracy)
    assert 0 < comparison.difference_low < comparison.difference < comparison.difference_high
    assert comparison.ratio == pytest.approx(best.accuracy / majority.accuracy)
    assert comparison.ratio_low is not None
    assert 1 < comparison.ratio_low < comparison.ratio
    paired_width = comparison.difference_high - comparison.difference_low
    unpaired_width = math.hypot(best.high - best.low, majority.high - majority.low)
    assert paired_width < 0.95 * unpaired_width


def test_interval_width_is_the_binomial_one() -> None:
    report = accuracy_against_n(_many(400, 2), ns=[1], aggregations=[])
    row = report.row(Method.MAJORITY_VOTE, n=1)
    # 4 independent groups a problem: 1600 draws of about 1/2
    assert row.high - row.low == pytest.approx(2 * 1.96 * 0.5 / 40, rel=0.15)


def test_same_seed_same_report_and_it_is_json() -> None:
    first, second = (accuracy_against_n(_many(20, 3), ns=[1, 2]) for _ in range(2))
    assert first == second
    parsed = json.loads(json.dumps(first.as_json(), allow_nan=False))
    assert parsed["rows"][0]["method"] == "pass@1"
    assert len(parsed["rows"]) == 1 + 2 * 10
    assert len(parsed["comparisons"]) == 2 * 8


def test_a_majority_that_is_never_right_has_no_ratio() -> None:
    wrong = problem("w", ("1", WRONG, 0.5))
    report = accuracy_against_n([wrong], ns=[1], aggregations=[Aggregation.MIN])
    assert report.comparisons[0].ratio is None
    assert report.comparisons[0].difference == 0.0


def test_unusable_input_is_named() -> None:
    with pytest.raises(DataError, match="no problems"):
        accuracy_against_n([], ns=[1])
    with pytest.raises(DataError, match="problem b has 4 candidates, but N = 5"):
        accuracy_against_n([PROBLEMS[1]], ns=[1, 5])
    unscored = ProblemCandidates("u", "q", (Candidate(("s",), "1", RIGHT),))
    with pytest.raises(DataError, match="problem u has 1 steps and 0 scores"):
        accuracy_against_n([unscored], ns=[1])
    with pytest.raises(ValueError, match=r"ns = \[2, 2\]"):
        accuracy_against_n(PROBLEMS, ns=[2, 2])


def _scored(scores: dict[str, tuple[float, ...]]) -> list[ProblemCandidates]:
    """PROBLEMS with other scores."""
    return [
        ProblemCandidates(
            one.problem_id,
            one.question,
            tuple(
                replace(candidate, step_scores=(score,))
                for candidate, score in zip(one.candidates, scores[one.problem_id], strict=True)
            ),
        )
        for one in PROBLEMS
    ]


def test_an_orm_and_a_second_prm_stand_beside_the_prm() -> None:
    others = {
        ScorerRole.ORM: _scored({"a": (0.1, 0.2, 0.9, 0.1), "b": (0.9, 0.1, 0.1, 0.1)}),
        ScorerRole.SECOND_PRM: _scored({"a": (0.1, 0.9, 0.1, 0.1), "b": (0.1, 0.1, 0.9, 0.1)}),
    }
    report = accuracy_against_n(PROBLEMS, ns=[4], aggregations=[Aggregation.MIN], others=others)
    last, low = Aggregation.LAST, Aggregation.MIN
    orm = report.row(Method.BEST_OF_N, n=4, aggregation=last, scorer=ScorerRole.ORM)
    second = report.row(Method.BEST_OF_N, n=4, aggregation=low, scorer=ScorerRole.SECOND_PRM)
    assert (orm.accuracy, second.accuracy) == (0.5, 0.0)  # a is wrong, b is right; both wrong
    assert report.row(Method.BEST_OF_N, n=4, aggregation=low).accuracy == 0.5
    found = {
        (one.scorer, one.method, one.baseline): (one.difference, one.ratio, one.wrong_ratio)
        for one in report.comparisons
    }
    prm, best, vote = ScorerRole.PRM, Method.BEST_OF_N, Method.WEIGHTED_VOTE
    assert found[prm, best, Baseline.MAJORITY_VOTE] == (0.0, 1.0, 1.0)
    assert found[prm, best, Baseline.ORM] == (0.0, 1.0, 1.0)
    assert found[prm, best, Baseline.SECOND_PRM] == (0.5, None, 0.5)
    assert found[ScorerRole.ORM, best, Baseline.MAJORITY_VOTE] == (0.0, 1.0, 1.0)
    # weighted by the PRM's scores both are right, by the ORM's b: (1.0, 0.1, 0.1)
    assert found[prm, vote, Baseline.ORM] == (0.5, 2.0, 0.0)
    assert len(found) == len(report.comparisons) == 6 + 2 + 2
    json.dumps(report.as_json(), allow_nan=False)


def test_a_baseline_that_is_never_wrong_has_no_ratio_of_wrong_picks() -> None:
    right = problem("r", ("1", RIGHT, 0.5))
    (best, _) = accuracy_against_n([right], ns=[1], aggregations=[Aggregation.MIN]).comparisons
    assert (best.ratio, best.ratio_low, best.wrong_ratio) == (1.0, 1.0, None)


def test_halved_wrong_picks_by_hand() -> None:
    problems = [problem("w", ("1", RIGHT, 0.9), ("2", WRONG, 0.1), ("2", WRONG, 0.2))] * 50
    problems += [problem("x", ("1", RIGHT, 0.1), ("2", WRONG, 0.2), ("2", WRONG, 0.9))] * 50
    problems += [problem("y", ("1", RIGHT, 0.9), ("1", RIGHT, 0.1), ("2", WRONG, 0.2))] * 100
    report = accuracy_against_n(problems, ns=[3], aggregations=[Aggregation.MIN])
    (best, _) = report.comparisons
    assert (best.wrong_ratio, best.ratio) == (0.5, 1.5)
    assert best.wrong_ratio_low is not None
    assert 0.35 < best.wrong_ratio_low < 0.5 < (best.wrong_ratio_high or 0) < 0.65
