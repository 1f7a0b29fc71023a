import asyncio
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from grading.config import GradingConfig, GradingProfile
from grading.grade import compare_answers
from grading.pool import GradePool
from grading.verdict import Grade, Verdict

ROOT = Path(__file__).resolve().parents[1]
STAND_IN = "tests.stand_in_worker"
OPEN_CANDIDATES = [
    (r"\sqrt{7+4\sqrt{3}}", r"2+\sqrt{3}"),
    (r"\sin^2 t+\cos^2 t+\ln 6", r"1+\ln 2+\ln 3"),
    (r"\sqrt[3]{2+\sqrt{5}}+\sqrt[3]{2-\sqrt{5}}+\ln x", r"1+\ln x"),
    (r"\sum_{k=1}^{n} k^2", r"\frac{n(n+1)(2n+1)}{6}"),
    (r"\arctan 1+\sin(2u)", r"\frac{\pi}{4}+2\sin u\cos u"),
]


def open_pair() -> tuple[str, str]:
    """A pair that the fast tier leaves to a worker."""
    return next(pair for pair in OPEN_CANDIDATES if compare_answers(*pair) is None)


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
    (r"\frac{\pi}{2}", "1.5717", Verdict.INCORRECT),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[GradePool]:
    with GradePool(GradingConfig(deadline_seconds=1.5)) as started:
        yield started


@pytest.mark.parametrize(("gold", "answer", "verdict"), SYMBOLIC)
def test_symbolic_verdicts(pool: GradePool, gold: str, answer: str, verdict: Verdict) -> None:
    assert pool.grade_answer(gold, answer).verdict is verdict


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
    text = "so 3*4 = 12\n#### 12"
    assert pool.grade("12", text) == Grade(Verdict.CORRECT, "text", "12")
    assert pool.grade("12", text) == Grade(Verdict.CORRECT, "text", "12")
    assert pool.grade("13", text).verdict is Verdict.INCORRECT
    assert pool.grade("12", "and then 12").verdict is Verdict.CORRECT
    assert pool.grade("12", "and then 12", is_truncated=True).reason == "no-answer"


def test_many_keeps_the_order_and_reads_only_some_way_ahead() -> None:
    gold, answer = open_pair()
    taken = 0

    def requests() -> Iterator[tuple[str, str, bool]]:
        nonlocal taken
        yield gold, f"$\\boxed{{{answer}}}$", False
        for number in itertools.count():
            taken = number
            yield str(number), f"\\boxed{{{number + number % 2}}}", False

    with GradePool() as own:
        grades = own.grade_many(requests())
        verdicts = [next(grades).verdict for _ in range(2001)]
        assert taken < 2500
        grades.close()
    assert verdicts == [Verdict.CORRECT] + [Verdict.CORRECT, Verdict.INCORRECT] * 1000
    with GradePool() as own:
        assert list(own.grade_many([])) == []


def test_async_grading_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_COMMAND", "sleep 60")
    gold, answer = open_pair()

    async def run(own: GradePool) -> tuple[Grade, int]:
        slow = asyncio.create_task(own.agrade(gold, f"$\\boxed{{{answer}}}$"))
        ticks = 0
        while not slow.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return await slow, ticks

    with GradePool(GradingConfig(deadline_seconds=1), worker_module=STAND_IN) as own:
        grade, ticks = asyncio.run(run(own))
        assert grade.reason == "timeout"
        assert ticks > 20
        assert asyncio.run(own.agrade("3", "so 3")).verdict is Verdict.CORRECT  # another loop


def test_many_tasks_wait_outside_the_threads_queue() -> None:
    gold, answer = open_pair()

    async def run(own: GradePool) -> tuple[list[Grade], int]:
        tasks = [
            asyncio.create_task(own.agrade(gold, f"{number}: \\boxed{{{answer} + {number} }}"))
            for number in range(200)
        ]
        queued = 0
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            queued = max(queued, own._threads._work_queue.qsize())
        return [task.result() for task in tasks], queued

    with GradePool(GradingConfig(workers=2), worker_module=STAND_IN) as own:
        grades, queued = asyncio.run(run(own))
    assert len(grades) == 200
    assert queued <= 2


def test_equal_requests_at_the_same_time_are_compared_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAND_IN_COMMAND", "sleep 60")
    gold, answer = open_pair()
    with GradePool(GradingConfig(deadline_seconds=1), worker_module=STAND_IN) as own:
        texts = [f"Way {number}: \\boxed{{{answer}}}" for number in range(16)]
        begun = time.monotonic()
        reasons = {grade.reason for grade in own.grade_many([(gold, t, False) for t in texts])}
        assert time.monotonic() - begun < 10
    assert reasons == {"timeout"}


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


def test_a_closed_pool_says_so_instead_of_waiting() -> None:
    own = GradePool(GradingConfig(cache_size=0), worker_module=STAND_IN)
    own.grade_answer(*open_pair())
    (pid,) = own.worker_pids
    own.close()
    own.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(RuntimeError, match="closed"):
        own.grade_answer(*open_pair())


def test_a_pool_cannot_be_pickled() -> None:
    with GradePool() as own, pytest.raises(TypeError, match=r"make GradePool\(config\) in"):
        pickle.dumps(own)


FORKED = """
import os, sys, threading
from grading.pool import GradePool
gold, answer = sys.argv[1:]
pool = GradePool()
parent_grade = pool.grade_answer(gold, answer)
(parent_worker,) = pool.worker_pids
holder = pool._turns_lock
holder.acquire()  # as a thread of the parent may at that moment
pid = os.fork()
if pid == 0:
    own_grade = pool.grade_answer(gold, answer)
    ok = own_grade == parent_grade and pool.worker_pids != (parent_worker,)
    pool.close()
    os._exit(0 if ok else 1)
holder.release()
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0
assert pool.grade_answer(gold + "+1", answer + "+1").verdict == parent_grade.verdict
assert pool.worker_pids == (parent_worker,)
pool.close()
"""


def test_after_a_fork_the_new_process_has_workers_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKED, *open_pair()],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_worker_does_not_import_torch_or_inherit_descriptors() -> None:
    with GradePool() as own, (ROOT / "pyproject.toml").open() as held:
        before = _children()
        os.set_inheritable(held.fileno(), True)
        own.grade_answer(*open_pair())
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
        assert math_pool.version.startswith("2-")


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


@pytest.mark.ray
@pytest.mark.timeout(200)
def test_ray_actors_make_pools_of_their_own() -> None:
    """A worker of the pool inside a worker of Ray; both are gone with the actor."""
    import ray

    pair = open_pair()

    class Grader:
        def __init__(self, config: GradingConfig) -> None:
            self.pool = GradePool(config)

        def grade(self, gold: str, text: str) -> tuple[str, tuple[int, ...]]:
            return self.pool.grade(gold, text).verdict.value, self.pool.worker_pids

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
        )
        try:
            actor = ray.remote(Grader).remote(GradingConfig(profile=GradingProfile.MATH))
            verdict, pids = ray.get(actor.grade.remote(pair[0], f"So $\\boxed{{{pair[1]}}}$"))
            assert (verdict, len(pids)) == ("correct", 1)
            assert ray.get(actor.grade.remote("7", "It is 8."))[0] == "incorrect"
            worker = psutil.Process(pids[0])
            ray.kill(actor)
            _, alive = psutil.wait_procs([worker], timeout=20)
            assert alive == []
        finally:
            ray.shutdown()
