"""A grading pool inside real Prefect tasks, in threads and in an event loop."""

import warnings

import pytest

from grading.config import GradingConfig
from grading.pool import GradePool

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300), pytest.mark.xdist_group("prefect")]

GOLD, ANSWER = r"\sqrt{7+4\sqrt{3}}", r"2+\sqrt{3}"


def test_tasks_share_a_pool_of_their_flow() -> None:
    from prefect import flow, task
    from prefect.testing.utilities import prefect_test_harness

    with GradePool(GradingConfig(workers=2, deadline_seconds=30)) as pool:

        @task
        def grade(number: int) -> str:
            return pool.grade(GOLD, f"Way {number}: \\boxed{{{ANSWER}}}").verdict.value

        @task
        async def agrade(number: int) -> str:
            return (await pool.agrade(str(number), f"It is {number}.")).verdict.value

        @flow
        def grades() -> list[str]:
            started = [one.submit(number) for number in range(4) for one in (grade, agrade)]
            return [one.result() for one in started]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Prefect's own
            with prefect_test_harness():
                assert grades() == ["correct"] * 8
