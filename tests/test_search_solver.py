"""Best-of-N, beam, DVTS and MCTS on the scripted engine, with the exact truth as scorer."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from pydantic import ValidationError

from pipeline.config import SamplingConfig
from pipeline.records import FinishReason
from pipeline.samplers.sampler import Completion, SamplingRequest
from search.beam import best_nodes
from search.config import Pick, SearchConfig, SearchMethod
from search.mcts import puct
from search.scoring import ScriptedScorer
from search.solver import StopReason, is_agreed
from search.tree import Node, NodeState
from tests.search_run import mean_tokens, num_right, problems, search_all

METHODS = list(SearchMethod)
STEP_METHODS = [SearchMethod.BEAM, SearchMethod.DVTS, SearchMethod.MCTS]


@dataclass
class Written:
    """An engine that writes what `write` says; it records its requests."""

    write: Callable[[str, int], Completion]
    requests: list[SamplingRequest] = field(default_factory=list)

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        self.requests.append(request)
        return [self.write(request.prompt, request.seed + i) for i in range(request.num_samples)]


def _step(text: str) -> Completion:
    return Completion(text, FinishReason.STOP, 3, stopped_at="\n")


def _flat_scorer(value: float = 0.5) -> ScriptedScorer:
    return ScriptedScorer(lambda _question, _steps: value)


@pytest.mark.parametrize("method", STEP_METHODS)
def test_a_guided_search_beats_best_of_n_at_equal_tokens(method: SearchMethod) -> None:
    made = problems(60)
    guided = search_all(made, method=method, n=8, step_accuracy=0.55)
    tokens = mean_tokens(guided)
    # best-of-N gets at least the tokens of the other, on every problem and in the mean
    plain = search_all(
        made,
        method="best-of-n",
        n=256,
        expansions=1,
        tokens=max(one.num_tokens for one in guided),
        step_accuracy=0.55,
    )
    assert mean_tokens(plain) >= tokens
    assert num_right(made, guided) >= num_right(made, plain) + 10
    assert num_right(made, guided) >= 50


@pytest.mark.parametrize("method", METHODS)
def test_the_same_search_twice_is_the_same(method: SearchMethod) -> None:
    made = problems(4)
    first, again = (search_all(made, method=method, n=8) for _ in range(2))
    alone = [search_all([one], method=method, n=8)[0] for one in made]
    other = search_all(made, method=method, n=8, seed=1)
    views = [[(one.tree(), one.answer, one.num_tokens) for one in run] for run in (first, again)]
    assert views[0] == views[1] == [(one.tree(), one.answer, one.num_tokens) for one in alone]
    assert [one.tree() for one in other] != [one.tree() for one in first]


@pytest.mark.parametrize("method", METHODS)
def test_all_generated_tokens_are_counted(method: SearchMethod) -> None:
    spent: list[int] = []

    class Counting:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        async def sample(self, request: SamplingRequest) -> list[Completion]:
            found = await self.inner.sample(request)  # type: ignore[attr-defined]
            spent.extend(one.num_tokens for one in found)
            return found

    from pipeline.samplers.scripted import ScriptedSampler

    made = problems(1)
    engine = Counting(ScriptedSampler({one.question: one for one in made}))
    (result,) = search_all(made, sampler=engine, method=method, n=8, rollouts=2)
    assert (result.num_tokens, result.num_samples) == (sum(spent), len(spent))
    assert result.longest_tokens <= result.num_tokens


@pytest.mark.parametrize("method", METHODS)
def test_no_request_starts_once_the_budget_is_spent(method: SearchMethod) -> None:
    made = problems(3)
    for result in search_all(made, method=method, n=64, tokens=60):
        assert result.stopped is StopReason.BUDGET
        assert 60 <= result.num_tokens < 60 + 64 * 7


def test_a_budget_too_small_for_a_solution_finds_none_and_says_so() -> None:
    (result,) = search_all(problems(1), method="beam", n=4, tokens=1)
    assert (result.picked, result.answer, result.solutions) == (None, "", ())
    assert result.stopped is StopReason.BUDGET
    assert result.longest_tokens > 0


@pytest.mark.parametrize("method", METHODS)
def test_solutions_are_whole_and_scored_by_their_steps(method: SearchMethod) -> None:
    (problem,) = problems(1)
    (result,) = search_all([problem], method=method, n=8)
    assert result.solutions
    for solution in result.solutions:
        assert "".join(solution.steps) == solution.text
        assert len(solution.step_scores) == len(solution.steps)
        assert solution.score == min(solution.step_scores)
        assert solution.text.endswith(f"#### {solution.answer}")
        assert (solution.score == 1) == (solution.answer == problem.gold_answer)
    scores = [one.score for one in result.solutions]
    assert scores == sorted(scores, reverse=True)


def test_the_tree_is_a_flat_list_of_pieces() -> None:
    (result,) = search_all(problems(1), method="dvts", n=8)
    rows = result.tree()
    assert [row["id"] for row in rows] == list(range(len(rows)))
    assert {row["tree"] for row in rows} == {0, 1}
    texts: dict[int, str] = {}
    for row in rows:
        before = "" if row["parent"] is None else texts[row["parent"]]
        texts[row["id"]] = before + row["text"]
    picked = result.picked
    assert picked is not None
    assert picked.text in texts.values()


def test_beams_keep_n_over_expansions_prefixes_and_draw_n_samples_a_round() -> None:
    engine = Written(lambda prompt, seed: _step(f" step {seed % 97}"))
    search_all(
        problems(1),
        sampler=engine,
        scorer=_flat_scorer(),
        method="beam",
        n=8,
        expansions=2,
        max_steps=3,
    )
    rounds: dict[int, list[int]] = {}
    for request in engine.requests:
        rounds.setdefault(request.prompt.count("\n"), []).append(request.num_samples)
    assert [sorted(one) for one in rounds.values()] == [[8], [2, 2, 2, 2], [2, 2, 2, 2]]


def test_dvts_grows_independent_trees() -> None:
    engine = Written(lambda prompt, seed: _step(f" step {seed % 97}"))
    (result,) = search_all(
        problems(1), sampler=engine, scorer=_flat_scorer(), method="dvts", n=8, max_steps=2
    )
    assert len(result.roots) == 2
    firsts = [{child.text for child in root.children} for root in result.roots]
    assert firsts[0] != firsts[1]  # other seeds
    assert all(sum(1 for c in root.children if c.children) == 1 for root in result.roots)


@pytest.mark.parametrize("method", STEP_METHODS)
def test_a_model_whose_steps_never_end_is_cut_off(method: SearchMethod) -> None:
    engine = Written(lambda prompt, seed: _step(f" and {seed % 97}"))
    (result,) = search_all(
        problems(1), sampler=engine, scorer=_flat_scorer(), method=method, n=4, max_steps=5
    )
    assert result.answer == ""
    assert all(one.is_cut_off for one in result.solutions)
    assert all(one.text.count("\n") <= 5 for one in result.solutions)
    assert max(node.depth for node in result.roots[0].walk()) <= 5
    assert len(engine.requests) <= 4 * 5 * 4


@pytest.mark.parametrize("method", STEP_METHODS)
def test_blank_lines_without_end_are_cut_off(method: SearchMethod) -> None:
    engine = Written(lambda prompt, seed: Completion("", FinishReason.STOP, 1, stopped_at="\n"))
    (result,) = search_all(problems(1), sampler=engine, scorer=_flat_scorer(), method=method, n=4)
    assert all(one.is_cut_off and not one.steps for one in result.solutions)
    assert len(engine.requests) < 200


def test_a_step_beyond_its_tokens_cuts_the_solution_off() -> None:
    engine = Written(lambda prompt, seed: Completion(" so 12 and", FinishReason.LENGTH, 128))
    (result,) = search_all(problems(1), sampler=engine, scorer=_flat_scorer(), method="beam", n=4)
    assert [one.is_cut_off for one in result.solutions] == [True] * 4
    assert {request.sampling.max_tokens for request in engine.requests} == {128}


def test_a_blank_line_between_steps_is_kept_in_the_text() -> None:
    def write(prompt: str, seed: int) -> Completion:
        written = prompt.partition("Answer:")[2]
        match written.count("\n"):
            case 0:
                return _step(" 1+1=2.")
            case 1:
                return _step("")
            case _:
                return Completion("#### 2", FinishReason.STOP, 4)

    (result,) = search_all(
        problems(1), sampler=Written(write), scorer=_flat_scorer(), method="beam", n=4
    )
    assert result.solutions[0].text == " 1+1=2.\n\n#### 2"
    assert result.answer == "2"


def test_stop_strings_of_the_sampling_end_a_solution() -> None:
    engine = Written(lambda prompt, seed: Completion(" 5", FinishReason.STOP, 2, stopped_at="Q:"))
    (result,) = search_all(
        problems(1),
        sampler=engine,
        scorer=_flat_scorer(),
        sampling=SamplingConfig(stop=("Q:",)),
        method="beam",
        n=4,
    )
    assert engine.requests[0].sampling.stop == ("Q:", "\n")
    assert not result.solutions[0].is_cut_off


def test_agreement_ends_a_search_early() -> None:
    made = problems(1)
    for method in METHODS:
        (result,) = search_all(
            made, method=method, n=16, agreement=3, step_accuracy=1.0, expansions=4
        )
        assert result.stopped is StopReason.AGREEMENT
        assert 3 <= len(result.solutions) <= 16
    (waves,) = search_all(made, method="best-of-n", n=16, agreement=3, step_accuracy=1.0)
    assert len(waves.solutions) == 3


@pytest.mark.parametrize(
    ("answers", "pick", "expected"),
    [
        (["1", "1"], Pick.BEST_OF_N, False),
        (["1", "1", "1"], Pick.BEST_OF_N, True),
        (["1", "1", "2"], Pick.BEST_OF_N, False),
        (["1"] * 5 + ["2"], Pick.MAJORITY_VOTE, True),  # 4 ahead, 2 to come
        (["1"] * 4 + ["2"], Pick.MAJORITY_VOTE, False),  # 3 ahead, 3 to come
        (["1"] * 7 + ["2"], Pick.BEST_OF_N, False),
        (["1"] * 4 + ["2"] * 4, Pick.MAJORITY_VOTE, False),
    ],
)
def test_when_answers_agree(answers: list[str], pick: Pick, expected: bool) -> None:
    assert is_agreed(answers, config=SearchConfig(n=8, agreement=3, pick=pick)) is expected


def test_votes_stand_beside_the_pick() -> None:
    def write(prompt: str, seed: int) -> Completion:
        text = " right.\n#### 7" if seed % 4 == 0 else " wrong.\n#### 8"
        return Completion(text, FinishReason.STOP, 4)

    scorer = ScriptedScorer(lambda _question, steps: 0.9 if "right" in steps[-1] else 0.4)
    results = {
        pick: search_all(problems(1), sampler=Written(write), scorer=scorer, n=8, pick=pick)[0]
        for pick in Pick
    }
    assert {pick: one.answer for pick, one in results.items()} == {
        Pick.BEST_OF_N: "7",
        Pick.MAJORITY_VOTE: "8",
        Pick.WEIGHTED_VOTE: "8",  # 6 * 0.4 against 2 * 0.9
    }
    assert results[Pick.BEST_OF_N].majority_answer == "8"
    assert len(results[Pick.BEST_OF_N].solutions) == 8  # equal ones count as drawn


def test_beam_and_dvts_refuse_an_n_that_does_not_divide() -> None:
    with pytest.raises(ValidationError, match="n = 6, expansions = 4"):
        SearchConfig(method=SearchMethod.DVTS, n=6)
    assert SearchConfig(method=SearchMethod.MCTS, n=6).n == 6


def test_puct_prefers_value_then_what_was_tried_less() -> None:
    root = Node("", visits=4)
    good = Node("a", root, value=0.9, num_draws=1, visits=2, total_value=1.8)
    fresh = Node("b", root, value=0.8, num_draws=3)
    root.children += [good, fresh]
    assert puct(good, exploration=0) == pytest.approx(0.9)
    assert puct(fresh, exploration=1) == pytest.approx(0.8 + 0.75 * 2)
    assert puct(good, exploration=1) == pytest.approx(0.9 + 0.25 * 2 / 3)


def test_best_nodes_leave_out_cut_off_ones() -> None:
    cut_off = Node("a", state=NodeState.CUT_OFF, value=1.0)
    first, second = Node("b", value=0.5), Node("c", value=0.5)
    assert best_nodes([cut_off, first, second], 2) == [first, second]
    assert best_nodes([second, first], 1) == [second]


def test_rollouts_of_mcts_are_solutions_too() -> None:
    (result,) = search_all(problems(1), method="mcts", n=8, rollouts=2)
    (plain,) = search_all(problems(1), method="mcts", n=8)
    assert len(result.solutions) >= 8
    assert result.roots[0].visits < plain.roots[0].visits
