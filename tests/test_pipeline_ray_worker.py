"""What runs inside a Ray worker, without Ray: its checks, and what it leaves and ends."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pipeline.config import EngineConfig, ModelConfig, RayWorkerEngine, SamplingConfig
from pipeline.demo import MODEL_PATH
from pipeline.demo.problems import demo_problem
from pipeline.errors import ConfigError, EngineError
from pipeline.samplers.process_group import ProcessGroup
from pipeline.samplers.ray_worker import RayWorker, WorkerSpec, end_orphans
from pipeline.samplers.sampler import SamplingRequest
from pipeline.samplers.scripted import ScriptedSampler

PROBLEM = demo_problem("train", 3)
REQUEST = SamplingRequest(f"Question: {PROBLEM.question}\nAnswer:", (1,), 3, 7, SamplingConfig())


def spec(
    kind: RayWorkerEngine, *, identity: str = "", scripted: ScriptedSampler | None = None
) -> WorkerSpec:
    engine = EngineConfig(ray_worker_engine=kind)
    return WorkerSpec("w", ModelConfig(name=str(MODEL_PATH)), engine, identity, scripted)


def test_a_scripted_worker_samples_like_the_sampler_itself() -> None:
    sampler = ScriptedSampler({PROBLEM.question: PROBLEM})

    async def run() -> None:
        worker = RayWorker(spec(RayWorkerEngine.SCRIPTED, scripted=sampler))
        facts = await worker.start()
        assert (facts.pid, facts.process_group) == (os.getpid(), None)
        assert await worker.sample(REQUEST) == await sampler.sample(REQUEST)
        await worker.stop()

    asyncio.run(run())


def test_a_worker_that_was_not_started_or_not_told_enough_says_so() -> None:
    with pytest.raises(EngineError, match="w was not started"):
        asyncio.run(RayWorker(spec(RayWorkerEngine.SCRIPTED)).sample(REQUEST))
    with pytest.raises(ConfigError, match="needs the problems"):
        asyncio.run(RayWorker(spec(RayWorkerEngine.SCRIPTED)).start())


@pytest.mark.parametrize("kind", [RayWorkerEngine.TRANSFORMERS, RayWorkerEngine.VLLM])
def test_another_model_under_the_same_name_is_refused(kind: RayWorkerEngine) -> None:
    with pytest.raises(ConfigError, match=r"the files on .* are another model \(\w+\) than"):
        asyncio.run(RayWorker(spec(kind, identity="another")).start())


def test_only_the_servers_of_dead_workers_are_ended(tmp_path: Path) -> None:
    groups: list[ProcessGroup] = []
    for name in ("live", "orphan"):
        (tmp_path / name).mkdir()
        group = ProcessGroup(
            [sys.executable, "-c", "import time; time.sleep(300)"],
            env=os.environ,
            log_path=tmp_path / name / "server.log",
            pid_path=tmp_path / name / "server.pid.json",
        )
        groups.append(group)
    live, orphan = groups
    dead_owner = subprocess.Popen([sys.executable, "-c", ""])
    dead_owner.wait()
    pid_path = tmp_path / "orphan" / "server.pid.json"
    record = json.loads(pid_path.read_text())
    pid_path.write_text(json.dumps(record | {"owner_pid": dead_owner.pid}))
    try:
        assert end_orphans(tmp_path) >= 1
        assert not psutil.pid_exists(orphan.pid)
        assert live.is_alive()
        assert not pid_path.exists()
        assert end_orphans(tmp_path) == 0
    finally:
        live.stop()
        assert orphan._process.stdin is not None
        orphan._process.stdin.close()
        orphan._process.wait()  # psutil has reaped it
