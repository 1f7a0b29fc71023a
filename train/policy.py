"""A language model that Step-DPO trains: loading it, and its folder.

A standard class, `AutoModelForCausalLM`. Its `config.json` says under `stepmark_policy` what
it was trained on, and tells its folder from others.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from pipeline.config import ModelConfig
from pipeline.errors import ConfigError
from pipeline.samplers.models import load_tokenizer, resolve_model
from train.config import DEFAULT_MAX_LENGTH
from train.dpo_config import DpoConfig
from train.model import quiet_transformers

POLICY_KEY = "stepmark_policy"
FORMAT_VERSION = 1
POLICY = "a model trained by `stepmark dpo`"


def is_policy_folder(path: Path) -> bool:
    """Whether `path` is a folder that `stepmark dpo` wrote."""
    file = path / "config.json"
    return file.is_file() and f'"{POLICY_KEY}"' in file.read_text(encoding="utf-8")


def base_tokenizer(config: DpoConfig) -> Any:
    """The base model's own tokenizer. Raises ConfigError where there is none."""
    return load_tokenizer(_model(config))


def load_base_policy(config: DpoConfig) -> PreTrainedModel:
    """The base model. The weights are float32; frozen ones (`config.lora`) are bfloat16 with
    `config.bf16`.

    Raises ConfigError for a model that is not there or is no language model.
    """
    source = resolve_model(_model(config))
    try:
        with quiet_transformers():
            return AutoModelForCausalLM.from_pretrained(
                source.location,
                revision=source.revision,
                dtype=torch.bfloat16 if config.lora and config.bf16 else torch.float32,
            )
    except Exception as error:  # the readers of weights raise what they like
        raise ConfigError(
            f"dpo.base_model = {config.base_model!r} cannot be loaded as a language model: {error}"
        ) from error


def max_length(model: PreTrainedModel, config: DpoConfig) -> int:
    """Tokens of prompt and step together. Raises ConfigError where the model reads fewer."""
    limit = getattr(model.config, "max_position_embeddings", None)
    if config.max_length is None:
        return min(DEFAULT_MAX_LENGTH, limit or DEFAULT_MAX_LENGTH)
    if limit and config.max_length > limit:
        raise ConfigError(
            f"dpo.max_length = {config.max_length}, but {config.base_model!r} takes at most "
            f"{limit} tokens; set dpo.max_length = {limit} or less"
        )
    return config.max_length


def _model(config: DpoConfig) -> ModelConfig:
    return ModelConfig(name=config.base_model, revision=config.revision)
