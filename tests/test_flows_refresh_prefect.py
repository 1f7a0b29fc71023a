"""The deployment refresh-labels on a real Prefect server, publishing to a stand-in Hub."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows import stages
from flows.run_config import load_config
from storage.dataset import read_labels, read_manifest
from storage.lock import lock_holder
from tests.dataset_files import all_bytes, label_bytes
from tests.hub_server import HubServer
from tests.prefect_server import Prefect, running_prefect
from tests.refresh_surroundings import (
    create_automations,
    hub_variables,
    notifications,
    writable_hub,
)

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300), pytest.mark.xdist_group("prefect")]

SCRIPTED = """
[problems]
source = "demo"
limit = 5
[engine]
kind = "scripted"
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    with writable_hub(tmp_path) as server:
        yield server


@pytest.fixture
def prefect(tmp_path: Path, hub: HubServer) -> Iterator[Prefect]:
    home = tmp_path / "prefect"
    home.mkdir()
    with running_prefect(home, **hub_variables(hub, home)) as prefect:
        yield prefect


@pytest.fixture
def scripted(tmp_path: Path) -> Path:
    config = tmp_path / "scripted.toml"
    config.write_text(SCRIPTED)
    return config


def test_nights_of_the_refresh(
    prefect: Prefect, hub: HubServer, scripted: Path, tmp_path: Path
) -> None:
    """Published; nothing new; refused by a gate; killed. Each is notified of, or not."""
    out, repo, writes = tmp_path / "dataset", "org/nightly", hub.writes
    assert writes is not None

    def night(*overrides: str) -> str:
        return prefect.submit(
            "refresh-labels",
            config=str(scripted),
            out=str(out),
            overrides=[f"publish.repo={repo}", *overrides],
        )

    def shown(run_id: str, key: str) -> dict[str, str]:
        rows = json.loads(prefect.artifacts(run_id)[key]["data"])
        return {row.pop("figure" if "figure" in row else "gate"): row.popitem()[1] for row in rows}

    with notifications() as received:
        create_automations(prefect, tmp_path, received.url)
        first = night()
        resolved = load_config(scripted, [f"publish.repo={repo}"])
        stages.generate(resolved, tmp_path / "direct", on_progress=lambda _: None)
        prefect.completed(first)
        assert label_bytes(out) == label_bytes(tmp_path / "direct")
        assert shown(first, "what-changed") == {"labels": "the first, snapshot 000001"}
        assert (out / "report.html").as_uri() in prefect.artifacts(first)["report"]["data"]
        assert set(shown(first, "gates").values()) == {"met"}
        commits = list(writes.history[repo])
        assert shown(first, "publication")["commit"] == commits[-1]
        rows = pq.read_table(writes.folder(repo) / "data").num_rows
        assert rows == sum(1 for _ in read_labels(out))
        prefect.wait_until(lambda: bool(received.of("published")), "word of the publication")

        before = all_bytes(out)
        idle = night()
        prefect.completed(idle)
        assert shown(idle, "what-changed") == {"labels": "unchanged, snapshot 000001"}
        assert shown(idle, "cost")["this run"].startswith("0 rollouts, 0 generated tokens")
        assert writes.history[repo] == commits
        after = all_bytes(out)
        changed = {name for name in after if after[name] != before.get(name)}
        assert changed <= {"cost.json", "manifest.json"}

        refused = night("problems.limit=6", "publish.gates.min_labels=100000")
        state = prefect.finished(refused)
        assert state["type"] == "FAILED"
        assert "was not published: min_labels" in state["message"]
        assert read_manifest(out)["snapshot"] == "000002"
        assert shown(refused, "what-changed")["snapshot"] == "000001 → 000002"
        assert shown(refused, "gates")["min_labels"] == "NOT MET"
        assert "--force" in _what_to_do(prefect, refused)
        assert writes.history[repo] == commits
        prefect.wait_until(lambda: bool(received.of("Failed")), "word of the refusal")
        assert "min_labels" in received.of("Failed")[0]["body"]

        killed = night("problems.limit=2000")
        prefect.wait_until(lambda: prefect.state(killed)["type"] == "RUNNING", "killed run")
        prefect.wait_until(lambda: lock_holder(out) is not None, "holder of the lock")
        holder = lock_holder(out)
        assert holder is not None
        os.kill(holder.pid, signal.SIGKILL)
        assert prefect.finished(killed)["type"] == "CRASHED"
        assert "goes on from there" in _what_to_do(prefect, killed)
        prefect.wait_until(lambda: bool(received.of("Crashed")), "word of the crash")
        assert read_manifest(out)["snapshot"] == "000002"
        assert len(received.sent) == 3


def _what_to_do(prefect: Prefect, run_id: str) -> str:
    """The hook's artifact, which comes after the state."""
    prefect.wait_until(lambda: "what-to-do" in prefect.artifacts(run_id), "what to do")
    return prefect.artifacts(run_id)["what-to-do"]["data"]
