"""Packed training against padded, on the lengths of real text: tokens of solutions a second.

    .venv/bin/python -m bench.packing --data ../shared/data/gsm8k_model_solutions.jsonl

Questions and model solutions of GSM8K, encoded by a BPE vocabulary of 8,192 made of the same
text, train a random Llama by `train.trainer.PrmTrainer`, whole updates, in four ways of making
a batch of `--batch-size` solutions:

- padded: at random, a row each: the usual loop, the baseline;
- grouped: at random among solutions of alike length (`train.packing = false`);
- packed: at random, all in one row (`train.packing = true`);
- alone: one solution a forward pass, no padding, as many to an update.

A round trains each way on some of the batches that it makes of all the text; one thread, so
that CPU seconds are comparable on a machine that others use. Padding does not count as tokens.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForTokenClassification,
    LlamaConfig,
    PreTrainedTokenizerFast,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback

from labeling.steps import StepMethod, split_steps
from train.batches import Collator, SolutionSampler
from train.config import StepWeight, TrainConfig
from train.encode import encode_steps, fill
from train.encoded_labels import EncodedSolution, EncodedTable, record_batch
from train.model import quiet_transformers
from train.packed_attention import PACKED
from train.trainer import PrmTrainer

VOCABULARY = 8192


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="question, solution; jsonl")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--updates", type=int, default=6, help="a way and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in options.data.open(encoding="utf-8")]
    random.Random(0).shuffle(rows)
    tokenizer = make_tokenizer(rows)
    model = make_model(options.hidden, options.layers)
    solutions = encode(rows, tokenizer)
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for seed in range(options.rounds):
        for name in WAYS:
            rate = tokens_a_second(
                name,
                model,
                solutions,
                batch_size=options.batch_size,
                num_updates=options.updates,
                seed=seed,
            )
            rates[name].append(rate)
    report = figures(rates, solutions.lengths.tolist(), vars(options))
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def make_tokenizer(rows: list[dict[str, Any]]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel()]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((row["question"] + row["solution"] for row in rows), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


def make_model(hidden: int, layers: int) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        max_position_embeddings=2048,
        num_labels=1,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=0,
    )
    return AutoModelForTokenClassification.from_config(config)


def encode(rows: list[dict[str, Any]], tokenizer: Any) -> EncodedTable:
    solutions: list[EncodedSolution] = []
    for row in rows:
        prompt = fill(tokenizer, "Question: {question}\nAnswer:", row["question"])
        steps = split_steps("\n" + row["solution"].strip(), StepMethod.NEWLINE)
        encoded = encode_steps(tokenizer, prompt, steps, max_length=2048)
        num_steps = len(encoded.step_positions)
        is_correct = bool(row["is_correct"])
        solutions.append(
            EncodedSolution(
                encoded,
                (float(is_correct),) * num_steps,
                (is_correct,) * num_steps,
                (8 * is_correct,) * num_steps,
                (8,) * num_steps,
            )
        )
    return EncodedTable(pa.Table.from_batches([record_batch(solutions)]), np.arange(len(rows)))


class _SomeBatches(PrmTrainer):
    """Trains on `num_updates` batches, drawn from all those that the way would make."""

    is_grouped = False

    def _get_train_sampler(self, train_dataset: Any = None) -> list[int]:  # type: ignore[override]  # noqa: ARG002
        size = self.args.train_batch_size * self.args.gradient_accumulation_steps
        sampler = SolutionSampler(
            self.train_dataset.lengths.tolist(),
            group_size=size if self.is_grouped else None,
            seed=self.args.seed,
            epoch=lambda: 0,
        )
        order = list(sampler)
        batches = [order[start : start + size] for start in range(0, len(order) - size + 1, size)]
        chosen = random.Random(self.args.seed).sample(batches, self.args.max_steps)
        return [index for batch in chosen for index in batch]


class _GroupedBatches(_SomeBatches):
    is_grouped = True


class _Counting(Collator):
    num_tokens = 0

    def __call__(self, solutions: Sequence[EncodedSolution]) -> dict[str, Any]:
        self.num_tokens += sum(len(solution.encoded.input_ids) for solution in solutions)
        return super().__call__(solutions)


WAYS: dict[str, tuple[type[PrmTrainer], bool, Callable[[int], int]]] = {
    "padded": (_SomeBatches, False, lambda size: size),
    "grouped": (_GroupedBatches, False, lambda size: size),
    "packed": (_SomeBatches, True, lambda size: size),
    "alone": (_SomeBatches, False, lambda _: 1),
}
"""Trainer, packing, and solutions in a forward pass of a batch of so many."""


def tokens_a_second(
    name: str, model: Any, solutions: EncodedTable, *, batch_size: int, num_updates: int, seed: int
) -> tuple[float, float]:
    """Of the process's CPU, and of the clock; the trainer's own start is in neither."""
    kind, packing, in_one_pass = WAYS[name]
    size = in_one_pass(batch_size)
    collator = _Counting(packing=packing, weight=StepWeight.NONE)
    model.set_attn_implementation(PACKED if packing else "sdpa")
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        trainer = kind(
            config=TrainConfig(packing=packing),
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                use_cpu=True,
                seed=seed,
                max_steps=num_updates,
                per_device_train_batch_size=size,
                gradient_accumulation_steps=batch_size // size,
                learning_rate=1e-5,
                remove_unused_columns=False,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                logging_strategy="no",
                dataloader_pin_memory=False,
            ),
            train_dataset=solutions,
            data_collator=collator,
        )
        trainer.remove_callback(PrinterCallback)
        spent, started = time.process_time(), time.monotonic()
        trainer.train()
        spent, passed = time.process_time() - spent, time.monotonic() - started
    return collator.num_tokens / spent, collator.num_tokens / passed


def figures(
    rates: dict[str, list[tuple[float, float]]], lengths: list[int], options: dict[str, Any]
) -> dict[str, Any]:
    spread = np.quantile(lengths, [0.05, 0.5, 0.95, 1]).round().astype(int).tolist()
    shown: dict[str, dict[str, float]] = {}
    for name, own in rates.items():
        ratios = [mine[0] / padded[0] for mine, padded in zip(own, rates["padded"], strict=True)]
        clock = [mine[1] / padded[1] for mine, padded in zip(own, rates["padded"], strict=True)]
        shown[name] = {
            "tokens_per_cpu_second": round(statistics.median(rate for rate, _ in own)),
            "times_padded": round(statistics.median(ratios), 3),
            "least": round(min(ratios), 3),
            "most": round(max(ratios), 3),
            "times_padded_by_the_clock": round(statistics.median(clock), 3),
        }
    return {
        "tokens_a_solution": dict(zip(("5 %", "median", "95 %", "longest"), spread, strict=True)),
        "ways": shown,
        "options": {name: str(value) for name, value in options.items()},
    }


if __name__ == "__main__":
    main()
