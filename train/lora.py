"""LoRA by `peft`: adapters on every linear layer but the head, which is trained in full."""

from typing import Any

import torch
from peft import LoraConfig as PeftConfig
from peft import PeftModel, TaskType, get_peft_model
from transformers import PreTrainedModel

from pipeline.errors import ConfigError
from train.config import LoraConfig

_HEADS = ("score", "classifier")
"""What the classes of `transformers` call the layer that makes the output."""


def with_adapters(model: PreTrainedModel, config: LoraConfig | None) -> Any:
    """The model, its own weights frozen but the head's; as it is where `config` is None.

    The head is float32, whatever the frozen weights are. Raises ConfigError for a model
    without linear layers.
    """
    if config is None:
        return model
    names = sorted(
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name.split(".")[0] not in _HEADS
    )
    if not names:
        raise ConfigError(
            f"[train.lora]: a {type(model).__name__} has no linear layers for adapters; train all "
            "weights, without this section"
        )
    wrapped = get_peft_model(
        model,
        PeftConfig(
            task_type=TaskType.TOKEN_CLS,
            r=config.rank,
            lora_alpha=config.alpha,
            lora_dropout=config.dropout,
            target_modules=names,
            modules_to_save=[name for name in _HEADS if hasattr(model, name)],
        ),
    )
    for weights in wrapped.parameters():
        if weights.requires_grad:
            weights.data = weights.data.float()
    return wrapped


def merged(model: Any) -> PreTrainedModel:
    """The plain model with the adapters added to its weights, float32."""
    if not isinstance(model, PeftModel):
        return model
    return model.float().merge_and_unload()
