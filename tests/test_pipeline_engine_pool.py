"""The pool with engines that fail as they are told: fail-over, return, bounds, errors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from pipeline.config import EngineConfig, SamplingConfig
from pipeline.errors import ConfigError, EngineError, StepmarkError
from pipeline.records import FinishReason
from pipeline.samplers.engine_pool import MAX_FAULTS, EngineLostError, EnginePool, open_pool
from pipeline.samplers.sampler import (
    Completion,
    EngineBusyError,
    EngineFaultError,
    SamplingRequest,
)


class TestEngine:
    """An engine with faults to come: of requests and of revivals, one each, in order."""

    __test__ = False

    def __init__(
        self,
        name: str,
        *,
        faults: list[StepmarkError] | None = None,
        revivals: list[Exception] | None = None,
        fails_on: str = "",
        seconds: float = 0.005,
    ) -> None:
        self.name = name
        self.served: list[str] = []
        self.num_revivals = 0
        self._faults = faults or []
        self._revivals = revivals or []
        self._fails_on = fails_on
        self._seconds = seconds

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        await asyncio.sleep(0.005)
        if self._faults:
            raise self._faults.pop(0)
        await asyncio.sleep(self._seconds)
        if request.prompt == self._fails_on:
            raise EngineFaultError(f"{self.name} chokes on it")
        self.served.append(request.prompt)
        return completions(request)

    async def revive(self) -> None:
        self.num_revivals += 1
        await asyncio.sleep(0)
        if self._revivals:
            raise self._revivals.pop(0)


def request(prompt: str, num_samples: int = 2) -> SamplingRequest:
    return SamplingRequest(prompt, (1,), num_samples, 7, SamplingConfig(), affinity=prompt)


def completions(of: SamplingRequest) -> list[Completion]:
    texts = [f"{of.prompt}-{of.seed + i}" for i in range(of.num_samples)]
    return [Completion(text, FinishReason.STOP, 1) for text in texts]


def open_(*engines: TestEngine, seconds: float = 10.0) -> AbstractAsyncContextManager[EnginePool]:
    return open_pool(engines, EngineConfig(startup_seconds=seconds, max_num_seqs=4))


async def all_work(pool: EnginePool) -> None:
    while pool.num_working < pool.num_engines:
        await asyncio.sleep(0.001)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), 30)

    asyncio.run(bounded())


def test_requests_in_flight_and_waiting_survive_a_lost_engine() -> None:
    async def test() -> None:
        faults: list[StepmarkError] = [EngineFaultError("dead") for _ in range(4)]
        lost = TestEngine("a", faults=faults, revivals=[])
        lost_for_good: list[Exception] = [EngineLostError("a will not come back")]
        others = [TestEngine("b"), TestEngine("c")]
        requests = [request(f"p{i}") for i in range(90)]
        async with open_(lost, *others) as pool:
            await all_work(pool)
            lost._revivals = lost_for_good
            results = await asyncio.gather(*(pool.sample(each) for each in requests))
            assert results == [completions(each) for each in requests]
            assert pool.num_faults == 1
            served = [prompt for engine in (lost, *others) for prompt in engine.served]
            assert sorted(served) == sorted(each.prompt for each in requests)
            await asyncio.sleep(1.0)
            again = await asyncio.gather(*(pool.sample(each) for each in requests))
            assert again == results
        assert lost.num_revivals == 2
        assert lost.served == []

    run(test)


def test_an_engine_comes_back_and_gets_its_affinities_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        flaky = TestEngine("a", faults=[EngineFaultError("a hiccup")])
        other = TestEngine("b")
        requests = [request(f"p{i}") for i in range(20)]
        async with open_(flaky, other) as pool:
            await all_work(pool)
            await asyncio.gather(*(pool.sample(each) for each in requests))
            await asyncio.sleep(0.8)
            flaky.served.clear()
            other.served.clear()
            await asyncio.gather(*(pool.sample(each) for each in requests))
            assert len(flaky.served) >= 4
            assert len(other.served) >= 4
            assert pool.num_faults == 1
        assert flaky.num_revivals == 2

    with caplog.at_level(logging.WARNING):
        run(test)
    assert "a is put aside for 0.5 s: a hiccup" in caplog.messages
    assert "a works again" in caplog.messages


def test_a_request_that_every_engine_chokes_on_is_given_up_and_no_other() -> None:
    async def test() -> None:
        engines = [TestEngine(name, fails_on="bad") for name in "abc"]
        async with open_(*engines) as pool:
            results = await asyncio.gather(
                *(pool.sample(request(prompt)) for prompt in ("p", "bad", "q")),
                return_exceptions=True,
            )
        assert results[0] == completions(request("p"))
        assert isinstance(results[1], EngineError)
        assert f"failed {MAX_FAULTS} times" in str(results[1])
        assert "chokes on it" in str(results[1])
        assert results[2] == completions(request("q"))

    run(test)


def test_a_busy_engine_is_no_fault_of_the_request() -> None:
    async def test() -> None:
        busy: list[StepmarkError] = [EngineBusyError("429") for _ in range(2)]
        engine = TestEngine("a", faults=busy)
        async with open_(engine) as pool:
            assert await pool.sample(request("p")) == completions(request("p"))

    run(test)


def test_the_rest_that_an_engine_asks_for_is_given() -> None:
    async def test() -> None:
        busy = EngineBusyError("429")
        busy.retry_after_seconds = 1.5
        async with open_(TestEngine("a", faults=[busy])) as pool:
            started = asyncio.get_running_loop().time()
            await pool.sample(request("p"))
            assert 1.5 <= asyncio.get_running_loop().time() - started < 5

    run(test)


def test_the_run_ends_when_nothing_works_for_too_long() -> None:
    async def test() -> None:
        down: list[Exception] = [EngineFaultError(f"refused {i}") for i in range(99)]
        late = TestEngine("a", revivals=down)
        with pytest.raises(EngineError) as error:
            async with open_(late, seconds=0.3):
                raise AssertionError("must not open")
        assert str(error.value).startswith(
            "no engine has worked for 0.3 s (engine.startup_seconds) (a: refused 0"
        )
        engine = TestEngine("a", faults=[EngineFaultError("gone")])
        async with open_(engine, seconds=0.8) as pool:
            engine._revivals = down
            with pytest.raises(
                EngineError,
                match=r"no engine has completed a request for 0.8 s .*\(a: refused \d\)",
            ):
                await pool.sample(request("p"))

    run(test)


def busy_for_ever(name: str) -> TestEngine:
    faults: list[StepmarkError] = [EngineBusyError(f"429 from {name}") for _ in range(999)]
    return TestEngine(name, faults=faults)


def test_the_run_ends_when_engines_come_back_and_complete_nothing() -> None:
    async def test() -> None:
        engines = [busy_for_ever(name) for name in "abc"]
        async with open_(*engines, seconds=2.0) as pool:
            started = asyncio.get_running_loop().time()
            results = await asyncio.gather(
                *(pool.sample(request(f"p{i}")) for i in range(5)), return_exceptions=True
            )
            assert 2.0 <= asyncio.get_running_loop().time() - started < 6
        assert all(engine.num_revivals > 1 for engine in engines)
        for result in results:
            assert isinstance(result, EngineError)
            assert "no engine has completed a request for 2 s" in str(result)
            assert all(f"{name}: 429 from {name}" in str(result) for name in "abc")

    run(test)


def test_one_engine_that_completes_keeps_the_run_going() -> None:
    async def test() -> None:
        async with open_(busy_for_ever("a"), TestEngine("b"), seconds=0.5) as pool:
            for i in range(40):
                prompt = request(f"p{i}")
                assert await pool.sample(prompt) == completions(prompt)
                await asyncio.sleep(0.05)

    run(test)


def test_a_request_longer_than_the_patience_is_waited_for_after_a_fault() -> None:
    async def test() -> None:
        slow = TestEngine("a", faults=[EngineFaultError("restarts")], seconds=2.0)
        async with open_(slow, seconds=1.0) as pool:
            assert await pool.sample(request("p")) == completions(request("p"))

    run(test)


def test_time_in_which_nobody_asks_is_no_failure() -> None:
    async def test() -> None:
        engine = TestEngine("a", faults=[EngineFaultError("hiccup")])
        async with open_(engine, seconds=2.0) as pool:
            asking = asyncio.create_task(pool.sample(request("p")))
            while not pool.num_faults:
                await asyncio.sleep(0.001)
            asking.cancel()
            await asyncio.sleep(2.2)
            engine._faults = [EngineFaultError("hiccup")]
            assert await pool.sample(request("p")) == completions(request("p"))

    run(test)


def test_a_late_answer_of_an_engine_that_is_gone_does_not_end_the_patience() -> None:
    async def test() -> None:
        engine = TestEngine("a", seconds=0.3)
        async with open_(engine, seconds=1.0) as pool:
            late = asyncio.create_task(pool.sample(request("late")))
            await asyncio.sleep(0.1)
            engine._faults = [EngineFaultError("gone")]
            engine._revivals = [EngineFaultError("refused") for _ in range(99)]
            with pytest.raises(EngineError, match=r"completed a request for 1 s .*a: refused"):
                await pool.sample(request("p"))
            assert await late == completions(request("late"))

    run(test)


def test_the_run_ends_when_all_engines_are_lost() -> None:
    async def test() -> None:
        engines = [TestEngine(name, revivals=[EngineLostError(f"{name} broke")]) for name in "ab"]
        with pytest.raises(EngineError, match=r"every engine is lost \(a: a broke; b: b broke\)"):
            async with open_(*engines):
                raise AssertionError("must not open")

    run(test)


def test_the_users_mistake_ends_the_run_at_once_at_the_beginning_only() -> None:
    async def test() -> None:
        mistaken = TestEngine("a", revivals=[ConfigError("another model")])
        with pytest.raises(ConfigError, match="another model"):
            async with open_(mistaken):
                raise AssertionError("must not open")
        swapped = TestEngine("a", faults=[EngineFaultError("restarts")])
        async with open_(swapped, TestEngine("b")) as pool:
            await all_work(pool)
            swapped._revivals = [ConfigError("another model")]
            requests = [request(f"p{i}") for i in range(20)]
            await asyncio.gather(*(pool.sample(each) for each in requests))
            await asyncio.sleep(0.8)
            await asyncio.gather(*(pool.sample(each) for each in requests))
            assert swapped.num_revivals == 2

    run(test)


def test_a_refusal_reaches_its_caller_and_the_engine_stays() -> None:
    async def test() -> None:
        engine = TestEngine("a", faults=[EngineError("no such token")])
        async with open_(engine) as pool:
            with pytest.raises(EngineError, match="no such token"):
                await pool.sample(request("p"))
            assert await pool.sample(request("p")) == completions(request("p"))
            assert pool.num_faults == 0

    run(test)


def test_a_bug_in_reviving_is_not_swallowed() -> None:
    async def test() -> None:
        with pytest.raises(EngineError, match=r"a: KeyError\('bug'\)"):
            async with open_(TestEngine("a", revivals=[KeyError("bug")])):
                raise AssertionError("must not open")

    run(test)


def test_a_long_wait_is_said_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        faults: list[Exception] = [EngineFaultError("nobody listens") for _ in range(99)]
        with pytest.raises(EngineError, match=r"no engine has worked for 0\.8 s .*nobody listens"):
            async with open_(TestEngine("a", revivals=faults), seconds=0.8):
                raise AssertionError("must not open")

    run(test)
    said = [message for message in caplog.messages if message.startswith("still waiting for ")]
    assert len(said) in {2, 3}  # a quarter of the patience apart
    assert said[0] == "still waiting for a: nobody listens: 0 s of 0.8"
