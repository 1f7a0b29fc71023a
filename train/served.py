"""Step scores from a PRM of ours that vLLM serves (`--runner pooling`, see docs/serve.md).

The server gets token ids, so the encoding is that of training, done here with the folder's
tokenizer; it gives one logit a token, and those at the steps' last tokens are taken. Nothing here
needs torch. That the server's weights are the folder's is the user's word; the length, the number
of outputs and what the outputs mean are checked before the first score.
"""

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, Field
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from pipeline.config import server_root
from pipeline.errors import ConfigError, DataError, EngineError
from pipeline.samplers.openai_answers import (
    AnswerT,
    DamagedAnswerError,
    ModelList,
    one_line,
    read_answer,
)
from train.encode import EncodedSteps
from train.scorer import PrmFacts, PrmScorer

_ADVICE = "docs/serve.md has the command that starts it"
_NUM_ATTEMPTS = 4
_REQUEST_TOKENS, _REQUEST_SOLUTIONS = 32_768, 64
_TRANSIENT = frozenset({408, 425, 429})
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TOLERANCE = 0.05
"""Between a sigmoid of ours and the server's, which may compute in bfloat16; a softmax over one
class is 1 everywhere."""


class TokenLogits(BaseModel):
    """Of one input: an output a token."""

    index: Annotated[int, Field(ge=0)]
    data: list[list[float]]


class PoolingAnswer(BaseModel):
    """Of `/pooling`."""

    data: list[TokenLogits]


class PoolingClient:
    """Token ids to logits by a server with one model. Blocks."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        request_seconds: float = 600.0,
        first_wait_seconds: float = 0.25,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`url` is with or without `/v1`. Raises ConfigError where it is none."""
        self.base_url = _checked_url(url)
        self._api_key = api_key
        self._request_seconds = request_seconds
        self._first_wait_seconds = first_wait_seconds
        self._transport = transport
        self._model_name = ""

    def load_model_card(self) -> int | None:
        """Remember the model's name; returns the context in tokens, where the server tells it.

        Raises EngineError for no answer, and for several models, of which only one can be meant.
        """
        (cards,) = self._call("GET", "/v1/models", [None], ModelList)
        if len(cards.data) != 1:
            served = ", ".join(one_line(card.id) for card in cards.data) or "nothing"
            raise EngineError(f"{self.base_url} serves {served}: one PRM is needed; {_ADVICE}")
        self._model_name = cards.data[0].id
        return cards.data[0].max_model_len

    def outputs(
        self, inputs: Sequence[Sequence[int]], *, activated: bool = False
    ) -> list[list[float]]:
        """The output of each token of each input: logits, or `activated` the server's scores.

        Raises EngineError where the server fails, refuses, or has another number of outputs.
        """
        bodies: list[object] = [
            {
                "model": self._model_name,
                "input": [list(ids) for ids in batch],
                "task": "token_classify",
                "use_activation": activated,
                "encoding_format": "float",
            }
            for batch in _batches(inputs)
        ]
        answers = self._call("POST", "/pooling", bodies, PoolingAnswer)
        found = [
            one.data for answer in answers for one in sorted(answer.data, key=lambda one: one.index)
        ]
        if [len(rows) for rows in found] != [len(ids) for ids in inputs]:
            raise EngineError(
                f"{self.base_url} does not give an output for each token: its runner or its "
                f"pooling is another one; {_ADVICE}"
            )
        width = {len(row) for rows in found for row in rows}
        if width - {1}:
            raise EngineError(
                f"{self.base_url} gives {max(width)} outputs a token, a PRM of ours has one: it "
                "serves another model"
            )
        return [[row[0] for row in rows] for rows in found]

    def _call(
        self, method: str, path: str, bodies: Sequence[object], answer_type: type[AnswerT]
    ) -> list[AnswerT]:
        """The answers to requests one after the other, each with retries."""
        retrying = Retrying(
            retry=retry_if_exception_type(_TransientError),
            stop=stop_after_attempt(_NUM_ATTEMPTS),
            wait=wait_exponential(multiplier=self._first_wait_seconds, max=30.0),
            reraise=True,
        )
        with httpx.Client(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {self._api_key}"} if self._api_key else {},
            timeout=httpx.Timeout(self._request_seconds, connect=10.0),
            trust_env=urlsplit(self.base_url).hostname not in _LOOPBACK,
            transport=self._transport,
        ) as http:
            return [
                retrying(self._attempt, http, method, path, body, answer_type) for body in bodies
            ]

    def _attempt(
        self,
        http: httpx.Client,
        method: str,
        path: str,
        body: object,
        answer_type: type[AnswerT],
    ) -> AnswerT:
        where = f"{self.base_url}{path}"
        try:
            response = http.request(method, path, json=body)
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:  # it has cost enough
            raise EngineError(f"{where} did not answer in {self._request_seconds:g} s") from error
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__}: {one_line(str(error))}"
            raise _TransientError(f"{where} cannot be reached ({reason}); {_ADVICE}") from error
        if not response.is_success:
            raise self._refusal(where, response)
        try:
            return read_answer(response.content, answer_type)
        except DamagedAnswerError as error:
            raise _TransientError(f"{where} answered with garbage: {error}") from error

    def _refusal(self, where: str, response: httpx.Response) -> EngineError:
        text = response.content.decode("utf-8", "replace")
        if self._api_key:  # a server that repeats it is not repeated
            text = text.replace(self._api_key, "(API key)")
        said = f"{where} answered {response.status_code}: {one_line(text) or '(no body)'}"
        if response.is_server_error or response.status_code in _TRANSIENT:
            return _TransientError(said)
        return EngineError(f"{said}; {_ADVICE}")


class _TransientError(EngineError):
    """One failed attempt."""


def open_served(folder: Path, client: PoolingClient) -> PrmScorer:
    """A scorer with the PRM of `folder` on the client's server.

    Raises DataError for a folder that is no PRM of ours, EngineError where the server does not
    answer, serves something else, or takes fewer tokens than the PRM.
    """
    from transformers import AutoTokenizer

    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        facts = PrmFacts.of(config["stepmark"])
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder} is no PRM that stepmark can read: {error}") from error
    context = client.load_model_card()
    if context is not None and context < facts.max_length:
        raise EngineError(
            f"{client.base_url} takes {context} tokens, the PRM in {folder} {facts.max_length}: "
            f"longer solutions would be refused. Start it with --max-model-len {facts.max_length}"
        )
    scorer = PrmScorer.of(facts, tokenizer, partial(_score_encoded, client))
    _require_logits(client, facts.encoder(tokenizer)("1+1=?", ("1+1=2",)))
    return scorer


def _score_encoded(
    client: PoolingClient, solutions: Sequence[EncodedSteps]
) -> list[tuple[float, ...]]:
    asked = [solution for solution in solutions if solution.step_positions]
    outputs = iter(client.outputs([solution.input_ids for solution in asked]))
    scores: list[tuple[float, ...]] = []
    for solution in solutions:
        logits = next(outputs) if solution.step_positions else []
        scores.append(tuple(_sigmoid(logits[position]) for position in solution.step_positions))
    return scores


def _require_logits(client: PoolingClient, probe: EncodedSteps) -> None:
    """Raise EngineError where the server's scores are not the sigmoids of its logits.

    Servers that do not know `use_activation` would give scores in the place of logits.
    """
    (logits,), (scores,) = (
        client.outputs([probe.input_ids], activated=activated) for activated in (False, True)
    )
    differences = [abs(_sigmoid(a) - b) for a, b in zip(logits, scores, strict=True)]
    if not max(differences) <= _TOLERANCE:
        raise EngineError(
            f"{client.base_url} gives no logits when asked without activation: its vLLM is too "
            "old or another program; vLLM 0.32 was tested"
        )


def _batches(inputs: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    batch: list[Sequence[int]] = []
    num_tokens = 0
    for ids in inputs:
        is_full = num_tokens + len(ids) > _REQUEST_TOKENS or len(batch) == _REQUEST_SOLUTIONS
        if batch and is_full:
            yield batch
            batch, num_tokens = [], 0
        batch.append(ids)
        num_tokens += len(ids)
    if batch:
        yield batch


def _sigmoid(logit: float) -> float:
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number
        is_server = False
    if not is_server:
        raise ConfigError(f"{url!r} is not of the form http://HOST:PORT or https://HOST[:PORT]")
    return server_root(url)
