"""The scale bench: its parts add up, its clocks are right, its runs are whole."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from bench import scale


def spend(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


class Worked:
    def inner(self) -> str:
        spend(0.02)
        return "inner"

    def outer(self) -> str:
        spend(0.02)
        return self.inner()

    async def waits(self, *, fails: bool = False) -> str:
        spend(0.02)
        await asyncio.sleep(0.05)
        spend(0.02)
        if fails:
            raise ValueError("after the wait")
        return "waited"


def test_a_clock_counts_cpu_once_and_no_waiting() -> None:
    class Timed(Worked):
        pass

    clock, worked = scale.Clock(), Timed()
    clock.time_function(Timed, "inner", scale.Part.STORE)
    clock.time_function(Timed, "outer", scale.Part.STORE)
    clock.time_coroutine(Timed, "waits", scale.Part.GRADE)
    assert worked.outer() == "inner"
    assert 0.04 <= clock.seconds[scale.Part.STORE] < 0.065

    async def beside() -> str:
        waiting = asyncio.create_task(worked.waits())
        await asyncio.sleep(0)
        spend(0.03)  # another task's
        return await waiting

    assert asyncio.run(beside()) == "waited"
    assert 0.04 <= clock.seconds[scale.Part.GRADE] < 0.065
    with pytest.raises(ValueError, match="after the wait"):
        asyncio.run(worked.waits(fails=True))


def test_a_cancellation_reaches_what_is_timed() -> None:
    class Timed(Worked):
        ended = False

        async def waits(self, *, fails: bool = False) -> str:
            try:
                await asyncio.sleep(60)
            finally:
                Timed.ended = True
            return ""

    scale.Clock().time_coroutine(Timed, "waits", scale.Part.GRADE)

    async def cancelled() -> None:
        task = asyncio.create_task(Timed().waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert Timed.ended


def test_a_small_run_has_all_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scale.json"
    monkeypatch.setattr("sys.argv", ["scale", "--sizes", "600,300", "--json", str(file)])
    scale.main()
    shown = capsys.readouterr().out
    results = json.loads(file.read_text())
    assert list(results["policies"]) == list(scale.POLICIES)
    for found in results["policies"].values():
        small, large = found["runs"]
        assert small["rollouts"] >= small["size"] == 300
        assert large["rollouts"] >= large["size"] == 600
        for run in found["runs"]:
            parts = run["microseconds"]
            own = sum(parts[name] for name in ("prepare", "schedule", "grade", "store", "labels"))
            assert own == pytest.approx(parts["own"])
            assert min(parts.values()) > 0
            cpu = sum(stage["cpu"] for stage in run["stages"].values())
            assert 1e-6 * run["rollouts"] * (own + parts["sampler"]) == pytest.approx(cpu)
            assert 0 < run["grade_cache_misses"] < 0.5
            assert 50 < run["peak_mb"] < 2000
        assert found["memory_ratio"] == pytest.approx(large["peak_mb"] / small["peak_mb"])
        assert found["resume"]["wall"] > 0
        assert f"Resumed at {large['rollouts']:,} rollouts, nothing missing" in shown
