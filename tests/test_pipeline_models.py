"""Finding and naming models: what changes a model's identity, and what does not."""

import os
import shutil
from pathlib import Path

import pytest

from pipeline.config import ModelConfig
from pipeline.errors import ConfigError
from pipeline.samplers.models import load_tokenizer, resolve_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tiny"
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / "model.safetensors").write_bytes(bytes(20 << 20))
    (made / "README.md").write_text("card")
    return made


def identity(folder: Path) -> str:
    return resolve_model(ModelConfig(name=str(folder))).identity


def test_identity_is_of_contents_not_of_place_or_time(folder: Path, tmp_path: Path) -> None:
    source = resolve_model(ModelConfig(name=str(folder)))
    assert (source.label, source.location, source.revision) == ("tiny", str(folder), None)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    os.utime(copy / "config.json", (0, 0))
    (copy / "README.md").write_text("other card")
    assert identity(copy) == source.identity


@pytest.mark.parametrize("position", [0, (20 << 20) - 1])
def test_changed_weights_and_configs_change_it(folder: Path, position: int) -> None:
    before = identity(folder)
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.seek(position)
        stream.write(b"x")
    after = identity(folder)
    assert after != before
    (folder / "config.json").write_text('{"a": 1}')
    assert identity(folder) not in {before, after}


def test_a_relative_folder_has_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert resolve_model(ModelConfig(name=".")).label == "tiny"


def test_hub_ids_are_named_with_their_revision() -> None:
    assert resolve_model(ModelConfig(name="org/model")).identity == "org/model@main"
    assert resolve_model(ModelConfig(name="org/model", revision="v2")).identity == "org/model@v2"


@pytest.mark.parametrize("name", ["/no/such/model", "./none", "~/none/such", "a/b/c"])
def test_missing_folders_are_config_errors(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a folder on this machine"):
        resolve_model(ModelConfig(name=name))


def test_a_folder_without_config_or_tokenizer(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no none\.gguf"):
        resolve_model(ModelConfig(name=str(folder), gguf_file="none.gguf"))
    with pytest.raises(ConfigError, match=r"no tokenizer for model\.name = "):
        load_tokenizer(ModelConfig(name=str(folder)))
