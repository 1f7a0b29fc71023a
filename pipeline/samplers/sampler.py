"""The one seam between stepmark and language-model engines.

A request asks for `num_samples` completions of one prompt; sample *i* is drawn with seed
`seed + i`, so that a top-up which starts at `seed + drawn` never repeats a sample. The
prompt is given as token ids (what engines run on) and as text (what the scripted sampler
reads).
"""

import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from pipeline.config import SamplingConfig
from pipeline.records import FinishReason

SEED_SPACE = 2**62
"""Seeds lie in [0, SEED_SPACE): they fit int64 with room for children."""


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """`num_samples` completions of one prompt; `prompt_ids` has at least one token."""

    prompt: str
    prompt_ids: tuple[int, ...]
    num_samples: int
    seed: int
    sampling: SamplingConfig


@dataclass(frozen=True, slots=True)
class Completion:
    """Raw engine output: the text after the prompt, without stop string and end token.

    `num_tokens` counts generated tokens, the end token included.
    """

    text: str
    finish_reason: FinishReason
    num_tokens: int


class Sampler(Protocol):
    """Anything that completes prompts. Safe to call from many tasks at once."""

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """Return exactly `request.num_samples` completions, in the order of their seeds.

        A prompt that leaves no room for a token in the model's context is not an error:
        it gets `cut_off_at_once`, so that one long problem cannot end a night's run.
        Raises EngineError where the engine is beyond recovery.
        """
        ...


OpenSampler = Callable[[], AbstractAsyncContextManager[Sampler]]
"""Starts an engine on entering and ends it on leaving, whatever happened between."""


def cut_off_at_once(request: SamplingRequest) -> list[Completion]:
    """The completions of a prompt that fills the context: empty, cut off, no token."""
    return [Completion("", FinishReason.LENGTH, 0)] * request.num_samples


def stable_seed(*parts: str | int) -> int:
    """A seed in [0, SEED_SPACE) from the parts, the same in every process."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") % SEED_SPACE
