r"""What an OpenAI-like server answers, read with care: bodies, headers, and refusals.

A body is checked before it is believed: exactly `n` choices numbered 0 to n - 1, each with a
reason to have stopped and its own token count (`return_token_ids`, vLLM 0.10.2 and later;
`usage` has only the total). Lone surrogates (`\ud83d` in JSON, from a server that cuts a
character in two) are replaced: they have no UTF-8 form. Whatever is quoted in an error is one
line of printable characters. Sending and retrying is not done here.
"""

import json
import math
import re
import time
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Annotated, Literal, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from pipeline.errors import EngineError
from pipeline.records import FinishReason
from pipeline.samplers.sampler import Completion

AnswerT = TypeVar("AnswerT", bound=BaseModel)

_LONGEST_REST_SECONDS = 3600.0
_MAX_QUOTED = 500
_REFUSALS = (400, 413, 422)
_TOO_LONG = re.compile(
    r"context[ _-](?:length|size|window)|model length|max_model_len|exceed_context", re.IGNORECASE
)
_LIMIT = re.compile(
    r"""(?:context\ (?:length|size|window)|model\ length  # …context length is 4096 tokens
        |n_ctx\W)\D{0,24}?(\d{1,9})(?!\d)""",
    re.IGNORECASE | re.VERBOSE,
)


class DamagedAnswerError(ValueError):
    """A body that is no answer to what was asked; its text is one line."""


def _without_lone_surrogates(value: object) -> object:
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")


_Text = Annotated[str, BeforeValidator(_without_lone_surrogates)]


class Choice(BaseModel):
    """One completion."""

    index: Annotated[int, Field(ge=0)]
    text: _Text
    finish_reason: Literal["stop", "length"]
    stop_reason: object = None
    """vLLM's: the stop string, a token's id, or nothing where the model ended."""
    token_ids: list[int] | None = None


class CompletionsAnswer(BaseModel):
    """Of `/v1/completions`."""

    choices: list[Choice]
    usage: object = None
    """Only told by some servers, and no reason to refuse an answer."""


class ModelCard(BaseModel):
    """A served model; its context in tokens, where the server tells it."""

    id: _Text
    max_model_len: int | None = None


class ModelList(BaseModel):
    """Of `/v1/models`."""

    data: list[ModelCard]


def read_answer(content: bytes, answer_type: type[AnswerT]) -> AnswerT:
    """The body as `answer_type`. Raises DamagedAnswerError."""
    try:
        return answer_type.model_validate(json.loads(content))
    except ValidationError as error:
        first, *others = error.errors(include_url=False, include_context=False)
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        more = f" (and {len(others)} more faults)" if others else ""
        raise DamagedAnswerError(one_line(f"{where}: {first['msg']}{more}")) from error
    except (ValueError, RecursionError) as error:  # no JSON, no text, or nested without end
        raise DamagedAnswerError(one_line(f"no JSON: {error}")) from error


def completions(answer: CompletionsAnswer, *, num_samples: int) -> list[Completion]:
    """The completions in the order of their seeds.

    Raises DamagedAnswerError where they are not the `num_samples` that were asked for,
    EngineError where the server does not tell their tokens.
    """
    choices = sorted(answer.choices, key=lambda choice: choice.index)
    indices = [choice.index for choice in choices]
    if indices != list(range(num_samples)):
        said = one_line(f"got {len(indices)} numbered {indices}")
        raise DamagedAnswerError(f"asked for {num_samples} completions, {said}")
    found = [_completion(choice) for choice in choices]
    cached = _cached_prompt_tokens(answer.usage)
    return [replace(found[0], num_cached_prompt_tokens=cached), *found[1:]]


def refused_context(status: int, content: bytes) -> int | None:
    """The context in tokens that a refusal for too long a request names; 0 where it names none.

    None where the refusal is for something else.
    """
    said = content.decode("utf-8", "replace")
    if status not in _REFUSALS or not _TOO_LONG.search(said):
        return None
    limit = _LIMIT.search(said)
    return int(limit.group(1)) if limit else 0


def retry_after_seconds(header: str | None) -> float:
    """What a `Retry-After` header asks for, in seconds or as a date; 0 for none and nonsense.

    At most an hour.
    """
    if header is None:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, ArithmeticError, OSError, TypeError, LookupError):
            return 0.0  # a date in the year 99999 fails in ways of its own
    return min(max(seconds, 0.0), _LONGEST_REST_SECONDS) if math.isfinite(seconds) else 0.0


def one_line(text: str) -> str:
    """The beginning of `text` in one line, without what a terminal would obey."""
    printable = "".join(char if char.isprintable() else " " for char in text[:_MAX_QUOTED])
    return " ".join(printable.split())


def _cached_prompt_tokens(usage: object) -> int | None:
    """`usage.prompt_tokens_details.cached_tokens`, where the server tells it."""
    found: object = usage
    for key in ("prompt_tokens_details", "cached_tokens"):
        found = cast("dict[str, object]", found).get(key) if isinstance(found, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _completion(choice: Choice) -> Completion:
    if choice.token_ids is None:
        raise EngineError(
            "the server does not say how many tokens each completion has (`return_token_ids`); "
            "use vLLM 0.10.2 or later."
        )
    return Completion(
        text=choice.text,
        finish_reason=FinishReason(choice.finish_reason),
        num_tokens=len(choice.token_ids),
        stopped_at=choice.stop_reason if isinstance(choice.stop_reason, str) else None,
    )
