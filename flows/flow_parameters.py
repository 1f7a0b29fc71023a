"""The parameters of the Prefect flows: a config path, overrides, folders; and their checks.

Three places refuse bad parameters, each with what it can see:
1. `prefect deployment run` inside the checkout (`flows.prefect_plugin`): everything, before
   a run is made;
2. the server, wherever a run is made: missing parameters, types and the form of an override,
   by the deployment's schema, which Prefect derives from the types below. It cannot read
   files, and takes parameters of unknown names;
3. the flow's first lines, before anything is started: everything again, for runs that a
   schedule, the web page or another machine made.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, validate_call

from flows.run_config import RunConfig, config_from_json, load_config
from pipeline.errors import ConfigError
from storage.dataset import dataset_path
from storage.publish_config import PublishConfig
from storage.remote import local_path

ConfigFile = Annotated[str, Field(min_length=1, description="A TOML file; configs/ has examples.")]
Folder = Annotated[str, Field(min_length=1)]
Override = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*\s*=",
        description="section.key=value, such as problems.limit=100",
    ),
]
Overrides = tuple[Override, ...]


@validate_call
def check_generate_labels(
    *, config: ConfigFile, out: Folder, overrides: Overrides = ()
) -> tuple[RunConfig, Path]:
    """The resolved config and the dataset's folder.

    Raises ConfigError, and pydantic's ValidationError for parameters of another type.
    """
    return load_config(config, overrides), dataset_path(out)


@validate_call
def check_train_prm(
    *, dataset: Folder, out: Folder, config: ConfigFile | None = None, overrides: Overrides = ()
) -> tuple[RunConfig, Path, Path]:
    """The resolved config (default: the dataset's own), the dataset's and the PRM's folder.

    Raises as `check_generate_labels`.
    """
    folder = dataset_path(dataset)
    if config is None:
        resolved = config_from_json(folder / "config.json", overrides)
    else:
        resolved = load_config(config, overrides)
    return resolved, folder, local_path(out)


@validate_call
def check_publish_dataset(
    *, dataset: Folder, config: ConfigFile | None = None, overrides: Overrides = ()
) -> tuple[PublishConfig, Path]:
    """The section [publish] (default: of the dataset's own config) and the dataset's folder.

    Raises as `check_generate_labels`.
    """
    folder = dataset_path(dataset)
    if config is None:
        resolved = config_from_json(folder / "config.json", overrides)
    else:
        resolved = load_config(config, overrides)
    if resolved.publish.repo is None:
        raise ConfigError("publish.repo is not set; give overrides such as publish.repo=org/name")
    return resolved.publish, folder


CHECKS = {
    "generate-labels": check_generate_labels,
    "refresh-labels": check_generate_labels,
    "train-prm": check_train_prm,
    "publish-dataset": check_publish_dataset,
}
"""By the flow's name."""


def check_parameters(flow_name: str, parameters: Mapping[str, Any]) -> None:
    """Check a flow run's parameters, defaults included. Raises ConfigError.

    Flows that are not ours pass.
    """
    check = CHECKS.get(flow_name)
    if check is None:
        return
    try:
        check(**parameters)
    except ValidationError as error:
        problems = (
            f"{'.'.join(str(part) for part in one['loc'])} = {one['input']!r}: {one['msg']}"
            for one in error.errors()
        )
        raise ConfigError(f"parameters of {flow_name}: " + "; ".join(problems)) from error
