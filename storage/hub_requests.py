"""Requests to the Hub that may be tried again, and what to say when they fail for good.

The token, and the signatures in addresses, are in no message; the errors of the Hub's client,
which can hold what a server or a header said, are not chained to ours.
"""

import logging
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from pipeline.errors import ConfigError, HubError

if TYPE_CHECKING:
    from tenacity import RetryCallState

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 15.0
_TRANSIENT = frozenset({408, 409, 412, 429, 500, 502, 503, 504})
"""409 and 412: somebody else was first, and what is there now has to be looked at."""
_REFUSED = frozenset({401, 403, 404})
"""What no other try helps."""

logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def hub_token() -> str:
    """The token from the environment or the Hub's own login. Raises ConfigError."""
    from huggingface_hub import get_token

    token = get_token()
    if token is None:
        raise ConfigError(
            "there is no token for the Hub: set HF_TOKEN to one that may write, or run "
            "`hf auth login`"
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError("the token for the Hub has characters that no token has: set it again")
    return token


def with_patience(
    attempt: Callable[[], _Result], *, failure: str, repo: str, token: str, patience_seconds: float
) -> _Result:
    """`attempt` again and again while its errors may pass.

    After that, and for others, raises HubError (ConfigError where the token or the name is
    refused): `failure`, why, and what to do.
    """
    import httpx2
    import tenacity

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=tenacity.stop_after_delay(patience_seconds),
        wait=tenacity.wait_exponential_jitter(
            multiplier=_FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS, jitter=_FIRST_PAUSE_SECONDS
        ),
        before_sleep=lambda state: _log(state, repo),
        reraise=True,
    )
    try:
        return retrying(attempt)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, RuntimeError, ValueError) as error:
        cause = _cause(error)
        reason, advice = _explained(cause, repo)
        kind = ConfigError if _status(cause) in _REFUSED else HubError
        # the client's own error can hold what the server or a header said: not chained
        raise kind(f"{failure}: {_without_secrets(reason, token)}; {advice}") from None


def _log(state: "RetryCallState", repo: str) -> None:
    error = state.outcome.exception() if state.outcome else None
    why = "another commit came first" if _status(error) == 412 else type(error).__name__
    logger.info("%s: %s; trying again", repo, why)


def _may_pass(error: BaseException) -> bool:
    import httpx2

    error = _cause(error)
    if isinstance(error, httpx2.TransportError):
        return True
    return _status(error) in _TRANSIENT


def _cause(error: BaseException) -> BaseException:
    """The Hub's client wraps what ended an upload."""
    inner = error.__cause__
    return inner if isinstance(error, RuntimeError) and inner is not None else error


def _status(error: BaseException | None) -> int | None:
    from huggingface_hub.errors import HfHubHTTPError

    return error.response.status_code if isinstance(error, HfHubHTTPError) else None


def _explained(error: BaseException, repo: str) -> tuple[str, str]:
    """What went wrong, and what to do."""
    again = "nothing here is lost: run the same command again"
    status = _status(error)
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return (
                "the Hub does not take the token (401)",
                "set HF_TOKEN to a valid one, or run `hf auth login`",
            )
        case HTTPStatus.FORBIDDEN:
            owner = repo.partition("/")[0]
            return (
                "the token may not do that (403)",
                f"use one that may write to datasets of {owner}",
            )
        case HTTPStatus.NOT_FOUND:
            return (
                "the Hub does not find it (404)",
                "check the repo's name, and that the token may see it",
            )
        case HTTPStatus.PRECONDITION_FAILED:
            return "other publishers' commits came first each time (412)", again
        case None:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            return f"the Hub cannot be reached ({text})", again
        case _:
            return f"the Hub answered {int(status)} ({' '.join(str(error).split())})", again


def _without_secrets(text: str, token: str) -> str:
    """Without the token, and without the signatures of addresses."""
    shown = re.sub(r"\?\S+", "?…", text)
    return shown.replace(token, "<token>")
