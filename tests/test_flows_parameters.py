"""Flow parameters: the schema that the server enforces, and the checks that read files."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.schemas.objects import State, StateType
from prefect.flows import Flow
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import is_valid_schema, validate

from flows.flow_parameters import check_generate_labels, check_parameters, check_train_prm
from flows.generate_labels import generate_labels, is_engine_failure
from flows.publish_dataset import is_hub_failure, publish_dataset
from flows.refresh_labels import refresh_labels
from flows.train_prm import train_prm_flow
from pipeline.errors import ConfigError, DatasetLockedError, EngineError, GateError, HubError

CHECKOUT = Path(__file__).parents[1]
LABEL = {"config": "c.toml", "out": "out"}
TRAIN = {"dataset": "out", "out": "prm"}
PUBLISH = {"dataset": "out", "overrides": ["publish.repo=org/name"]}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "c.toml"
    file.write_text("[problems]\nlimit = 5\n")
    return file


@pytest.mark.parametrize(
    ("flow", "parameters"),
    [
        (generate_labels, LABEL),
        (generate_labels, {**LABEL, "overrides": ["problems.limit=5", "model.name = a=b"]}),
        (train_prm_flow, TRAIN),
        (train_prm_flow, {**TRAIN, "config": None, "overrides": []}),
        (publish_dataset, PUBLISH),
        (refresh_labels, {**LABEL, "overrides": ["publish.repo=org/name"]}),
    ],
)
def test_the_servers_schema_takes_good_parameters(
    flow: Flow[..., Any], parameters: dict[str, object]
) -> None:
    assert _schema_errors(flow, parameters) == []


@pytest.mark.parametrize(
    ("flow", "parameters"),
    [
        (generate_labels, {"config": "c.toml"}),
        (generate_labels, {**LABEL, "config": ""}),
        (generate_labels, {**LABEL, "config": 5}),
        (generate_labels, {**LABEL, "overrides": "problems.limit=5"}),
        (generate_labels, {**LABEL, "overrides": ["problems.limit"]}),
        (generate_labels, {**LABEL, "overrides": ["problems..limit=5"]}),
        (generate_labels, {**LABEL, "overrides": [{"problems.limit": 5}]}),
        (train_prm_flow, {"out": "prm"}),
        (train_prm_flow, {**TRAIN, "overrides": ["=5"]}),
        (publish_dataset, {"overrides": []}),
        (refresh_labels, {**LABEL, "overrides": ["publish.repo"]}),
    ],
)
def test_the_servers_schema_refuses_bad_parameters(
    flow: Flow[..., Any], parameters: dict[str, object]
) -> None:
    assert _schema_errors(flow, parameters)
    with pytest.raises(ConfigError, match=f"parameters of {flow.name}: "):
        check_parameters(flow.name, parameters)


def test_the_schemas_hold_in_the_deployments_of_the_yaml() -> None:
    flows = {
        "flows.generate_labels:generate_labels": generate_labels,
        "flows.train_prm:train_prm_flow": train_prm_flow,
        "flows.publish_dataset:publish_dataset": publish_dataset,
        "flows.refresh_labels:refresh_labels": refresh_labels,
    }
    for deployment in yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["deployments"]:
        flow = flows[deployment["entrypoint"]]
        assert _schema_errors(flow, deployment["parameters"]) == []
        is_valid_schema(parameter_schema(flow).model_dump_for_openapi())


def test_a_configs_content_is_checked(config: Path) -> None:
    resolved, out = check_generate_labels(
        config=str(config), out="out", overrides=("problems.limit=7",)
    )
    assert (resolved.problems.limit, out) == (7, Path("out"))
    for overrides, message in [
        (("problems.limti=5",), "unknown key problems.limti"),
        (("problems.limit=five",), "problems.limit = 'five'"),
    ]:
        with pytest.raises(ConfigError, match=message):
            check_generate_labels(config=str(config), out="out", overrides=overrides)


def test_train_takes_the_datasets_own_config(tmp_path: Path, config: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        check_train_prm(dataset=str(tmp_path), out="prm")
    (tmp_path / "config.json").write_text(json.dumps({"train": {"epochs": 3}}))
    resolved, dataset, prm = check_train_prm(dataset=str(tmp_path), out="prm")
    assert (resolved.train.epochs, dataset, prm) == (3, tmp_path, Path("prm"))
    resolved, _, _ = check_train_prm(dataset=str(tmp_path), out="prm", config=str(config))
    assert resolved.train.epochs == 1


def test_the_flows_check_before_they_touch_anything(tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    with pytest.raises(ConfigError, match="there is no config file"):
        generate_labels.fn(config=str(tmp_path / "absent.toml"), out=str(out))
    with pytest.raises(ConfigError, match="there is no config file"):
        refresh_labels.fn(config=str(tmp_path / "absent.toml"), out=str(out))
    with pytest.raises(ConfigError, match="cannot be read"):
        train_prm_flow.fn(dataset=str(out), out=str(tmp_path / "prm"))
    with pytest.raises(ConfigError, match="cannot be read"):
        publish_dataset.fn(dataset=str(out))
    assert list(tmp_path.iterdir()) == []


def test_only_a_dead_engine_is_retried() -> None:
    def is_retried(error: Exception) -> bool:
        return is_engine_failure(None, None, State(type=StateType.FAILED, data=error))

    assert is_retried(EngineError("dead"))
    for error in (ConfigError("bad"), DatasetLockedError("locked"), ValueError("a bug")):
        assert not is_retried(error)


def test_only_a_hub_that_cannot_be_reached_is_asked_again() -> None:
    def is_retried(error: Exception) -> bool:
        return is_hub_failure(None, None, State(type=StateType.FAILED, data=error))

    assert is_retried(HubError("down"))
    assert not is_retried(GateError("refused"))
    assert not is_retried(ConfigError("no token"))


def _schema_errors(flow: Flow[..., Any], parameters: dict[str, object]) -> list[object]:
    """As the server checks: Prefect's own validator on the flow's own schema."""
    schema = parameter_schema(flow).model_dump_for_openapi()
    return list(validate(parameters, schema, raise_on_error=False))
