import asyncio
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
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
from grading.worker_process import WorkerProcess

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


def test_a_pair_that_times_out_is_compared_three_times_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAND_IN_COMMAND", "sleep 60")
    gold, answer = open_pair()
    with GradePool(GradingConfig(deadline_seconds=0.5), worker_module=STAND_IN) as own:
        texts = [f"Way {number}: \\boxed{{{answer}}}" for number in range(16)]
        own.start()
        compared: list[str] = []
        compare = WorkerProcess.compare

        def counted(worker: WorkerProcess, gold: str, answer: str) -> Grade:
            compared.append(answer)
            return compare(worker, gold, answer)

        monkeypatch.setattr(WorkerProcess, "compare", counted)
        reasons = {grade.reason for grade in own.grade_many([(gold, t, False) for t in texts])}
        assert len(compared) == 3
        assert own.grade(gold, texts[0]).reason == "timeout"
    assert reasons == {"timeout"}


def test_a_pair_whose_worker_died_is_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, answer = open_pair()
    with GradePool(worker_module=STAND_IN) as own:
        monkeypatch.setenv("STAND_IN_COMMAND", "die")
        own.start()
        assert own.grade(gold, f"\\boxed{{{answer}}}").reason == "worker-died"
        monkeypatch.setenv("STAND_IN_COMMAND", "tell")
        own.grade_answer(f"{gold}+1", f"{answer}+1")  # the successor was started before
        assert own.grade(gold, f"\\boxed{{{answer}}}").verdict is Verdict.CORRECT


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGSTOP])
def test_a_grade_outlasts_what_happens_to_its_idle_worker(death: signal.Signals) -> None:
    gold, answer = open_pair()
    with GradePool(worker_module=STAND_IN) as own:
        own.grade_answer(f"{gold}+1", f"{answer}+1")
        os.kill(own.worker_pids[0], death)
        begun = time.monotonic()
        grade = asyncio.run(own.agrade(gold, f"\\boxed{{{answer}}}"))
        assert time.monotonic() - begun < 30  # no hang
    assert grade.reason in ("unproven", "timeout")  # the stand-in knows no mathematics


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


def test_an_interrupt_at_any_place_leaves_a_pool_that_closes_at_once() -> None:
    own = GradePool(worker_module=STAND_IN)
    with pytest.raises(KeyboardInterrupt), own._worker():
        raise KeyboardInterrupt
    own.start()
    (pid,) = own.worker_pids
    begun = time.monotonic()
    own.close()
    assert time.monotonic() - begun < 30  # no hang
    assert not psutil.pid_exists(pid)


def test_a_pool_that_is_dropped_ends_its_workers() -> None:
    own = GradePool(GradingConfig(workers=2), worker_module=STAND_IN)
    own.start()
    own.grade_answer(*open_pair())
    asyncio.run(own.agrade_all("7", [("so " * 2000 + "7", False)]))
    pids = own.worker_pids
    assert len(pids) == 2
    del own
    gc.collect()
    until = time.monotonic() + 20
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(psutil.pid_exists(pid) for pid in pids)


LEFT_OPEN = """
import os, sys
from grading.pool import GradePool
pool = GradePool(worker_module="tests.stand_in_worker")
pool.grade_answer(*sys.argv[1:])
pid = os.fork()
if pid == 0:
    sys.exit()  # with a copy of the pool, whose worker is not its own
_, status = os.waitpid(pid, 0)
assert status == 0
os.kill(*pool.worker_pids, 0)
print(*pool.worker_pids)
"""


def test_no_worker_outlives_the_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LEFT_OPEN, *open_pair()],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert not psutil.pid_exists(int(done.stdout))


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

    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder,
    ):
        warnings.simplefilter("ignore")  # Ray's own
        ray.init(
            address="local",  # never a cluster that runs already,
            _temp_dir=folder,  # nor one that others would find
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
