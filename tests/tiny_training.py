"""A tiny random Llama and labels that it can learn, for tests of training."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from train.config import TrainConfig

MAX_POSITIONS = 96


def save_tokenizer(folder: Path) -> int:
    """One token a byte, and `<end>`, which is 0; returns their number."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: index for index, piece in enumerate(["<end>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    fast.save_pretrained(folder)
    return len(vocabulary)


def make_base(folder: Path) -> Path:
    """Save the language model in `folder`."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=save_tokenizer(folder),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def write_labels(folder: Path) -> Path:
    """96 solutions of 2 to 4 steps. A step with `!` is bad, and so are all after it."""
    rng = random.Random(5)
    names = ["problem_id", "question", "solution_id", "steps", "num_correct", "num_incorrect"]
    names += ["mc_value", "hard_label", "verdict"]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for index in range(96):
        marks = [rng.choice("==!") for _ in range(rng.randint(2, 4))]
        good = ["!" not in marks[: step + 1] for step in range(len(marks))]
        correct = [9 if is_good else 0 for is_good in good]
        row = (f"p{index % 48}", f"sum {index % 48}?", f"s{index}")
        row += ([f"\n{rng.randint(1, 99)}{mark}" for mark in marks],)
        row += (correct, [10 - num for num in correct], [num / 10 for num in correct], good)
        row += ("correct" if good[-1] else "incorrect",)
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    pq.write_table(pa.table(columns), folder / "train-00000.parquet")
    return folder


def make_config(base_path: Path, **changes: Any) -> TrainConfig:
    """20 epochs: enough to learn what `!` means."""
    defaults: dict[str, Any] = {
        "base_model": str(base_path),
        "learning_rate": 1e-2,
        "epochs": 20,
        "batch_size": 8,
        "validation_share": 0.25,
    }
    return TrainConfig(**(defaults | changes))
