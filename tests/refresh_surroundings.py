"""What a nightly refresh speaks to: a stand-in Hub, and a place that notifications are sent to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.hub_server import HubServer, hub_server
from tests.hub_writes import HubWrites
from tests.prefect_server import CHECKOUT, Prefect
from tests.published_hub import TOKEN

AUTOMATIONS = CHECKOUT / "configs" / "refresh-automations.yaml"
_NO_BLOCK = "00000000-0000-0000-0000-000000000000"


@contextmanager
def writable_hub(home: Path) -> Iterator[HubServer]:
    with hub_server() as server:
        server.writes = HubWrites(
            home / "hub",
            endpoint=server.endpoint,
            token=TOKEN,
            datasets=server.datasets,
            commits=server.commits,
        )
        yield server


def hub_variables(server: HubServer, home: Path) -> dict[str, str]:
    """For a worker. No proxy: Prefect's own requests would go there, too."""
    return {
        "HF_ENDPOINT": server.endpoint,
        "HF_HOME": str(home / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_TOKEN": TOKEN,
    }


@dataclass(frozen=True)
class Notifications:
    """What was sent so far: each a table with `subject` and `body`."""

    url: str
    sent: list[dict[str, str]]

    def of(self, subject: str) -> list[dict[str, str]]:
        return [one for one in self.sent if subject in one["subject"]]


@contextmanager
def notifications() -> Iterator[Notifications]:
    sent: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield Notifications(f"http://127.0.0.1:{server.server_port}", sent)
        finally:
            server.shutdown()
            thread.join()


def create_automations(prefect: Prefect, folder: Path, url: str) -> None:
    """As docs/prefect.md says, with a block that sends to `url`."""
    block_id = _create_block(prefect, url)
    file = folder / "automations.yaml"
    file.write_text(AUTOMATIONS.read_text().replace(_NO_BLOCK, block_id))
    done = prefect.command("automation", "create", "--from-file", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = yaml.safe_load(file.read_text())["automations"]
    stored = {one["name"]: one for one in prefect.post("automations/filter", {})}
    for one in wanted:  # keys that Prefect does not know it drops
        assert _holds(stored[one["name"]], one), (one, stored[one["name"]])


def _create_block(prefect: Prefect, url: str) -> str:
    kind = prefect.get("block_types/slug/custom-webhook")["id"]
    schemas = prefect.post("block_schemas/filter", {
        "block_schemas": {"block_type_id": {"any_": [kind]}}
    })  # fmt: skip
    wanted = {
        "name": "stepmark",
        "block_type_id": kind,
        "block_schema_id": schemas[0]["id"],
        "data": {
            "name": "stepmark",
            "url": url,
            "json_data": {"subject": "{{subject}}", "body": "{{body}}"},
        },
    }
    return prefect.post("block_documents/", wanted)["id"]


def _holds(stored: Any, wanted: Any) -> bool:
    """Whether `stored` has all of `wanted`; a list may have another order, and a single text
    stands for a list of it.
    """
    if isinstance(wanted, dict):
        return all(_holds(stored.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(stored) == len(wanted) and all(
            any(_holds(one, value) for one in stored) for value in wanted
        )
    return stored in (wanted, [wanted])
