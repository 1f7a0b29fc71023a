import asyncio
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
from pydantic import ValidationError

from grading.config import GradingConfig, GradingProfile
from grading.pool import GradePool
from grading.verdict import Grade, Verdict

ROOT = Path(__file__).resolve().parents[1]
SLOW = ("(x+y+z)^{60}", "(x^2+y^2+z^2+2xy+2yz+2xz)^{30}")
"""True, but its proof takes sympy far longer than any deadline here."""

SYMBOLIC = [
    ("x^2-9", "(x-3)(x+3)", Verdict.CORRECT),
    ("x^2-9", "(x-3)(x+4)", Verdict.INCORRECT),
    (r"\frac{5}{\sqrt{5}}", r"\sqrt{5}", Verdict.CORRECT),
    (r"\sqrt{7+4\sqrt{3}}", r"2+\sqrt{3}", Verdict.CORRECT),
    (r"|y|", r"\sqrt{y^2}", Verdict.CORRECT),
    ("y", r"\sqrt{y^2}", Verdict.INCORRECT),
    (r"\sin 30^\circ", "0.5", Verdict.CORRECT),
    (r"\sin^2 t+\cos^2 t", "1", Verdict.CORRECT),
    (r"\log_3 81", "4", Verdict.CORRECT),
    (r"\ln 15", r"\ln 3+\ln 5", Verdict.CORRECT),
    ("3x-2y=4", "y=1.5x-2", Verdict.CORRECT),
    ("3x-2y=4", "y=1.5x+2", Verdict.INCORRECT),
    ("2x<6", "x<3", Verdict.CORRECT),
    ("2x<6", "x>3", Verdict.INCORRECT),
    (r"1\pm\sqrt{6}", r"1-\sqrt{6}, \sqrt{6}+1", Verdict.CORRECT),
    (r"\binom{m}{2}", r"\frac{m(m-1)}{2}", Verdict.CORRECT),
    ("2t", "2", Verdict.INCORRECT),
    ("x=2,y=3", "x=3,y=2", Verdict.INCORRECT),
    ("x=5", "y=5", Verdict.INCORRECT),
    ("e^{-300}", "e^{-301}", Verdict.INCORRECT),
    (r"\sqrt[3]{2}", r"\sqrt{2}", Verdict.INCORRECT),
    (r"\frac{1}{1+i}", r"\frac{1-i}{2}", Verdict.CORRECT),
    (r"\frac{\pi}{2}", "1.5707963267948966", Verdict.INCORRECT),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[GradePool]:
    with GradePool(GradingConfig(deadline_seconds=1.5)) as started:
        yield started


@pytest.mark.parametrize(("gold", "answer", "verdict"), SYMBOLIC)
def test_symbolic_verdicts(pool: GradePool, gold: str, answer: str, verdict: Verdict) -> None:
    grade = pool.grade_answer(gold, answer)
    assert (grade.verdict, grade.reason) == (verdict, "symbolic")


def test_hanging_pair_is_undecided_within_the_deadline_and_the_next_grade_works(
    pool: GradePool,
) -> None:
    pool.grade_answer("a+b", "b+2a")
    started = time.perf_counter()
    assert pool.grade_answer(*SLOW) == Grade(Verdict.UNDECIDED, "timeout", SLOW[1])
    assert time.perf_counter() - started < 30  # no hang; a busy machine is slow
    assert pool.grade_answer("p^2-4", "(p-2)(p+2)").verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    "answer",
    [
        "9^9^9^9^9",
        "e^{e^{e^{e^{x}}}}",
        "((x!)!)!",
        r"\binom{x^{100}}{y^{100}}",
        "(x+y+z+w)^{200}-(x+y+z)^{200}",
        r"\sqrt[10^9]{x}",
        "{" * 50_000,
        "x" * 1_000_000,
        "1 " + "a " * 3000,
        ",".join(["\\{1,2\\}"] * 1500),
    ],
)
def test_hostile_answers_are_bounded_and_never_correct(pool: GradePool, answer: str) -> None:
    pool.grade_answer("a+b", "b+3a")
    started = time.perf_counter()
    assert pool.grade_answer("1", answer).verdict is not Verdict.CORRECT
    assert time.perf_counter() - started < 30  # no hang; a busy machine is slow


def test_pool_grades_whole_completions(pool: GradePool) -> None:
    assert pool.grade("12", "so 3*4 = 12\n#### 12") == Grade(Verdict.CORRECT, "text", "12")
    assert pool.grade("12", "and then 12", is_truncated=True).reason == "no-answer"
    requests = [("4", r"\boxed{4}", False), ("x^2-x", r"\boxed{x(x-1)}", False), ("4", "5", False)]
    verdicts = [grade.verdict for grade in pool.grade_many(requests)]
    assert verdicts == [Verdict.CORRECT, Verdict.CORRECT, Verdict.INCORRECT]


def test_async_grading_leaves_the_event_loop_free(pool: GradePool) -> None:
    async def run() -> tuple[Grade, int]:
        slow = asyncio.create_task(pool.agrade("(u+v+w)^{60}", "$(u^2+v^2+w^2+2uv+2vw+2uw)^{30}$"))
        ticks = 0
        while not slow.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return await slow, ticks

    grade, ticks = asyncio.run(run())
    assert grade.reason == "timeout"
    assert ticks > 30


def test_threads_share_a_pool() -> None:
    results: dict[int, Verdict] = {}
    with GradePool(GradingConfig(workers=2)) as shared:

        def grade(number: int) -> None:
            gold, answer = f"x^2-{number**2}", f"(x-{number})(x+{number})"
            results[number] = shared.grade_answer(gold, answer).verdict

        threads = [threading.Thread(target=grade, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == dict.fromkeys(range(1, 9), Verdict.CORRECT)


def test_killed_workers_are_replaced() -> None:
    with GradePool(GradingConfig(deadline_seconds=20)) as own:
        before = _children()
        assert own.grade_answer("c^2-1", "(c-1)(c+1)").verdict is Verdict.CORRECT
        (worker,) = _children() - before
        os.kill(worker, signal.SIGKILL)  # idle: the pair is not to blame, so it is tried again
        assert own.grade_answer("c^2-4", "(c-2)(c+2)").verdict is Verdict.CORRECT
        (worker,) = {pid for pid in _children() - before if psutil.pid_exists(pid)}
        killer = threading.Timer(1.0, os.kill, (worker, signal.SIGKILL))
        killer.start()
        assert own.grade_answer(*SLOW).reason == "worker-died"
        killer.join()
        assert own.grade_answer("c^2-9", "(c-3)(c+3)").verdict is Verdict.CORRECT
        (worker,) = _children() - before
    assert not psutil.pid_exists(worker)


@pytest.mark.parametrize("is_busy", [False, True])
def test_no_worker_outlives_a_killed_parent(is_busy: bool) -> None:
    pair = SLOW if is_busy else ("k+m", "m+k")
    script = (
        "import psutil, sys, threading, time\n"
        "from grading.config import GradingConfig\n"
        "from grading.pool import GradePool\n"
        "pool = GradePool(GradingConfig(deadline_seconds=50))\n"
        "pool.grade_answer('q+r', 'r+2q')\n"
        f"threading.Thread(target=pool.grade_answer, args={pair!r}, daemon=True).start()\n"
        "time.sleep(0.3)\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "time.sleep(100)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs([worker], timeout=10)
    assert alive == []


def test_worker_does_not_import_torch_or_inherit_descriptors() -> None:
    with GradePool() as own, (ROOT / "pyproject.toml").open() as held:
        before = _children()
        os.set_inheritable(held.fileno(), True)
        own.grade_answer("g+h", "h+2g")
        (pid,) = _children() - before
        worker = psutil.Process(pid)
        assert not any("torch" in region.path for region in worker.memory_maps())
        assert [file.path for file in worker.open_files()] == []
        assert os.getsid(pid) == pid


def test_config_refuses_unknown_keys_and_version_names_the_profile() -> None:
    with pytest.raises(ValidationError, match="deadline"):
        GradingConfig.model_validate({"deadline": 3})
    with GradePool(GradingConfig(profile=GradingProfile.MATH)) as math_pool, GradePool() as plain:
        assert math_pool.version != plain.version
        assert math_pool.version.startswith("1-")


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}
