"""One worker slot: its deadline, its deaths and its recycling, with a stand-in child."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grading.config import GradingConfig
from grading.verdict import Verdict
from grading.worker_process import GraderStartError, WorkerProcess

ROOT = Path(__file__).resolve().parents[1]
STAND_IN = "tests.stand_in_worker"


def slot(**settings: float) -> WorkerProcess:
    config = GradingConfig.model_validate({"deadline_seconds": 20, **settings})
    return WorkerProcess(config, module=STAND_IN)


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    started = slot()
    yield started
    started.stop()


def test_a_job_over_its_deadline_is_killed_and_a_successor_is_ready() -> None:
    worker = slot(deadline_seconds=1)
    try:
        first = worker.compare("g", "tell").reason
        begun = time.monotonic()
        assert worker.compare("g", "sleep 60").reason == "timeout"
        assert 0.9 < time.monotonic() - begun < 20
        assert not psutil.pid_exists(int(first))
        assert worker.compare("g", "tell").reason not in (first, "timeout")
    finally:
        worker.stop()


def test_the_deadline_counts_from_the_start_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_START_SECONDS", "1.5")
    worker = slot(deadline_seconds=1)
    try:
        assert worker.compare("g", "tell").verdict is Verdict.CORRECT
    finally:
        worker.stop()


def test_a_long_job_that_ends_in_time_keeps_its_worker(worker: WorkerProcess) -> None:
    first = worker.compare("g", "tell").reason
    assert worker.compare("g", "sleep 1").reason == first
    assert worker.compare("g", "tell").reason == first


def test_dead_workers_are_replaced_and_the_pair_at_work_is_named(worker: WorkerProcess) -> None:
    first = worker.compare("g", "tell").reason
    os.kill(int(first), signal.SIGKILL)  # idle: the next pair is not to blame
    second = worker.compare("g", "tell").reason
    assert second != first
    assert worker.compare("g", "die").reason == "worker-died"
    assert worker.compare("g", "tell").reason not in (first, second)


def test_a_worker_killed_while_it_starts_is_started_again(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_START_SECONDS", "0.6")
    worker.start()
    assert worker.pid is not None
    first = worker.pid
    timer = threading.Timer(0.2, os.kill, (first, signal.SIGKILL))
    timer.start()
    second = worker.compare("g", "tell")
    timer.join()
    assert (second.verdict, second.reason) == (Verdict.CORRECT, str(worker.pid))
    assert worker.pid != first


def test_a_stopped_worker_is_replaced_within_the_time_of_one_grade() -> None:
    worker = slot(deadline_seconds=10)
    try:
        first = int(worker.compare("g", "tell").reason)
        os.kill(first, signal.SIGSTOP)
        begun = time.monotonic()
        grade = worker.compare("g", "tell")
        assert time.monotonic() - begun < 10
        assert (grade.verdict, grade.reason) == (Verdict.CORRECT, str(worker.pid))
        assert not psutil.pid_exists(first)
    finally:
        worker.stop()


@pytest.mark.parametrize("death", [signal.SIGSTOP, signal.SIGKILL])
def test_a_grade_waits_no_longer_for_a_successor_than_for_a_grade(
    death: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = slot(deadline_seconds=1)
    try:
        first = int(worker.compare("g", "tell").reason)
        monkeypatch.setenv("STAND_IN_START_SECONDS", "2")
        os.kill(first, death)
        assert worker.compare("g", "tell").reason == "timeout"
        successor = worker.pid
        while worker.compare("g", "tell").reason == "timeout":
            assert worker.pid == successor  # it goes on starting
    finally:
        worker.stop()


def test_a_fault_of_the_comparison_is_undecided(worker: WorkerProcess) -> None:
    assert worker.compare("g", "raise").reason == "failed-ValueError"
    assert worker.compare("g", "nothing").reason == "unproven"
    large = worker.compare("g", f"hold {GradingConfig().memory_mb}")
    assert (large.verdict, large.reason) == (Verdict.UNDECIDED, "memory")


def test_a_worker_is_recycled_after_so_many_jobs() -> None:
    worker = slot(jobs_per_worker=3)
    try:
        pids = [worker.compare("g", "tell").reason for _ in range(7)]
    finally:
        worker.stop()
    assert [len(set(pids[:3])), len(set(pids[3:6])), len(set(pids))] == [1, 1, 3]


def test_a_worker_is_recycled_when_it_holds_much_memory() -> None:
    worker = slot(recycle_mb=100)
    try:
        pids = [worker.compare("g", command).reason for command in ("tell", "hold 99", "tell")]
        assert pids[0] == pids[1] != pids[2]
        assert worker.pid is not None
        assert psutil.Process(worker.pid).memory_info().rss < 100 * 2**20
    finally:
        worker.stop()


def test_an_interrupted_job_never_answers_for_the_next_one() -> None:
    worker = slot(deadline_seconds=60)  # the interrupt comes first, however busy the machine
    # a shell starts background jobs with SIGINT ignored
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        first = int(worker.compare("g", "tell").reason)
        timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            worker.compare("g", "sleep 50")
        timer.join()
        grade = worker.compare("g", "nothing")
        assert (grade.reason, grade.answer) == ("unproven", "nothing")
        assert not psutil.pid_exists(first)
    finally:
        signal.signal(signal.SIGINT, inherited)
        worker.stop()


def test_long_text_in_another_script_goes_through_the_pipe(worker: WorkerProcess) -> None:
    text = "\U0001d7d8" * 200_000 + "\udcff"
    assert worker.compare(text, text).answer == text


def test_a_worker_that_cannot_start_says_what_to_do() -> None:
    worker = WorkerProcess(GradingConfig(), module="grading.no_such_module")
    with pytest.raises(GraderStartError, match=r"exit status 1.*memory_mb"):
        worker.compare("g", "tell")


ORPHANED = """
import sys, threading, time
from grading.config import GradingConfig
from grading.worker_process import WorkerProcess
worker = WorkerProcess(GradingConfig(deadline_seconds=50), module="tests.stand_in_worker")
worker.compare("g", "tell")
threading.Thread(target=worker.compare, args=("g", sys.argv[1]), daemon=True).start()
time.sleep(0.3)
print(worker.pid, flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("command", ["tell", "sleep 90"])
def test_no_worker_outlives_a_killed_parent(command: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANED, command], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs([worker], timeout=10)
    assert alive == []
