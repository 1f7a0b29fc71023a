# pyright: basic
"""The embedded engine: `transformers` in this process, batched, with a KV cache.

The default where there is no GPU. Requests that wait are taken together, sorted by prompt
length, up to `max_num_seqs` sequences; each prompt is prefilled once however many samples
it gets. One batch runs at a time, in a thread of its own.

Sample *i* of a request draws from uniform numbers that are a hash of `seed + i` and the
position, by inverse CDF: what it writes does not depend on which other requests shared
its batch, save for floating-point noise of the matrix products (about 1e-6 in a logit;
at such a tie a token can differ between batch shapes).
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    GgufConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from pipeline.config import EngineConfig, ModelConfig, SamplingConfig
from pipeline.errors import ConfigError, EngineError
from pipeline.records import FinishReason
from pipeline.samplers.models import first_line, load_tokenizer, resolve_model
from pipeline.samplers.sampler import Completion, Sampler, SamplingRequest


@asynccontextmanager
async def open_transformers_engine(
    model: ModelConfig, engine: EngineConfig
) -> AsyncGenerator[Sampler, None]:
    """Load `model` and serve requests until the block is left."""
    sampler = await asyncio.to_thread(TransformersSampler, model, engine)
    worker = asyncio.create_task(sampler.run())
    try:
        yield sampler
    finally:
        sampler.stop()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        sampler.close()


@dataclass(slots=True)
class _Waiting:
    request: SamplingRequest
    result: asyncio.Future[list[Completion]]


class TransformersSampler:
    """A `Sampler` on a model in this process; use `open_transformers_engine`."""

    def __init__(self, model: ModelConfig, engine: EngineConfig) -> None:
        if engine.num_threads is not None:
            torch.set_num_threads(engine.num_threads)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._tokenizer = load_tokenizer(model)
        self._model = _load_model(model).to(self._device).eval()
        self._limit = engine.max_model_len or int(self._model.config.max_position_embeddings)
        self._max_num_seqs = engine.max_num_seqs
        self._waiting: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transformers")

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """`num_samples` completions, in the order of their seeds.

        Raises EngineError where the prompt leaves no room for a token.
        """
        if not 0 < len(request.prompt_ids) < self._limit:
            raise EngineError(
                f"a prompt of {len(request.prompt_ids)} tokens does not fit the model's "
                f"{self._limit}; raise engine.max_model_len or shorten the problem"
            )
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._arrived.set()
        return await waiting.result

    async def run(self) -> None:
        """Serve what waits, batch by batch, until cancelled."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(0)  # lets requests of the same moment join the batch
            batch = self._take_batch()
            try:
                requests = [waiting.request for waiting in batch]
                completions = await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._generate, requests
                )
            except Exception as error:  # noqa: BLE001 - the worker's boundary: callers get it
                _fail(batch, EngineError(f"the transformers engine failed: {error}"))
                continue
            for waiting, result in zip(batch, completions, strict=True):
                if not waiting.result.done():
                    waiting.result.set_result(result)

    def stop(self) -> None:
        """End the batch under way at its next token."""
        self._stop.set()

    def close(self) -> None:
        """Wait for the thread; requests still waiting fail."""
        self._thread.shutdown(wait=True)
        _fail(self._waiting, EngineError("the transformers engine was closed"))

    def _take_batch(self) -> list[_Waiting]:
        # The longest prompts (deepest prefixes) first: neighbours in length pad little and
        # end together.
        self._waiting.sort(key=lambda waiting: -len(waiting.request.prompt_ids))
        batch, num_sequences = [self._waiting.pop(0)], 0
        num_sequences = batch[0].request.num_samples
        while self._waiting and self._waiting[0].request.sampling == batch[0].request.sampling:
            num_sequences += self._waiting[0].request.num_samples
            if num_sequences > self._max_num_seqs:
                break
            batch.append(self._waiting.pop(0))
        if not self._waiting:
            self._arrived.clear()
        return batch

    @torch.inference_mode()
    def _generate(self, requests: list[SamplingRequest]) -> list[list[Completion]]:
        sampling = requests[0].sampling
        ids_PT, mask_PT = self._pad(requests)
        repeats = torch.tensor([r.num_samples for r in requests], device=self._device)
        seeds = np.array([r.seed + i for r in requests for i in range(r.num_samples)], np.uint64)
        ids_BT = ids_PT.repeat_interleave(repeats, dim=0)
        cache = self._prefill(ids_PT, mask_PT, repeats)
        num_prompt = ids_BT.shape[1]
        output_BT = self._model.generate(
            input_ids=ids_BT,
            attention_mask=mask_PT.repeat_interleave(repeats, dim=0),
            past_key_values=cache,
            do_sample=False,
            num_beams=1,
            max_new_tokens=max(1, min(sampling.max_tokens, self._limit - num_prompt)),
            logits_processor=_processors(sampling, num_prompt, seeds),
            stopping_criteria=self._criteria(sampling),
            eos_token_id=self._end_ids(),
            pad_token_id=self._pad_id(),
        )
        if self._stop.is_set():
            raise EngineError("stopped")
        rows = iter(output_BT[:, num_prompt:].tolist())
        return [
            [self._completion(next(rows), sampling) for _ in range(n)] for n in repeats.tolist()
        ]

    def _pad(self, requests: list[SamplingRequest]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(len(request.prompt_ids) for request in requests)
        pads = [longest - len(request.prompt_ids) for request in requests]
        ids = [
            [self._pad_id()] * pad + list(request.prompt_ids)
            for pad, request in zip(pads, requests, strict=True)
        ]
        mask = [[0] * pad + [1] * (longest - pad) for pad in pads]
        return torch.tensor(ids, device=self._device), torch.tensor(mask, device=self._device)

    def _prefill(
        self, ids_PT: torch.Tensor, mask_PT: torch.Tensor, repeats: torch.Tensor
    ) -> DynamicCache:
        """The KV cache of each prompt but its last token, once a prompt, then repeated."""
        cache = DynamicCache(config=self._model.config)
        if ids_PT.shape[1] == 1:
            return cache
        positions_PT = (mask_PT.cumsum(-1) - 1).clamp(min=0)
        self._model(
            input_ids=ids_PT[:, :-1],
            attention_mask=mask_PT[:, :-1],
            position_ids=positions_PT[:, :-1],
            past_key_values=cache,
            logits_to_keep=1,
        )
        rows = torch.arange(len(repeats), device=self._device).repeat_interleave(repeats)
        cache.batch_select_indices(rows)
        return cache

    def _criteria(self, sampling: SamplingConfig) -> StoppingCriteriaList:
        criteria: list[StoppingCriteria] = [_StopFlag(self._stop.is_set)]
        if sampling.stop:
            criteria.append(StopStringCriteria(self._tokenizer, list(sampling.stop)))
        return StoppingCriteriaList(criteria)

    def _completion(self, ids: list[int], sampling: SamplingConfig) -> Completion:
        end_ids = set(self._end_ids())
        end = next((i for i, token_id in enumerate(ids) if token_id in end_ids), None)
        text = str(self._tokenizer.decode(ids[:end], skip_special_tokens=True))
        stops = [at for at in (text.find(stop) for stop in sampling.stop) if at >= 0]
        if stops:
            text = text[: min(stops)]
        if end is None and stops:
            return Completion(text, FinishReason.STOP, self._num_until_pad(ids))
        reason = FinishReason.LENGTH if end is None else FinishReason.STOP
        return Completion(text, reason, len(ids) if end is None else end + 1)

    def _num_until_pad(self, ids: list[int]) -> int:
        pad_id = self._pad_id()
        num_tokens = len(ids)
        while num_tokens and ids[num_tokens - 1] == pad_id:
            num_tokens -= 1
        return num_tokens

    def _end_ids(self) -> list[int]:
        configured: Any = self._model.generation_config.eos_token_id
        ids: set[int] = set(configured if isinstance(configured, list) else [configured])
        ids.add(self._tokenizer.eos_token_id)
        return sorted(token_id for token_id in ids if token_id is not None)

    def _pad_id(self) -> int:
        pad_id = self._tokenizer.pad_token_id
        return int(pad_id if pad_id is not None else self._tokenizer.eos_token_id)


class _SeededChoice(LogitsProcessor):
    """Leaves one token a row: the inverse CDF at a hash of the row's seed and position."""

    def __init__(self, seeds: np.ndarray, num_prompt: int) -> None:
        self._seeds = seeds
        self._num_prompt = num_prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        position = input_ids.shape[1] - self._num_prompt
        uniform = torch.from_numpy(_uniform(self._seeds, position)).to(scores.device)
        cumulative_BV = torch.softmax(scores.double(), dim=-1).cumsum(dim=-1)
        targets_B1 = (uniform * cumulative_BV[:, -1]).unsqueeze(-1)
        chosen_B1 = torch.searchsorted(cumulative_BV, targets_B1, right=True)
        chosen_B1 = chosen_B1.clamp(max=scores.shape[-1] - 1)
        return torch.full_like(scores, -torch.inf).scatter(-1, chosen_B1, 0.0)


class _StopFlag(StoppingCriteria):
    """Ends all rows once the engine is told to stop."""

    def __init__(self, is_set: Callable[[], bool]) -> None:
        self._is_set = is_set

    def __call__(self, input_ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), self._is_set(), device=input_ids.device)


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


def _processors(
    sampling: SamplingConfig, num_prompt: int, seeds: np.ndarray
) -> LogitsProcessorList:
    processors = LogitsProcessorList()
    if sampling.repetition_penalty != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.temperature != 1.0:
        processors.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k > 0:
        processors.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        processors.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p > 0.0:
        processors.append(MinPLogitsWarper(sampling.min_p))
    processors.append(_SeededChoice(seeds, num_prompt))
    return processors


def _load_model(model: ModelConfig) -> Any:
    source = resolve_model(model)
    arguments: dict[str, Any] = {"dtype": model.dtype}
    if model.gguf_file:
        arguments = {
            "gguf_file": model.gguf_file,
            "quantization_config": GgufConfig(dequantize=True),
            "dtype": torch.float32,
        }
    try:
        return AutoModelForCausalLM.from_pretrained(
            source.location,
            revision=source.revision,
            trust_remote_code=model.trust_remote_code,
            **arguments,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.name = {model.name!r} cannot be loaded: {first_line(error)}"
        ) from error


def _fail(waiting: list[_Waiting], error: EngineError) -> None:
    for one in waiting:
        if not one.result.done():
            one.result.set_exception(error)
