"""What defines a training by Step-DPO (Lai et al., arXiv 2406.18629): `[dpo]` of a config."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pipeline.config import MAX_TOKENS, FrozenConfig
from train.config import LoraConfig


class DpoLoss(StrEnum):
    """What becomes of the margin between the two steps' rewards."""

    SIGMOID = "sigmoid"
    """-log σ(margin): DPO (Rafailov et al., arXiv 2305.18290)."""
    HINGE = "hinge"
    """max(0, 1 - margin): SLiC (arXiv 2305.10425)."""
    IPO = "ipo"
    """A squared distance a token from 1 / (2 beta) (arXiv 2310.12036)."""


class DpoConfig(FrozenConfig):
    """How a language model learns from pairs of steps. The defaults are those of the authors'
    published code, for models of billions of parameters; configs/demo.toml has the demo model's.
    """

    base_model: str = "demo"
    """The model that wrote the steps. `demo` is the bundled one; else a local folder or a Hub
    id. Its prompt is [prompt]'s."""
    revision: str | None = None
    """A commit, tag or branch of a Hub id."""
    loss: DpoLoss = DpoLoss.SIGMOID
    """`sigmoid` is DPO's."""
    beta: Annotated[float, Field(gt=0, le=100)] = 0.4
    """A step's reward is beta · (its log-likelihood - that by the base model). The larger, the
    nearer the model stays to its base. 0.4 is the authors' for Qwen2-72B-Instruct."""
    sft_weight: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Of the chosen step's own log-likelihood a token, added to the loss (Pang et al., arXiv
    2404.19733): against chosen steps becoming less likely, too."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-7
    """The peak: a linear warm-up and a cosine to 0 around it, as the authors have it."""
    epochs: Annotated[int, Field(ge=1, le=10_000)] = 4
    """Passes over the pairs; 4 is the authors' for Qwen2-72B-Instruct."""
    batch_size: Annotated[int, Field(ge=1, le=2**16)] = 8
    """Pairs in one forward pass of one device."""
    gradient_accumulation: Annotated[int, Field(ge=1, le=2**16)] = 16
    """Batches to one update: 128 pairs with the default batch size, as the authors have it."""
    warmup_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """The share of the updates in which the learning rate rises to its peak."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """AdamW's."""
    max_length: Annotated[int, Field(ge=8, le=MAX_TOKENS)] | None = None
    """Tokens of prompt and step together; longer pairs are dropped, and counted. None takes the
    model's own limit, but at most 2048."""
    validation_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """The share of *questions* whose pairs are kept apart, chosen by a hash of their text."""
    lora: LoraConfig | None = None
    """None trains all weights, beside a frozen copy of the model."""
    gradient_checkpointing: bool = False
    """Keep a layer's inputs only and compute the rest again."""
    bf16: bool = False
    """Mixed precision, for GPUs that have it. With [dpo.lora] frozen weights are bfloat16, too."""
    save_steps: Annotated[int, Field(ge=1)] | None = None
    """Updates between checkpoints; a killed training goes on from the last one when the same
    command runs again. None keeps none."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Of the pairs' order and dropout of the adapters."""
