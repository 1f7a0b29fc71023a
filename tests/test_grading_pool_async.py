"""The pool under an event loop: batches, order, and a loop that stays free."""

import asyncio
from pathlib import Path

import pytest

from grading.config import GradingConfig
from grading.grade import compare_answers
from grading.pool import GradePool, GraderStartError
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


def test_several_completions_of_a_problem_are_graded_in_order() -> None:
    gold, answer = open_pair()
    texts = [
        (f"so \\boxed{{{answer}}}", False),
        (f"so \\boxed{{{gold}}}", False),
        ("so it is", True),
        ("x " * 4000 + f"\\boxed{{{gold}}}", False),
    ]
    with GradePool() as own:
        grades = asyncio.run(own.agrade_all(gold, texts))
        alone = [own.grade(gold, text, is_truncated=cut_off) for text, cut_off in texts]
        assert asyncio.run(own.agrade_all(gold, [])) == []
    assert grades == alone
    assert grades[1].verdict is grades[3].verdict is Verdict.CORRECT
    assert grades[2].verdict is Verdict.INCORRECT


def test_only_short_pairs_are_graded_on_the_event_loop() -> None:
    long_list = ", ".join(map(str, range(150)))
    cases = {
        "short": ("7", "so 7"),
        "long gold": (long_list, "so 7"),
        "long answer": ("7", f"\\boxed{{{long_list}}}"),
        "long text": ("7", "so " * 2000 + "7"),
    }

    async def run(own: GradePool) -> dict[str, tuple[bool, Grade]]:
        found: dict[str, tuple[bool, Grade]] = {}
        for name, (gold, text) in cases.items():
            task = asyncio.create_task(own.agrade(gold, text))
            await asyncio.sleep(0)
            found[name] = task.done(), await task
        return found

    with GradePool() as own:
        found = asyncio.run(run(own))
        assert {name for name, (is_done, _) in found.items() if is_done} == {"short"}
        for name, (gold, text) in cases.items():
            assert found[name][1] == own.grade(gold, text)


def test_a_long_batch_lets_other_tasks_run() -> None:
    texts = [(f"It is {number}. So {number + number % 2}", False) for number in range(3000)]

    async def run(own: GradePool) -> tuple[list[Grade], int]:
        batch = asyncio.create_task(own.agrade_all("8", texts))
        turns = 0
        while not batch.done():
            await asyncio.sleep(0)
            turns += 1
        return await batch, turns

    with GradePool() as own:
        grades, turns = asyncio.run(run(own))
    assert [index for index, grade in enumerate(grades) if grade.verdict is Verdict.CORRECT] == [
        7,
        8,
    ]
    assert turns > 3


def test_a_batch_with_one_slow_pair_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_COMMAND", "sleep 60")
    gold, answer = open_pair()
    texts = [f"\\boxed{{{gold}}}", f"\\boxed{{{answer}}}", "so it", f"\\boxed{{{gold}}}."]
    with GradePool(GradingConfig(deadline_seconds=0.3), worker_module=STAND_IN) as own:
        grades = asyncio.run(own.agrade_all(gold, [(text, True) for text in texts]))
    assert [grade.reason for grade in grades] == ["text", "timeout", "no-answer", "text"]


def test_a_failure_to_start_leaves_a_batch() -> None:
    gold, answer = open_pair()
    with (
        GradePool(worker_module="grading.no_such_module") as own,
        pytest.raises(GraderStartError, match="did not start"),
    ):
        asyncio.run(own.agrade_all(gold, [("so 3", False), (f"\\boxed{{{answer}}}", False)]))


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
