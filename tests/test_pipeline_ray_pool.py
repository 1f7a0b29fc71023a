"""The Ray pool on a real local cluster of two nodes: faults, shipped code, same completions."""

import asyncio
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.config import EngineConfig, EngineKind, ModelConfig, RayWorkerEngine, SamplingConfig
from pipeline.demo.problems import demo_problem
from pipeline.errors import ConfigError, EngineError
from pipeline.samplers.engine_pool import EnginePool
from pipeline.samplers.ray_pool import open_ray_pool
from pipeline.samplers.sampler import Completion, SamplingRequest
from pipeline.samplers.scripted import ScriptedSampler

ROOT = Path(__file__).parents[1]
PROBLEMS = [demo_problem("train", index) for index in range(40)]
STORE_BYTES = 100 << 20
PARENT = """
import asyncio, logging, sys
from pathlib import Path
from pipeline.config import EngineConfig, ModelConfig, SamplingConfig
from pipeline.samplers.models import load_tokenizer
from pipeline.samplers.ray_pool import open_ray_pool
from pipeline.samplers.sampler import SamplingRequest

async def main():
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    engine = EngineConfig(
        kind="ray", ray_worker_engine="vllm", ray_workers=1, max_num_seqs=8, num_threads=1
    )
    ids = tuple(load_tokenizer(ModelConfig())("Question: 1 + 1?").input_ids)
    request = SamplingRequest("", ids, 2, 5, SamplingConfig(max_tokens=8))
    async with open_ray_pool(ModelConfig(), engine, state_path=Path(sys.argv[1])) as pool:
        print("sampled", len(await pool.sample(request)), flush=True)
        await asyncio.sleep(300)

asyncio.run(main())
"""

on_ray = pytest.mark.ray
patient = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and a second node of one CPU each; the driver is not connected."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    settings = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    made = cluster_utils.Cluster(
        initialize_head=True,
        connect=False,
        head_node_args=settings | {"include_dashboard": False},
    )
    made.add_node(**settings)
    yield made
    made.shutdown()


def engine(cluster: Any, **settings: object) -> EngineConfig:
    values = {
        "kind": EngineKind.RAY,
        "ray_address": cluster.address,
        "ray_worker_engine": RayWorkerEngine.SCRIPTED,
        "max_num_seqs": 8,
        "num_threads": 1,
        "startup_seconds": 120.0,
    }
    return EngineConfig.model_validate(values | settings)


def scripted(*, latency_seconds: float) -> ScriptedSampler:
    known = {problem.question: problem for problem in PROBLEMS}
    return ScriptedSampler(known, latency_seconds=latency_seconds)


def requests(num_a_problem: int) -> list[SamplingRequest]:
    return [
        SamplingRequest(
            prompt=f"Question: {problem.question}\nAnswer:",
            prompt_ids=(1,),
            num_samples=4,
            seed=1000 * repeat,
            sampling=SamplingConfig(),
            affinity=problem.problem_id,
        )
        for repeat in range(num_a_problem)
        for problem in PROBLEMS
    ]


def use(
    config: EngineConfig,
    state_path: Path,
    test: Callable[[EnginePool], Awaitable[None]],
    sampler: ScriptedSampler | None = None,
) -> None:
    async def run() -> None:
        model = ModelConfig()
        async with open_ray_pool(model, config, state_path=state_path, scripted=sampler) as pool:
            await asyncio.wait_for(test(pool), 120)

    asyncio.run(run())


def worker_processes(node: Any) -> list[psutil.Process]:
    """The actors of ours that run on the node."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    found: list[psutil.Process] = []
    for process in raylet.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::RayWorker"):
                found.append(process)
    return found


async def until(is_true: Callable[[], bool], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@on_ray
@patient
def test_transformers_workers_give_the_completions_of_the_local_engine(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from pipeline.samplers.models import load_tokenizer
    from pipeline.samplers.transformers_engine import open_transformers_engine

    config = engine(cluster, ray_worker_engine=RayWorkerEngine.TRANSFORMERS, ray_workers=1)
    tokenizer = load_tokenizer(ModelConfig())
    asked = [
        SamplingRequest(
            text := f"Question: {problem.question}\nAnswer:",
            tuple(tokenizer(text).input_ids),
            4,
            10 * index,
            SamplingConfig(max_tokens=48),
            problem.problem_id,
        )
        for index, problem in enumerate(PROBLEMS[:6])
    ]
    found: list[list[Completion]] = []

    async def test(pool: EnginePool) -> None:
        found.extend([await pool.sample(request) for request in asked])

    async def local() -> list[list[Completion]]:
        async with open_transformers_engine(ModelConfig(), config) as sampler:
            return [await sampler.sample(request) for request in asked]

    with caplog.at_level(logging.INFO):
        use(config, tmp_path, test)
    assert found == asyncio.run(local())
    (started,) = [message for message in caplog.messages if "Ray worker 0 runs on" in message]
    code_path = Path(started.rpartition("code in ")[2])
    assert "working_dir_files" in code_path.parts  # shipped, not the checkout
    assert sorted(path.name for path in code_path.iterdir()) == ["grading", "pipeline"]


@on_ray
@patient
def test_a_killed_worker_and_a_lost_node_cost_no_completion(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = requests(6)
    second_node = next(node for node in cluster.list_all_nodes() if not node.is_head())

    async def test(pool: EnginePool) -> None:
        assert pool.num_engines == 2
        await until(lambda: pool.num_working == 2)
        workers = [worker_processes(node) for node in cluster.list_all_nodes()]
        assert [len(each) for each in workers] == [1, 1]  # spread, one a node
        tasks = [asyncio.create_task(pool.sample(request)) for request in asked]
        await until(lambda: sum(task.done() for task in tasks) >= 20)
        workers[0][0].kill()
        await until(lambda: "works again" in caplog.text)
        assert sum(task.done() for task in tasks) < 200
        cluster.remove_node(second_node, allow_graceful=False)
        found = await asyncio.gather(*tasks)
        direct = scripted(latency_seconds=0.0)
        assert found == [await direct.sample(request) for request in asked]
        assert pool.num_faults >= 2

    with caplog.at_level(logging.INFO):
        use(engine(cluster), tmp_path, test, scripted(latency_seconds=0.3))
    assert worker_processes(cluster.head_node) == []  # ended; the cluster goes on


@on_ray
@patient
def test_a_worker_that_keeps_dying_is_given_up(cluster: Any, tmp_path: Path) -> None:
    async def test(pool: EnginePool) -> None:
        (request,) = requests(1)[:1]
        for is_last in (False, True):
            await pool.sample(request)
            (worker,) = worker_processes(cluster.head_node)
            worker.kill()
            if not is_last:
                continue
            said = r"every engine is lost \(Ray worker 0: Ray worker 0 was started 2 times"
            with pytest.raises(EngineError, match=said):
                await pool.sample(request)

    config = engine(cluster, ray_workers=1, max_restarts=1)
    use(config, tmp_path, test, scripted(latency_seconds=0.0))


@on_ray
@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_sigkill_of_the_parent_ends_ray_workers_and_their_servers(tmp_path: Path) -> None:
    """The demo model on a real vLLM server in an actor of a cluster that the parent started."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert parent.stdout is not None
    said = ""
    for line in parent.stdout:
        said += line
        if line == "sampled 2\n":
            break
    worker = re.search(r"Ray worker 0 runs on \S+, process (\d+), server group (\d+)", said)
    assert worker is not None, said
    worker_pid, group_id = map(int, worker.groups())
    assert psutil.pid_exists(worker_pid)
    assert len(members(group_id)) >= 3
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 40
    while psutil.pid_exists(worker_pid) or members(group_id):
        assert time.monotonic() < deadline, (worker_pid, members(group_id))
        time.sleep(0.1)


def members(group_id: int) -> list[psutil.Process]:
    """The processes of the group that run."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@on_ray
@pytest.mark.parametrize("address", ["ray://head:10001", "head", "head:", ":6379", "head:0"])
def test_a_bad_address_is_named(address: str, tmp_path: Path) -> None:
    config = EngineConfig(kind=EngineKind.RAY, ray_address=address)
    with pytest.raises(ConfigError, match=re.escape(f"ray_address = {address!r} is not of")):
        use(config, tmp_path, unused)


@on_ray
def test_an_address_where_nobody_listens_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = EngineConfig(kind=EngineKind.RAY, ray_address=address)
        with pytest.raises(EngineError, match=f"'{address}' cannot be reached: .*refused"):
            use(config, tmp_path, unused)


def test_a_missing_ray_says_what_to_install(tmp_path: Path) -> None:
    """In an interpreter where `import ray` fails."""
    script = (
        "import asyncio, sys; sys.modules['ray'] = None\n"
        "from pathlib import Path\n"
        "from pipeline.config import EngineConfig, ModelConfig\n"
        "from pipeline.errors import ConfigError\n"
        "from pipeline.samplers.ray_pool import open_ray_pool\n"
        "async def main():\n"
        "    async with open_ray_pool(ModelConfig(), EngineConfig(), state_path=Path('x')): ...\n"
        "try:\n    asyncio.run(main())\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", script]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert 'pip install "stepmark[ray]"' in answer.stdout


async def unused(_: EnginePool) -> None:
    raise AssertionError("must not open")
