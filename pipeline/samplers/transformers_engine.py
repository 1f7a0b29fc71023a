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
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    GenerationConfig,
    GgufConfig,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.utils import logging as transformers_logging

from pipeline.config import EngineConfig, ModelConfig, SamplingConfig
from pipeline.errors import ConfigError, EngineError
from pipeline.records import FinishReason
from pipeline.samplers.interrupts import interrupts_raised
from pipeline.samplers.models import first_line, load_tokenizer, resolve_model
from pipeline.samplers.sampler import Completion, Sampler, SamplingRequest, cut_off_at_once
from pipeline.samplers.transformers_sampling import StopStrings, sampling_processors

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_transformers_engine(
    model: ModelConfig, engine: EngineConfig
) -> AsyncGenerator[Sampler, None]:
    """Load `model` and serve requests until the block is left."""
    with interrupts_raised():
        sampler = TransformersSampler(model, engine)
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
        self._context_ids: list[int] = self._tokenizer("a", add_special_tokens=False)["input_ids"]
        self._end_ids = _end_ids(self._model.generation_config, self._tokenizer)
        # the model's own defaults (a repetition penalty, say) must not join what is asked for
        self._model.generation_config = GenerationConfig()
        self._limit = engine.max_model_len or _model_limit(self._model)
        self._max_num_seqs = engine.max_num_seqs
        self._waiting: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transformers")

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """`num_samples` completions, in the order of their seeds.

        Raises EngineError for a prompt without a token.
        """
        if not request.prompt_ids:
            raise EngineError("a prompt without a token cannot be completed")
        if len(request.prompt_ids) >= self._limit:
            logger.warning(
                "a prompt of %d tokens fills the context of %d: cut off at once",
                len(request.prompt_ids),
                self._limit,
            )
            return cut_off_at_once(request)
        size = self._max_num_seqs
        parts = [
            replace(
                request,
                seed=request.seed + start,
                num_samples=min(size, request.num_samples - start),
            )
            for start in range(0, request.num_samples, size)
        ]
        completions = await asyncio.gather(*(self._enqueue(part) for part in parts))
        return [completion for part in completions for completion in part]

    async def run(self) -> None:
        """Serve what waits, batch by batch, until cancelled."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(0)  # lets requests of the same moment join the batch
            batch = self._take_batch()
            if not batch:
                continue
            try:
                requests = [waiting.request for waiting in batch]
                completions = await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._generate, requests
                )
            except Exception as error:  # noqa: BLE001 - the worker's boundary: callers get it
                _fail(batch, _engine_error(error))
                continue
            except asyncio.CancelledError:
                _fail(batch, EngineError("the transformers engine was closed"))
                raise
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

    async def _enqueue(self, request: SamplingRequest) -> list[Completion]:
        if self._stop.is_set():
            raise EngineError("the transformers engine was closed")
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._arrived.set()
        return await waiting.result

    def _take_batch(self) -> list[_Waiting]:
        # The longest prompts (deepest prefixes) first: neighbours in length pad little and
        # end together. Requests that were cancelled meanwhile are left out.
        waiting = [one for one in self._waiting if not one.result.done()]
        waiting.sort(key=lambda one: -len(one.request.prompt_ids))
        size = num_sequences = 0
        for one in waiting:
            num_sequences += one.request.num_samples
            if num_sequences > self._max_num_seqs or (
                self._company(one.request) != self._company(waiting[0].request)
            ):
                break
            size += 1
        self._waiting = waiting[size:]
        if not self._waiting:
            self._arrived.clear()
        return waiting[:size]

    def _company(self, request: SamplingRequest) -> tuple[SamplingConfig, int, int]:
        """Requests share a batch where these agree, so that company changes no sample.

        Tokens to generate: fewer than `max_tokens` where the prompt nears the model's limit.
        A repetition penalty would count the padding, so it takes prompts of one length.
        """
        sampling, num_prompt = request.sampling, len(request.prompt_ids)
        num_padded = num_prompt if sampling.repetition_penalty != 1.0 else 0
        return (sampling, min(sampling.max_tokens, self._limit - num_prompt), num_padded)

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
            max_new_tokens=min(sampling.max_tokens, self._limit - num_prompt),
            logits_processor=sampling_processors(sampling, num_prompt, seeds),
            stopping_criteria=self._criteria(sampling, num_prompt),
            eos_token_id=self._end_ids or None,
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

    def _criteria(self, sampling: SamplingConfig, num_prompt: int) -> StoppingCriteriaList:
        criteria: list[StoppingCriteria] = [_StopFlag(self._stop.is_set)]
        if sampling.stop:
            criteria.append(StopStrings(self._decode, sampling.stop, num_prompt))
        return StoppingCriteriaList(criteria)

    def _completion(self, ids: list[int], sampling: SamplingConfig) -> Completion:
        end = next((i for i, token_id in enumerate(ids) if token_id in self._end_ids), None)
        text = self._decode(ids[:end])
        stops = [(text.find(stop), stop) for stop in sampling.stop if stop in text]
        if stops:  # what follows is padding, which can be the end token
            at, stop = min(stops)
            num_tokens = self._num_until_pad(ids if end is None else ids[:end])
            return Completion(text[:at], FinishReason.STOP, num_tokens, stopped_at=stop)
        reason = FinishReason.LENGTH if end is None else FinishReason.STOP
        return Completion(text, reason, len(ids) if end is None else end + 1)

    def _decode(self, ids: list[int]) -> str:
        """The text of generated tokens, white space at its beginning included."""
        decode, context = self._tokenizer.decode, self._context_ids
        settings = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        before = str(decode(context, **settings))
        return str(decode([*context, *ids], **settings)).removeprefix(before)

    def _num_until_pad(self, ids: list[int]) -> int:
        pad_id = self._pad_id()
        num_tokens = len(ids)
        while num_tokens and ids[num_tokens - 1] == pad_id:
            num_tokens -= 1
        return num_tokens

    def _pad_id(self) -> int:
        pad_id = self._tokenizer.pad_token_id
        return int(pad_id if pad_id is not None else (self._end_ids or [0])[0])


class _StopFlag(StoppingCriteria):
    """Ends all rows once the engine is told to stop."""

    def __init__(self, is_set: Callable[[], bool]) -> None:
        self._is_set = is_set

    def __call__(self, input_ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), self._is_set(), device=input_ids.device)


def _load_model(model: ModelConfig) -> Any:
    source = resolve_model(model)
    transformers_logging.disable_progress_bar()  # it would cut through ours
    arguments: dict[str, Any] = {"dtype": model.dtype.value}
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
    except Exception as error:  # the readers of weights raise what they like
        raise ConfigError(
            f"model.name = {model.name!r} cannot be loaded: {first_line(error)}; its files may be "
            "damaged or for another program: get them again"
        ) from error


def _model_limit(model: Any) -> int:
    """The positions that the model knows. Raises ConfigError where its config does not say."""
    config: Any = model.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None:
        raise ConfigError("this model's config has no limit of its own; set engine.max_model_len")
    return int(limit)


def _end_ids(generation_config: GenerationConfig, tokenizer: Any) -> list[int]:
    configured: Any = generation_config.eos_token_id
    ids: set[Any] = set(configured if isinstance(configured, list) else [configured])
    ids.add(tokenizer.eos_token_id)
    return sorted(int(token_id) for token_id in ids if token_id is not None)


def _engine_error(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    advice = "; lower engine.max_num_seqs" if isinstance(error, torch.OutOfMemoryError) else ""
    return EngineError(f"the transformers engine failed: {first_line(error)}{advice}")


def _fail(waiting: list[_Waiting], error: EngineError) -> None:
    for one in waiting:
        if not one.result.done():
            one.result.set_exception(error)
