import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.verdict import Verdict
from search.best_of_n import (
    Candidate,
    ProblemCandidates,
    best_of_n,
    groups_of,
    majority_vote,
    score_candidates,
    weighted_vote,
)
from search.scoring import Aggregation, ScriptedScorer


def candidate(answer: str, *scores: float, verdict: Verdict = Verdict.INCORRECT) -> Candidate:
    return Candidate(tuple(f"s{i}" for i in range(len(scores))), answer, verdict, scores)


A = candidate("5", 0.9, 0.2)
B = candidate("7", 0.5, 0.5)
C = candidate("5", 0.6, 0.1)
D = candidate("9", 0.1, 0.99)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (Aggregation.MIN, B),  # 0.2 0.5 0.1 0.1
        (Aggregation.MEAN, A),  # 0.55 0.5 0.35 0.545
        (Aggregation.LAST, D),
        (Aggregation.PRODUCT, B),  # 0.18 0.25 0.06 0.099
    ],
)
def test_best_of_n_golden(how: Aggregation, expected: Candidate) -> None:
    assert best_of_n([A, B, C, D], how=how) is expected


def test_majority_picks_the_first_of_the_most_frequent_answer() -> None:
    assert majority_vote([B, A, C, D]) is A


def test_weighted_vote_sums_aggregates_by_answer() -> None:
    # min: 5 -> 0.2 + 0.1, 7 -> 0.5, 9 -> 0.1; mean: 5 -> 0.9, 7 -> 0.5, 9 -> 0.545
    assert weighted_vote([A, B, C, D], how=Aggregation.MIN) is B
    assert weighted_vote([D, A, B, C], how=Aggregation.MEAN) is A


def test_ties_go_to_the_first() -> None:
    first, second = candidate("1", 0.5), candidate("2", 0.5)
    assert majority_vote([first, second]) is first
    assert majority_vote([second, first]) is second
    assert best_of_n([second, first], how=Aggregation.MIN) is second
    assert weighted_vote([second, first], how=Aggregation.MIN) is second


def test_answers_are_grouped_by_their_key() -> None:
    votes = [candidate("2", 0.1), candidate("3", 0.1), candidate("3.0", 0.1)]
    assert majority_vote(votes) is votes[0]
    assert majority_vote(votes, answer_key=lambda answer: str(float(answer))) is votes[1]
    assert majority_vote(
        [candidate("4", 0.1), candidate(" 3", 0.1), candidate("3 ", 0.1)]
    ).answer == (" 3")


@pytest.mark.parametrize("how", list(Aggregation))
def test_without_an_answer_never_picked_beside_one_with(how: Aggregation) -> None:
    empty, blank, answered = candidate("", 0.99), candidate("  ", 0.99), candidate("1", 0.01)
    group = [empty, blank, answered]
    assert best_of_n(group, how=how) is answered
    assert majority_vote(group) is answered
    assert weighted_vote(group, how=how) is answered
    assert majority_vote([empty, blank]) is empty
    assert best_of_n([blank, empty], how=how) is blank


def test_groups_are_disjoint_and_leave_the_remainder() -> None:
    assert groups_of([A, B, C, D, A], 2) == [[A, B], [C, D]]
    assert groups_of([A, B, C], 3) == [[A, B, C]]
    for n in (0, 4):
        with pytest.raises(ValueError, match=f"N = {n}, but there are 3"):
            groups_of([A, B, C], n)


def test_no_candidates_is_an_error() -> None:
    with pytest.raises(ValueError, match="no candidates"):
        majority_vote([])


CANDIDATES = st.lists(
    st.builds(candidate, st.sampled_from(["1", "2", "3", ""]), st.floats(0.01, 1)),
    min_size=1,
    max_size=9,
)


@given(CANDIDATES)
def test_equal_scores_make_the_weighted_vote_the_majority(candidates: list[Candidate]) -> None:
    level = [candidate(c.answer, 0.5) for c in candidates]
    assert weighted_vote(level, how=Aggregation.MIN) is majority_vote(level)


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_winning_weight_is_the_same_in_any_order(candidates: list[Candidate], rng) -> None:
    def weight(group: list[Candidate]) -> float:
        winner = weighted_vote(group, how=Aggregation.MIN).answer
        return sum(sorted(c.step_scores[0] for c in group if c.answer == winner))

    shuffled = list(candidates)
    rng.shuffle(shuffled)
    assert weight(shuffled) == pytest.approx(weight(candidates))
    assert best_of_n(shuffled, how=Aggregation.MIN).step_scores == (
        best_of_n(candidates, how=Aggregation.MIN).step_scores
    )


def test_scoring_fills_every_candidate_in_place() -> None:
    problems = [
        ProblemCandidates("p", "q1", (Candidate(("a", "bb"), "1", Verdict.CORRECT),)),
        ProblemCandidates("r", "q22", (Candidate((), "", Verdict.UNDECIDED), A)),
    ]
    scorer = ScriptedScorer(lambda question, steps: (len(question) + len(steps[-1])) / 10)
    scored = score_candidates(problems, scorer=scorer)
    assert [c.step_scores for p in scored for c in p.candidates] == [(0.3, 0.4), (), (0.5, 0.5)]
    assert [p.problem_id for p in scored] == ["p", "r"]


def test_a_scorer_of_another_length_is_caught() -> None:
    class Short:
        def score(self, items):
            return [(0.5,) for _ in items]

    with pytest.raises(ValueError, match="1 scores for 2 steps"):
        score_candidates([ProblemCandidates("p", "q", (A,))], scorer=Short())
