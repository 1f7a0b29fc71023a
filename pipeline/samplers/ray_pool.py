"""Many engines on a Ray cluster: one actor an engine, placed by GPU where there are GPUs.

Each actor holds one engine (`ray_worker`): a supervised vLLM server or a transformers engine.
Routing, fail-over and back-off are those of `engine_pool`. A lost actor is made anew, wherever
the cluster has room, at most `engine.max_restarts` times a worker; a lost node's actors wait
for another node while the rest work on. A request sent again keeps its seeds, so the
completions are those of the same engine without Ray.

The packages that a worker needs, `pipeline` and `grading`, are shipped (`runtime_env`
`working_dir`): a node needs the same Python, Ray and the engine's own libraries, but no
stepmark. A model that is a local folder must be at the same path on every node.

Only this module knows Ray; plain `ray[default]` is enough. Ray Client (`ray://`) is not
supported: run stepmark on a node of the cluster.
"""

import asyncio
import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from pipeline.config import EngineConfig, ModelConfig, RayWorkerEngine, stable_digest
from pipeline.errors import ConfigError, EngineError
from pipeline.samplers.engine_pool import EngineLostError, EnginePool, in_flight, open_pool
from pipeline.samplers.interrupts import interrupts_deferred, interrupts_raised
from pipeline.samplers.models import resolve_model
from pipeline.samplers.ray_worker import RayWorker, WorkerFacts, WorkerSpec
from pipeline.samplers.sampler import Completion, EngineFaultError, SamplingRequest
from pipeline.samplers.scripted import ScriptedSampler
from pipeline.samplers.supervised_server import ServerLostError

logger = logging.getLogger(__name__)

SHIPPED_PACKAGES = ("pipeline", "grading")
_STOP_SECONDS = 30.0
_PLACING_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
_LOCAL_STORE_BYTES = 100 << 20
"""Requests and completions are small and never stay in Ray's object store."""


@asynccontextmanager
async def open_ray_pool(
    model: ModelConfig,
    engine: EngineConfig,
    *,
    state_path: Path,
    scripted: ScriptedSampler | None = None,
) -> AsyncGenerator[EnginePool]:
    """A sampler over Ray workers, ended with all their processes on leaving.

    A cluster that was joined is left running, one that was started here is ended. `state_path`
    names the run. `scripted` is what scripted workers run. Raises ConfigError where Ray is
    missing or the address is bad, EngineError where the cluster cannot be reached or no worker
    starts within `engine.startup_seconds`.
    """
    ray = _import_ray()
    with _connection(ray, engine):
        workers = _workers(ray, model, engine, state_path=state_path, scripted=scripted)
        try:
            # an engine that does not start says why by itself, at engine.startup_seconds
            patience_seconds = engine.startup_seconds + _PLACING_SECONDS
            async with open_pool(workers, engine, patience_seconds=patience_seconds) as pool:
                yield pool
        finally:
            await asyncio.gather(*(worker.stop() for worker in workers))


def _import_ray() -> Any:
    try:
        with interrupts_deferred():
            import ray  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError as error:
        raise ConfigError(
            "engine.kind = 'ray' needs Ray, which is not installed: pip install \"stepmark[ray]\""
        ) from error
    return ray


@contextmanager
def _connection(ray: Any, engine: EngineConfig) -> Generator[None]:
    """Connect to the cluster, or start one on this machine; undone on leaving.

    A connection that this process has already is used and left.
    """
    if ray.is_initialized():
        yield
        return
    settings = _cluster_settings(engine.ray_address)
    try:
        with _shipped_code() as code_path, interrupts_raised():
            ray.init(
                **settings,
                namespace=f"stepmark-{os.getpid()}-{time.time_ns()}",
                log_to_driver=False,
                configure_logging=False,
                runtime_env={"working_dir": str(code_path), "env_vars": _WORKER_ENVIRONMENT},
            )
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise EngineError(
            f"engine.ray_address = {engine.ray_address!r}: no connection to Ray: {error}; start it "
            "with `ray start --head`, run stepmark on a node of the cluster, set RAY_AUTH_MODE as "
            "for `ray start` (token where it says that token authentication is enabled), and see "
            "docs/cluster.md"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


_WORKER_ENVIRONMENT = {
    # Ray would SIGKILL the vLLM server's watchdog with the worker and leave the server.
    "RAY_kill_child_processes_on_worker_exit": "0",
    "TOKENIZERS_PARALLELISM": "false",
}


def _cluster_settings(address: str | None) -> dict[str, object]:
    """Of `ray.init`. Raises ConfigError for a bad address, EngineError where nobody listens."""
    # Said by us, so that Ray does not warn: a worker without a GPU sees none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        return {
            "address": "local",
            "include_dashboard": False,
            "object_store_memory": _LOCAL_STORE_BYTES,
        }
    if address != "auto":
        _check_address(address)
    return {"address": address}


def _check_address(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if "://" in address or not (colon and host and port.isdecimal() and 0 < int(port) < 2**16):
        raise ConfigError(
            f"engine.ray_address = {address!r} is not of the form HOST:PORT (as `ray start --head` "
            "prints it), nor 'auto'; ray:// is not supported"
        )
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise EngineError(
            f"engine.ray_address = {address!r} cannot be reached: {error}; is the head node "
            "up, and is the port open?"
        ) from error


@contextmanager
def _shipped_code() -> Generator[Path]:
    """A folder with our packages' files, for Ray to upload: no caches, nothing else."""
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory(prefix="stepmark-code-") as folder:
        for package in SHIPPED_PACKAGES:
            ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(root / package, Path(folder) / package, ignore=ignore)
        yield Path(folder)


def _workers(
    ray: Any,
    model: ModelConfig,
    engine: EngineConfig,
    *,
    state_path: Path,
    scripted: ScriptedSampler | None,
) -> list["_Worker"]:
    is_scripted = engine.ray_worker_engine is RayWorkerEngine.SCRIPTED
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    num_gpus = 0 if is_scripted else int(sum(node.get("GPU", 0) for node in nodes))
    num_cpus = engine.ray_cpus_per_worker
    roomy = [node for node in nodes if node.get("CPU", 0) >= num_cpus]
    num_workers = engine.ray_workers or num_gpus or max(1, len(roomy))
    logger.info("Ray: %d nodes, %d GPUs, %d workers", len(nodes), num_gpus, num_workers)
    actor_class = ray.remote(RayWorker).options(
        num_cpus=num_cpus,
        num_gpus=1 if num_gpus else 0,
        max_concurrency=in_flight(engine) + 8,  # `ping` and `stop` beside the requests
        max_restarts=0,  # they are made anew here, where it is counted and said
        scheduling_strategy="SPREAD",
    )
    folder = Path(model.name).expanduser()
    if folder.is_dir():  # the worker's current folder is another
        model = model.model_copy(update={"name": str(folder.resolve())})
    identity = "" if is_scripted else resolve_model(model).identity
    run_name = stable_digest([str(state_path.resolve()), identity])
    return [
        _Worker(
            ray,
            actor_class,
            WorkerSpec(f"{run_name}-{index}", model, engine, identity, scripted),
            name=f"Ray worker {index}",
        )
        for index in range(num_workers)
    ]


class _Worker:
    """One actor, and its successors, as a member of the pool."""

    def __init__(self, ray: Any, actor_class: Any, spec: WorkerSpec, *, name: str) -> None:
        self.name = name
        self._ray = ray
        self._actor_class = actor_class
        self._spec = spec
        self._actor: Any = None
        self._is_started = False
        self._num_starts = 0

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        actor = self._actor
        try:
            return await actor.sample.remote(request)
        except self._ray.exceptions.RayTaskError as error:
            cause = _cause(error)
            if isinstance(cause, ServerLostError):
                if actor is self._actor:  # not its successor's business
                    self._give_up_actor()
                raise EngineFaultError(str(cause)) from error
            raise cause from error
        except self._ray.exceptions.RayError as error:
            raise EngineFaultError(_first_sentence(error)) from error

    async def revive(self) -> None:
        """Keep the actor if it lives, else start another."""
        if self._actor is not None and await self._is_alive():
            return
        max_restarts = self._spec.engine.max_restarts
        if self._num_starts > max_restarts:
            raise EngineLostError(
                f"{self.name} was started {self._num_starts} times "
                f"(engine.max_restarts = {max_restarts})"
            )
        self._num_starts += 1
        self._actor = self._actor_class.remote(self._spec)
        try:
            facts: WorkerFacts = await self._actor.start.remote()
        except self._ray.exceptions.RayTaskError as error:
            self._give_up_actor()
            cause = _cause(error)
            if isinstance(cause, ConfigError):
                raise cause from error
            raise EngineFaultError(str(cause)) from error
        except self._ray.exceptions.RayError as error:
            self._give_up_actor()
            raise EngineFaultError(_first_sentence(error)) from error
        self._is_started = True
        logger.info(
            "%s runs on %s, process %d, server group %s, code in %s",
            *(self.name, facts.host, facts.pid, facts.process_group, facts.code_path),
        )

    async def stop(self) -> None:
        """End the engine, then the actor; what does not end in time is killed."""
        try:
            if self._is_started:
                await asyncio.wait_for(self._actor.stop.remote(), _STOP_SECONDS)
        except self._ray.exceptions.RayError as error:  # dead, most likely
            logger.info("%s could not be ended: %s", self.name, _first_sentence(error))
        except TimeoutError:
            logger.warning("%s did not end in %g s and is killed", self.name, _STOP_SECONDS)
        finally:
            self._give_up_actor()

    async def _is_alive(self) -> bool:
        """False where the actor is dead. Raises EngineFaultError where that is not known yet."""
        try:
            await self._actor.ping.remote()
        except self._ray.exceptions.ActorUnavailableError as error:
            raise EngineFaultError(_first_sentence(error)) from error
        except self._ray.exceptions.RayError:
            self._give_up_actor()
            return False
        return True

    def _give_up_actor(self) -> None:
        actor, self._actor, self._is_started = self._actor, None, False
        if actor is not None:
            self._ray.kill(actor)


def _cause(error: Any) -> Exception:
    """The exception that was raised in the worker."""
    cause = error.cause
    return cause if isinstance(cause, Exception) else EngineError(_first_sentence(error))


def _first_sentence(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines() or [type(error).__name__]
    return f"{type(error).__name__}: {lines[0]}"
