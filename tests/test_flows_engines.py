"""Which engine a config opens, and that where it runs does not change what is sampled."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from flows.engines import open_engine, resolve_engine
from flows.run_config import RunConfig, check_config
from flows.sampling import Progress
from flows.stages import generate
from pipeline.config import EngineKind, SamplingConfig
from pipeline.records import FinishReason
from pipeline.samplers.sampler import Completion, SamplingRequest

STAND_IN = Path(__file__).with_name("stand_in_server.py")


def config(**engine: object) -> RunConfig:
    return check_config({"engine": engine}, origin="test")


@pytest.fixture
def url() -> Iterator[str]:
    """A stand-in server without a key; it serves `stepmark`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {key: value for key, value in os.environ.items() if key != "VLLM_API_KEY"}
    process = subprocess.Popen(
        [sys.executable, str(STAND_IN), "--port", str(port)],
        env=env,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            break
    yield f"http://127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_where_the_model_runs_is_no_part_of_the_samples_identity() -> None:
    local = resolve_engine(config(kind="transformers"))
    servers = resolve_engine(
        config(kind="openai", urls=["http://gpu1:8000"], served_model="served")
    )
    on_ray = resolve_engine(config(kind="ray", ray_worker_engine="transformers"))
    assert servers.identity == on_ray.identity == local.identity
    assert (servers.kind, on_ray.kind) == (EngineKind.OPENAI, EngineKind.RAY)
    scripted = resolve_engine(config(kind="scripted"))
    scripted_on_ray = resolve_engine(config(kind="ray", ray_worker_engine="scripted"))
    assert scripted_on_ray.identity == scripted.identity
    assert scripted.identity != local.identity


def test_servers_are_opened_and_asked(url: str, tmp_path: Path) -> None:
    wanted = config(kind="openai", urls=[url], served_model="stepmark", startup_seconds=20.0)
    request = SamplingRequest("Q", (1, 2), 1, 40, SamplingConfig(max_tokens=8))

    async def run() -> list[Completion]:
        opening = open_engine(resolve_engine(wanted), wanted, problems=[], state_path=tmp_path)
        async with opening as sampler:
            return await sampler.sample(request)

    assert asyncio.run(run()) == [Completion("text-40", FinishReason.STOP, 3)]


@pytest.mark.ray
def test_a_run_on_ray_that_loses_a_worker_makes_the_labels_of_a_run_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("ray")
    killed: list[int] = []

    def kill_one(progress: Progress) -> None:
        if progress.num_rollouts > 100 and not killed:
            worker = next(process for process in psutil.Process().children(recursive=True) if (
                process.name().startswith("ray::RayWorker")
            ))  # fmt: skip
            killed.append(worker.pid)
            worker.kill()

    alone = config(kind="scripted")
    on_ray = config(kind="ray", ray_worker_engine="scripted", ray_workers=2, max_num_seqs=4)
    generate(alone, tmp_path / "alone", on_progress=lambda _: None)
    generate(on_ray, tmp_path / "on_ray", on_progress=kill_one)
    assert len(killed) == 1
    assert "is put aside" in caplog.text
    found, wanted = (pq.read_table(tmp_path / name / "labels") for name in ("on_ray", "alone"))
    assert wanted.num_rows >= 100
    assert found.equals(wanted)
