"""A stand-in Hub that can be written to, and a process that publishes to it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hub_server import HubServer, hub_server
from tests.hub_writes import HubWrites

ROOT = Path(__file__).parents[1]
TOKEN = "hf_" + "q" * 34
REPO = "org/labels"
WARNINGS = ("-W", "error", "-W", "ignore:Use 'content:DeprecationWarning")
"""The second is the Hub's own client's, of the way it sends large files."""


@dataclass(frozen=True)
class PublishedHub:
    server: HubServer
    writes: HubWrites
    home: Path
    process: subprocess.Popen[str]

    def start(self, *orders: dict[str, Any]) -> list[int]:
        """The pids of the children that carry out the orders."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(orders) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def wait(self) -> list[dict[str, Any]]:
        return self._answer()

    def publish(self, path: Path, *, repo: str = REPO, **given: Any) -> dict[str, Any]:
        """The report, or what the error says under `error`."""
        self.start(order(path, repo=repo, **given))
        (answer,) = self.wait()
        assert "fault" not in answer, answer["fault"]
        return answer.get("report", answer)

    def files(self, repo: str = REPO) -> dict[str, bytes]:
        folder = self.writes.folder(repo)
        found = [file for file in folder.rglob("*") if file.is_file()]
        return {str(file.relative_to(folder)): file.read_bytes() for file in found}

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.home / "stderr").read_text()
        return json.loads(line)


def order(
    path: Path,
    *,
    repo: str = REPO,
    settings: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    given = {"repo": repo, "patience_seconds": 20.0, **(settings or {})}
    return {
        "path": str(path), "settings": given, "options": options, "environment": environment or {},
    }  # fmt: skip


@contextmanager
def published_hub(home: Path) -> Iterator[PublishedHub]:
    with hub_server() as server, (home / "stderr").open("w") as stderr:
        writes = server.writes = HubWrites(
            home / "hub",
            endpoint=server.endpoint,
            token=TOKEN,
            datasets=server.datasets,
            commits=server.commits,
        )
        with subprocess.Popen(
            [sys.executable, *WARNINGS, "-m", "tests.publish_writer"],
            cwd=ROOT,
            env={**server.environment(home / "cache"), "HF_TOKEN": TOKEN},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process:
            yield PublishedHub(server, writes, home, process)
        assert process.returncode == 0
        assert server.refused == []
