"""The completions client against a real HTTP server with faults of many kinds."""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.config import SamplingConfig
from pipeline.errors import EngineError
from pipeline.records import FinishReason
from pipeline.samplers.openai_answers import (
    CompletionsAnswer,
    completions,
    read_answer,
    retry_after_seconds,
)
from pipeline.samplers.openai_client import CompletionsClient, ServerFaultError, ServerHangError
from pipeline.samplers.sampler import Completion, EngineBusyError, SamplingRequest

STAND_IN = Path(__file__).with_name("stand_in_server.py")
SAMPLING = SamplingConfig(
    temperature=0.7, top_p=0.9, top_k=5, min_p=0.01, repetition_penalty=1.1, max_tokens=9
)
WANTED = [
    Completion("text-40", FinishReason.STOP, 3),
    Completion("text-41", FinishReason.LENGTH, 4),
    Completion("text-42", FinishReason.STOP, 5),
]

CUT_OFF = [Completion("", FinishReason.LENGTH, 0)] * 3


def request(*, num_prompt_tokens: int = 4, max_tokens: int = 9) -> SamplingRequest:
    sampling = SAMPLING.model_copy(update={"max_tokens": max_tokens, "stop": ("\n\n", "Q:")})
    return SamplingRequest("How many?", tuple(range(num_prompt_tokens)), 3, 40, sampling)


Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a stand-in server with the arguments; gives its base URL."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, str(STAND_IN), "--port", str(port), *arguments]
        env = os.environ | {"VLLM_API_KEY": "secret"}
        processes.append(
            subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True)
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            else:
                return f"http://127.0.0.1:{port}"

    yield start
    for process in processes:
        os.killpg(process.pid, 9)
        process.wait()


def sample(
    url: str,
    *requests: SamplingRequest,
    api_key: str = "secret",
    model_name: str = "stepmark",
    request_seconds: float = 10.0,
    max_model_len: int | None = None,
) -> list[Completion]:
    """Send the requests one after another; the last one's completions."""

    async def run() -> list[Completion]:
        client = CompletionsClient(
            url,
            model_name=model_name,
            api_key=api_key,
            request_seconds=request_seconds,
            max_model_len=max_model_len,
            first_wait_seconds=0.01,
            trust_env=False,
        )
        try:
            await client.load_model_card()
            return [await client.sample(each) for each in requests][-1]
        finally:
            await client.aclose()

    return asyncio.run(run())


def recorded(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_parameter_is_sent(serve: Serve, tmp_path: Path) -> None:
    record = tmp_path / "requests.jsonl"
    assert sample(serve("--record", str(record)), request()) == WANTED
    assert recorded(record) == [
        {
            "model": "stepmark",
            "prompt": [0, 1, 2, 3],
            "n": 3,
            "seed": 40,
            "max_tokens": 9,
            "temperature": 0.7,
            "top_p": 0.9,
            "top_k": 5,
            "min_p": 0.01,
            "repetition_penalty": 1.1,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "stop": ["\n\n", "Q:"],
            "include_stop_str_in_output": False,
            "skip_special_tokens": True,
            "return_token_ids": True,
            "stream": False,
        }
    ]


@pytest.mark.parametrize(
    "fault",
    [
        "408",
        "425",
        "429",
        "500",
        "503",
        "529",
        "599",
        "truncated",
        "garbage",
        "wrong-n",
        "twice",
        "abort",
        "disconnect",
    ],
)
def test_a_passing_fault_is_retried(serve: Serve, tmp_path: Path, fault: str) -> None:
    record = tmp_path / "requests.jsonl"
    assert sample(serve("--faults", f"{fault},{fault}", "--record", str(record)), request()) == (
        WANTED
    )
    first, *others = recorded(record)
    assert others == [first, first]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("500", "answered 500: .*fault 500"),
        ("wrong-n", r"asked for 3 completions, got 2 numbered \[0, 1\]"),
        ("twice", r"asked for 3 completions, got 3 numbered \[0, 0, 1\]"),
        ("abort", "garbage.*choices.2.finish_reason"),
        ("disconnect", "RemoteProtocolError"),
    ],
)
def test_a_lasting_fault_is_named_after_four_attempts(
    serve: Serve, tmp_path: Path, fault: str, said: str
) -> None:
    record = tmp_path / "requests.jsonl"
    url = serve("--faults", fault, "--faults-repeat", "--record", str(record))
    with pytest.raises(ServerFaultError, match=f"(?s){said}"):
        sample(url, request())
    assert len(recorded(record)) == 4


def test_retry_after_is_waited_for(serve: Serve) -> None:
    url = serve("--faults", "429/0.6,503/0.6")
    started = time.monotonic()
    assert sample(url, request()) == WANTED
    assert 1.2 <= time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0),
        ("7", 7),
        ("9" * 400, 0),
        ("-3", 0),
        ("soon", 0),
        ("nan", 0),
        ("1e300", 3600),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 3600),
        ("99999999999999999999 Oct", 0),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2015 07:28:00 +99999999999999999999", 0),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 3600),
        ("", 0),
        (", ,", 0),
    ],
)
def test_retry_after_is_read(header: str | None, seconds: float) -> None:
    assert retry_after_seconds(header) == seconds


def test_a_server_that_wants_a_long_rest_is_left_to_the_caller(
    serve: Serve, tmp_path: Path
) -> None:
    record = tmp_path / "requests.jsonl"
    url = serve("--faults", "429/300", "--record", str(record))
    with pytest.raises(EngineBusyError, match="answered 429") as busy:
        sample(url, request())
    assert busy.value.retry_after_seconds == 300
    assert len(recorded(record)) == 1


@pytest.mark.parametrize("fault", ["400", "500"])
def test_a_key_that_the_server_repeats_is_not_repeated(serve: Serve, fault: str) -> None:
    with pytest.raises(EngineError, match=r"for Bearer \(API key\)") as error:
        sample(serve("--faults", fault, "--faults-repeat"), request())
    assert "secret" not in str(error.value)


def test_a_refusal_is_not_retried(serve: Serve, tmp_path: Path) -> None:
    record = tmp_path / "requests.jsonl"
    url = serve("--faults", "400", "--record", str(record))
    with pytest.raises(EngineError, match=r"refuses the request with 400: .*fault 400") as refusal:
        sample(url, request())
    assert not isinstance(refusal.value, ServerFaultError)
    assert len(recorded(record)) == 1


def test_a_hang_ends_after_request_seconds(serve: Serve) -> None:
    with pytest.raises(ServerHangError, match=r"engine.request_seconds=0.3"):
        sample(serve("--faults", "hang"), request(), request_seconds=0.3)


def test_a_dripping_answer_ends_after_request_seconds(serve: Serve) -> None:
    started = time.monotonic()
    with pytest.raises(ServerHangError, match=r"engine.request_seconds=0.5"):
        sample(serve("--faults", "drip"), request(), request_seconds=0.5)
    assert time.monotonic() - started < 30  # no hang


def test_a_lone_surrogate_is_replaced_and_no_fault(serve: Serve, tmp_path: Path) -> None:
    record = tmp_path / "requests.jsonl"
    found = sample(serve("--faults", "surrogate", "--record", str(record)), request())
    assert found == [Completion("a ? b", FinishReason.STOP, 3), *WANTED[1:]]
    assert len(recorded(record)) == 1


@pytest.mark.parametrize("fault", ["garbage", "abort", "truncated", "wrong-n", "500"])
def test_a_fault_is_said_in_one_line(serve: Serve, fault: str) -> None:
    with pytest.raises(ServerFaultError) as error:
        sample(serve("--faults", fault, "--faults-repeat"), request())
    assert len(str(error.value).splitlines()) == 1


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ServerFaultError, match="ConnectError"):
            sample(f"http://127.0.0.1:{taken.getsockname()[1]}", request())


def test_choices_out_of_order_are_put_in_the_order_of_seeds(serve: Serve) -> None:
    assert sample(serve("--faults", "shuffled"), request()) == WANTED


def test_a_server_without_token_counts_is_refused(serve: Serve) -> None:
    with pytest.raises(EngineError, match="return_token_ids"):
        sample(serve("--faults", "no-token-ids"), request())


def test_a_wrong_key_is_refused(serve: Serve) -> None:
    with pytest.raises(EngineError, match="refuses the request with 401"):
        sample(serve(), request(), api_key="wrong")


def test_another_model_is_named(serve: Serve) -> None:
    with pytest.raises(EngineError, match="does not serve 'qwen' but stepmark"):
        sample(serve(), request(), model_name="qwen")


def test_max_tokens_is_clipped_to_the_context_and_said_once(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = tmp_path / "requests.jsonl"
    url = serve("--max-model-len", "20", "--record", str(record))
    requests = [request(num_prompt_tokens=size) for size in (11, 12, 19)]
    with caplog.at_level(logging.WARNING):
        assert sample(url, *requests) == WANTED
    assert [each["max_tokens"] for each in recorded(record)] == [9, 8, 1]
    assert [message for message in caplog.messages if "leaves room for 8" in message] == (
        caplog.messages
    )


def test_a_prompt_that_fills_the_context_is_cut_off_at_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    completions = sample(serve("--max-model-len", "20"), request(num_prompt_tokens=20))
    assert completions == [Completion("", FinishReason.LENGTH, 0)] * 3
    assert "leaves room for 0" in caplog.text


@pytest.mark.parametrize(("told", "configured"), [("20", 30), ("30", 20), ("20", None), (None, 20)])
def test_the_context_is_the_least_of_what_is_told_and_configured(
    serve: Serve, tmp_path: Path, told: str | None, configured: int | None
) -> None:
    record = tmp_path / "requests.jsonl"
    context = ["--max-model-len", told] if told else ["--tells-no-context"]
    url = serve(*context, "--record", str(record))
    requests = [request(num_prompt_tokens=size) for size in (15, 20, 25)]
    assert sample(url, *requests, max_model_len=configured) == CUT_OFF
    assert [each["max_tokens"] for each in recorded(record)] == [5]


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 20 tokens. However, you requested 24 tokens",
        "The decoder prompt (length 21) is longer than the maximum model length of 20.",
        "The input (24 tokens) is longer than the model's context length (20 tokens).",
        "Requested tokens (24) exceed context window of 20",
        'the request exceeds the available context size, try increasing it: {"n_ctx":20}',
    ],
)
def test_a_refusal_that_names_the_context_is_asked_for_less(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture, said: str
) -> None:
    record = tmp_path / "requests.jsonl"
    refusing = ["--tells-no-context", "--context", "20", "--context-said", said]
    url = serve(*refusing, "--record", str(record))
    requests = [request(num_prompt_tokens=size) for size in (15, 20, 25)]
    assert sample(url, requests[0]) == WANTED
    assert [each["max_tokens"] for each in recorded(record)] == [9, 5]
    assert sample(url, *requests) == CUT_OFF
    assert sample(url, *requests, request()) == WANTED  # the others are served
    assert "a prompt of 15 tokens leaves room for 5 of max_tokens=9" in caplog.text


@pytest.mark.parametrize(
    "said", ["context_length_exceeded", "maximum context length is 99", "context length 0"]
)
def test_a_refusal_that_names_no_usable_context_cuts_the_request_off(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture, said: str
) -> None:
    record = tmp_path / "requests.jsonl"
    refusing = ["--tells-no-context", "--context", "20", "--context-said", said]
    url = serve(*refusing, "--record", str(record))
    assert sample(url, *[request(num_prompt_tokens=15)] * 2) == CUT_OFF
    assert len(recorded(record)) == 2
    (warning,) = caplog.messages
    assert "15 tokens and max_tokens=9 as too long" in warning
    assert "set engine.max_model_len" in warning


def test_a_context_that_shrinks_once_more_cuts_the_request_off(
    serve: Serve, tmp_path: Path
) -> None:
    record = tmp_path / "requests.jsonl"
    refusing = ["--tells-no-context", "--context", "10"]
    url = serve(*refusing, "--context-said", "context length is 20", "--record", str(record))
    assert sample(url, request(num_prompt_tokens=15)) == CUT_OFF
    assert len(recorded(record)) == 2


@pytest.mark.parametrize(
    ("stop_reason", "expected"), [('"\\n"', "\n"), ("null", None), ("151645", None)]
)
def test_the_stop_string_that_ended_a_completion_is_told(
    stop_reason: str, expected: str | None
) -> None:
    content = (
        '{"choices": [{"index": 0, "text": "a", "finish_reason": "stop", "token_ids": [1], '
        f'"stop_reason": {stop_reason}}}]}}'
    )
    (one,) = completions(read_answer(content.encode(), CompletionsAnswer), num_samples=1)
    assert one.stopped_at == expected
