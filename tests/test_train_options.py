"""LoRA, checkpointing, bfloat16, packing, ORM, and the card, end to end on a tiny model."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from safetensors import safe_open
from transformers import AutoModelForTokenClassification

from pipeline.errors import ConfigError, DataError
from search.scoring import Aggregation
from storage.schema import SCHEMA_VERSION as STORED_VERSION
from storage.schema import VERSION_KEY as STORED_KEY
from tests.tiny_training import make_base, make_config, write_labels
from train.card import model_card
from train.config import LoraConfig, LossName, Objective, StepWeight
from train.encoded_labels import encode_labels
from train.labels import SCHEMA_VERSION, VERSION_KEY, read_labels
from train.model import load_base
from train.scorer import PrmScorer
from train.trainer import train_prm

ITEMS = [("sum 3?", ["\n12=", "\n7!", "\n88="]), ("sum 14?", ["\n1=", "\n3=", "\n5="])]


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def labels_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labels(tmp_path_factory.mktemp("labels"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    with safe_open(folder / "model.safetensors", framework="pt") as tensors:
        return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118


def test_adapters_are_trained_alone_and_merged(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "prm"
    config = make_config(base_path, lora=LoraConfig(rank=4, alpha=16), epochs=10, save_steps=50)
    report = train_prm(labels_path, out, config)
    assert report.validation is not None
    assert report.validation.auc is not None
    assert report.validation.auc > 0.95
    assert report.train_loss < 0.3 * report.epoch_losses[0]
    before, _ = load_base(config)
    frozen, trained = dict(before.named_parameters()), weights(out)
    assert trained.keys() == set(before.state_dict())
    for name, tensor in trained.items():
        is_adapted = ("proj" in name) or name.startswith("score")
        assert torch.equal(tensor, frozen[name].detach()) != is_adapted, name
    change = trained["model.layers.0.self_attn.q_proj.weight"] - (
        frozen["model.layers.0.self_attn.q_proj.weight"].detach()
    )
    assert torch.linalg.matrix_rank(change, rtol=1e-4) <= 4
    AutoModelForTokenClassification.from_pretrained(out)
    assert {entry.name for entry in tmp_path.iterdir()} == {"prm"}


def losses(labels: Path, out: Path, base: Path, **changes: Any) -> tuple[float, ...]:
    settings = {"epochs": 1, "learning_rate": 1e-3}
    return train_prm(labels, out, make_config(base, **(settings | changes))).epoch_losses


def test_memory_savers_do_not_change_what_is_learned(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "prm"
    one_batch = {"batch_size": 1024, "epochs": 3}
    plain = losses(labels_path, out, base_path, **one_batch)
    expected = weights(out)
    assert losses(
        labels_path, out, base_path, gradient_checkpointing=True, **one_batch
    ) == pytest.approx(plain, abs=1e-6)
    torch.testing.assert_close(weights(out), expected, atol=1e-5, rtol=0)
    assert losses(labels_path, out, base_path, packing=True, **one_batch) == pytest.approx(
        plain, abs=1e-5
    )
    torch.testing.assert_close(weights(out), expected, atol=1e-3, rtol=0)
    assert "stepmark_packed" not in (out / "config.json").read_text()
    assert losses(labels_path, out, base_path, bf16=True, **one_batch) == pytest.approx(
        plain, abs=5e-3
    )


@pytest.mark.slow
def test_packing_goes_with_adapters_bfloat16_and_checkpointing(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    everything = {"packing": True, "bf16": True, "gradient_checkpointing": True}
    report = train_prm(
        labels_path,
        tmp_path / "prm",
        make_config(base_path, lora=LoraConfig(), epochs=8, gradient_accumulation=2, **everything),
    )
    assert report.train_loss < 0.7 * report.epoch_losses[0]
    assert {tensor.dtype for tensor in weights(tmp_path / "prm").values()} == {torch.float32}


@pytest.mark.parametrize(
    "loss",
    [
        LossName.BETA_BINOMIAL,
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("bce", "hard")),
    ],
)
def test_every_loss_learns(
    loss: LossName, base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    config = make_config(
        base_path, loss=LossName(loss), weight=StepWeight.INTERVAL, epochs=10, packing=True
    )
    report = train_prm(labels_path, tmp_path / "prm", config)
    assert report.validation is not None
    assert report.validation.auc is not None
    assert report.validation.auc > 0.95


def test_an_orm_learns_the_verdict_at_the_last_step(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    config = make_config(base_path, objective=Objective.ORM, loss=LossName.BCE)
    report = train_prm(labels_path, tmp_path / "orm", config)
    assert report.num_train_steps == report.num_train_solutions
    assert report.validation is not None
    assert report.validation.agreement > 0.9
    scorer = PrmScorer.load(tmp_path / "orm")
    assert (scorer.objective, scorer.aggregation) == ("orm", Aggregation.LAST)
    bad, good = scorer.score(ITEMS)
    assert bad[-1] < 0.3 < 0.7 < good[-1]
    assert report.mean_target == report.num_good_steps / report.num_train_steps


def test_what_belongs_to_the_weights_is_in_their_config(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    config = make_config(base_path, epochs=4)
    report = train_prm(labels_path, tmp_path / "prm", config, step_method="newline")
    extras = json.loads((tmp_path / "prm" / "config.json").read_text())["stepmark"]
    assert extras["step_rule"] == {"score": "last-token", "separator": "", "split": "newline"}
    assert report.validation is not None
    assert extras["threshold"] == report.validation.threshold
    assert (extras["aggregation"], extras["objective"], extras["loss"]) == ("min", "prm", "mse")
    scorer = PrmScorer.load(tmp_path / "prm")
    assert scorer.threshold == report.validation.threshold
    assert scorer.aggregation == Aggregation.MIN
    assert report.num_duplicate_steps == _num_repeated(labels_path)
    good = [label for row in read_labels(labels_path, split="train") for label in row.hard_labels]
    assert 0 < report.num_good_steps < report.num_train_steps <= len(good)


def _num_repeated(labels_path: Path) -> int:
    seen: set[tuple[str, ...]] = set()
    num_repeated = 0
    for row in read_labels(labels_path, split="train"):
        for end in range(1, len(row.steps) + 1):
            key = (row.question, *row.steps[:end])
            num_repeated += key in seen
            seen.add(key)
    return num_repeated


def test_the_card_is_the_hubs_and_names_cannot_break_it(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    report = train_prm(labels_path, tmp_path / "prm", make_config(base_path, epochs=1))
    card = (tmp_path / "prm" / "README.md").read_text()
    header = yaml.safe_load(card.split("---\n")[1])
    assert header["pipeline_tag"] == "token-classification"
    assert "base_model" not in header  # a folder is no name on the Hub
    hostile = 'x: [\n---\n```\n<script>alert(1)</script>\n# "Evil"\u202e {question}'
    evil = {**report.config, "base_model": "org/model", "template": hostile}
    card = model_card(
        report.__class__(**{**_fields(report), "config": evil}), {"template": hostile, "n": 1}
    )
    header = yaml.safe_load(card.split("---\n")[1])
    assert header["base_model"] == "org/model"
    assert '\n# "Evil"' not in card
    assert "\u202e" not in card
    assert card.count("\n````json\n") == 2
    for inside in card.split("````json\n")[1:]:
        assert json.loads(inside.split("\n````\n")[0])["template"] == hostile


def _fields(report: Any) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__dataclass_fields__}


def test_another_schema_version_is_refused(labels_path: Path, tmp_path: Path) -> None:
    assert int(SCHEMA_VERSION) == STORED_VERSION
    assert STORED_KEY == VERSION_KEY
    table = pq.read_table(labels_path / "train-00000.parquet")
    for version in (SCHEMA_VERSION, "99"):
        marked = table.replace_schema_metadata({VERSION_KEY: version.encode()})
        pq.write_table(marked, tmp_path / "train-00000.parquet")
        if version == SCHEMA_VERSION:
            assert len(list(read_labels(tmp_path, split="train"))) == 96
        else:
            with pytest.raises(DataError, match=r"train-00000.parquet has schema version 99, this"):
                list(read_labels(tmp_path, split="train"))


def test_an_orm_needs_verdicts(base_path: Path, labels_path: Path, tmp_path: Path) -> None:
    table = pq.read_table(labels_path / "train-00000.parquet")
    config = make_config(base_path, objective=Objective.ORM)
    for changed, message in (
        (table.drop_columns(["verdict"]), "solution s0 has no verdict, which train.objective"),
        (_with_verdict(table, "maybe"), r"row 0 .*: verdict 'maybe' is none of correct"),
        (_with_verdict(table, "undecided"), "no step of .* is left to train on"),
    ):
        pq.write_table(changed, tmp_path / "train-00000.parquet")
        with pytest.raises(DataError, match=message):
            train_prm(tmp_path, tmp_path / "out" / "prm", config)


def _with_verdict(table: pa.Table, verdict: str) -> pa.Table:
    column = pa.array([verdict] * len(table))
    return table.set_column(table.column_names.index("verdict"), "verdict", column)


@pytest.mark.parametrize("token", ["<extra_0>", "<|im_start|>", "[SEP]"])
def test_a_template_with_a_token_that_is_none_is_refused(token: str, base_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not have as a control token, only <end>"):
        load_base(make_config(base_path, template=f"{token}{{question}}"))
    load_base(make_config(base_path, template="<end>{question} a < b > [c]"))


def test_encoded_labels_are_read_from_the_disk(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    config = make_config(base_path)
    model, tokenizer = load_base(config)
    labels = encode_labels(
        labels_path,
        tmp_path / "encoded.arrow",
        tokenizer=tokenizer,
        config=config,
        max_length=model.config.stepmark["max_length"],
    )
    assert len(labels.train) + len(labels.validation) == 96
    assert [len(one.encoded.input_ids) for one in labels.train] == labels.train.lengths.tolist()
    assert [one.encoded for one in labels.train[2:4]] == [
        labels.train[2].encoded,
        labels.train[3].encoded,
    ]
    mapped = pa.total_allocated_bytes()
    assert mapped < (tmp_path / "encoded.arrow").stat().st_size
