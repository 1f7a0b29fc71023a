"""The PRM: a language model's encoder with a one-output head on every token.

A standard class, `AutoModelForTokenClassification` with `num_labels=1`, so that a saved
folder needs nothing of ours to load. What belongs to it beside the weights (template,
length, where it came from) is in its `config.json` under `stepmark`.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

import pipeline.demo
from pipeline.errors import ConfigError, DataError
from train.batches import pad
from train.config import (
    DEFAULT_MAX_LENGTH,
    DEFAULT_THRESHOLD,
    Objective,
    TrainConfig,
    template_pieces,
)
from train.encode import EncodedSteps, control_tokens
from train.loss import step_logits
from train.model_folder import is_prm_folder

FORMAT_VERSION = 1
"""Of the `stepmark` entry in `config.json`."""

_CONTROL_TOKEN = re.compile(r"<\|[^<>|\s]+\|>|<extra_\d+>|\[(?:CLS|SEP|MASK)\]")
"""What is meant as a control token where a template has it."""

_HEAD_DROPOUTS = ("classifier_dropout", "classifier_dropout_prob", "seq_classif_dropout")
"""What the configurations of `transformers` call the dropout in front of the head."""


def load_base(
    config: TrainConfig, *, step_method: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The base model with a fresh head, its dropout off, and its tokenizer.

    The weights are float32; frozen ones (`config.lora`) are bfloat16 with `config.bf16`.
    The head is drawn from PyTorch's global generator. `model.config.stepmark` holds what
    scoring will use: template, length in tokens, step rule (`step_method` is how texts were
    split into steps), and the default aggregation.

    Raises ConfigError for a model that is not there or cannot carry the head.
    """
    name = _resolve(config.base_model)
    try:
        with quiet_transformers():
            model_config = AutoConfig.from_pretrained(name, revision=config.revision, num_labels=1)
            tokenizer = AutoTokenizer.from_pretrained(name, revision=config.revision)
            model = AutoModelForTokenClassification.from_pretrained(
                name,
                revision=config.revision,
                config=_without_head_dropout(model_config),
                dtype=torch.bfloat16 if config.lora and config.bf16 else torch.float32,
            )
    except Exception as error:  # the readers of weights raise what they like
        raise ConfigError(
            f"base_model = {config.base_model!r} cannot be loaded as a token classifier: {error}"
        ) from error
    _require_fast(tokenizer, config.base_model)
    _require_control_tokens(tokenizer, config)
    # Llama and its kin read the rate from names of their own; the module is the last word.
    if isinstance(getattr(model, "dropout", None), torch.nn.Dropout):
        model.dropout.p = 0.0
    model.config.use_cache = False
    model.config.stepmark = {
        "format_version": FORMAT_VERSION,
        "template": config.template,
        "max_length": _max_length(model, config),
        "base_model": config.base_model,
        "revision": config.revision,
        "training_digest": config.digest(),
        "objective": config.objective.value,
        "loss": config.loss.value,
        "step_rule": {"score": "last-token", "separator": "", "split": step_method},
        "aggregation": "min" if config.objective is Objective.PRM else "last",
        "threshold": DEFAULT_THRESHOLD,
    }
    return model, tokenizer


def load_prm(
    path: Path, *, device: torch.device
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A trained PRM in evaluation mode, and its tokenizer.

    Raises DataError for a folder that is no PRM of ours.
    """
    if not is_prm_folder(path):
        raise DataError(f"{path} is not a PRM trained by `stepmark train`")
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(path)
            model = AutoModelForTokenClassification.from_pretrained(path)
    except Exception as error:  # the readers of weights raise what they like
        raise DataError(f"the PRM in {path} cannot be loaded: {error}") from error
    version = model.config.stepmark.get("format_version")
    if version != FORMAT_VERSION:
        raise DataError(
            f"the PRM in {path} has format version {version}, this stepmark reads "
            f"{FORMAT_VERSION}; train it again"
        )
    return model.to(device).eval(), tokenizer


def default_device() -> torch.device:
    """CUDA where there is a device, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@torch.inference_mode()
def score_encoded(
    model: Any, solutions: Sequence[EncodedSteps], *, batch_tokens: int = 8192
) -> list[tuple[float, ...]]:
    """Sigmoid scores at the step positions, in the order of `solutions`.

    `model` is a PreTrainedModel, or like one, that gives `logits` [B, T, 1]; it is put into
    evaluation mode. Solutions of similar length run together, at most `batch_tokens` tokens
    with padding (one solution at least).
    """
    model.eval()
    scores: dict[int, tuple[float, ...]] = {}
    for batch in _length_batches(solutions, batch_tokens):
        inputs, places = pad([solutions[index] for index in batch])
        inputs = {key: value.to(model.device) for key, value in inputs.items()}
        # float64: a sigmoid of 17 is still below 1 there
        scores_N = step_logits(model(**inputs).logits, *places).double().sigmoid().tolist()
        start = 0
        for index in batch:
            end = start + len(solutions[index].step_positions)
            scores[index] = tuple(scores_N[start:end])
            start = end
    return [scores[index] for index in range(len(solutions))]


@contextmanager
def quiet_transformers() -> Generator[None]:
    """No progress bars and no advice from `transformers` inside; as before on leaving.

    A fresh head is announced there as a warning, but it is what training is for.
    """
    verbosity = transformers_logging.get_verbosity()
    had_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if had_bars:
            transformers_logging.enable_progress_bar()


def _resolve(base_model: str) -> str:
    if base_model != "demo":
        return base_model
    path = pipeline.demo.MODEL_PATH
    if not (path / "config.json").is_file():
        raise ConfigError(f"the bundled model is not in {path}; make it with `make demo-model`")
    return str(path)


def _without_head_dropout(model_config: Any) -> Any:
    model_config.classifier_dropout = 0.0
    for name in _HEAD_DROPOUTS:
        if hasattr(model_config, name):
            setattr(model_config, name, 0.0)
    return model_config


def _require_fast(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    if not tokenizer.is_fast:
        raise ConfigError(
            f"the tokenizer of {name!r} gives no character offsets, which step positions "
            "need; use a model with a tokenizer.json"
        )


def _require_control_tokens(tokenizer: PreTrainedTokenizerBase, config: TrainConfig) -> None:
    known = control_tokens(tokenizer)
    for piece in template_pieces(config.template):
        for token in _CONTROL_TOKEN.findall(piece):
            if token not in known:
                raise ConfigError(
                    f"train.template has {token!r}, which the tokenizer of {config.base_model!r} "
                    f"does not have as a control token, only {', '.join(sorted(known)) or 'none'}: "
                    "the model would read its letters. Use one of these, or none"
                )


def _max_length(model: PreTrainedModel, config: TrainConfig) -> int:
    limit = getattr(model.config, "max_position_embeddings", None)
    if config.max_length is None:
        return min(DEFAULT_MAX_LENGTH, limit or DEFAULT_MAX_LENGTH)
    if limit and config.max_length > limit:
        raise ConfigError(
            f"max_length = {config.max_length}, but {config.base_model!r} takes at most "
            f"{limit} tokens; set max_length = {limit} or less"
        )
    return config.max_length


def _length_batches(solutions: Sequence[EncodedSteps], batch_tokens: int) -> Iterator[list[int]]:
    order = sorted(range(len(solutions)), key=lambda index: len(solutions[index].input_ids))
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) + 1) * len(solutions[index].input_ids) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
