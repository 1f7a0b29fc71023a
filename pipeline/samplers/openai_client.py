"""The completions call of an OpenAI-like server: a request in, checked completions out.

One POST to `/v1/completions` asks for all samples of a prompt (`n`, so that the prompt is
prefilled once) with the prompt as token ids and every sampling parameter said, since what is
left unsaid comes from the model's generation config. The answer is checked: exactly `n`
choices numbered 0 to n - 1, each with a reason to have stopped and its own token count
(`return_token_ids`, vLLM 0.10.2 and later; `usage` has only the total).

A prompt with less than `max_tokens` room in the server's context is asked for as many tokens
as fit. That changes no completion that ends by itself. One that does not ends with `length`
and fewer tokens than `max_tokens`, so it is stored, counted as truncated, and can be told
apart; the client warns once and counts such requests. A prompt that fills the context is cut
off at once. Starting, judging and replacing servers is not done here.
"""

import logging
import math
import time
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Annotated, Literal, TypeVar, cast

import httpx
from pydantic import BaseModel, Field, ValidationError
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from pipeline.errors import EngineError
from pipeline.records import FinishReason
from pipeline.samplers.sampler import (
    Completion,
    EngineBusyError,
    EngineFaultError,
    SamplingRequest,
    cut_off_at_once,
)

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=BaseModel)

TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
LONGEST_WAIT_SECONDS = 30.0
"""Between two attempts. A server that asks for more (`Retry-After`) is left to the caller."""
_LONGEST_REST_SECONDS = 3600.0
_NOT_FOUND, _TOO_MANY_REQUESTS = 404, 429


class ServerFaultError(EngineFaultError):
    """The server did not answer properly, after all retries: it is down, sick or busy.

    The same request may succeed elsewhere or after a restart. A plain EngineError from this
    module means that the request itself is refused and always will be.
    """


class ServerHangError(ServerFaultError):
    """No answer within `request_seconds`. Not retried: it has cost enough."""


class _TransientError(ServerFaultError):
    """One failed attempt."""


class _BusyError(_TransientError, EngineBusyError):
    """One attempt answered with 429."""


class CompletionsClient:
    """A client of one server and one model on it. Safe to call from many tasks at once."""

    def __init__(
        self,
        base_url: str,
        *,
        model_name: str,
        api_key: str | None,
        request_seconds: float,
        num_attempts: int = 4,
        first_wait_seconds: float = 0.25,
        trust_env: bool = True,
    ) -> None:
        """`base_url` is without `/v1`. `trust_env=False` ignores proxies (local servers)."""
        self.base_url = base_url
        self.num_clipped_requests = 0
        """Requests with less room in the context than `max_tokens`."""
        self._model_name = model_name
        self._api_key = api_key
        self._request_seconds = request_seconds
        self._num_attempts = num_attempts
        self._first_wait_seconds = first_wait_seconds
        self._max_model_len: int | None = None
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(request_seconds, connect=10.0, pool=None),
            # In flight is bounded by the caller; an idle connection is dropped before the
            # server (5 s in uvicorn) does, which would look like a crash.
            limits=httpx.Limits(max_connections=None, keepalive_expiry=2.0),
            trust_env=trust_env,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def is_healthy(self, *, seconds: float = 10.0) -> bool:
        """Whether `/health` answers 200 within `seconds`; a server without that page is well."""
        try:
            response = await self._http.get("/health", timeout=seconds)
        except httpx.HTTPError:
            return False
        return response.is_success or response.status_code == _NOT_FOUND

    async def load_model_card(self) -> int | None:
        """Check that the server serves the model; keep and return its context in tokens.

        None where the server does not say (then nothing is clipped). Raises EngineError
        where the model is not served, ServerFaultError where there is no answer.
        """
        cards = await self._call("GET", "/v1/models", None, _ModelList)
        for card in cards.data:
            if card.id == self._model_name:
                self._max_model_len = card.max_model_len
                return card.max_model_len
        served = ", ".join(card.id for card in cards.data) or "nothing"
        raise EngineError(
            f"{self.base_url} does not serve {self._model_name!r} but {served}; "
            "correct the model's name or the address."
        )

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """Return the request's completions in the order of their seeds.

        Raises ServerFaultError after `num_attempts` failures or `request_seconds` without an
        answer, EngineError where the server refuses the request.
        """
        room = self._room(request)
        if room < 1:
            return cut_off_at_once(request)
        payload = self._payload(request, max_tokens=room)
        for_answer = AsyncRetrying(
            retry=retry_if_exception(_is_worth_a_wait),
            stop=stop_after_attempt(self._num_attempts),
            wait=self._pause,
            reraise=True,
        )
        async for attempt in for_answer:
            with attempt:
                answer = await self._call("POST", "/v1/completions", payload, _Answer)
                return _completions(answer, num_samples=request.num_samples)
        raise AssertionError("tenacity returns or raises")

    def _pause(self, state: RetryCallState) -> float:
        """Seconds before the next attempt: exponential, and at least what the server asks for."""
        first = self._first_wait_seconds
        back_off = wait_exponential(multiplier=first, max=LONGEST_WAIT_SECONDS)(state)
        fault = state.outcome.exception() if state.outcome is not None else None
        asked = fault.retry_after_seconds if isinstance(fault, EngineFaultError) else 0.0
        return max(back_off, asked) + wait_random(0, first)(state)

    def _payload(self, request: SamplingRequest, *, max_tokens: int) -> dict[str, object]:
        sampling = request.sampling
        return {
            "model": self._model_name,
            "prompt": list(request.prompt_ids),
            "n": request.num_samples,
            "seed": request.seed,
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "stop": list(sampling.stop),
            "include_stop_str_in_output": False,
            "skip_special_tokens": True,
            "return_token_ids": True,
            "stream": False,
        }

    def _room(self, request: SamplingRequest) -> int:
        """`max_tokens`, clipped to what the context leaves."""
        max_tokens = request.sampling.max_tokens
        if self._max_model_len is None:
            return max_tokens
        room = self._max_model_len - len(request.prompt_ids)
        if room < max_tokens:
            if self.num_clipped_requests == 0:
                logger.warning(
                    "a prompt of %d tokens leaves room for %d of max_tokens=%d in the context of "
                    "%d; completions cut off there are counted as truncated (said once)",
                    *(len(request.prompt_ids), room, max_tokens, self._max_model_len),
                )
            self.num_clipped_requests += 1
        return min(room, max_tokens)

    async def _call(
        self,
        method: str,
        path: str,
        payload: dict[str, object] | None,
        answer_type: type[AnswerT],
    ) -> AnswerT:
        where = f"{self.base_url}{path}"
        try:
            response = await self._http.request(method, path, json=payload)
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise ServerHangError(
                f"{where} did not answer within engine.request_seconds={self._request_seconds:g}"
            ) from error
        except httpx.HTTPError as error:
            raise _TransientError(f"{where}: {type(error).__name__}: {error}") from error
        if response.status_code in TRANSIENT_STATUSES:
            is_busy = response.status_code == _TOO_MANY_REQUESTS
            fault = (_BusyError if is_busy else _TransientError)(
                f"{where} answered {response.status_code}: {self._excerpt(response)}"
            )
            fault.retry_after_seconds = retry_after_seconds(response.headers.get("Retry-After"))
            raise fault
        if not response.is_success:
            raise EngineError(
                f"{where} refuses the request with {response.status_code}: "
                f"{self._excerpt(response)}"
            )
        try:
            return answer_type.model_validate_json(response.content)
        except ValidationError as error:
            raise _TransientError(f"{where} answered with garbage: {error}") from error

    def _excerpt(self, response: httpx.Response) -> str:
        """The beginning of the body; a server that repeats the API key is not repeated."""
        text = response.text[:500].strip() or "(no body)"
        return text.replace(self._api_key, "(API key)") if self._api_key else text


def _is_worth_a_wait(error: BaseException) -> bool:
    return isinstance(error, _TransientError) and error.retry_after_seconds <= LONGEST_WAIT_SECONDS


def retry_after_seconds(header: str | None) -> float:
    """What a `Retry-After` header asks for, in seconds or as a date; 0 for none and nonsense."""
    if header is None:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(max(seconds, 0.0), _LONGEST_REST_SECONDS) if math.isfinite(seconds) else 0.0


class _Choice(BaseModel):
    index: Annotated[int, Field(ge=0)]
    text: str
    finish_reason: Literal["stop", "length"]
    token_ids: list[int] | None = None


class _Answer(BaseModel):
    choices: list[_Choice]
    usage: object = None
    """Only told by some servers, and no reason to refuse an answer."""


class _ModelCard(BaseModel):
    id: str
    max_model_len: int | None = None


class _ModelList(BaseModel):
    data: list[_ModelCard]


def _completions(answer: _Answer, *, num_samples: int) -> list[Completion]:
    choices = sorted(answer.choices, key=lambda choice: choice.index)
    indices = [choice.index for choice in choices]
    if indices != list(range(num_samples)):
        raise _TransientError(
            f"asked for {num_samples} completions, got {len(indices)} numbered {indices}"
        )
    completions = [_completion(choice) for choice in choices]
    cached = _cached_prompt_tokens(answer.usage)
    return [replace(completions[0], num_cached_prompt_tokens=cached), *completions[1:]]


def _cached_prompt_tokens(usage: object) -> int | None:
    """`usage.prompt_tokens_details.cached_tokens`, where the server tells it."""
    found: object = usage
    for key in ("prompt_tokens_details", "cached_tokens"):
        found = cast("dict[str, object]", found).get(key) if isinstance(found, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _completion(choice: _Choice) -> Completion:
    if choice.token_ids is None:
        raise EngineError(
            "the server does not say how many tokens each completion has (`return_token_ids`); "
            "use vLLM 0.10.2 or later."
        )
    return Completion(
        text=choice.text,
        finish_reason=FinishReason(choice.finish_reason),
        num_tokens=len(choice.token_ids),
    )
