"""What a run says while it goes: lines off a terminal, a bar on one, and the time left."""

import io

from rich.console import Console

from flows.progress import Pace, counting_progress, sampling_progress
from flows.sampling import Progress


def a_file() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, width=80, force_terminal=False), stream


def report(done: int, rollouts: int, seconds: float, *, total: int = 400) -> Progress:
    return Progress(done, total, rollouts, 100 * rollouts, seconds)


def test_off_a_terminal_a_line_says_what_is_drawn_before_a_problem_is_done() -> None:
    console, stream = a_file()
    with sampling_progress("labelling", console=console, seconds_between_lines=0) as update:
        update(report(0, 1234, 10.0))
    assert stream.getvalue() == (
        "labelling: 0 of 400 problems, 1,234 rollouts, 123,400 tokens (12,340/s)\n"
    )


def test_a_command_that_is_soon_done_prints_no_line() -> None:
    console, stream = a_file()
    with sampling_progress("labelling", console=console) as update:
        update(report(0, 1, 1.0))
        update(report(400, 9, 2.0))
    with counting_progress("grading", console=console) as count:
        count(1, 2)
        count(2, 2)
    assert stream.getvalue() == ""


def test_the_time_left_is_measured_on_what_this_run_finished() -> None:
    pace = Pace()

    def left(done: int, rollouts: int, seconds: float) -> float | None:
        return pace.seconds_left(report(done, rollouts, seconds))

    assert left(200, 0, 1.0) is None
    assert left(200, 0, 100.0) is None  # the engine took 99 s to start
    assert left(209, 900, 130.0) is None  # fewer than one in twenty of the 200 that were open
    assert left(220, 1900, 140.0) == 40.0 * 180 / 20  # the 200 stored ones are no measure
    assert left(400, 9000, 400.0) == 0.0
    assert left(0, 9000, 401.0) is None  # the completer begins
    assert left(100, 9900, 421.0) == 20.0 * 300 / 100


def test_few_problems_tell_no_time() -> None:
    pace = Pace()
    told = [pace.seconds_left(report(n, 10 * n, float(n), total=10)) for n in range(7)]
    assert told == [None] * 5 + [5.0, 4.0]


def test_counts_have_a_line_with_the_time_left() -> None:
    console, stream = a_file()
    with counting_progress("training", unit="updates", console=console,
                           seconds_between_lines=0) as update:  # fmt: skip
        update(1, 100)
        update(50, 100)
        update(100, 100)
    assert stream.getvalue().splitlines() == [
        "training: 1 of 100 updates",
        "training: 50 of 100 updates, under 1 min left",
        "training: 100 of 100 updates",
    ]


def test_on_a_terminal_a_bar_shows_rollouts_and_no_lines() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True, color_system=None)
    with sampling_progress("labelling", console=console, seconds_between_lines=0) as update:
        update(report(0, 1234, 10.0))
    shown = stream.getvalue()
    assert "0/400" in shown
    assert "1,234 rollouts, 123,400 tokens (12,340/s)" in shown
    assert "labelling: " not in shown
