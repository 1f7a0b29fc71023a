"""A night's work: the report and what changed, only where there is something to say."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.failure_hook import advice_for
from flows.ledger import CostLedger
from flows.publish import publish_settings
from flows.refresh import Refreshed, is_publishing_due, refresh
from flows.run_config import RunConfig, check_config
from pipeline.errors import DatasetLockedError, GateError
from storage.dataset import read_manifest
from storage.lock import dataset_lock
from storage.publish_config import PublishConfig
from storage.published import PUBLISHED, note_published


def config(**sections: object) -> RunConfig:
    content = {
        "problems": {"limit": 3},
        "engine": {"kind": "scripted"},
        "steps": {"method": "newline"},
    }
    return check_config({**content, **sections}, origin="test")


def run(config: RunConfig, out: Path) -> Refreshed:
    return refresh(config, out, on_progress=lambda _: None)


def reports(out: Path) -> dict[str, tuple[bytes, int]]:
    files = (out / "report.html", out / "report.json")
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def reported_snapshot(out: Path) -> str:
    return json.loads((out / "report.json").read_text())["dataset"]["snapshot"]


def test_nights(tmp_path: Path) -> None:
    first = run(config(), tmp_path)
    assert first == Refreshed("000001", None, None, is_new_report=True)
    assert first.figures() == {"labels": "the first, snapshot 000001"}
    assert reported_snapshot(tmp_path) == "000001"

    before = reports(tmp_path)
    idle = run(config(), tmp_path)
    assert idle == Refreshed("000001", "000001", None, is_new_report=False)
    assert idle.figures() == {"labels": "unchanged, snapshot 000001"}
    assert CostLedger(tmp_path).last_run.generated_tokens == 0
    assert reports(tmp_path) == before

    more = run(config(problems={"limit": 5}), tmp_path)
    assert (more.snapshot, more.before, more.is_new_report) == ("000002", "000001", True)
    assert more.diff is not None
    assert (more.diff.num_problems_added, more.diff.num_changed, more.diff.num_removed) == (2, 0, 0)
    assert more.figures()["snapshot"] == "000001 → 000002"
    assert more.figures()["added"].endswith("(2 problems)")
    assert reported_snapshot(tmp_path) == "000002"

    # the snapshot before is not kept: said, not guessed
    alone = run(config(problems={"limit": 6}, labels={"keep_snapshots": 1}), tmp_path)
    assert (alone.has_new_labels, alone.diff) == (True, None)
    assert "labels.keep_snapshots" in alone.figures()["compared"]


@pytest.mark.parametrize("lost", ["report.html", "report.json", "snapshot", "json"])
def test_a_report_that_is_missing_or_of_other_labels_is_made_up_for(
    tmp_path: Path, lost: str
) -> None:
    run(config(), tmp_path)
    page = (tmp_path / "report.html").read_bytes()
    match lost:
        case "snapshot":  # a night that was killed before it had reported
            figures = json.loads((tmp_path / "report.json").read_text())
            figures["dataset"]["snapshot"] = "000000"
            (tmp_path / "report.json").write_text(json.dumps(figures))
        case "json":
            (tmp_path / "report.json").write_text("[]")
        case _:
            (tmp_path / lost).unlink()
    assert run(config(), tmp_path).is_new_report
    assert reported_snapshot(tmp_path) == "000001"
    assert len((tmp_path / "report.html").read_bytes()) >= len(page) - 1000
    assert not run(config(), tmp_path).is_new_report


def test_a_second_refresh_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    run(config(), tmp_path)
    before = reports(tmp_path), read_manifest(tmp_path)
    with dataset_lock(tmp_path), pytest.raises(DatasetLockedError, match="is in use by process"):
        run(config(problems={"limit": 4}), tmp_path)
    assert (reports(tmp_path), read_manifest(tmp_path)) == before
    assert run(config(problems={"limit": 4}), tmp_path).has_new_labels


def test_publishing_is_due_until_these_labels_were_sent_so(tmp_path: Path) -> None:
    run(config(), tmp_path)
    to = PublishConfig(repo="org/labels")

    def noted(**changes: Any) -> None:
        record = {"snapshot": "000001", "settings": publish_settings(to), "files": {}}
        note_published(tmp_path, "org/labels", {**record, **changes})

    assert not is_publishing_due(tmp_path, PublishConfig())
    assert is_publishing_due(tmp_path, to)
    noted()
    assert not is_publishing_due(tmp_path, to)
    gates = to.gates.model_copy(update={"min_labels": 10_000})
    assert not is_publishing_due(tmp_path, to.model_copy(update={"gates": gates}))
    assert is_publishing_due(tmp_path, to.model_copy(update={"repo": "org/other"}))
    assert is_publishing_due(tmp_path, to.model_copy(update={"license": "mit"}))
    noted(snapshot="000000")
    assert is_publishing_due(tmp_path, to)
    noted(settings=None)  # published by a stepmark that did not note them
    assert is_publishing_due(tmp_path, to)
    (tmp_path / PUBLISHED).write_text("{")
    assert is_publishing_due(tmp_path, to)


def test_the_advice_fits_the_cause() -> None:
    parameters = {"config": "c.toml", "out": "out/{mine}"}
    refused = advice_for(GateError("min_labels"), parameters)
    assert "`stepmark publish out/{mine} --config c.toml --force`" in refused
    assert "nothing was touched" in advice_for(DatasetLockedError("in use"), parameters)
    for cause in (None, ValueError("a fault")):  # after a crash, all that is known is its end
        again = "`prefect deployment run refresh-labels -p config=c.toml -p out=out/{mine}`"
        assert again in advice_for(cause, parameters)


def test_the_command_says_what_a_night_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.cli import main

    monkeypatch.setenv("COLUMNS", "200")
    file, out = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(
        '[problems]\nlimit = 2\n[engine]\nkind = "scripted"\n[steps]\nmethod = "newline"\n'
    )

    def said(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["refresh", "--config", str(file), "--out", str(out), *arguments])
        assert ended.value.code == 0
        return " ".join(capsys.readouterr().out.split())

    assert "the first, snapshot 000001" in said()
    idle = said()
    assert "unchanged, snapshot 000001" in idle
    assert "report.html, as it was: nothing changed" in idle
    assert "Nothing to publish: publish.repo is not set." in idle
    changed = said("--set", "problems.limit=3")
    assert "What changed: 000001 → 000002" in changed
    assert "(1 problems)" in changed
    record = {"snapshot": "000002", "files": {}}
    settings = publish_settings(PublishConfig(repo="org/a"))
    note_published(out, "org/a", {**record, "settings": settings})
    assert "Nothing to publish: org/a was sent these labels before." in said(
        "--set", "problems.limit=3", "--set", "publish.repo=org/a"
    )
