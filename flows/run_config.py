"""The run's configuration: one TOML file, composed of the packages' own small configs.

`load_config` reads the file, applies `key=value` overrides, and refuses what no config
knows, before anything is started. Relative paths in it are relative to where the command
runs.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator

from grading.config import GradingConfig
from labeling.policies.config import AllocationConfig, AllocationPolicy, RefreshConfig
from labeling.prompts import PromptConfig
from labeling.steps import StepConfig
from pipeline.config import EngineConfig, FrozenConfig, ModelConfig, SamplingConfig
from pipeline.errors import ConfigError
from search.config import SearchConfig
from search.scoring import Aggregation
from storage.dataset import refuse_model
from storage.decontamination import DecontaminationConfig
from storage.problem_config import ProblemsConfig, SplitName
from storage.publish_config import PublishConfig
from train.config import TrainConfig
from train.dpo_config import DpoConfig

_MAX_SHOWN = 120
_MAX_ERRORS = 5
_SHARE_TOLERANCE = 1e-6

Share = Annotated[float, Field(gt=0, le=1)]
_CAN_BE_TOPPED_UP = (AllocationPolicy.ADAPTIVE, AllocationPolicy.FIXED)


class LabelConfig(FrozenConfig):
    """From counts to labels."""

    hard_threshold: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A step's hard label is true where its MC value is above this."""
    splits: dict[SplitName, Share] | None = None
    """Shares of the problems, as in {train = 0.9, test = 0.1}, by a hash of the question; they
    sum to 1. `load_dataset(data_dir=…)` finds train, validation and test by itself; other names
    need `data_files`. None makes one split, named by problems.split."""
    keep_snapshots: Annotated[int, Field(ge=1)] = 7
    """The newest so many snapshots of the labels are kept, the current one among them."""

    @field_validator("splits")
    @classmethod
    def _sum_to_1(cls, splits: dict[str, float] | None) -> dict[str, float] | None:
        if splits is not None and abs(sum(splits.values()) - 1) > _SHARE_TOLERANCE:
            raise ValueError(f"the shares sum to {sum(splits.values()):.6g}, not to 1")
        return splits


class GeneratorConfig(FrozenConfig):
    """Another model that writes the solutions, before the completer begins; its own rollouts
    never count for the completer. Without this section the completer writes them itself.
    """

    model: ModelConfig = ModelConfig()
    sampling: SamplingConfig | None = None
    """None takes [sampling]."""
    prompt: PromptConfig | None = None
    """None takes [prompt]."""


class EvaluateConfig(FrozenConfig):
    """Which unseen problems the PRM picks solutions for, and from how many."""

    problems: ProblemsConfig = ProblemsConfig(split="test", limit=200)
    ns: Annotated[tuple[Annotated[int, Field(ge=1, le=1024)], ...], Field(min_length=1)] = (1, 4, 8)
    """The numbers of candidates; as many as the largest are sampled a problem."""
    aggregation: Aggregation = Aggregation.MIN
    """The one that the summary speaks of; the table has all."""

    @field_validator("ns")
    @classmethod
    def _are_distinct(cls, ns: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(ns)) != len(ns):
            raise ValueError("a number of candidates stands there twice")
        return ns


class RunConfig(FrozenConfig):
    """Everything that a run can be told. An empty file is the bundled demo domain."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Part of what defines the samples: another seed draws others."""
    problems: ProblemsConfig = ProblemsConfig(limit=60)
    decontamination: DecontaminationConfig = DecontaminationConfig()
    model: ModelConfig = ModelConfig()
    generator: GeneratorConfig | None = None
    engine: EngineConfig = EngineConfig()
    sampling: SamplingConfig = SamplingConfig()
    prompt: PromptConfig = PromptConfig()
    steps: StepConfig = StepConfig()
    allocation: AllocationConfig = AllocationConfig()
    refresh: RefreshConfig = RefreshConfig()
    grading: GradingConfig = GradingConfig()
    labels: LabelConfig = LabelConfig()
    train: TrainConfig = TrainConfig()
    dpo: DpoConfig = DpoConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    search: SearchConfig = SearchConfig()
    publish: PublishConfig = PublishConfig()

    @field_validator("refresh")
    @classmethod
    def _fits_the_policy(cls, refresh: RefreshConfig, info: ValidationInfo) -> RefreshConfig:
        allocation = info.data.get("allocation")  # none where it is wrong itself
        if allocation is None or not refresh.tops_up or allocation.policy in _CAN_BE_TOPPED_UP:
            return refresh
        raise ValueError(
            f"a top-up needs allocation.policy = 'adaptive' or 'fixed', and it is "
            f"{allocation.policy.value!r}, whose labels say nothing of a value between 0 and 1 or "
            "which spends allocation.budget on the widest intervals itself"
        )


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The config in the TOML file `path`, changed by `section.key=value` overrides.

    Raises ConfigError naming the file and line, or the key and the offending value.
    """
    file = Path(path).expanduser()
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no config file {file}; see configs/ for examples") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, too
        raise ConfigError(f"{file} is not valid TOML: {error}") from error
    for override in overrides:
        _apply(content, override)
    return check_config(content, origin=str(file))


def config_of(overrides: Sequence[str]) -> RunConfig:
    """The default config changed by overrides. Raises ConfigError as `load_config`."""
    content: dict[str, Any] = {}
    for override in overrides:
        _apply(content, override)
    return check_config(content, origin="--set")


def config_from_json(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The resolved config that a run wrote as `config.json`, changed by overrides."""
    refuse_model(path.parent)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}); name the folder that `stepmark generate` wrote or, "
            "where it can be given, another config"
        ) from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no config; where one can be given, give another")
    for override in overrides:
        _apply(content, override)
    return check_config(content, origin=str(path))


def check_config(content: dict[str, Any], *, origin: str) -> RunConfig:
    """Validate the parsed content of a config. Raises ConfigError as `load_config`.

    Values keep their type: the text "5", `true` or 5.0 is no whole number.
    """
    text = json.dumps(content, default=str)  # the strict rules for JSON fit TOML's types
    try:
        return RunConfig.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {_explain_all(error)}") from error


def section_model(annotation: object) -> type[BaseModel] | None:
    """The model of a field that is a section, which may be optional; None for another field."""
    for one in (annotation, *get_args(annotation)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def _explain_all(error: ValidationError) -> str:
    """The first few errors, and how many more there are."""
    errors = error.errors()
    said = [_explain(dict(one)) for one in errors[:_MAX_ERRORS]]
    if len(errors) > _MAX_ERRORS:
        said.append(f"and {len(errors) - _MAX_ERRORS} more errors")
    return "; ".join(dict.fromkeys(said))


def _explain(error: dict[str, Any]) -> str:
    key = ".".join(str(part) for part in error["loc"]) or "(top level)"
    if error["type"] == "extra_forbidden":
        return f"unknown key {key}; {_keys_beside(error['loc'])}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if isinstance(error["input"], dict):  # keys that do not fit together
        return f"{key}: {message}"
    value = repr(error["input"])
    shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    return f"{key} = {shown}: {message}{_hint(error)}"


def _hint(error: dict[str, Any]) -> str:
    """The choice that is nearest to a word which is none of the choices."""
    if error["type"] != "enum":
        return ""
    choices = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    nearest = difflib.get_close_matches(str(error["input"]), choices, n=1)
    return f"; did you mean '{nearest[0]}'?" if nearest else ""


def _keys_beside(location: Sequence[str | int]) -> str:
    """The keys that the section of an unknown key has, the nearest one first."""
    section: type[BaseModel] = RunConfig
    for part in location[:-1]:
        inner = section_model(section.model_fields[str(part)].annotation)
        assert inner is not None
        section = inner
    known = list(section.model_fields)
    nearest = difflib.get_close_matches(str(location[-1]), known, n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    return f"{hint}Known here: {', '.join(known)}"


def _apply(content: dict[str, Any], override: str) -> None:
    key, found, text = override.partition("=")
    parts = key.strip().split(".")
    if not found or not all(part.replace("_", "").isalnum() for part in parts):
        raise ConfigError(
            f"--set {override!r} is not of the form section.key=value, such as problems.limit=100"
        )
    table = content
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override!r}: {part} is a value, not a section")
    table[parts[-1]] = _toml_value(text.strip())


def _toml_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # ValueError: a number of thousands of digits, too
        return text  # an unquoted string, as one types it in a shell
    return parsed["value"] if set(parsed) == {"value"} else text
