"""Packed rows: every token where it belongs, and nobody sees a neighbour."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import (
    AutoModelForTokenClassification,
    BloomConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    TrainingArguments,
)

from pipeline.errors import ConfigError
from train.batches import (
    Collator,
    SolutionSampler,
    pack,
    pad,
    require_packable,
)
from train.config import LossName, StepWeight, TrainConfig
from train.encode import EncodedSteps
from train.encoded_labels import EncodedSolution, EncodedTable, record_batch
from train.loss import step_logits
from train.packed_attention import PACKED
from train.trainer import PrmTrainer

SMALL = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "num_labels": 1,
    "initializer_range": 0.4,
}
SPARSE = {**SMALL, "num_key_value_heads": 1}
WINDOWS = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}


def make_model(config: PreTrainedConfig) -> Any:
    torch.manual_seed(3)
    model = AutoModelForTokenClassification.from_config(config).eval()
    model.config.use_cache = False  # as `load_base` does: a cache hides the borders
    return model


def encoded(length: int, *, seed: int = 0) -> EncodedSteps:
    generator = torch.Generator().manual_seed(100 * length + seed)
    ids = torch.randint(1, 50, (length,), generator=generator).tolist()
    positions = sorted({length // 3, length // 2, length - 1})
    return EncodedSteps(tuple(ids), tuple(positions), num_lost_steps=0, num_cut_tokens=0)


def labelled(one: EncodedSteps) -> EncodedSolution:
    """Labels of 8 rollouts a step, by its position; the first step has none."""
    correct = [position % 9 for position in one.step_positions]
    return EncodedSolution(
        one,
        (None, *(num / 8 for num in correct[1:])),
        tuple(num > 0 for num in correct),
        tuple(correct),
        (0, *[8] * (len(correct) - 1)),
    )


def table(lengths: list[int]) -> EncodedTable:
    batch = record_batch([labelled(encoded(length)) for length in lengths])
    return EncodedTable(pa.Table.from_batches([batch]), np.arange(len(lengths)))


LENGTHS = [23, 9, 4, 17, 5, 11, 6, 9]


def test_all_in_one_row_and_positions_begin_again() -> None:
    solutions = [encoded(length) for length in (5, 3, 2)]
    inputs, places = pack(solutions)
    assert inputs["input_ids"].tolist() == [
        [token_id for solution in solutions for token_id in solution.input_ids]
    ]
    assert inputs["position_ids"].tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 0, 1]]
    assert inputs["solution_lengths"] == (5, 3, 2)
    assert places.rows_N.tolist() == [0] * 7
    assert places.columns_N.tolist() == [1, 2, 4, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "config",
    [LlamaConfig(**SPARSE), Qwen2Config(**SPARSE), Qwen2Config(**SPARSE, **WINDOWS),
     MistralConfig(**SPARSE, sliding_window=4)],
    ids=["llama", "qwen2", "qwen2-windows", "mistral-windows"],
)  # fmt: skip
def test_packed_and_single_scores_are_equal(config: PreTrainedConfig) -> None:
    model = make_model(config)
    solutions = [encoded(length) for length in LENGTHS]
    padded, padded_places = pad(solutions)
    inputs, places = pack(solutions)
    with torch.no_grad():
        alone_N = torch.cat([_scores_alone(model, solution) for solution in solutions])
        model.set_attn_implementation(PACKED)
        packed_N = step_logits(model(**inputs).logits, *places).sigmoid()
        padded_N = step_logits(model(**padded).logits, *padded_places).sigmoid()
    assert alone_N.max() - alone_N.min() > 0.3
    torch.testing.assert_close(packed_N, alone_N, atol=1e-5, rtol=0)
    torch.testing.assert_close(padded_N, alone_N, atol=1e-5, rtol=0)
    model.set_attn_implementation("sdpa")
    require_packable(model, table(LENGTHS), name="tiny")


def _scores_alone(model: Any, solution: EncodedSteps) -> torch.Tensor:
    """One sequence, nothing of ours around it."""
    logits_T = model(input_ids=torch.tensor([solution.input_ids])).logits[0, :, 0]
    return logits_T[list(solution.step_positions)].sigmoid()


class Deaf(torch.nn.Module):
    """Hands nothing of the lengths down to its model's attention."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.device, self.dtype = model, model.device, model.dtype

    def set_attn_implementation(self, name: str) -> None:
        self.model.set_attn_implementation(name)

    def forward(self, solution_lengths: Any = None, **inputs: Any) -> Any:
        return self.model(**inputs)


def test_what_cannot_be_packed_is_refused() -> None:
    biased = make_model(BloomConfig(**SMALL, n_head=2))  # ALiBi, added to attention
    deaf = Deaf(make_model(LlamaConfig(**SPARSE)))
    for model in (biased, deaf):
        with pytest.raises(ConfigError, match=r"'base' cannot be packed: .*train.packing = false"):
            require_packable(model, table(LENGTHS), name="base")


def test_absolute_positions_begin_again_too() -> None:
    config = GPT2Config(
        vocab_size=50,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=30,
        num_labels=1,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.4,
    )
    require_packable(make_model(config), table(LENGTHS), name="gpt2")


@pytest.mark.parametrize("loss", LossName)
@pytest.mark.parametrize("weight", StepWeight)
def test_packed_and_padded_batches_have_one_loss(
    loss: LossName, weight: StepWeight, tmp_path: Path
) -> None:
    model = make_model(LlamaConfig(**SPARSE))
    config = TrainConfig(loss=loss, weight=weight)
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    trainer = PrmTrainer(config=config, model=model, args=arguments)
    solutions = list(table(LENGTHS))
    losses = []
    for packing in (False, True):
        batch = Collator(packing=packing, weight=weight)(solutions)
        model.set_attn_implementation(PACKED if packing else "sdpa")
        model.zero_grad()
        value = trainer.compute_loss(model, batch)
        value.backward()
        norm = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        losses.append((value.item(), norm.norm().item()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_published_recipe_has_the_same_loss(tmp_path: Path) -> None:
    """Encoder, a linear head on each step's last token, MSE of sigmoid and ratio, in torch."""
    model = make_model(LlamaConfig(**SPARSE))
    solutions = list(table(LENGTHS))
    squares: list[torch.Tensor] = []
    for solution in solutions:
        hidden_TD = model.model(torch.tensor([solution.encoded.input_ids])).last_hidden_state[0]
        for position, ratio in zip(solution.encoded.step_positions, solution.targets, strict=True):
            if ratio is not None:
                score = hidden_TD[position] @ model.score.weight[0] + model.score.bias[0]
                squares.append((torch.sigmoid(score) - ratio) ** 2)
    expected = torch.stack(squares).mean().item()
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    trainer = PrmTrainer(config=TrainConfig(), model=model, args=arguments)
    for packing in (False, True):
        batch = Collator(packing=packing, weight=StepWeight.NONE)(solutions)
        model.set_attn_implementation(PACKED if packing else "sdpa")
        assert trainer.compute_loss(model, batch).item() == pytest.approx(expected, abs=1e-6)


def test_weights_are_those_of_the_graded_rollouts(tmp_path: Path) -> None:
    model = make_model(LlamaConfig(**SPARSE))
    one = encoded(9)
    solution = EncodedSolution(one, (0.5, 1.0, None), (True,) * 3, (2, 16, 0), (4, 16, 0))
    batch = Collator(packing=False, weight=StepWeight.GRADED, mean_weight=10)([solution])
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    config = TrainConfig(loss=LossName.BCE, weight=StepWeight.GRADED)
    trainer = PrmTrainer(config=config, model=model, args=arguments)
    logits_T = model(torch.tensor([one.input_ids])).logits[0, :, 0]
    first, second = (
        binary_cross_entropy_with_logits(logits_T[position], torch.tensor(target))
        for position, target in zip(one.step_positions[:2], (0.5, 1.0), strict=True)
    )
    expected = (4 * first + 16 * second) / 20
    assert trainer.compute_loss(model, batch).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    epoch = itertools.count()
    sampler = SolutionSampler(LENGTHS, group_size=None, seed=5, epoch=lambda: next(epoch))
    orders = [list(sampler) for _ in range(2)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(8))
    assert orders[0] != orders[1]
    again = SolutionSampler(LENGTHS, group_size=None, seed=5, epoch=lambda: 1)
    assert list(again) == orders[1]
    grouped = SolutionSampler(LENGTHS, group_size=8, seed=5, epoch=lambda: 0)
    assert [LENGTHS[index] for index in grouped] == sorted(LENGTHS, reverse=True)
