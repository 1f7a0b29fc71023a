# pyright: basic
r"""Train the bundled demo language model: `make demo-model` (CPU, under an hour).

A standard Llama of about a million parameters learns to continue
`Question: …\nAnswer:` with a weak student's solution (`pipeline.demo.student`), and
arithmetic drills beside it. The loss is on the solution's tokens only. Plain PyTorch:
one loop, AdamW, a linear warm-up and cosine decay. Written to `pipeline/demo/model/`
as safetensors with a model card that states how it was made and what it scores.

Evaluation at the end is honest sampling at temperature 1 on problems of a split that
training never draws from.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.optim.lr_scheduler import LambdaLR
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pipeline.demo import MODEL_PATH
from pipeline.demo.problems import DemoProblem, comparison_lesson, demo_problem
from pipeline.demo.student import solution_text, student_lines

EOS = "<|end|>"
IGNORED = -100
DRILL = "Drill:"


def main() -> None:
    """Train, evaluate, write."""
    options = _options()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    tokenizer = make_tokenizer()
    model = LlamaForCausalLM(_architecture(tokenizer))
    if options.continue_from is not None:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(options.continue_from)
        model = LlamaForCausalLM.from_pretrained(options.continue_from)
    started = time.monotonic()
    train(model, tokenizer, options)
    figures = {
        "parameters": model.num_parameters(),
        "training_steps": options.steps,
        "batch_size": options.batch_size,
        "learning_rate": options.learning_rate,
        "seed": options.seed,
        "training_minutes": round((time.monotonic() - started) / 60, 1),
        "solutions_right": evaluate(model, tokenizer, num_problems=400),
    }
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)
    write_card(options.out, figures, history=options.history)
    print(json.dumps(figures, indent=2))


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE in which every digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=[EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (prompt + solution for prompt, solution in _stream("tokenizer", 0, 4000))
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=EOS, pad_token=EOS, model_max_length=512
    )


def train(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace
) -> None:
    """Fit `model` in place on a stream of fresh problems; nothing is seen twice."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = LambdaLR(optimizer, lambda step: _rate(step, options.steps))
    batches = _batches(tokenizer, options.batch_size, options.seed, start=options.first_problem)
    started, num_tokens, total_loss = time.monotonic(), 0, 0.0
    for step in range(1, options.steps + 1):
        ids_BT, labels_BT = next(batches)
        loss = model(input_ids=ids_BT, labels=labels_BT).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        num_tokens, total_loss = num_tokens + ids_BT.numel(), total_loss + loss.item()
        if step % 100 == 0:
            speed = num_tokens / (time.monotonic() - started)
            print(f"step {step} loss {total_loss / 100:.4f} tokens/s {speed:.0f}", flush=True)
            total_loss = 0.0
        if step % 1000 == 0:
            right = evaluate(model, tokenizer, num_problems=100)
            print(f"step {step} solutions right {right:.3f}", flush=True)
            if options.checkpoint:
                model.save_pretrained(options.out)
                tokenizer.save_pretrained(options.out)


@torch.no_grad()
def evaluate(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, num_problems: int
) -> float:
    """The share of right solutions at temperature 1 on problems of the split `check`."""
    tokenizer.padding_side = "left"
    problems = [demo_problem("check", index) for index in range(num_problems)]
    inputs = tokenizer([_prompt(p) for p in problems], return_tensors="pt", padding=True)
    inputs.pop("token_type_ids", None)
    output_BT = model.generate(  # pyright: ignore[reportAttributeAccessIssue]
        **inputs, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=200
    )
    tokenizer.padding_side = "right"
    texts = tokenizer.batch_decode(
        output_BT[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
    )
    right = [
        text.rpartition("#### ")[2].strip() == problem.gold_answer
        for text, problem in zip(texts, problems, strict=True)
    ]
    return sum(right) / len(right)


def write_card(path: Path, figures: dict[str, float], *, history: str) -> None:
    """The model card, filled with this run's figures and the way the weights came about."""
    template = (Path(__file__).parent / "model_card.md").read_text(encoding="utf-8")
    rows = "\n".join(f"| {name.replace('_', ' ')} | {value} |" for name, value in figures.items())
    card = template.replace("{{figures}}", rows).replace("{{history}}", history)
    (path / "README.md").write_text(card, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=MODEL_PATH)
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--first-problem", type=int, default=0, help="of the training split")
    parser.add_argument("--continue-from", type=Path, help="a folder of weights to start from")
    parser.add_argument("--history", default="In one stage, from random weights.")
    parser.add_argument("--checkpoint", action="store_true", help="save every 1000 steps")
    return parser.parse_args()


def _architecture(tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,  # the only special token is the end, number 0
        eos_token_id=0,
        pad_token_id=0,
        dtype="float32",
    )


def _rate(step: int, num_steps: int) -> float:
    warm_up = 200
    if step < warm_up:
        return (step + 1) / warm_up
    progress = (step - warm_up) / max(1, num_steps - warm_up)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def _prompt(problem: DemoProblem) -> str:
    return f"Question: {problem.question}\nAnswer:"


def _stream(split: str, start: int, count: int) -> Iterator[tuple[str, str]]:
    """Pairs of prompt and solution; of six two are drills, and two lessons in comparing."""
    for index in range(start, start + count):
        rng = random.Random(f"{split}/{index}")
        if index % 3 == 2:
            yield DRILL, _drill(rng)
            continue
        problem = (comparison_lesson if index % 3 else demo_problem)(split, index)
        lines = student_lines(problem, rng)
        yield _prompt(problem), solution_text(lines, problem.thing)


def _drill(rng: random.Random) -> str:
    """Sixteen right lines of arithmetic in the range of the problems."""
    lines: list[str] = []
    while len(lines) < 16:
        left, right = rng.randint(2, 150), rng.randint(2, 60)
        match rng.choice("++--*/"):
            case "+" if left + right <= 150:
                lines.append(f"{left}+{right}={left + right}")
            case "-" if left >= right:
                lines.append(f"{left}-{right}={left - right}")
            case "*":
                factor = rng.randint(2, 9)
                size = rng.randint(2, 9 if factor > 5 else 150 // factor)
                lines.append(f"{size}*{factor}={size * factor}")
            case "/":
                factor = rng.randint(2, 5)
                whole = left - left % factor
                lines.append(f"{whole}/{factor}={whole // factor}")
            case _:
                continue
    return " " + " ".join(lines)


def _batches(
    tokenizer: PreTrainedTokenizerFast, batch_size: int, seed: int, *, start: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Padded batches of ids and labels [B, T], of similar lengths, in random order."""
    rng, pool = random.Random(seed), batch_size * 32
    while True:
        examples = [_encode(tokenizer, pair) for pair in _stream("train", start, pool)]
        start += pool
        examples.sort(key=lambda example: len(example[0]))
        groups = [examples[i : i + batch_size] for i in range(0, pool, batch_size)]
        rng.shuffle(groups)
        for group in groups:
            longest = len(group[-1][0])
            ids = [ids + [0] * (longest - len(ids)) for ids, _ in group]
            labels = [labels + [IGNORED] * (longest - len(labels)) for _, labels in group]
            yield torch.tensor(ids), torch.tensor(labels)


def _encode(
    tokenizer: PreTrainedTokenizerFast, pair: tuple[str, str]
) -> tuple[list[int], list[int]]:
    prompt, solution = (tokenizer(text).input_ids for text in pair)
    solution = [*solution, tokenizer.eos_token_id]
    labels = solution
    if pair[0] == DRILL:
        labels = _only_results(tokenizer, solution)
    return prompt + solution, [IGNORED] * len(prompt) + labels


def _only_results(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> list[int]:
    """Labels of a drill: the digits after `=`; the random operands would be noise."""
    labels: list[int] = []
    is_result = False
    for token_id, piece in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True):
        labels.append(token_id if is_result else IGNORED)
        is_result = piece == "=" or (is_result and piece.isdigit())
    return labels


if __name__ == "__main__":
    main()
