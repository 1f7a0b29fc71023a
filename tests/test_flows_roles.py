"""The two models of a run on servers that know them by name only."""

import shutil
from pathlib import Path

import pytest

from flows.roles import resolve_roles
from flows.run_config import RunConfig, check_config
from pipeline.errors import ConfigError
from pipeline.samplers.models import MODEL_PATH


def config(generator: dict[str, object], **engine: object) -> RunConfig:
    served = {"kind": "openai", "urls": ["http://gpu1:8000"]}
    return check_config({"engine": served | engine, "generator": generator}, origin="test")


@pytest.fixture
def other(tmp_path: Path) -> str:
    """Another model than the demo's."""
    folder = shutil.copytree(MODEL_PATH, tmp_path / "other")
    settings = folder / "config.json"
    settings.write_text(settings.read_text() + "\n")
    return str(folder)


def test_one_served_name_for_two_models_is_refused(other: str) -> None:
    said = (
        r"served_model = 'one' would stand for both models, model.name = 'demo' and "
        r"generator.model.name = '.*other'; serve both under .* leave engine.served_model out"
    )
    with pytest.raises(ConfigError, match=said):
        resolve_roles(config({"model": {"name": other}}, served_model="one"))


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"different models of one name, 'demo', .*another name"):
        resolve_roles(config({"model": {"dtype": "float32"}}))


def test_two_models_under_their_own_names_are_two(other: str) -> None:
    roles = resolve_roles(config({"model": {"name": other}}))
    assert roles.generator is not None
    assert roles.digests == {roles.completer.digest, roles.generator.digest}


def test_one_model_may_have_another_served_name_for_both_roles(tmp_path: Path) -> None:
    sampling = {"sampling": {"temperature": 0.7}}
    assert resolve_roles(config(sampling, served_model="one")).generator is not None
    same = str(shutil.copytree(MODEL_PATH, tmp_path / "same"))
    assert resolve_roles(config({"model": {"name": same}}, served_model="one")).generator is None
