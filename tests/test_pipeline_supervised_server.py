"""The supervised server with a stand-in for vLLM: faults, restarts, and no survivors."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from pipeline.config import SamplingConfig
from pipeline.errors import EngineError
from pipeline.records import FinishReason
from pipeline.samplers.openai_client import ServerFaultError
from pipeline.samplers.sampler import Completion, SamplingRequest
from pipeline.samplers.supervised_server import ServerPlan, SupervisedServer, open_server

T = TypeVar("T")

STAND_IN = Path(__file__).with_name("stand_in_server.py")
PARENT = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a script's background jobs
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_pipeline_supervised_server import make_plan
from pipeline.samplers.supervised_server import open_server

async def main():
    async with open_server(make_plan(Path(sys.argv[1]))) as server:
        print(server.process_group, flush=True)
        await asyncio.sleep(300)

asyncio.run(main())
"""


def make_plan(
    state_path: Path,
    *starts: list[str],
    startup_seconds: float = 20.0,
    request_seconds: float = 20.0,
    max_restarts: int = 2,
) -> ServerPlan:
    """A plan whose n-th start gets the n-th list of arguments, then always the last."""
    num_starts = 0

    def command(port: int) -> list[str]:
        nonlocal num_starts
        arguments = starts[min(num_starts, len(starts) - 1)] if starts else []
        num_starts += 1
        return [sys.executable, str(STAND_IN), "--port", str(port), *arguments]

    return ServerPlan(
        command=command,
        env=os.environ | {"VLLM_API_KEY": "secret"},
        model_name="stepmark",
        api_key="secret",
        state_path=state_path,
        name="stand_in",
        startup_seconds=startup_seconds,
        request_seconds=request_seconds,
        max_restarts=max_restarts,
    )


def request(seed: int, num_samples: int = 2) -> SamplingRequest:
    return SamplingRequest("Q", (1, 2), num_samples, seed, SamplingConfig(max_tokens=8))


def completions(seed: int, num_samples: int = 2) -> list[Completion]:
    reasons = [FinishReason.LENGTH if i == 1 else FinishReason.STOP for i in range(num_samples)]
    return [Completion(f"text-{seed + i}", reasons[i], 3 + i) for i in range(num_samples)]


def run_server(plan: ServerPlan, use: Callable[[SupervisedServer], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_server(plan) as server:
            return await use(server)

    return asyncio.run(run())


def num_members(group_id: int) -> int:
    """How many processes of the group run."""
    count = 0
    for process in psutil.process_iter():
        try:
            is_member = os.getpgid(process.pid) == group_id
            count += is_member and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return count


def test_it_samples_and_leaves_nothing(tmp_path: Path) -> None:
    async def use(server: SupervisedServer) -> int:
        assert await server.sample(request(7, 3)) == completions(7, 3)
        assert num_members(server.process_group) == 3
        assert (tmp_path / "stand_in.pid.json").exists()
        return server.process_group

    group_id = run_server(make_plan(tmp_path), use)
    assert num_members(group_id) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["stand_in.log"]
    assert "stand-in server starts" in (tmp_path / "stand_in.log").read_text()


def test_an_exception_inside_leaves_nothing(tmp_path: Path) -> None:
    groups: list[int] = []

    async def use(server: SupervisedServer) -> None:
        groups.append(server.process_group)
        raise KeyError("a bug of the caller")

    with pytest.raises(KeyError, match="a bug of the caller"):
        run_server(make_plan(tmp_path), use)
    assert num_members(groups[0]) == 0


async def unused(server: SupervisedServer) -> None:
    raise AssertionError("must not become ready")


def test_a_server_that_ends_while_starting_shows_its_log(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, ["--exit-at-start", "Free memory is too little"])
    with pytest.raises(
        EngineError, match=r"(?s)stand_in ended while starting.*lower engine"
    ) as error:
        run_server(plan, unused)
    *_, cause, watchdog = str(error.value).splitlines()
    assert cause == "RuntimeError: Free memory is too little"
    assert watchdog == "stepmark watchdog: server ended with exit status 3"
    assert str(tmp_path / "stand_in.log") in str(error.value)


def test_a_server_that_does_not_become_ready_is_ended(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, ["--never-ready"], startup_seconds=0.5)
    with pytest.raises(EngineError, match=r"was not ready in engine.startup_seconds=0.5"):
        run_server(plan, unused)
    assert not (tmp_path / "stand_in.pid.json").exists()


def test_a_taken_port_is_given_up_for_another(tmp_path: Path) -> None:
    taken = ["--exit-at-start", "[Errno 98] Address already in use"]

    async def use(server: SupervisedServer) -> list[Completion]:
        return await server.sample(request(1))

    assert run_server(make_plan(tmp_path, taken, []), use) == completions(1)
    with pytest.raises(EngineError, match="Address already in use"):
        run_server(make_plan(tmp_path, taken), unused)


def test_requests_in_flight_survive_the_death_of_the_server(tmp_path: Path) -> None:
    async def use(server: SupervisedServer) -> tuple[int, int]:
        first_group = server.process_group
        tasks = [asyncio.create_task(server.sample(request(seed))) for seed in range(0, 40, 2)]
        await asyncio.sleep(0.5)
        os.killpg(first_group, signal.SIGKILL)
        assert await asyncio.gather(*tasks) == [completions(seed) for seed in range(0, 40, 2)]
        assert server.process_group != first_group
        return server.num_restarts, first_group

    num_restarts, first_group = run_server(make_plan(tmp_path, ["--delay", "5"], []), use)
    assert num_restarts == 1
    assert num_members(first_group) == 0


def test_a_server_that_keeps_dying_is_given_up(tmp_path: Path) -> None:
    async def use(server: SupervisedServer) -> int:
        said = r"failed for good after 2 restarts \(engine.max_restarts=2\)"
        with pytest.raises(EngineError, match=said):
            await server.sample(request(1))
        with pytest.raises(EngineError, match=said):
            await server.sample(request(2))
        return server.num_restarts

    assert run_server(make_plan(tmp_path, ["--faults", "die"]), use) == 2


def test_a_server_that_cannot_be_restarted_is_given_up(tmp_path: Path) -> None:
    async def use(server: SupervisedServer) -> None:
        results = await asyncio.gather(
            *(server.sample(request(seed)) for seed in range(4)), return_exceptions=True
        )
        assert len(results) == 4
        assert all("no more memory" in str(result) for result in results)

    run_server(make_plan(tmp_path, ["--faults", "die"], ["--exit-at-start", "no more memory"]), use)


def test_a_hanging_server_is_replaced(tmp_path: Path) -> None:
    async def use(server: SupervisedServer) -> int:
        assert await server.sample(request(3)) == completions(3)
        return server.num_restarts

    plan = make_plan(tmp_path, ["--faults", "hang"], [], request_seconds=0.5)
    assert run_server(plan, use) == 1


def test_a_healthy_server_that_fails_one_request_is_kept(tmp_path: Path) -> None:
    async def use(server: SupervisedServer) -> int:
        with pytest.raises(ServerFaultError, match="answered 500"):
            await server.sample(request(3))
        assert await server.sample(request(5)) == completions(5)
        return server.num_restarts

    assert run_server(make_plan(tmp_path, ["--faults", "500,500,500"]), use) == 0


@pytest.mark.parametrize(
    ("signum", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_signal_to_the_parent_leaves_nothing(
    tmp_path: Path, signum: signal.Signals, status: int
) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), str(STAND_IN.parent)]
    parent = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=STAND_IN.parents[1],
        start_new_session=True,
    )
    assert parent.stdout is not None
    group_id = int(parent.stdout.readline())
    assert num_members(group_id) == 3
    parent.send_signal(signum)
    parent.communicate(timeout=20)
    assert parent.returncode in (status, -signum)
    deadline = time.monotonic() + 10
    while num_members(group_id):
        assert time.monotonic() < deadline
        time.sleep(0.05)
