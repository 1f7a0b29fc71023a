"""Training and scoring end to end with a tiny random Llama, offline, on the CPU."""

import json
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    LlamaForCausalLM,
    TrainingArguments,
)

from pipeline.errors import ConfigError, DataError
from search.scoring import StepScorer
from tests.tiny_training import MAX_POSITIONS, make_base, make_config, save_tokenizer, write_labels
from train.batches import Collator
from train.config import StepWeight
from train.encode import EncodedSteps, encode_steps, fill
from train.encoded_labels import EncodedSolution
from train.model import load_base, score_encoded
from train.report import TrainReport
from train.scorer import PrmScorer
from train.trainer import PrmTrainer, train_prm


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def labels_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labels(tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="module")
def trained(
    base_path: Path, labels_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, TrainReport]:
    out = tmp_path_factory.mktemp("out") / "prm"
    return out, train_prm(labels_path, out, make_config(base_path))


ITEMS = [
    ("sum 3?", ["\n12=", "\n7!", "\n88="]),
    ("sum 14?", ["\n1="]),
    ("a question of another length", ["\n1=", "\n22="]),
]


def test_training_learns_what_can_be_learned(trained: tuple[Path, TrainReport]) -> None:
    _, report = trained
    assert len(report.epoch_losses) == 20
    assert report.train_loss == report.epoch_losses[-1] < 0.1 * report.epoch_losses[0]
    assert report.validation is not None
    assert report.validation.auc is not None
    assert report.validation.auc > 0.98
    assert report.validation.agreement > 0.95
    assert report.validation.loss < 0.05
    assert report.num_problems == 48
    assert report.num_solutions == 96
    assert report.num_train_solutions + report.validation.num_solutions == 96
    assert report.num_train_steps + report.validation.num_steps == report.num_steps
    updates_an_epoch = -(-report.num_train_solutions // 8)
    assert report.num_updates == 20 * updates_an_epoch


def test_the_folder_is_plain_and_complete(trained: tuple[Path, TrainReport]) -> None:
    out, report = trained
    names = {entry.name for entry in out.iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "train_report.json",
        "README.md",
    }
    assert [entry.name for entry in out.parent.iterdir()] == ["prm"]
    written = json.loads((out / "train_report.json").read_text())
    assert written["train_loss"] == report.train_loss
    assert written["config"]["learning_rate"] == 1e-2
    extras = json.loads((out / "config.json").read_text())["stepmark"]
    assert extras["template"] == "Question: {question}\nAnswer:"
    assert extras["max_length"] == MAX_POSITIONS


def test_plain_from_pretrained_gives_the_same_scores(trained: tuple[Path, TrainReport]) -> None:
    out, _ = trained
    scores = PrmScorer.load(out).score(ITEMS)
    model = AutoModelForTokenClassification.from_pretrained(out).eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    for (question, steps), expected in zip(ITEMS, scores, strict=True):
        for num_steps in range(1, len(steps) + 1):
            text = f"Question: {question}\nAnswer:" + "".join(steps[:num_steps])
            with torch.no_grad():
                logit = model(**tokenizer(text, return_tensors="pt")).logits[0, -1, 0]
            assert torch.sigmoid(logit).item() == pytest.approx(expected[num_steps - 1], abs=1e-5)


def test_scores_know_good_from_bad(trained: tuple[Path, TrainReport]) -> None:
    scorer: StepScorer = PrmScorer.load(trained[0])
    (scores,) = scorer.score(ITEMS[:1])
    assert scores[0] > 0.7
    assert max(scores[1:]) < 0.3


def test_batched_and_single_scores_are_equal(trained: tuple[Path, TrainReport]) -> None:
    together = PrmScorer.load(trained[0]).score(ITEMS)
    alone = PrmScorer.load(trained[0], batch_tokens=1).score(ITEMS)
    for scores, single in zip(together, alone, strict=True):
        assert scores == pytest.approx(single, abs=1e-5)
    assert [len(scores) for scores in together] == [3, 1, 2]


def test_lost_steps_score_zero_and_are_counted(trained: tuple[Path, TrainReport]) -> None:
    scorer = PrmScorer.load(trained[0])
    long, short = scorer.score([("q", ["\n1=", "\n2" + "0" * 90, "\n3="]), ("q", ["\n1="])])
    assert long[0] == pytest.approx(short[0], abs=1e-5)
    assert long[1:] == (0.0, 0.0)
    assert scorer.num_lost_steps == 2
    assert scorer.score([]) == []
    assert scorer.score([("q", [])]) == [()]


def _solutions() -> list[EncodedSolution]:
    """Three of different lengths, with 2, 1 and 3 steps, one of them without a target."""
    rng = random.Random(0)
    rows = [
        (10, (4, 9), (0.5, 1.0)),
        (8, (6,), (0.25,)),
        (13, (3, 7, 11), (0.0, None, 0.75)),
    ]
    return [
        EncodedSolution(
            EncodedSteps(tuple(rng.randint(1, 200) for _ in range(length)), positions, 0, 0),
            targets,
            tuple(bool(target) for target in targets),
            tuple(round(8 * (target or 0.0)) for target in targets),
            tuple(0 if target is None else 8 for target in targets),
        )
        for length, positions, targets in rows
    ]


def test_the_loss_is_the_mean_over_labelled_steps(base_path: Path) -> None:
    model, _ = load_base(make_config(base_path))
    solutions = _solutions()
    scores = score_encoded(model, [s.encoded for s in solutions], batch_tokens=1)
    errors = [
        (score - target) ** 2
        for solution, row in zip(solutions, scores, strict=True)
        for score, target in zip(row, solution.targets, strict=True)
        if target is not None
    ]
    assert len(errors) == 5
    collate = Collator(packing=False, weight=StepWeight.NONE)
    batch = collate(solutions)
    assert batch["input_ids"].shape == (3, 13)
    assert batch["attention_mask"].sum(1).tolist() == [10, 8, 13]
    assert batch["rows_N"].tolist() == [0, 0, 1, 2, 2, 2]
    assert batch["columns_N"].tolist() == [4, 9, 6, 3, 7, 11]
    trainer = PrmTrainer(config=make_config(base_path), model=model, args=_arguments(base_path))
    loss = trainer.compute_loss(model, batch)
    assert loss.item() == pytest.approx(sum(errors) / 5, abs=1e-6)
    halves = [
        trainer.compute_loss(model, collate(part), num_items_in_batch=5).item()
        for part in (solutions[:1], solutions[1:])
    ]
    assert sum(halves) == pytest.approx(loss.item(), abs=1e-6)


def _arguments(folder: Path) -> Any:
    return TrainingArguments(output_dir=str(folder), use_cpu=True, report_to="none")


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    with safe_open(folder / "model.safetensors", framework="pt") as tensors:
        return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118


def test_accumulation_weighs_every_step_alike(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    trained = []
    for batch_size, gradient_accumulation in ((8, 1), (2, 4)):
        out = tmp_path / f"prm-{batch_size}"
        config = make_config(
            base_path,
            epochs=2,
            learning_rate=1e-3,
            batch_size=batch_size,
            gradient_accumulation=gradient_accumulation,
        )
        report = train_prm(labels_path, out, config)
        trained.append((report.epoch_losses, _weights(out)))
    (losses, weights), (other_losses, other_weights) = trained
    assert losses == pytest.approx(other_losses, abs=1e-4)
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, other_weights[name], atol=1e-3, rtol=0)


def test_same_seed_same_weights_and_progress_counts_up(
    base_path: Path, labels_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[int, int]] = []

    def run(name: str, seed: int) -> bytes:
        config = make_config(base_path, epochs=1, seed=seed)
        train_prm(
            labels_path, tmp_path / name, config, on_progress=lambda *call: calls.append(call)
        )
        return (tmp_path / name / "model.safetensors").read_bytes()

    assert run("a", 3) == run("b", 3) != run("c", 4)
    total = calls[0][1]
    assert calls == [(done, total) for done in range(1, total + 1)] * 3
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_an_interrupted_run_leaves_the_earlier_model(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "prm"
    config = make_config(base_path, epochs=1)
    train_prm(labels_path, out, config)
    before = (out / "model.safetensors").read_bytes()

    def interrupt(num_done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_prm(labels_path, out, config.model_copy(update={"seed": 9}), on_progress=interrupt)
    assert (out / "model.safetensors").read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["prm"]


def test_unusable_input_is_named(base_path: Path, labels_path: Path, tmp_path: Path) -> None:
    run: Callable[..., Any] = lambda out, **changes: train_prm(  # noqa: E731
        labels_path, out, make_config(base_path, **changes)
    )
    with pytest.raises(ConfigError, match="not a PRM trained by stepmark"):
        run(base_path)
    with pytest.raises(ConfigError, match=r"base_model = '.*nowhere' cannot be loaded"):
        run(tmp_path / "prm", base_model=str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"max_length = 97, but .* takes at most 96"):
        run(tmp_path / "prm", max_length=97)
    with pytest.raises(DataError, match="not a PRM trained by"):
        PrmScorer.load(base_path)
    assert list(tmp_path.iterdir()) == []


def test_head_dropout_is_off_whatever_it_is_called(base_path: Path, tmp_path: Path) -> None:
    llama, _ = load_base(make_config(base_path))
    config = BertConfig(
        vocab_size=save_tokenizer(tmp_path),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        classifier_dropout=0.3,
    )
    BertForMaskedLM(config).save_pretrained(tmp_path)
    bert, _ = load_base(make_config(tmp_path))
    for model in (llama, bert):
        assert model.dropout.p == 0.0
        assert model.config.classifier_dropout == 0.0
        assert model.dtype is torch.float32
    assert bert.config.hidden_dropout_prob == 0.1


@pytest.fixture
def earlier(base_path: Path, labels_path: Path, tmp_path: Path) -> tuple[Path, bytes]:
    """An earlier PRM, the only thing in its folder, and its weights."""
    out = tmp_path / "prm"
    train_prm(labels_path, out, make_config(base_path, epochs=1))
    return out, (out / "model.safetensors").read_bytes()


@pytest.mark.parametrize("validation_share", [0.0, 0.25])
def test_a_training_that_diverged_saves_nothing(
    base_path: Path, labels_path: Path, earlier: tuple[Path, bytes], validation_share: float
) -> None:
    out, before = earlier
    changes = {"learning_rate": 1e38, "warmup_ratio": 0.0, "validation_share": validation_share}
    # two updates an epoch, of which the last is not followed by a loss
    for settings in ({"epochs": 3}, {"epochs": 1, "batch_size": 2**16}):
        config = make_config(base_path, **changes | settings)
        with pytest.raises(DataError, match=r"training diverged: after \d+ updates") as error:
            train_prm(labels_path, out, config)
        assert "lower train.learning_rate (it is 1e+38)" in str(error.value)
        assert (out / "model.safetensors").read_bytes() == before
        assert [entry.name for entry in out.parent.iterdir()] == ["prm"]


def test_damaged_base_models_are_named(base_path: Path, labels_path: Path, tmp_path: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(base_path)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    save_tokenizer(tmp_path / "base")
    model.save_pretrained(tmp_path / "base")
    with pytest.raises(DataError, match="base model gives outputs that are not finite"):
        train_prm(labels_path, tmp_path / "prm", make_config(tmp_path / "base"))
    weights = tmp_path / "base" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ConfigError, match=r"base_model = .* cannot be loaded"):
        train_prm(labels_path, tmp_path / "prm", make_config(tmp_path / "base"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["base"]


def test_a_full_disk_keeps_the_earlier_model(
    base_path: Path, labels_path: Path, earlier: tuple[Path, bytes]
) -> None:
    out, before = earlier
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(DataError, match=r"cannot be written to .*prm \(.*\); free space"):
            train_prm(labels_path, out, make_config(base_path, epochs=1, seed=9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (out / "model.safetensors").read_bytes() == before
    assert [entry.name for entry in out.parent.iterdir()] == ["prm"]


def test_a_control_token_written_in_a_step_is_scored_as_text(
    trained: tuple[Path, TrainReport],
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(trained[0])
    prompt = fill(tokenizer, "Question: {question}\nAnswer:", "<end>?")
    assert 0 not in encode_steps(tokenizer, prompt, ["\n1<end>="], max_length=96).input_ids
    item = ("<end>?", ["\n1<end>="])
    ids = torch.tensor(
        [tokenizer("Question: <end>?\nAnswer:\n1<end>=", split_special_tokens=True)["input_ids"]]
    )
    model = AutoModelForTokenClassification.from_pretrained(trained[0]).eval()
    with torch.no_grad():
        expected = torch.sigmoid(model(input_ids=ids).logits[0, -1, 0]).item()
    assert PrmScorer.load(trained[0]).score([item]) == [(pytest.approx(expected, abs=1e-5),)]
