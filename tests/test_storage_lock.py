"""The lock: who holds it, its heartbeat, and what is taken over from whom."""

import json
import os
import signal
import sys
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from pipeline.errors import DatasetLockedError
from storage.lock import LOCK_FILE, dataset_lock, lock_holder
from storage.lock_holder import STALE_SECONDS, LockHolder, this_process
from tests.lock_takers import taking


def elsewhere(seconds_ago: float) -> LockHolder:
    """A holder on another host that was heard of so long ago."""
    heard = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    return replace(
        this_process(), host="node-7", heartbeat_at=heard.isoformat(timespec="milliseconds")
    )


def left_by(path: Path, holder: LockHolder) -> None:
    (path / LOCK_FILE).write_bytes(holder.as_bytes())


def test_the_file_says_who_holds_the_lock_and_is_empty_afterwards(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    with dataset_lock(tmp_path):
        said_by_file = json.loads((tmp_path / LOCK_FILE).read_text())
        holder = lock_holder(tmp_path)
        assert holder is not None
        assert asdict(holder) == said_by_file
        assert (holder.host, holder.pid) == (os.uname().nodename, os.getpid())
        assert holder.process_started_at == pytest.approx(psutil.Process().create_time(), abs=0.01)
        assert holder.owner
        assert 0 <= holder.seconds_silent < 5
        assert Path(sys.argv[0]).name in holder.command
    assert lock_holder(tmp_path) is None


def test_a_live_holder_is_refused_by_name(tmp_path: Path) -> None:
    with taking(tmp_path) as ((process,), said):
        assert said == ["held"]
        holder = lock_holder(tmp_path)
        assert holder is not None
        with pytest.raises(DatasetLockedError) as refusal, dataset_lock(tmp_path):
            pass
    assert str(refusal.value).startswith(
        f"the dataset {tmp_path} is in use by process {process.pid} on {holder.host}, which "
        f"{holder.owner} started (`{holder.command}`) and which holds it since "
        f"{holder.started_at[:19]}Z, last heard of 0 s ago; wait"
    )


def test_what_a_killed_process_left_is_taken_over_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with taking(tmp_path) as ((process,), said):
        assert said == ["held"]
    left = lock_holder(tmp_path)
    assert left is not None
    assert left.pid == process.pid
    assert not left.is_alive
    started = time.monotonic()
    with caplog.at_level("INFO"), dataset_lock(tmp_path):
        assert time.monotonic() - started < 10
        now = lock_holder(tmp_path)
        assert now is not None
        assert now.pid == os.getpid()
        assert now.is_alive
    assert f"taken over from process {process.pid} on" in caplog.text


def test_of_processes_that_race_for_a_stale_lock_exactly_one_wins(tmp_path: Path) -> None:
    for holder in (this_process(), elsewhere(2 * STALE_SECONDS)):
        left_by(tmp_path, holder)
        with taking(tmp_path, num=4) as (_, said):
            assert sorted(said) == ["held", "refused", "refused", "refused"]


def test_another_host_that_was_heard_of_is_refused_and_a_silent_one_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # the kernel's lock is free: it does not reach the other host
    left_by(tmp_path, elsewhere(STALE_SECONDS - 5))
    with (
        pytest.raises(DatasetLockedError, match=r"on node-7, .*last heard of 55 s ago"),
        dataset_lock(tmp_path),
    ):
        pass
    left = elsewhere(STALE_SECONDS + 1)
    left_by(tmp_path, left)
    with caplog.at_level("INFO"), dataset_lock(tmp_path):
        assert "taken over from" in caplog.text
        assert "node-7" in caplog.text


def test_the_heartbeat_goes_on_while_the_main_thread_is_busy(tmp_path: Path) -> None:
    with dataset_lock(tmp_path, heartbeat_seconds=0.05):
        first = lock_holder(tmp_path)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:  # never waits
            pass
        later = lock_holder(tmp_path)
    assert first is not None
    assert later is not None
    assert later.identity == first.identity
    assert later.heartbeat_at > first.heartbeat_at


def test_who_was_taken_over_stops(tmp_path: Path) -> None:
    def work() -> None:
        with dataset_lock(tmp_path, heartbeat_seconds=0.05):
            left_by(tmp_path, elsewhere(0))
            time.sleep(60)

    started = time.monotonic()
    with pytest.raises(DatasetLockedError, match="was taken over by another process"):
        work()
    assert time.monotonic() - started < 50
    holder = lock_holder(tmp_path)
    assert holder is not None
    assert holder.host == "node-7"  # the other's name stays


def test_a_stopped_process_keeps_its_lock_on_one_host(tmp_path: Path) -> None:
    with taking(tmp_path) as ((process,), _):
        holder = lock_holder(tmp_path)
        assert holder is not None
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        silent = replace(holder, heartbeat_at=elsewhere(3600).heartbeat_at)
        left_by(tmp_path, silent)
        with (
            pytest.raises(DatasetLockedError, match=r"last heard of 3600 s ago"),
            dataset_lock(tmp_path),
        ):
            pass


def test_an_unreadable_lock_file_is_written_anew(tmp_path: Path) -> None:
    whole = json.loads(elsewhere(0).as_bytes())
    odd = (
        {"heartbeat_at": "2026-12-01T00:00:00"},
        {"heartbeat_at": "0001-01-01T00:00:00+00:00"},
        {"started_at": 5},
        {"pid": "one"},
        {"pid": -1},
        {"host": None},
        {"command": "\ud800"},
        {"process_started_at": "noon"},
    )
    for content in (
        *("4711 on node-7", '{"pid": 1}', "[]", "null", "", "[" * 100_000),
        *(json.dumps({**whole, **one}) for one in odd),
    ):
        (tmp_path / LOCK_FILE).write_text(content)
        with dataset_lock(tmp_path):
            assert lock_holder(tmp_path) is not None
