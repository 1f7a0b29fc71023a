"""Servers that already run: several stand-ins with faults, one that dies and comes back."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.config import EngineConfig, EngineKind, ModelConfig, SamplingConfig, server_root
from pipeline.errors import ConfigError, EngineError
from pipeline.records import FinishReason
from pipeline.samplers.engine_pool import EnginePool
from pipeline.samplers.openai_server import open_openai_servers
from pipeline.samplers.sampler import Completion, SamplingRequest

STAND_IN = Path(__file__).with_name("stand_in_server.py")
MODEL = ModelConfig(name="stepmark")


class Servers:
    """Stand-in servers that can be killed and started again at their address."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *arguments: str, url: str | None = None) -> str:
        url = url or f"http://127.0.0.1:{free_port()}"
        port = url.rpartition(":")[2]
        record = ["--record", str(self._record(url))]
        self._processes[url] = subprocess.Popen(
            [sys.executable, str(STAND_IN), "--port", port, *record, *arguments],
            env=os.environ | {"VLLM_API_KEY": "secret"},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(port))).close()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            else:
                return url

    def kill(self, url: str) -> None:
        process = self._processes.pop(url)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_all(self) -> None:
        for url in list(self._processes):
            self.kill(url)

    def seeds(self, url: str) -> list[int]:
        """Of the requests that reached the server, in order."""
        record = self._record(url)
        lines = record.read_text().splitlines() if record.exists() else []
        return [json.loads(line)["seed"] for line in lines]

    def _record(self, url: str) -> Path:
        return self._path / f"{url.rpartition(':')[2]}.jsonl"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    monkeypatch.setenv("STAND_IN_KEY", "secret")
    started = Servers(tmp_path)
    yield started
    started.kill_all()


def engine(*urls: str, **settings: object) -> EngineConfig:
    values = {
        "kind": EngineKind.OPENAI,
        "urls": urls,
        "api_key_env": "STAND_IN_KEY",
        "request_seconds": 20.0,
        "startup_seconds": 20.0,
        "max_num_seqs": 4,
    }
    return EngineConfig.model_validate(values | settings)


def request(seed: int, *, affinity: str = "") -> SamplingRequest:
    return SamplingRequest("Q", (1, 2), 2, seed, SamplingConfig(max_tokens=8), affinity)


def completions(seed: int) -> list[Completion]:
    return [
        Completion(f"text-{seed}", FinishReason.STOP, 3),
        Completion(f"text-{seed + 1}", FinishReason.LENGTH, 4),
    ]


async def all_work(pool: EnginePool) -> None:
    while pool.num_working < pool.num_engines:
        await asyncio.sleep(0.01)


def use(
    config: EngineConfig,
    test: Callable[[EnginePool], Awaitable[None]],
    *,
    model: ModelConfig = MODEL,
) -> None:
    async def run() -> None:
        async with open_openai_servers(model, config) as pool:
            await asyncio.wait_for(test(pool), 60)

    asyncio.run(run())


def test_a_problems_requests_stay_on_one_of_several_servers(servers: Servers) -> None:
    urls = [servers.start() for _ in range(3)]
    problems = [f"p{i}" for i in range(30)]

    async def test(pool: EnginePool) -> None:
        await all_work(pool)
        for repeat in range(3):
            requests = [request(100 * i + repeat, affinity=p) for i, p in enumerate(problems)]
            results = await asyncio.gather(*(pool.sample(each) for each in requests))
            assert results == [completions(each.seed) for each in requests]
        assert pool.num_faults == 0

    use(engine(*urls, max_num_seqs=60), test)  # none waits, so none moves
    seen = [servers.seeds(url) for url in urls]
    assert sum(map(len, seen)) == 90
    assert all(seeds for seeds in seen)  # shares are by hash of random ports
    problems_at = [{seed // 100 for seed in seeds} for seeds in seen]
    assert sum(map(len, problems_at)) == 30


def test_a_server_that_always_fails_in_another_way_is_passed_by(servers: Servers) -> None:
    faults = ["429/0.1", "500", "truncated", "wrong-n", "garbage", "disconnect", "abort"]
    urls = [servers.start(), servers.start("--faults", ",".join(faults * 20))]

    async def test(pool: EnginePool) -> None:
        await all_work(pool)
        requests = [request(10 * i, affinity=f"p{i}") for i in range(12)]
        results = await asyncio.gather(*(pool.sample(each) for each in requests))
        assert results == [completions(each.seed) for each in requests]
        assert pool.num_faults >= 1

    use(engine(*urls), test)
    assert len(servers.seeds(urls[1])) >= 4


def test_a_hanging_server_is_passed_by(servers: Servers) -> None:
    urls = [servers.start(), servers.start("--faults", "hang", "--faults-repeat")]

    async def test(pool: EnginePool) -> None:
        await all_work(pool)
        requests = [request(10 * i, affinity=f"p{i}") for i in range(12)]
        results = await asyncio.gather(*(pool.sample(each) for each in requests))
        assert results == [completions(each.seed) for each in requests]

    use(engine(*urls, request_seconds=1.0), test)
    assert servers.seeds(urls[1])


def test_one_of_three_servers_dies_and_comes_back(servers: Servers) -> None:
    urls = [servers.start("--delay", "0.05") for _ in range(3)]
    requests = [request(10 * i, affinity=f"p{i}") for i in range(150)]

    async def test(pool: EnginePool) -> None:
        await all_work(pool)
        tasks = [asyncio.create_task(pool.sample(each)) for each in requests]
        while sum(task.done() for task in tasks) < 30:
            await asyncio.sleep(0.01)
        servers.kill(urls[0])
        num_before = len(servers.seeds(urls[0]))
        assert num_before
        assert await asyncio.gather(*tasks) == [completions(each.seed) for each in requests]
        assert pool.num_faults >= 1
        await asyncio.to_thread(servers.start, url=urls[0])
        while len(servers.seeds(urls[0])) == num_before:  # its affinities return
            results = await asyncio.gather(*(pool.sample(each) for each in requests[:20]))
            assert results == [completions(each.seed) for each in requests[:20]]

    use(engine(*urls), test)


def test_all_servers_down_is_named_after_a_while(servers: Servers) -> None:
    urls = [servers.start() for _ in range(2)]

    async def test(pool: EnginePool) -> None:
        await all_work(pool)
        servers.kill_all()
        with pytest.raises(EngineError) as error:
            await pool.sample(request(1))
        message = str(error.value)
        assert "no engine has completed a request for 1 s" in message
        assert all(f"{url}/v1/models: ConnectError" in message for url in urls)
        assert "Finished rollouts are kept" in message

    use(engine(*urls, startup_seconds=1.0), test)


def test_servers_that_are_well_and_complete_nothing_end_the_run(servers: Servers) -> None:
    urls = [servers.start("--faults", fault, "--faults-repeat") for fault in ("429", "429/1")]

    async def test(pool: EnginePool) -> None:
        await all_work(pool)
        requests = [request(10 * i, affinity=f"p{i}") for i in range(6)]
        results = await asyncio.gather(
            *(pool.sample(each) for each in requests), return_exceptions=True
        )
        for result in results:
            assert isinstance(result, EngineError)
            assert "no engine has completed a request for 3 s (engine.startup_se" in str(result)
            assert all(f"{url}/v1/completions answered 429" in str(result) for url in urls)

    use(engine(*urls, startup_seconds=3.0), test)


def test_the_configs_context_holds_where_a_server_tells_none(servers: Servers) -> None:
    url = servers.start("--tells-no-context")

    async def test(pool: EnginePool) -> None:
        long = SamplingRequest("Q", tuple(range(40)), 2, 5, SamplingConfig(max_tokens=8))
        assert await pool.sample(long) == [Completion("", FinishReason.LENGTH, 0)] * 2

    use(engine(url, max_model_len=40), test)
    assert servers.seeds(url) == []


def test_no_server_at_the_beginning_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"

    async def test(_: EnginePool) -> None:
        raise AssertionError("must not open")

    with pytest.raises(EngineError, match=rf"has worked for 0.6 s .*\({url}.*ConnectError"):
        use(engine(url, startup_seconds=0.6, api_key_env=None), test)


def test_another_model_and_a_wrong_key_are_refused(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = servers.start()

    async def test(_: EnginePool) -> None:
        raise AssertionError("must not open")

    with pytest.raises(EngineError, match=f"{url} does not serve 'qwen' but stepmark"):
        use(engine(url), test, model=ModelConfig(name="qwen"))
    with pytest.raises(EngineError, match=f"{url} does not serve 'other' but stepmark"):
        use(engine(url, served_model="other"), test)
    monkeypatch.setenv("STAND_IN_KEY", "wrong")
    with pytest.raises(EngineError, match=r"401") as error:
        use(engine(url), test)
    assert "wrong" not in str(error.value)


def test_the_served_name_may_differ_and_v1_is_understood(servers: Servers) -> None:
    url = servers.start()

    async def test(pool: EnginePool) -> None:
        assert await pool.sample(request(5)) == completions(5)

    use(engine(f"{url}/v1/", served_model="stepmark"), test, model=ModelConfig(name="demo"))


def test_an_unset_key_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAND_IN_KEY", raising=False)

    async def test(_: EnginePool) -> None:
        raise AssertionError("must not open")

    with pytest.raises(ConfigError, match=r"api_key_env = 'STAND_IN_KEY'.*not set"):
        use(engine("http://127.0.0.1:1"), test)


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        ((), r"needs engine.urls = \['http://HOST:PORT', …\]"),
        (("gpu1:8000",), "'gpu1:8000' is not of the form http://HOST:PORT"),
        (("ftp://gpu1",), "not of the form"),
        (("http://",), "not of the form"),
        (("http://gpu1:port",), "not of the form"),
        (("http://gpu1:99999",), "not of the form"),
        (("http://gpu1:8000/v1?key=1",), "not of the form"),
        (("http://gpu1:8000 ",), "not of the form"),
        (("http://me:hidden@gpu1",), "use engine.api_key_env"),
        (("http://gpu1:80", "http://gpu1:80/v1"), "stands there twice"),
    ],
)
def test_bad_urls_are_refused(urls: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        EngineConfig(kind=EngineKind.OPENAI, urls=urls)


def test_server_root() -> None:
    for url in ("http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/"):
        assert server_root(url) == "http://a:1"
    assert server_root("https://a/proxy/v1") == "https://a/proxy"
