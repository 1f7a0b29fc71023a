"""The completions call of an OpenAI-like server: a request in, checked completions out.

One POST to `/v1/completions` asks for all samples of a prompt (`n`, so that the prompt is
prefilled once) with the prompt as token ids and every sampling parameter said, since what is
left unsaid comes from the model's generation config. The answer is checked (`openai_answers`).

A prompt with less than `max_tokens` room in the context is asked for as many tokens as fit.
That changes no completion that ends by itself. One that does not ends with `length` and fewer
tokens than `max_tokens`, so it is stored, counted as truncated, and can be told apart; the
client warns once and counts such requests. A prompt that fills the context is cut off at once.
The context is the server's own word or `max_model_len`, whichever is less. Where neither is
known the server refuses what is too long; such a request is clipped to the context that the
refusal names, or cut off at once where it names none. Starting, judging and replacing servers
is not done here.
"""

import asyncio
import logging

import httpx
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from pipeline.errors import EngineError
from pipeline.samplers.openai_answers import (
    AnswerT,
    CompletionsAnswer,
    DamagedAnswerError,
    ModelList,
    completions,
    one_line,
    read_answer,
    refused_context,
    retry_after_seconds,
)
from pipeline.samplers.sampler import (
    Completion,
    EngineBusyError,
    EngineFaultError,
    SamplingRequest,
    cut_off_at_once,
)

logger = logging.getLogger(__name__)

LONGEST_WAIT_SECONDS = 30.0
"""Between two attempts. A server that asks for more (`Retry-After`) is left to the caller."""
_NOT_FOUND, _TOO_MANY_REQUESTS = 404, 429
_TRANSIENT_REFUSALS = frozenset({408, 425, _TOO_MANY_REQUESTS})


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


class _TooLongError(EngineError):
    """The server's context has no room for this request."""

    max_model_len: int = 0
    """The context in tokens; 0 where the server does not say."""


class CompletionsClient:
    """A client of one server and one model on it. Safe to call from many tasks at once."""

    def __init__(
        self,
        base_url: str,
        *,
        model_name: str,
        api_key: str | None,
        request_seconds: float,
        max_model_len: int | None = None,
        num_attempts: int = 4,
        first_wait_seconds: float = 0.25,
        trust_env: bool = True,
    ) -> None:
        """`base_url` is without `/v1`. `max_model_len` holds where the server's own context is
        larger or not told. `trust_env=False` ignores proxies (local servers).
        """
        self.base_url = base_url
        self.num_clipped_requests = 0
        """Requests with less room in the context than `max_tokens`."""
        self._model_name = model_name
        self._api_key = api_key
        self._request_seconds = request_seconds
        self._num_attempts = num_attempts
        self._first_wait_seconds = first_wait_seconds
        self._configured_max_model_len = max_model_len
        self._max_model_len = max_model_len
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
            async with asyncio.timeout(seconds):
                response = await self._http.get("/health", timeout=seconds)
        except (httpx.HTTPError, TimeoutError):
            return False
        return response.is_success or response.status_code == _NOT_FOUND

    async def load_model_card(self) -> int | None:
        """Check that the server serves the model; keep and return the context in tokens.

        None where neither the server nor the caller says. Raises EngineError where the model
        is not served, ServerFaultError where there is no answer.
        """
        cards = await self._call("GET", "/v1/models", None, ModelList)
        for card in cards.data:
            if card.id == self._model_name:
                told = (card.max_model_len, self._configured_max_model_len)
                self._max_model_len = min((each for each in told if each), default=None)
                return self._max_model_len
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
        context = self._max_model_len
        room = _room(request, context)
        try:
            found = await self._sample(request, max_tokens=room)
        except _TooLongError as refusal:
            is_plausible = refusal.max_model_len < len(request.prompt_ids) + room
            context = refusal.max_model_len if is_plausible else 0
            room = _room(request, context)
            try:
                found = await self._sample(request, max_tokens=room)
            except _TooLongError:
                found, context = cut_off_at_once(request), 0
        if context is not None and room < request.sampling.max_tokens:
            self._note_clipped(request, context)
        return found

    async def _sample(self, request: SamplingRequest, *, max_tokens: int) -> list[Completion]:
        if max_tokens < 1:
            return cut_off_at_once(request)
        payload = self._payload(request, max_tokens=max_tokens)
        for_answer = AsyncRetrying(
            retry=retry_if_exception(_is_worth_a_wait),
            stop=stop_after_attempt(self._num_attempts),
            wait=self._pause,
            reraise=True,
        )
        async for attempt in for_answer:
            with attempt:
                answer = await self._call("POST", "/v1/completions", payload, CompletionsAnswer)
                return self._completions(answer, num_samples=request.num_samples)
        raise AssertionError("tenacity returns or raises")

    def _completions(self, answer: CompletionsAnswer, *, num_samples: int) -> list[Completion]:
        try:
            return completions(answer, num_samples=num_samples)
        except DamagedAnswerError as error:
            raise _TransientError(f"{self.base_url}: {error}") from error

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

    def _note_clipped(self, request: SamplingRequest, context: int) -> None:
        self.num_clipped_requests += 1
        if self.num_clipped_requests > 1:
            return
        size, max_tokens = len(request.prompt_ids), request.sampling.max_tokens
        if context:
            logger.warning(
                "a prompt of %d tokens leaves room for %d of max_tokens=%d in the context of %d; "
                "completions cut off there are counted as truncated (said once)",
                *(size, max(context - size, 0), max_tokens, context),
            )
        else:
            logger.warning(
                "%s refuses a prompt of %d tokens and max_tokens=%d as too long and does not say "
                "how long its context is; set engine.max_model_len. Such completions are empty "
                "and counted as truncated (said once)",
                *(self.base_url, size, max_tokens),
            )

    async def _call(
        self,
        method: str,
        path: str,
        payload: dict[str, object] | None,
        answer_type: type[AnswerT],
    ) -> AnswerT:
        where = f"{self.base_url}{path}"
        try:
            # httpx's own limit starts anew with each byte that a slow server sends.
            async with asyncio.timeout(self._request_seconds):
                response = await self._http.request(method, path, json=payload)
        except (httpx.ReadTimeout, httpx.WriteTimeout, TimeoutError) as error:
            raise ServerHangError(
                f"{where} did not answer within engine.request_seconds={self._request_seconds:g}"
            ) from error
        except httpx.HTTPError as error:
            raise _TransientError(f"{where}: {type(error).__name__}: {error}") from error
        if not response.is_success:
            raise self._refusal(where, response)
        try:
            return read_answer(response.content, answer_type)
        except DamagedAnswerError as error:
            raise _TransientError(f"{where} answered with garbage: {error}") from error

    def _refusal(self, where: str, response: httpx.Response) -> EngineError:
        status, said = response.status_code, self._excerpt(response)
        if response.is_server_error or status in _TRANSIENT_REFUSALS:
            is_busy = status == _TOO_MANY_REQUESTS
            error_type = _BusyError if is_busy else _TransientError
            fault = error_type(f"{where} answered {status}: {said}")
            fault.retry_after_seconds = retry_after_seconds(response.headers.get("Retry-After"))
            return fault
        refusal = f"{where} refuses the request with {status}: {said}"
        max_model_len = refused_context(status, response.content)
        if max_model_len is None:
            return EngineError(refusal)
        too_long = _TooLongError(refusal)
        too_long.max_model_len = max_model_len
        return too_long

    def _excerpt(self, response: httpx.Response) -> str:
        """The beginning of the body; a server that repeats the API key is not repeated."""
        text = response.content.decode("utf-8", "replace")
        if self._api_key:
            text = text.replace(self._api_key, "(API key)")
        return one_line(text) or "(no body)"


def _room(request: SamplingRequest, max_model_len: int | None) -> int:
    """`max_tokens`, clipped to what the context leaves; below 1 where it leaves nothing."""
    max_tokens = request.sampling.max_tokens
    if max_model_len is None:
        return max_tokens
    return min(max_model_len - len(request.prompt_ids), max_tokens)


def _is_worth_a_wait(error: BaseException) -> bool:
    return isinstance(error, _TransientError) and error.retry_after_seconds <= LONGEST_WAIT_SECONDS
