"""The bundled language model: what it is, and that it solves some problems and not others."""

import json
from collections import Counter
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from flows.evaluation import sample_candidates
from flows.run_config import load_config
from pipeline.demo import MODEL_PATH
from pipeline.demo.truth import demo_problem_of, step_truths
from search.best_of_n import ProblemCandidates

CONFIG = Path(__file__).parent.parent / "configs" / "demo.toml"


def test_the_folder_is_small_and_holds_no_pickle() -> None:
    files = {file.name: file.stat().st_size for file in MODEL_PATH.iterdir()}
    assert sum(files.values()) <= 8 << 20
    assert set(files) == {
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_it_is_a_standard_llama_with_single_digits() -> None:
    config = json.loads((MODEL_PATH / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["head_dim"] in {32, 64}
    model = AutoModelForCausalLM.from_pretrained(MODEL_PATH)
    assert model.num_parameters() < 1_000_000
    tokenizer = AutoTokenizer.from_pretrained(MODEL_PATH)
    assert tokenizer.is_fast
    assert tokenizer.eos_token_id == model.generation_config.eos_token_id
    text = " Mia has 147-98=49 eggs.\n#### 49"
    pieces = tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids)
    assert [piece for piece in pieces if any(c.isdigit() for c in piece)] == list("14798494949")[:9]
    assert tokenizer.decode(tokenizer(text).input_ids) == text


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[ProblemCandidates]:
    config = load_config(
        CONFIG, ["evaluate.problems.limit=100", "evaluate.ns=[2]", "engine.num_threads=1"]
    )
    out = tmp_path_factory.mktemp("candidates")
    return sample_candidates(config, out, on_progress=lambda _: None)


@pytest.mark.slow
def test_it_is_right_on_some_solutions(candidates: list[ProblemCandidates]) -> None:
    verdicts = [one.is_correct for problem in candidates for one in problem.candidates]
    assert len(verdicts) == 200
    assert 0.3 < sum(verdicts) / len(verdicts) < 0.75


@pytest.mark.slow
def test_it_errs_at_different_steps(candidates: list[ProblemCandidates]) -> None:
    first_errors: Counter[int] = Counter()
    for problem in candidates:
        for candidate in problem.candidates:
            truths = step_truths(demo_problem_of(problem.problem_id), candidate.steps)
            first_errors[truths.index(False) if False in truths else -1] += 1
    assert all(first_errors[step_index] >= 3 for step_index in range(4))
