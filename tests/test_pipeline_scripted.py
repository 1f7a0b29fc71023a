"""The scripted sampler: a function of prompt and seed, with the true values it claims."""

import asyncio

import pytest

from pipeline.config import SamplingConfig
from pipeline.demo.problems import demo_problem
from pipeline.demo.student import reference_lines, solution_text
from pipeline.demo.truth import step_truths
from pipeline.errors import EngineError
from pipeline.samplers.sampler import SEED_SPACE, Completion, SamplingRequest, stable_seed
from pipeline.samplers.scripted import ScriptedSampler

PROBLEM = demo_problem("train", 3)
PROMPT = f"Question: {PROBLEM.question}\nAnswer:"


def draw(prompt: str = PROMPT, num: int = 4, seed: int = 0, **settings: float) -> list[Completion]:
    sampler = ScriptedSampler({PROBLEM.question: PROBLEM}, **settings)  # type: ignore[arg-type]
    request = SamplingRequest(prompt, (), num, seed, SamplingConfig())
    return asyncio.run(sampler.sample(request))


def test_a_sample_depends_on_its_own_seed_only() -> None:
    assert draw(num=6, seed=10)[2] == draw(num=1, seed=12)[0]
    assert draw(num=6, seed=10) == draw(num=6, seed=10)
    assert len({one.text for one in draw(num=40)}) > 3


def test_a_sure_solver_writes_the_reference_and_continues_prefixes() -> None:
    text = solution_text(reference_lines(PROBLEM), PROBLEM.thing)
    (whole, *_) = draw(step_accuracy=1.0)
    assert whole.text == text
    cut = text.index("\n", 5)
    (rest, *_) = draw(PROMPT + text[:cut], step_accuracy=1.0)
    assert rest.text == text[cut:]


def test_stop_strings_end_a_completion_and_are_told() -> None:
    text = solution_text(reference_lines(PROBLEM), PROBLEM.thing)
    sampler = ScriptedSampler({PROBLEM.question: PROBLEM}, step_accuracy=1.0)
    written, num_steps = "", 0
    while True:
        request = SamplingRequest(PROMPT + written, (), 1, 0, SamplingConfig(stop=("?", "\n")))
        (one,) = asyncio.run(sampler.sample(request))
        written += one.text
        if one.stopped_at is None:
            break
        assert (one.stopped_at, one.num_tokens) == ("\n", len(one.text.split()) + 1)
        written, num_steps = written + "\n", num_steps + 1
    assert (written, num_steps) == (text, len(reference_lines(PROBLEM)))


def test_the_share_of_right_solutions_is_the_true_value() -> None:
    num_lines = len(reference_lines(PROBLEM))
    right = sum(
        all(step_truths(PROBLEM, one.text.partition("\n####")[0].splitlines(keepends=True)))
        for one in draw(num=4000, step_accuracy=0.9)
    )
    assert right / 4000 == pytest.approx(0.9**num_lines, abs=0.03)


def test_a_wrong_line_never_comes_right() -> None:
    wrong = reference_lines(PROBLEM)[0].value + 1
    text = solution_text(reference_lines(PROBLEM), PROBLEM.thing)
    first = text.partition("\n")[0].replace(f"={wrong - 1} ", f"={wrong} ")
    for one in draw(PROMPT + first, num=50, step_accuracy=1.0):
        assert not one.text.endswith(f"#### {PROBLEM.gold_answer}")


def test_faults() -> None:
    with pytest.raises(EngineError, match="does not know the question 'Who"):
        draw("Question: Who?\nAnswer:")
    with pytest.raises(EngineError, match="fails after 0 requests"):
        draw(fail_after=0)


def test_stable_seeds_are_the_same_in_every_process() -> None:
    assert stable_seed("a", 1) == 260665225073881278
    assert stable_seed("a", 1) != stable_seed("a1")
    assert 0 <= stable_seed("x") < SEED_SPACE
