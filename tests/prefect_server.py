"""A real Prefect server and worker for tests, in a home of their own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

CHECKOUT = Path(__file__).parents[1]
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


@dataclass
class Prefect:
    """A running server with a worker; its commands run in the checkout."""

    home: Path
    environment: dict[str, str]
    api: httpx.Client

    def command(self, *arguments: str, cwd: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "prefect", *arguments],
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def submit(self, name: str, **parameters: object) -> str:
        """`prefect deployment run`, as a user types it; returns the flow run's id."""
        typed = [f"{key}={json.dumps(value)}" for key, value in parameters.items()]
        done = self.command("deployment", "run", name, *(f"--param={one}" for one in typed))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.partition("UUID: ")[2].split()[0]

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def post(self, path: str, content: object) -> Any:
        return self._ask("POST", path, json=content)

    def _ask(self, method: str, path: str, **content: object) -> Any:
        """Like Prefect's own client, try again while SQLite is locked (503)."""
        for _ in range(20):
            answer = self.api.request(method, path, **content)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(0.5)
        return answer.raise_for_status().json()

    def deployment(self, name: str) -> dict[str, Any]:
        return self.get(f"deployments/name/{name}")

    def create_run(self, name: str, **parameters: object) -> str:
        """As the web page makes a run: past our plugin."""
        deployment_id = self.deployment(name)["id"]
        made = self.post(
            f"deployments/{deployment_id}/create_flow_run",
            {"parameters": parameters, "state": {"type": "SCHEDULED"}},
        )
        return made["id"]

    def state(self, run_id: str) -> dict[str, Any]:
        return self.get(f"flow_runs/{run_id}")["state"]

    def finished(self, run_id: str) -> dict[str, Any]:
        """Wait for the run's end; returns its state."""
        self.wait_until(lambda: self.state(run_id)["type"] in FINAL, f"the end of {run_id}")
        return self.state(run_id)

    def completed(self, run_id: str) -> None:
        state = self.finished(run_id)
        assert state["type"] == "COMPLETED", (state, self.worker_log())

    def artifacts(self, run_id: str) -> dict[str, dict[str, Any]]:
        of_run = {"artifacts": {}, "flow_runs": {"id": {"any_": [run_id]}}}
        return {one["key"]: one for one in self.post("artifacts/filter", of_run)}

    def wait_until(self, is_so: Callable[[], bool], what: str, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, f"no {what}: {self.worker_log()}"
            time.sleep(0.2)

    def worker_log(self) -> str:
        return (self.home / "worker.log").read_text()[-4000:]


@contextlib.contextmanager
def running_prefect(home: Path, **variables: str) -> Iterator[Prefect]:
    """Server, pool, the deployments of prefect.yaml and a worker, in the documented order.

    The environment's `variables` reach the worker's runs, too.
    """
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")},
        "PREFECT_HOME": str(home),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "results"),
        "PREFECT_SERVER_MEMO_STORE_PATH": str(home / "memo.toml"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
            "prefect.server.concurrency.lease_storage.filesystem"
        ),
        "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_API_URL": url,
        "DO_NOT_TRACK": "1",
        "COLUMNS": "200",
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    server = ("server", "start", "--host", "127.0.0.1", "--port", str(port))
    worker = ("worker", "start", "--pool", "stepmark")
    with httpx.Client(base_url=url, timeout=30) as api:
        prefect = Prefect(home, environment, api)
        with _running(server, home / "server.log", environment):
            _wait(lambda: _answers(api), home / "server.log")
            for arguments in (
                ("work-pool", "create", "stepmark", "--type", "process"),
                ("deploy", "--all"),
            ):
                done = prefect.command(*arguments)
                assert done.returncode == 0, done.stdout + done.stderr
            with _running(worker, home / "worker.log", environment):
                yield prefect


@contextlib.contextmanager
def _running(arguments: tuple[str, ...], log: Path, environment: dict[str, str]) -> Iterator[None]:
    """A Prefect process in its own group, ended with all of it."""
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", *arguments],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(is_so: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.3)


def _answers(api: httpx.Client) -> bool:
    try:
        return api.get("health").status_code == 200
    except httpx.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
