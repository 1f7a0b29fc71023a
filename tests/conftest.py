"""For all tests: no timed property tests, and, on request, a skip is a failure.

CI sets `STEPMARK_NO_SKIP` for its run of the real components.
"""

import os
import signal
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import settings

settings.register_profile("stepmark", deadline=None)  # a busy machine is slow
settings.load_profile("stepmark")

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

NO_SKIP = bool(os.environ.get("STEPMARK_NO_SKIP"))


@pytest.fixture(autouse=True)
def sigint_interrupts() -> None:
    """However the shell started us and whatever ran before: tests interrupt themselves."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _failed_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _failed_if_skipped((yield))


def _failed_if_skipped(report: Report) -> Report:
    if NO_SKIP and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where a skip is a failure: {report.longrepr}"
    return report
