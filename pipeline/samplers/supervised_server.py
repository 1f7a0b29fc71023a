"""A sampler over a server that we start, watch, replace when it dies, and end.

The server is any command that serves `/health`, `/v1/models` and `/v1/completions` on a
loopback port. When it dies, hangs or loses its engine it is replaced, at most `max_restarts`
times in all; the requests that were in flight are sent again with the same seeds. Which
command that is, and with what options, is said by the caller (`vllm_server`).
"""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import EngineError
from pipeline.samplers.openai_client import CompletionsClient, ServerFaultError, ServerHangError
from pipeline.samplers.process_group import ProcessGroup, end_orphan
from pipeline.samplers.sampler import Completion, SamplingRequest
from pipeline.samplers.waiting import said_while_waiting

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_NUM_PORTS_TRIED = 3
_ADVICE = (
    "Read the log; the usual causes are too little memory (lower engine.max_model_len, "
    "engine.max_num_seqs or engine.gpu_memory_utilization) and a wrong model name."
)


@dataclass(frozen=True, slots=True, repr=False)
class ServerPlan:
    """How to start a server, and how patiently to treat it."""

    command: Callable[[int], Sequence[str]]
    """The command line for a port."""
    env: Mapping[str, str]
    model_name: str
    """The name under which the server serves the model."""
    api_key: str
    state_path: Path
    """A folder for the log and the pid file; one live server a folder and name."""
    name: str
    startup_seconds: float
    request_seconds: float
    max_restarts: int

    @property
    def log_path(self) -> Path:
        """Everything the server writes."""
        return self.state_path / f"{self.name}.log"

    @property
    def pid_path(self) -> Path:
        """Names the process group while the server runs."""
        return self.state_path / f"{self.name}.pid.json"


class ServerLostError(EngineError):
    """The server died, and all its replacements."""


@asynccontextmanager
async def open_server(plan: ServerPlan) -> AsyncGenerator["SupervisedServer"]:
    """Start the server and wait until it is ready; end it on leaving, whatever happened.

    Raises EngineError where it does not become ready.
    """
    plan.state_path.mkdir(parents=True, exist_ok=True)
    end_orphan(plan.pid_path)
    plan.log_path.unlink(missing_ok=True)
    server = SupervisedServer(plan)
    try:
        await server.start()
        yield server
    finally:
        server.stop()
        await server.aclose()


class SupervisedServer:
    """A Sampler; made by `open_server`."""

    def __init__(self, plan: ServerPlan) -> None:
        self.num_restarts = 0
        self._plan = plan
        self._restarting = asyncio.Lock()
        self._failure: EngineError | None = None
        self._group: ProcessGroup | None = None
        self._clients: list[CompletionsClient] = []
        """One a start, the last in use; the others may still have a task inside."""

    @property
    def process_group(self) -> int:
        """The id of the server's process group. Raises EngineError where none was started."""
        if self._group is None:
            raise EngineError(f"{self._plan.name} was not started")
        return self._group.pid

    @property
    def base_url(self) -> str:
        """Where the server in use listens, without `/v1`. It changes with a restart."""
        return self._clients[-1].base_url

    @property
    def num_clipped_requests(self) -> int:
        """Requests with less room in the context than `max_tokens`, all starts together."""
        return sum(client.num_clipped_requests for client in self._clients)

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """See `Sampler.sample`; a request that outlives a server is sent to the next."""
        while True:
            if self._failure is not None:
                raise self._failure
            num_starts = len(self._clients)
            try:
                return await self._clients[-1].sample(request)
            except ServerFaultError as fault:
                await self._replace(fault, num_starts=num_starts)

    async def start(self) -> None:
        """Start a server on a free port and wait until it is ready."""
        for num_tries in range(1, _NUM_PORTS_TRIED + 1):
            port = _free_port()
            self._group = ProcessGroup(
                self._plan.command(port),
                env=self._plan.env,
                log_path=self._plan.log_path,
                pid_path=self._plan.pid_path,
            )
            client = self._client(port)
            self._clients.append(client)
            try:
                await self._wait_ready(self._group, client)
            except _PortTakenError:
                self._group.stop()
                if num_tries == _NUM_PORTS_TRIED:
                    raise
            else:
                return

    def stop(self) -> None:
        """End the server and all its processes. Blocks; does not need a running loop."""
        if self._group is not None:
            self._group.stop()

    async def aclose(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.aclose()

    async def _replace(self, fault: ServerFaultError, *, num_starts: int) -> None:
        """Put a new server in the place of the one that failed, unless another task has.

        Raises the fault itself where the server lives and only this request fails.
        """
        async with self._restarting:
            if self._failure is not None or num_starts != len(self._clients):
                return
            if not isinstance(fault, ServerHangError) and await self._is_well():
                raise fault
            self.stop()
            if self.num_restarts >= self._plan.max_restarts:
                self._failure = self._failure_after(fault)
                raise self._failure
            self.num_restarts += 1
            logger.warning(
                "%s failed (%s); restart %d of at most %d",
                *(self._plan.name, fault, self.num_restarts, self._plan.max_restarts),
            )
            try:
                await self.start()
            except EngineError as error:
                self._failure = ServerLostError(str(error))
                raise self._failure from error

    async def _is_well(self) -> bool:
        is_alive = self._group is not None and self._group.is_alive()
        return is_alive and await self._clients[-1].is_healthy()

    async def _wait_ready(self, group: ProcessGroup, client: CompletionsClient) -> None:
        started, seconds = time.monotonic(), self._plan.startup_seconds
        log = f"{self._plan.name} to start (its log: {self._plan.log_path})"
        async with said_while_waiting(lambda: log, of_seconds=seconds):
            while not await client.is_healthy(seconds=2.0):
                if not group.is_alive():
                    raise self._startup_error(group, "ended while starting")
                if time.monotonic() - started > seconds:
                    reason = f"was not ready in engine.startup_seconds={seconds:g}"
                    raise self._startup_error(group, reason)
                await asyncio.sleep(0.1)
        max_model_len = await client.load_model_card()
        logger.info(
            "%s ready in %.1f s at %s, process group %d, context %s tokens",
            *(self._plan.name, time.monotonic() - started, client.base_url),
            *(group.pid, max_model_len),
        )

    def _startup_error(self, group: ProcessGroup, reason: str) -> EngineError:
        tail = group.log_tail()
        is_taken = "address already in use" in tail.lower()
        error_type = _PortTakenError if is_taken else EngineError
        return error_type(
            f"{self._plan.name} {reason}. {_ADVICE} The log is {group.log_path}; it ends:\n{tail}"
        )

    def _failure_after(self, fault: ServerFaultError) -> EngineError:
        tail = self._group.log_tail() if self._group is not None else ""
        return ServerLostError(
            f"{self._plan.name} failed for good after {self.num_restarts} restarts "
            f"(engine.max_restarts={self._plan.max_restarts}): {fault}. {_ADVICE} "
            f"Finished rollouts are kept. The log is {self._plan.log_path}; it ends:\n{tail}"
        )

    def _client(self, port: int) -> CompletionsClient:
        return CompletionsClient(
            f"http://{HOST}:{port}",
            model_name=self._plan.model_name,
            api_key=self._plan.api_key,
            request_seconds=self._plan.request_seconds,
            num_attempts=3,
            first_wait_seconds=0.2,
            trust_env=False,
        )


class _PortTakenError(EngineError):
    """Somebody took the port between our choosing it and the server's binding it."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
