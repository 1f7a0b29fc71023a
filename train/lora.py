"""LoRA by `peft`: adapters on every linear layer but the output.

A PRM's new head is trained in full; a language model's output stays as it is.
"""

from collections.abc import Sequence
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
    heads = [name for name in _HEADS if hasattr(model, name)]
    peft_config = adapter_config(model, config, task=TaskType.TOKEN_CLS, heads=heads)
    wrapped = get_peft_model(model, peft_config)
    for weights in wrapped.parameters():
        if weights.requires_grad:
            weights.data = weights.data.float()
    return wrapped


def adapter_config(
    model: PreTrainedModel, config: LoraConfig, *, task: TaskType, heads: Sequence[str] = ()
) -> PeftConfig:
    """What `peft` needs to know. The modules `heads` are trained in full.

    Raises ConfigError for a model without linear layers.
    """
    output = model.get_output_embeddings()
    names = sorted(
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and name.split(".")[0] not in _HEADS
        and module is not output
    )
    if not names:
        raise ConfigError(
            f"LoRA: a {type(model).__name__} has no linear layers for adapters; train all "
            "weights, without this section"
        )
    return PeftConfig(
        task_type=task,
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=names,
        modules_to_save=list(heads) or None,
    )


def merged(model: Any) -> PreTrainedModel:
    """The plain model with the adapters added to its weights, float32."""
    if not isinstance(model, PeftModel):
        return model
    return model.float().merge_and_unload()
