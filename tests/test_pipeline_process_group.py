"""Nothing of a process group survives its end, its parent's SIGKILL, or the next start."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from pipeline.errors import EngineError
from pipeline.samplers.process_group import GroupRecord, ProcessGroup, end_orphan

CHILD = "import time; time.sleep(300)"
STUBBORN_CHILD = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + CHILD
SERVER = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {CHILD!r}])
print("server is up", flush=True)
time.sleep(300)
"""
OWNER = f"""
import os, sys, time
from pathlib import Path
from pipeline.samplers.process_group import ProcessGroup
folder = Path(sys.argv[1])
group = ProcessGroup(
    [sys.executable, "-c", {SERVER!r}],
    env=os.environ, log_path=folder / "server.log", pid_path=folder / "server.pid.json",
)
if sys.argv[2] == "fork" and os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(300)
time.sleep(0.1)
print(group.pid, flush=True)
time.sleep(300)
"""


def start_group(folder: Path, code: str = SERVER) -> ProcessGroup:
    return ProcessGroup(
        [sys.executable, "-c", code],
        env=os.environ,
        log_path=folder / "server.log",
        pid_path=folder / "server.pid.json",
        grace_seconds=1.0,
    )


def members(group_id: int) -> list[int]:
    """The pids of the group, zombies left out."""
    found: list[int] = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def wait_for_members(group_id: int, count: int, *, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while len(found := members(group_id)) != count:
        assert time.monotonic() < deadline, f"{found} in group {group_id}, {count} wanted"
        time.sleep(0.02)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that owns a group and prints its id; `fork` leaves a copy of the pipe behind."""
    process = start_owner(tmp_path, "plain")
    yield process
    end(process)


def start_owner(folder: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OWNER, str(folder), how]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    )


def read_pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_stop_ends_the_command_and_a_child_that_ignores_sigterm(tmp_path: Path) -> None:
    group = start_group(tmp_path, SERVER.replace(CHILD, STUBBORN_CHILD))
    wait_for_members(group.pid, 3)
    record = json.loads((tmp_path / "server.pid.json").read_text())
    assert (record["pid"], record["owner_pid"]) == (group.pid, os.getpid())
    group.stop()
    assert members(group.pid) == []
    assert not group.is_alive()
    assert not (tmp_path / "server.pid.json").exists()
    assert "server ended with exit status -15" in group.log_tail()
    group.stop()


def test_a_command_that_ends_by_itself_is_seen_and_its_log_kept(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("of an earlier start\n")
    group = start_group(tmp_path, "print('no memory'); raise SystemExit(7)")
    deadline = time.monotonic() + 10
    while group.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert group.log_tail().splitlines() == [
        "no memory",
        "stepmark watchdog: server ended with exit status 7",
    ]
    group.stop()


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    group = ProcessGroup(
        ["/no/such/python"],
        env=os.environ,
        log_path=tmp_path / "server.log",
        pid_path=tmp_path / "server.pid.json",
    )
    while group.is_alive():
        time.sleep(0.02)
    group.stop()
    assert "cannot start '/no/such/python'" in group.log_tail()


def test_sigkill_of_the_owner_ends_the_group(owner: subprocess.Popen[str]) -> None:
    group_id = read_pid(owner)
    wait_for_members(group_id, 3)
    owner.kill()
    wait_for_members(group_id, 0)


def test_a_fork_that_keeps_the_pipe_open_does_not_keep_the_group(tmp_path: Path) -> None:
    owner = start_owner(tmp_path, "fork")
    fork_pid, group_id = read_pid(owner), read_pid(owner)
    wait_for_members(group_id, 3)
    owner.kill()
    try:
        wait_for_members(group_id, 0)
        assert psutil.pid_exists(fork_pid)
    finally:
        os.kill(fork_pid, signal.SIGKILL)
        end(owner)


def test_the_next_start_ends_what_a_killed_watchdog_left(
    owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    orphan_id = read_pid(owner)
    wait_for_members(orphan_id, 3)
    os.kill(owner.pid, signal.SIGSTOP)
    os.kill(orphan_id, signal.SIGKILL)
    owner.kill()
    owner.wait()
    wait_for_members(orphan_id, 2)
    group = start_group(tmp_path)
    assert members(orphan_id) == []
    group.stop()


def test_stop_ends_the_group_of_a_watchdog_that_was_killed(tmp_path: Path) -> None:
    group = start_group(tmp_path)
    wait_for_members(group.pid, 3)
    os.kill(group.pid, signal.SIGKILL)
    wait_for_members(group.pid, 2)
    assert not group.is_alive()
    group.stop()
    wait_for_members(group.pid, 0)


def test_the_server_of_a_live_owner_is_left_alone(
    owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    group_id = read_pid(owner)
    wait_for_members(group_id, 3)
    with pytest.raises(
        EngineError, match=f"process group {group_id}.*process {owner.pid} is using"
    ):
        start_group(tmp_path)
    assert len(members(group_id)) == 3


def test_a_process_that_got_the_recorded_number_later_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(300)"]
    stranger = subprocess.Popen(command, start_new_session=True)
    path = tmp_path / "server.pid.json"
    start_time = psutil.Process(stranger.pid).create_time()
    record = GroupRecord(
        pid=stranger.pid, start_time=start_time - 60, owner_pid=2**22, owner_start_time=1.0
    )
    try:
        path.write_text(json.dumps(asdict(record)))
        assert end_orphan(path) == 0
        assert stranger.poll() is None
        path.write_text(json.dumps(asdict(record) | {"start_time": start_time}))
        assert end_orphan(path) == 1
        assert members(stranger.pid) == []
        assert not path.exists()
    finally:
        stranger.kill()
        stranger.wait()


def test_a_damaged_pid_file_does_not_stop_a_start(tmp_path: Path) -> None:
    (tmp_path / "server.pid.json").write_text('{"pid": 1')
    group = start_group(tmp_path)
    assert group.is_alive()
    group.stop()
