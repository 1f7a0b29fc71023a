"""`stepmark dpo`: the very token ids that TRL's trainer gets, a short training, bad files."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from flows.cli import app
from flows.step_dpo import PairEncoder
from labeling.prompts import PromptConfig, TokenPromptEncoder
from pipeline.demo import MODEL_PATH
from pipeline.errors import ConfigError, DataError
from pipeline.records import Problem
from storage.formats.pair_rows import PairRow, PairSide
from tests.tiny_models import byte_tokenizer, save_tiny_llama
from tests.tiny_training import make_base
from train.dpo_config import DpoConfig
from train.pairs import EncodedPair
from train.step_dpo import StepDpoTrainer, as_dataset, train_step_dpo

END = 0


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base"))


def encoder_of(tokenizer: Any, **prompt: Any) -> PairEncoder:
    return PairEncoder(
        TokenPromptEncoder(PromptConfig(**prompt), tokenizer), tokenizer.eos_token_id
    )


def pair(
    shared: str, chosen: tuple[str, str | None], rejected: tuple[str, str | None], question: str
) -> PairRow:
    return PairRow(1, question, shared, PairSide(*chosen), PairSide(*rejected))


def test_one_token_a_byte_no_end_and_no_control_token(base_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(base_path)
    encoder = encoder_of(tokenizer, plain_template="Q: {question}\nA:")

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.convert_tokens_to_ids(text.replace("\n", "Ċ").replace(" ", "Ġ")[i])
                     for i in range(len(text)))  # fmt: skip

    row = pair(" a.", ("\nb<end>.", "\nc."), ("\nd.", None), "1<end>?")
    encoded = encoder.encode(row)
    assert encoded.prompt_ids == ids("Q: 1<end>?\nA: a.")
    assert encoded.chosen_ids == ids("\nb<end>.")
    assert encoded.rejected_ids == ids("\nd.")
    assert END not in encoded.prompt_ids + encoded.chosen_ids + encoded.rejected_ids


def test_only_a_step_that_ended_its_solution_has_the_end(base_path: Path) -> None:
    encoder = encoder_of(AutoTokenizer.from_pretrained(base_path))
    encoded = encoder.encode(pair("", ("\n#### 4", ""), ("\n#### 5", "\nWait."), "?"))
    assert encoded.chosen_ids[-1] == END
    assert END not in encoded.chosen_ids[:-1] + encoded.rejected_ids


def test_steps_have_the_tokens_of_their_whole_solution() -> None:
    """The tokenizer merges `.` and the line break after it: such a step is cut before it."""
    tokenizer = byte_tokenizer()
    encoder = encoder_of(tokenizer)
    merged = tokenizer(".\n", add_special_tokens=False)["input_ids"]
    assert len(merged) == 1
    encoded = encoder.encode(pair(" 3.", ("\n1+2.", "\nT."), ("\n1+3.", "\nT."), "?"))
    texts = [tokenizer.decode(ids) for ids in (encoded.chosen_ids, encoded.rejected_ids)]
    assert texts == ["\n1+2.", "\n1+3."]
    assert tokenizer.decode(encoded.prompt_ids).endswith("Answer: 3.")
    # the completer was prompted with this, so its own step began there
    asked = encoder.prompts.continuing(Problem("p", "?", "", "", ""), " 3.").ids
    assert encoded.prompt_ids == asked


@pytest.mark.parametrize("rejected", ["\n3+4=8.", ",3+4=8.", "0", " eggs."])
def test_both_sides_follow_one_prompt(rejected: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL_PATH)
    encoder = encoder_of(tokenizer)
    encoded = encoder.encode(
        pair(" Ana has 1+2=3", ("\n3+4=7.", "\n#### 7"), (rejected, "\n#### 8"), "Eggs?")
    )
    text = "Question: Eggs?\nAnswer: Ana has 1+2=3"
    assert tokenizer.decode(encoded.prompt_ids) == text
    assert tokenizer.decode(encoded.chosen_ids) == "\n3+4=7."
    assert tokenizer.decode(encoded.rejected_ids) == rejected


def test_a_chat_prompt_is_that_of_the_completer() -> None:
    tokenizer = byte_tokenizer(chat=True)
    encoder = encoder_of(tokenizer, user_template="{question}")
    encoded = encoder.encode(pair("", ("\nA", "\nB"), ("\nC", "\nD"), "<|assistant|>"))
    special = {one for one, token in tokenizer.added_tokens_decoder.items() if token.special}
    controls = [one for one in encoded.prompt_ids if one in special]
    names = tokenizer.convert_ids_to_tokens(controls)
    assert names == ["<s>", "<|user|>", "<|end|>", "<|assistant|>"]
    assert not special & {*encoded.chosen_ids, *encoded.rejected_ids}


def test_the_trainer_leaves_the_ids_as_they_are(base_path: Path, tmp_path: Path) -> None:
    from trl import DPOConfig

    pairs = [
        EncodedPair(1, "?", (5, 6, 7), (8, 9), (10,)),
        EncodedPair(2, "?", (5,), (6,), (7, END)),
    ]
    trainer = StepDpoTrainer(
        model=AutoModelForCausalLM.from_pretrained(base_path),
        ref_model=AutoModelForCausalLM.from_pretrained(base_path),
        args=DPOConfig(output_dir=str(tmp_path), bf16=False, use_cpu=True, report_to="none",
                       dataloader_pin_memory=False, max_length=None,
                       per_device_train_batch_size=2, gradient_checkpointing=False),
        train_dataset=as_dataset(pairs),
        processing_class=AutoTokenizer.from_pretrained(base_path),
    )  # fmt: skip
    batch = trainer.data_collator(list(trainer.train_dataset))
    read = [
        row[mask.bool()].tolist()
        for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    assert read == [[5, 6, 7, 8, 9], [5, 6], [5, 6, 7, 10], [5, 7, END]]
    learned = [
        row[mask.bool()].tolist()
        for row, mask in zip(batch["input_ids"], batch["completion_mask"], strict=True)
    ]
    assert learned == [[8, 9], [6], [10], [7, END]]


ROWS = [
    {
        "prompt": f"What is {n} and 1?",
        "initial_reason_steps": f"\n{n} is first.",
        "chosen": f"\n{n}+1={n + 1}.",
        "rejected": f"\n{n}-1={n - 1}.",
        "full_chosen": f"\n{n}+1={n + 1}.\n#### {n + 1}",
        "full_rejected": f"\n{n}-1={n - 1}.\n#### {n - 1}",
    }
    for n in range(2, 10)
]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def stepmark(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None:
        raise done.exception
    return done.stdout


SHORT = ["dpo.epochs=2", "dpo.batch_size=8", "dpo.gradient_accumulation=1", "dpo.warmup_ratio=0"]


def settings(base_path: Path, *more: str) -> list[str]:
    given = [*SHORT, f"dpo.base_model={base_path}", *more]
    return [part for one in given for part in ("--set", one)]


def test_two_updates_lower_the_loss_of_their_own_pairs(base_path: Path, tmp_path: Path) -> None:
    pairs, out = write(tmp_path / "pairs.jsonl", ROWS), tmp_path / "policy"
    options = ("dpo.validation_share=0", "dpo.learning_rate=1e-3", "dpo.beta=0.5")
    said = stepmark("dpo", pairs, "--out", out, *settings(base_path, *options))
    assert "8 of 8 pairs" in said
    report = json.loads((out / "dpo_report.json").read_text())
    assert report["num_updates"] == 2
    first, second = (epoch["loss"] for epoch in report["epochs"])
    assert first == pytest.approx(0.6931, abs=1e-3)  # ln 2: the model is its own reference
    assert second < first - 0.01
    assert report["epochs"][1]["margin"] > 0
    assert report["validation"] is None
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (base_path, out))
    assert not torch.equal(before.model.embed_tokens.weight, after.model.embed_tokens.weight)
    assert after.config.pad_token_id == before.config.pad_token_id
    assert after.config.use_cache == before.config.use_cache
    assert after.config.stepmark_policy["prompt"]["style"] == "plain"
    assert AutoTokenizer.from_pretrained(out).pad_token is None  # as its base's
    card = (out / "README.md").read_text()
    assert "Step-DPO" in card
    assert "| pairs trained on | 8 of 8 |" in card
    assert not (tmp_path / ".policy.training").exists()


def test_pairs_kept_apart_too_long_ones_and_adapters(base_path: Path, tmp_path: Path) -> None:
    rows = [*ROWS, ROWS[0] | {"chosen": "\n" + "9" * 200, "full_chosen": ""}]
    out = tmp_path / "policy"
    options = ("dpo.validation_share=0.3", "dpo.lora={rank=2}", "dpo.sft_weight=0.1")
    said = stepmark(
        "dpo", write(tmp_path / "p.jsonl", rows), "--out", out, *settings(base_path, *options)
    )
    assert "longer than the maximum length: 1" in " ".join(said.split())
    assert "Questions kept apart" in said
    report = json.loads((out / "dpo_report.json").read_text())
    assert (report["num_pairs"], report["num_too_long"]) == (9, 1)
    kept = report["validation"]["num_pairs"]
    assert kept >= 1
    assert report["num_train_pairs"] == 8 - kept
    assert type(AutoModelForCausalLM.from_pretrained(out)).__name__ == "LlamaForCausalLM"
    # the same command again replaces its own folder
    stepmark("dpo", tmp_path / "p.jsonl", "--out", out, *settings(base_path, *options))


def test_a_killed_training_goes_on_to_the_same_weights(base_path: Path, tmp_path: Path) -> None:
    pairs = [EncodedPair(n, f"q{n}", (5, 6, n + 20), (n + 30, 7), (8,)) for n in range(8)]
    config = DpoConfig(
        base_model=str(base_path), epochs=3, batch_size=2, gradient_accumulation=1,
        learning_rate=1e-3, validation_share=0, save_steps=2,
    )  # fmt: skip

    def killed(num_done: int, _: int) -> None:
        if num_done == 7:
            raise KeyboardInterrupt

    whole = train_step_dpo(pairs, tmp_path / "whole", config)
    with pytest.raises(KeyboardInterrupt):
        train_step_dpo(pairs, tmp_path / "killed", config, on_progress=killed)
    assert not (tmp_path / "killed").exists()
    resumed = train_step_dpo(pairs, tmp_path / "killed", config)
    assert (whole.resumed_at, resumed.resumed_at) == (0, 6)
    assert whole.num_updates == resumed.num_updates == 12
    states = [
        AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict()
        for name in ("whole", "killed")
    ]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_training_that_diverges_leaves_nothing(base_path: Path, tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.jsonl", ROWS)
    with pytest.raises(DataError, match=r"diverged.*lower dpo.learning_rate"):
        stepmark("dpo", pairs, "--out", tmp_path / "out",
                 *settings(base_path, "dpo.learning_rate=1e38"))  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_bad_files_and_folders(base_path: Path, tmp_path: Path) -> None:
    good = write(tmp_path / "pairs.jsonl", ROWS)
    with pytest.raises(ConfigError, match="there is no such file"):
        stepmark("dpo", tmp_path / "none.jsonl", "--out", tmp_path / "out")
    bad = write(tmp_path / "bad.jsonl", [ROWS[0], ROWS[1] | {"chosen": ""}])
    with pytest.raises(DataError, match=r"bad\.jsonl, row 2: chosen is ''"):
        stepmark("dpo", bad, "--out", tmp_path / "out", *settings(base_path))
    filled = write(tmp_path / "filled.jsonl", [ROWS[0] | {"prompt": "Question: x\nAnswer:"}])
    with pytest.raises(ConfigError, match=r"row 1: .*without --template"):
        stepmark("dpo", filled, "--out", tmp_path / "out", *settings(base_path))
    with pytest.raises(ConfigError, match="not a model trained by `stepmark dpo`"):
        stepmark("dpo", good, "--out", base_path, *settings(base_path))
    with pytest.raises(ConfigError, match=r"model\.name"):
        stepmark("dpo", good, "--out", tmp_path / "out", *settings(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"unknown key dpo\.bta; did you mean beta"):
        stepmark("dpo", good, "--out", tmp_path / "out", "--set", "dpo.bta=1")
    with pytest.raises(ConfigError, match="takes at most 96 tokens"):
        stepmark("dpo", good, "--out", tmp_path / "out", *settings(base_path, "dpo.max_length=97"))
    assert not (tmp_path / "out").exists()


def test_without_trl_it_says_so(
    base_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "flows.step_dpo.find_spec", lambda name: None if name == "trl" else found(name)
    )
    pairs = write(tmp_path / "pairs.jsonl", ROWS)
    with pytest.raises(ConfigError, match=r"trl, which is not installed.*\[dpo\]"):
        stepmark("dpo", pairs, "--out", tmp_path / "out", *settings(base_path))


def test_a_larger_vocabulary_of_chat_models_trains_too(tmp_path: Path) -> None:
    base = save_tiny_llama(tmp_path / "chat", byte_tokenizer(chat=True))
    pairs, out = write(tmp_path / "pairs.jsonl", ROWS[:4]), tmp_path / "out"
    options = ("prompt.user_template={question}", "dpo.validation_share=0")
    stepmark("dpo", pairs, "--out", out, *settings(base, *options))
    config = json.loads((out / "config.json").read_text())
    assert config["stepmark_policy"]["prompt"]["style"] == "chat"
    assert (out / "chat_template.jinja").is_file()
