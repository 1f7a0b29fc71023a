"""The one seam between stepmark and language-model engines.

A request asks for `num_samples` completions of one prompt; sample *i* is drawn with seed
`seed + i`, so that a top-up which starts at `seed + drawn` never repeats a sample. The
prompt is given as token ids (what engines run on) and as text (what the scripted sampler
reads).
"""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pipeline.config import SamplingConfig
from pipeline.errors import EngineError
from pipeline.records import FinishReason

SEED_SPACE = 2**62
"""Seeds lie in [0, SEED_SPACE): they fit int64 with room for children."""


class SamplingStage(StrEnum):
    """What is drawn: whole solutions, or rollouts of prefixes. Costs are counted by stage."""

    SOLUTIONS = "solutions"
    PREFIXES = "prefixes"


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """`num_samples` completions of one prompt; `prompt_ids` has at least one token.

    Requests with the same `affinity` share a beginning: a sampler with several engines
    sends them to one, whose prefix cache then hits.
    """

    prompt: str
    prompt_ids: tuple[int, ...]
    num_samples: int
    seed: int
    sampling: SamplingConfig
    affinity: str = ""
    stage: SamplingStage = SamplingStage.PREFIXES


@dataclass(frozen=True, slots=True)
class Completion:
    """Raw engine output: the text after the prompt, without stop string and end token.

    `num_tokens` counts generated tokens, the end token included. `num_cached_prompt_tokens`
    of a request's prompt were found in the engine's cache; its first completion says so,
    None where the engine does not tell; a completion is the same with and without.
    `stopped_at` is the stop string that ended it, None where something else did.
    """

    text: str
    finish_reason: FinishReason
    num_tokens: int
    num_cached_prompt_tokens: int | None = field(default=None, compare=False)
    stopped_at: str | None = None


class EngineFaultError(EngineError):
    """An engine could not answer: it is down, sick or busy.

    The same request may succeed on another engine, or later. A plain EngineError from
    `sample` means that the request itself is refused, or that no engine is left.
    """

    retry_after_seconds: float = 0.0
    """How long the engine wants to be left alone."""


class EngineBusyError(EngineFaultError):
    """The engine is well and has too much to do; the request is not to blame."""


class Sampler(Protocol):
    """Anything that completes prompts. Safe to call from many tasks at once."""

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """Return exactly `request.num_samples` completions, in the order of their seeds.

        A prompt that leaves no room for a token in the model's context is not an error:
        it gets `cut_off_at_once`, so that one long problem cannot end a night's run.
        Raises EngineError where the engine is beyond recovery.
        """
        ...


def cut_off_at_once(request: SamplingRequest) -> list[Completion]:
    """The completions of a prompt that fills the context: empty, cut off, no token."""
    return [Completion("", FinishReason.LENGTH, 0)] * request.num_samples


def stable_seed(*parts: str | int) -> int:
    """A seed in [0, SEED_SPACE) from the parts, the same in every process."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") % SEED_SPACE
