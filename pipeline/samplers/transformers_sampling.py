# pyright: basic
"""How the transformers engine chooses tokens and ends rows: parts of `model.generate`.

Order of the processors, as in vLLM: repetition penalty, temperature, min-p, top-k, top-p.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from pipeline.config import SamplingConfig
from pipeline.errors import EngineError


def sampling_processors(
    sampling: SamplingConfig, num_prompt: int, seeds: np.ndarray
) -> LogitsProcessorList:
    """What turns logits into one token a row; `seeds` [B], a row each."""
    processors = LogitsProcessorList()
    if sampling.repetition_penalty != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.temperature != 1.0:
        processors.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.min_p > 0.0:
        processors.append(MinPLogitsWarper(sampling.min_p))
    if sampling.top_k > 0:
        processors.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        processors.append(TopPLogitsWarper(sampling.top_p))
    processors.append(_SeededChoice(seeds, num_prompt))
    return processors


class StopStrings(StoppingCriteria):
    """Ends a row once its generated text holds a stop string.

    transformers' own criterion also finds one that begins in the prompt, where vLLM does not.
    """

    def __init__(
        self, decode: Callable[[list[int]], str], stop: tuple[str, ...], num_prompt: int
    ) -> None:
        self._decode = decode
        self._stop = stop
        self._num_prompt = num_prompt
        # a character has at most four bytes, and a token at least one
        self._num_tokens = 4 * max(len(one) for one in stop) + 4

    def __call__(self, input_ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        """[B] ids of prompt and generated tokens in; [B] whether the row is done out."""
        start = max(self._num_prompt, input_ids.shape[1] - self._num_tokens)
        texts = [self._decode(ids) for ids in input_ids[:, start:].tolist()]
        is_found = [any(stop in text for stop in self._stop) for text in texts]
        return torch.tensor(is_found, device=input_ids.device)


class _SeededChoice(LogitsProcessor):
    """Leaves one token a row: the inverse CDF at a hash of the row's seed and position."""

    def __init__(self, seeds: np.ndarray, num_prompt: int) -> None:
        self._seeds = seeds
        self._num_prompt = num_prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        position = input_ids.shape[1] - self._num_prompt
        uniform = torch.from_numpy(_uniform(self._seeds, position)).to(scores.device)
        cumulative_BV = torch.softmax(scores.double(), dim=-1).cumsum(dim=-1)
        if not bool(torch.isfinite(cumulative_BV[:, -1]).all()):
            raise EngineError("the model's logits are not finite; try model.dtype = 'float32'")
        targets_B1 = (uniform * cumulative_BV[:, -1]).unsqueeze(-1)
        chosen_B1 = torch.searchsorted(cumulative_BV, targets_B1, right=True)
        chosen_B1 = chosen_B1.clamp(max=scores.shape[-1] - 1)
        return torch.full_like(scores, -torch.inf).scatter(-1, chosen_B1, 0.0)


def _uniform(seeds: np.ndarray, position: int) -> np.ndarray:
    """Uniform numbers in [0, 1) by splitmix64 of seed and position; [B] in, [B] out."""
    with np.errstate(over="ignore"):
        x = _mix(seeds + np.uint64(0x9E3779B97F4A7C15))
        x = _mix(x + np.uint64(position + 1) * np.uint64(0xD1B54A32D192ED03))
    return (x >> np.uint64(11)).astype(np.float64) / 2.0**53


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
