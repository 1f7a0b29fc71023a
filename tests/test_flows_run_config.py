"""Configs: what is refused, how it is said, and overrides of every TOML type."""

import json
from pathlib import Path

import pytest

from flows.run_config import RunConfig, check_config, config_from_json, load_config
from labeling.steps import StepMethod
from pipeline.errors import ConfigError

CONFIGS = Path(__file__).parents[1] / "configs"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "run.toml"
    made.write_text("[problems]\nlimit = 5\n")
    return made


def test_an_empty_file_is_the_demo(tmp_path: Path) -> None:
    file = tmp_path / "empty.toml"
    file.write_bytes(b"\xef\xbb\xbf")
    assert load_config(file) == RunConfig()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.name)
def test_the_shipped_configs_load_and_survive_json(path: Path, tmp_path: Path) -> None:
    config = load_config(path)
    written = tmp_path / "config.json"
    written.write_text(json.dumps(config.model_dump(mode="json")))
    assert config_from_json(written) == config
    assert config_from_json(written).digest() == config.digest()


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("problems.limit=7", "problems", "limit", 7),
        ("sampling.temperature=0.5", "sampling", "temperature", 0.5),
        ("sampling.temperature=1", "sampling", "temperature", 1.0),
        ("model.trust_remote_code=true", "model", "trust_remote_code", True),
        ("model.name=org/model", "model", "name", "org/model"),
        ('model.name="a b"', "model", "name", "a b"),
        ("model.name=a=b", "model", "name", "a=b"),
        ("steps.method=blank-line", "steps", "method", StepMethod.BLANK_LINE),
        ('sampling.stop=["\\n", "x"]', "sampling", "stop", ("\n", "x")),
        (" problems.limit = 7 ", "problems", "limit", 7),
    ],
)
def test_overrides(file: Path, override: str, section: str, key: str, value: object) -> None:
    config = load_config(file, [override])
    assert getattr(getattr(config, section), key) == value
    assert config.problems.limit in {5, 7}


def test_overrides_reach_deep_and_the_last_wins(file: Path) -> None:
    config = load_config(
        file,
        ['evaluate.problems={source="demo", limit=3}', "evaluate.problems.limit=9", "seed=4"],
    )
    assert (config.evaluate.problems.limit, config.seed) == (9, 4)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("problems.limit=abc", "problems.limit = 'abc': Input should be a valid integer"),
        ('problems.limit="5"', "problems.limit = '5': Input should be a valid integer"),
        ("problems.limit=true", "problems.limit = True: Input should be a valid integer"),
        ("problems.limit=5.0", "problems.limit = 5.0: Input should be a valid integer"),
        ("problems.limit=0", "problems.limit = 0: Input should be greater than or equal to 1"),
        ("problems.limit=", "problems.limit = '': Input should be a valid integer"),
        ("problems.limit=2026-01-01", "problems.limit = '2026-01-01'"),
        ("model.trust_remote_code=1", "model.trust_remote_code = 1: Input should be a valid bool"),
        ("model.name=5", "model.name = 5: Input should be a valid string"),
        ("sampling.temperature=nan", "sampling.temperature = "),
        ("sampling.temperature=0.0", "sampling.temperature = 0.0: Input should be greater than 0"),
        ("sampling.stop=x", "sampling.stop = 'x': Input should be a valid"),
        ('sampling.stop=[""]', "sampling.stop.0 = '': String should have at least 1 character"),
        ("steps.method=lines", "steps.method = 'lines': Input should be 'auto', 'newline'"),
        ("engine.kind=vlm", "or 'scripted'; did you mean 'vllm'?"),
        ("allocation.policy=fixd", "or 'uncertain-first'; did you mean 'fixed'?"),
        ("evaluate.ns=[]", "evaluate.ns = []: "),
        ("evaluate.ns=[0]", "evaluate.ns.0 = 0: "),
        (
            "allocation.min_rollouts=30",
            "run.toml: allocation: min_rollouts = 30 is above max_rollouts = 20",
        ),
        ("problems.limit={a=1}", "run.toml: problems.limit: Input should be a valid integer"),
        ("problems.split=a/b", "problems.split = 'a/b': String should match pattern"),
        ("problems.split=A", "problems.split = 'A': String should match pattern"),
        ("problems.split=_x", "problems.split = '_x': String should match pattern"),
        ("problems.split=all", "problems.split = 'all': `load_dataset` takes this for all"),
        ("labels.splits={all=1.0}", "= 'all': `load_dataset` takes this for all"),
        ("steps=3", "steps = 3: Input should be an object"),
        ("problems.limt=3", "unknown key problems.limt; did you mean limit? Known here: source, "),
        ("evaluate.problems.zzz=3", "unknown key evaluate.problems.zzz; Known here: source, "),
        ("zzz=3", "unknown key zzz; Known here: seed, problems, decontamination, "),
        ("grading.profil=math", "unknown key grading.profil; did you mean profile? "),
        ("problems.limit.x=3", "--set 'problems.limit.x=3': limit is a value, not a section"),
        ("problems", "--set 'problems' is not of the form section.key=value"),
        ("=3", "--set '=3' is not of the form"),
        ("problems..limit=3", "--set 'problems..limit=3' is not of the form"),
    ],
)
def test_what_is_refused(file: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(file, [override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value) or "--set" in str(caught.value)


def test_long_values_are_cut_in_messages(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(file, [f"problems.limit={'x' * 10_000}"])
    assert len(str(caught.value)) < 400


def test_five_errors_are_enough(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(file, [f"key_{n}=1" for n in range(30)])
    message = str(caught.value)
    assert message.count("unknown key") == 5
    assert message.endswith("; and 25 more errors")


def test_a_model_is_no_dataset(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for content, what in (
        ({"model_type": "llama", "stepmark": {}}, "a PRM that `stepmark train` wrote"),
        ({"model_type": "llama"}, "a model"),
    ):
        file.write_text(json.dumps(content))
        with pytest.raises(ConfigError) as caught:
            config_from_json(file)
        assert str(caught.value) == (
            f"{tmp_path} is {what}, not a dataset; name a folder that `stepmark generate` wrote, "
            "or, for a new dataset, a new folder"
        )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no config file .*none\.toml; see configs/"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"cannot be read: .*Is a directory"):
        load_config(tmp_path)
    file = tmp_path / "bad.toml"
    file.write_text("[problems]\nlimit = = 3\n")
    with pytest.raises(ConfigError, match=r"bad\.toml is not valid TOML: .*line 2"):
        load_config(file)
    file.write_bytes(b"x = '\xff'")
    with pytest.raises(ConfigError, match=r"bad\.toml cannot be read: 'utf-8' codec"):
        load_config(file)
    file.write_text("x = " + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"bad\.toml is not valid TOML"):
        load_config(file)


def test_a_datasets_own_config(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with pytest.raises(ConfigError, match=r"config\.json cannot be read .*stepmark generate"):
        config_from_json(file)
    with pytest.raises(ConfigError) as caught:
        config_from_json(file)
    assert "--config" not in str(caught.value)  # no option of a flow, nor of `show`
    for content in ("[1]", "{broken", "3"):
        file.write_text(content)
        with pytest.raises(ConfigError, match=r"config\.json"):
            config_from_json(file, ["seed=1"])


def test_what_defines_the_samples_changes_the_digest() -> None:
    assert check_config({"seed": 1}, origin="x").digest() != RunConfig().digest()
    assert check_config({}, origin="x").digest() == RunConfig().digest()
