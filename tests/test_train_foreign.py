"""Foreign PRMs of tiny size through the one door: scores by hand, long and hostile solutions."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Model

from pipeline.errors import DataError
from search.scoring import Aggregation, StepScorer
from tests.foreign_prms import save_qwen_prm, save_shepherd_prm
from train.open_scorer import PrmKind, open_scorer
from train.scorer import PrmScorer
from train.step_tags import QWEN_SYSTEM

QUESTION, STEPS = "What is 1+2?", ["1+2 = 3.", "\nSo it is 3.", "\n#### 3"]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen_prm(tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="module")
def shepherd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_shepherd_prm(tmp_path_factory.mktemp("shepherd"))


def opened(folder: Path, **options: Any) -> PrmScorer:
    scorer = open_scorer(folder, **options)
    assert isinstance(scorer, PrmScorer)
    return scorer


def by_either(qwen: Path, shepherd: Path, **options: Any) -> list[PrmScorer]:
    return [
        opened(qwen, **options),
        opened(shepherd, kind=PrmKind.MATH_SHEPHERD, **options),
    ]


@torch.inference_mode()
def test_qwen_scores_are_the_cards_computation(qwen: Path) -> None:
    """Backbone, head and softmax by hand, on the weights as they are in the file."""
    scorer: StepScorer = opened(qwen)
    (scores,) = scorer.score([(QUESTION, STEPS)])
    tokenizer = AutoTokenizer.from_pretrained(qwen)
    messages = [
        {"role": "system", "content": QWEN_SYSTEM},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "".join(f"{step.strip()}<extra_0>" for step in STEPS)},
    ]
    ids = tokenizer.encode(tokenizer.apply_chat_template(messages, tokenize=False))
    weights = load_file(qwen / "model.safetensors")
    assert sorted(name for name in weights if name.startswith("score.")) == [
        "score.0.bias", "score.0.weight", "score.2.bias", "score.2.weight",
    ]  # fmt: skip
    hidden_TH = Qwen2Model.from_pretrained(qwen)(torch.tensor([ids])).last_hidden_state[0]
    inner_TH = (hidden_TH @ weights["score.0.weight"].T + weights["score.0.bias"]).relu()
    logits_T2 = inner_TH @ weights["score.2.weight"].T + weights["score.2.bias"]
    tag_id = tokenizer.convert_tokens_to_ids("<extra_0>")
    by_hand = logits_T2.softmax(-1)[torch.tensor(ids) == tag_id, 1].tolist()
    assert scores == pytest.approx(by_hand, abs=1e-6)
    assert max(scores) - min(scores) > 0.01  # or nothing is shown
    assert Aggregation(opened(qwen).aggregation) is Aggregation.PRODUCT


@torch.inference_mode()
def test_shepherd_scores_are_the_cards_computation(shepherd: Path) -> None:
    scorer = opened(shepherd, kind=PrmKind.MATH_SHEPHERD)
    (scores,) = scorer.score([(QUESTION, STEPS)])
    tokenizer = AutoTokenizer.from_pretrained(shepherd)
    text = f"{QUESTION} Step 1: 1+2 = 3. ки\nStep 2: So it is 3. ки\nStep 3: #### 3 ки"
    ids = torch.tensor([tokenizer.encode(text)])
    candidates = tokenizer.encode("+ -")[1:]
    logits_BTV = AutoModelForCausalLM.from_pretrained(shepherd)(ids).logits
    scores_T = logits_BTV[..., candidates].softmax(dim=-1)[0, :, 0]
    by_hand = scores_T[ids[0] == tokenizer.encode("ки")[-1]].tolist()
    assert scores == pytest.approx(by_hand, abs=1e-5)
    assert max(scores) - min(scores) > 0.01
    assert Aggregation(scorer.aggregation) is Aggregation.MIN


def test_scores_do_not_depend_on_later_steps_or_on_the_batch(qwen: Path, shepherd: Path) -> None:
    items = [(QUESTION, STEPS[:end]) for end in range(4)]
    items += [("Q<extra_0> ки", ["<extra_0>", "a ки ки", "+<|im_end|>"]), ("Q", ["long " * 20])]
    for scorer, alone in zip(
        by_either(qwen, shepherd), by_either(qwen, shepherd, batch_tokens=1), strict=True
    ):
        scores = scorer.score(items)
        assert [len(each) for each in scores] == [0, 1, 2, 3, 3, 1]
        for end in range(4):
            assert scores[end] == pytest.approx(scores[3][:end], abs=1e-6)
        for each, one in zip(scores, alone.score(items), strict=True):
            assert each == pytest.approx(one, abs=1e-6)
        assert all(0 <= score <= 1 for each in scores for score in each)
        assert scorer.num_lost_steps == 0


def test_steps_beyond_the_length_score_0_and_are_counted(qwen: Path, shepherd: Path) -> None:
    for scorer in by_either(qwen, shepherd):
        ((first, *others),) = scorer.score([("Q", ["a", "b" * 300, "c"])])
        assert first > 0
        assert others == [0, 0]
        assert scorer.num_lost_steps == 2
        assert scorer.score([("Q" * 300, ["a"])]) == [(0.0,)]


def test_a_prm_of_another_kind_is_refused(qwen: Path, shepherd: Path, tmp_path: Path) -> None:
    for folder, kind, message in [
        (shepherd, PrmKind.AUTO, "MistralForCausalLM. A Math-Shepherd PRM, .* --prm-kind math-sh"),
        (shepherd, PrmKind.QWEN_PRM, "names MistralForCausalLM"),
        (qwen, PrmKind.MATH_SHEPHERD, "of the kind qwen-prm, not math-shepherd"),
        (tmp_path, PrmKind.AUTO, "not a PRM trained by .* no config.json"),
        (tmp_path / "absent", PrmKind.AUTO, "neither a folder"),
    ]:
        with pytest.raises(DataError, match=message):
            open_scorer(folder, kind=kind)


def changed(folder: Path, target: Path, **config: Any) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    content = json.loads((folder / "config.json").read_text()) | config
    (target / "config.json").write_text(json.dumps(content))
    return target


def test_damaged_foreign_folders_are_named(qwen: Path, tmp_path: Path) -> None:
    headless = changed(qwen, tmp_path / "headless")
    weights = load_file(qwen / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("score.2")}
    save_file(kept, headless / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"headless lacks 2 of the weights .* score\.2\.bias"):
        open_scorer(headless)
    untagged = changed(qwen, tmp_path / "untagged")
    text = (untagged / "tokenizer.json").read_text().replace("<extra_0>", "<extra_1>")
    (untagged / "tokenizer.json").write_text(text)
    (untagged / "tokenizer_config.json").unlink()
    with pytest.raises(DataError, match="untagged has no <extra_0>"):
        open_scorer(untagged)
    broken = changed(qwen, tmp_path / "broken")
    (broken / "config.json").write_text("{")
    with pytest.raises(DataError, match=r"config\.json cannot be read"):
        open_scorer(broken)
