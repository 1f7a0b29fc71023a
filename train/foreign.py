"""Foreign PRMs as models of one output a token, whose sigmoid is the step's score.

Both judge a step by two logits, right against wrong. The softmax over two is the sigmoid of their
difference, so the difference is what these models give, and `train.scorer` scores with them as
with our own. What they read is in `train.step_tags`.

Qwen2.5-Math-PRM comes with code on the Hub. It is not run: the class is a Qwen2 with a head of two
layers, defined here. Math-Shepherd's PRM is a causal language model that says `+` or `-`.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    Qwen2Model,
    Qwen2PreTrainedModel,
)

from pipeline.errors import DataError
from train.model import quiet_transformers
from train.step_tags import math_shepherd_judgements

MAX_LENGTH = 4096
"""Tokens, where the model takes as many: what Qwen2.5-Math takes, and more than solutions have."""


class Qwen2ForProcessRewardModel(Qwen2PreTrainedModel):
    """Qwen2 and a head of two linear layers, with the names of the published weights."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model = Qwen2Model(config)
        self.score = nn.Sequential(
            nn.Linear(config.hidden_size, config.hidden_size),
            nn.ReLU(),
            nn.Linear(config.hidden_size, config.num_labels),
        )
        self.post_init()


class TwoLogitPrm(nn.Module):
    """A backbone and what its hidden states say: `judge` [B, T, H] to right minus wrong [B, T]."""

    def __init__(self, backbone: Any, judge: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.backbone = backbone
        self._judge = judge

    @property
    def device(self) -> torch.device:
        """Where the inputs must be."""
        return self.backbone.device

    def forward(self, **inputs: Tensor) -> SimpleNamespace:
        """`logits` [B, T, 1]."""
        hidden_BTH = self.backbone(**inputs, use_cache=False).last_hidden_state
        return SimpleNamespace(logits=self._judge(hidden_BTH)[..., None])


def load_qwen_prm(
    source: str, *, revision: str | None, device: torch.device
) -> tuple[TwoLogitPrm, PreTrainedTokenizerBase, int]:
    """The model in evaluation mode, its tokenizer, and its length in tokens.

    Raises DataError for weights of another layout.
    """
    model, tokenizer = _load(Qwen2ForProcessRewardModel, source, revision, device)
    if model.config.num_labels != 2:
        raise DataError(
            f"{source} has {model.config.num_labels} classes a step, not the two of a "
            "Qwen2.5-Math-PRM; an outcome reward model gives no step scores"
        )

    def judge(hidden_BTH: Tensor) -> Tensor:
        logits_BT2 = model.score(hidden_BTH).float()
        return logits_BT2[..., 1] - logits_BT2[..., 0]

    return TwoLogitPrm(model.model, judge).eval(), tokenizer, _max_length(model)


def load_math_shepherd(
    source: str, *, revision: str | None, device: torch.device
) -> tuple[TwoLogitPrm, PreTrainedTokenizerBase, int]:
    """The model in evaluation mode, its tokenizer, and its length in tokens.

    Only the rows of `+` and `-` of the output layer are used. Raises DataError for what is no
    causal language model with these tokens.
    """
    model, tokenizer = _load(AutoModelForCausalLM, source, revision, device)
    right, wrong = math_shepherd_judgements(tokenizer)
    rows_VH = model.get_output_embeddings().weight.detach()
    right_minus_wrong_H = rows_VH[right].float() - rows_VH[wrong].float()

    def judge(hidden_BTH: Tensor) -> Tensor:
        return hidden_BTH.float() @ right_minus_wrong_H

    return TwoLogitPrm(model.get_decoder(), judge).eval(), tokenizer, _max_length(model)


def _load(
    model_class: Any, source: str, revision: str | None, device: torch.device
) -> tuple[Any, PreTrainedTokenizerBase]:
    asked: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(source, **asked)
            model, loading = model_class.from_pretrained(
                source, **asked, dtype="auto", output_loading_info=True
            )
    except Exception as error:  # the readers of weights raise what they like
        raise DataError(f"the PRM {source} cannot be loaded: {error}") from error
    if absent := sorted(loading["missing_keys"]):
        raise DataError(
            f"the PRM {source} lacks {len(absent)} of the weights of {model_class.__name__}, the "
            f"first {absent[0]}; it is damaged or of another kind (--prm-kind)"
        )
    if not tokenizer.is_fast:
        raise DataError(f"the tokenizer of {source} gives no offsets; it needs a tokenizer.json")
    return model.to(device).eval(), tokenizer


def _max_length(model: Any) -> int:
    return min(getattr(model.config, "max_position_embeddings", None) or MAX_LENGTH, MAX_LENGTH)
