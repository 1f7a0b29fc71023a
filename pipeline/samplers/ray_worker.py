"""What runs inside a Ray worker: one engine, with all that belongs to it.

`ray_pool` makes an actor of `RayWorker` and ships this code to it. Nothing of Ray is needed
here. A vLLM server started by a worker is ended with it: its watchdog ends the server's process
group when the worker's process is gone, and the next worker on the machine ends what a
killed watchdog may have left.
"""

import getpass
import logging
import os
import socket
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from pipeline.config import EngineConfig, ModelConfig, RayWorkerEngine
from pipeline.errors import ConfigError, EngineError
from pipeline.samplers.models import resolve_model
from pipeline.samplers.process_group import end_orphan
from pipeline.samplers.sampler import Completion, Sampler, SamplingRequest
from pipeline.samplers.scripted import ScriptedSampler

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker is told. `name` is its own among all live workers of the machine."""

    name: str
    model: ModelConfig
    engine: EngineConfig
    model_identity: str
    """Of the model where the run was started; checked against the model found here."""
    scripted: ScriptedSampler | None


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """Where a worker runs, and from which code."""

    host: str
    pid: int
    code_path: str
    process_group: int | None
    """Of its vLLM server."""


class RayWorker:
    """An engine in an actor's process. `start` comes first, `stop` last."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._stack = AsyncExitStack()
        self._sampler: Sampler | None = None

    async def start(self) -> WorkerFacts:
        """Start the engine. Raises ConfigError and EngineError as the engine itself does."""
        if self._sampler is None:
            self._sampler = await self._open()
        return WorkerFacts(
            host=socket.gethostname(),
            pid=os.getpid(),
            code_path=str(Path(__file__).parents[2]),
            process_group=getattr(self._sampler, "process_group", None),
        )

    async def ping(self) -> None:
        """Show that the process lives."""

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """See `Sampler.sample`."""
        if self._sampler is None:
            raise EngineError(f"{self._spec.name} was not started")
        return await self._sampler.sample(request)

    async def stop(self) -> None:
        """End the engine and its processes."""
        await self._stack.aclose()

    async def _open(self) -> Sampler:
        spec, open_here = self._spec, self._stack.enter_async_context
        if spec.engine.ray_worker_engine is RayWorkerEngine.SCRIPTED:
            if spec.scripted is None:
                raise ConfigError("a scripted Ray worker needs the problems it is to know")
            return spec.scripted
        self._check_model()
        if spec.engine.ray_worker_engine is RayWorkerEngine.VLLM:
            from pipeline.samplers.vllm_server import open_vllm_server

            end_orphans(servers_path())
            state_path = servers_path() / spec.name
            return await open_here(open_vllm_server(spec.model, spec.engine, state_path=state_path))
        from pipeline.samplers.transformers_engine import open_transformers_engine

        return await open_here(open_transformers_engine(spec.model, spec.engine))

    def _check_model(self) -> None:
        found = resolve_model(self._spec.model).identity
        if found != self._spec.model_identity:
            raise ConfigError(
                f"model.name = {self._spec.model.name!r}: the files on {socket.gethostname()} are "
                f"another model ({found}) than where the run was started "
                f"({self._spec.model_identity}); copy them or use a shared folder"
            )


def servers_path() -> Path:
    """A folder of this user and machine for the workers' logs and pid files."""
    return Path(tempfile.gettempdir()) / f"stepmark-{getpass.getuser()}" / "ray-workers"


def end_orphans(path: Path) -> int:
    """End the servers in `path` whose worker is gone; returns how many processes."""
    num_ended = 0
    for pid_path in path.glob("*/*.pid.json"):
        try:
            num_ended += end_orphan(pid_path)
        except EngineError as error:  # its worker lives, or it is another's to kill
            logger.info("left alone: %s", error)
    return num_ended
