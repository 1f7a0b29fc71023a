"""The metering sampler counts what passes, by stage."""

import asyncio
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipeline.config import SamplingConfig
from pipeline.errors import EngineError
from pipeline.records import FinishReason
from pipeline.samplers.metered import MeteredSampler, StageCost
from pipeline.samplers.openai_client import CompletionsClient
from pipeline.samplers.sampler import Completion, SamplingRequest, SamplingStage


@dataclass
class Slow:
    """Answers after a while: 5 tokens each, 3 of the prompt found in the cache."""

    seconds: float = 0.0
    finish_reason: FinishReason = FinishReason.STOP
    is_broken: bool = False

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        await asyncio.sleep(self.seconds)
        if self.is_broken:
            raise EngineError("broken")
        first = Completion("a", self.finish_reason, 5, num_cached_prompt_tokens=3)
        rest = Completion("a", self.finish_reason, 5)
        return [first, *[rest] * (request.num_samples - 1)]


def request(stage: SamplingStage, *, max_tokens: int = 512) -> SamplingRequest:
    sampling = SamplingConfig(max_tokens=max_tokens)
    return SamplingRequest("p", (1, 2, 3, 4), 4, 0, sampling, stage=stage)


def metered(sampler: Slow, *requests: SamplingRequest) -> dict[SamplingStage, StageCost]:
    costs = {stage: StageCost() for stage in SamplingStage}

    async def ask() -> None:
        meter = MeteredSampler(sampler, costs)
        await asyncio.gather(*(meter.sample(one) for one in requests))

    asyncio.run(ask())
    return costs


def test_prompts_count_once_a_request_and_completions_each() -> None:
    solutions, prefixes = (request(stage) for stage in SamplingStage)
    costs = metered(Slow(), solutions, prefixes, prefixes)
    assert costs[SamplingStage.SOLUTIONS].requests == 1
    cost = costs[SamplingStage.PREFIXES]
    assert (cost.requests, cost.prompt_tokens, cost.cached_prompt_tokens) == (2, 8, 6)
    assert (cost.generated_tokens, cost.clipped_requests, cost.rollouts) == (40, 0, 0)


@pytest.mark.parametrize(("max_tokens", "num_clipped"), [(5, 0), (6, 1)])
def test_a_cut_before_max_tokens_is_a_clipped_request(max_tokens: int, num_clipped: int) -> None:
    asked = request(SamplingStage.PREFIXES, max_tokens=max_tokens)
    costs = metered(Slow(finish_reason=FinishReason.LENGTH), asked)
    assert costs[SamplingStage.PREFIXES].clipped_requests == num_clipped


def test_seconds_are_those_with_a_request_under_way() -> None:
    one = request(SamplingStage.PREFIXES)
    costs = metered(Slow(seconds=0.2), *[one] * 8)
    assert 0.19 <= costs[SamplingStage.PREFIXES].seconds < 1.5
    assert costs[SamplingStage.SOLUTIONS].seconds == 0.0


def test_a_failed_request_costs_its_prompt_and_time() -> None:
    costs = {stage: StageCost() for stage in SamplingStage}
    meter = MeteredSampler(Slow(is_broken=True), costs)
    with pytest.raises(EngineError, match="broken"):
        asyncio.run(meter.sample(request(SamplingStage.SOLUTIONS)))
    cost = costs[SamplingStage.SOLUTIONS]
    assert (cost.requests, cost.prompt_tokens, cost.generated_tokens) == (1, 4, 0)


def test_sums_know_what_was_never_told() -> None:
    told, untold = StageCost(requests=2, cached_prompt_tokens=5, seconds=0.5), StageCost(requests=1)
    assert told.plus(untold) == StageCost(requests=3, cached_prompt_tokens=5, seconds=0.5)
    assert untold.plus(untold).cached_prompt_tokens is None


class Telling(BaseHTTPRequestHandler):
    """A completions server that says what its cache had, or something else."""

    usage: object = None

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choices = [
            {"index": index, "text": "a", "finish_reason": "stop", "token_ids": [7]}
            for index in range(4)
        ]
        content = json.dumps({"choices": choices, "usage": self.usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}, 3),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, 0),
        ({"prompt_tokens_details": None}, None),
        ({"prompt_tokens_details": {"cached_tokens": "many"}}, None),
        ("none", None),
        (None, None),
    ],
)
def test_what_a_server_says_of_its_cache_is_counted(usage: object, cached: int | None) -> None:
    handler = type("Saying", (Telling,), {"usage": usage})
    costs = {stage: StageCost() for stage in SamplingStage}

    async def ask(port: int) -> None:
        client = CompletionsClient(
            f"http://127.0.0.1:{port}", model_name="m", api_key=None, request_seconds=10,
            trust_env=False,
        )  # fmt: skip
        try:
            completions = await MeteredSampler(client, costs).sample(
                request(SamplingStage.PREFIXES)
            )
        finally:
            await client.aclose()
        assert [one.num_cached_prompt_tokens for one in completions[1:]] == [None] * 3

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        asyncio.run(ask(server.server_address[1]))
        server.shutdown()
        thread.join()
    assert costs[SamplingStage.PREFIXES].cached_prompt_tokens == cached
