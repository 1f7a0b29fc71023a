"""Many grades, hostile ones among them, while the memory of pool and parent is watched.

A stream of distinct pairs: plain numbers, model texts, answers that need the symbolic tier,
and 3 % hostile ones (towers, nests, megabytes, injections, pairs that run into the deadline).
Memory is flat where neither the parent nor the workers grow over the second half by more
than `ALLOWED_MB`; workers may rise and be recycled, so of them it is the highest that counts.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from statistics import linear_regression
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from bench.grading_material import Row, Shared, cold_pairs
from grading.config import GradingConfig
from grading.pool import GradePool

CHECKPOINTS = 10
SAMPLES_BETWEEN = 20
ALLOWED_MB = 8.0


def soak(shared: Shared, num_grades: int, *, console: Console) -> dict[str, Any]:
    """Grade so many; the memory at each checkpoint, and whether it is flat."""
    stream = islice(requests(cold_pairs(shared)), num_grades)
    own = psutil.Process()
    every = max(1, num_grades // (CHECKPOINTS * SAMPLES_BETWEEN))
    samples: list[tuple[int, float, float]] = []
    slowest, verdicts, started = 0.0, Counter[str](), time.monotonic()
    with GradePool(GradingConfig()) as pool:
        for done, (gold, text) in enumerate(stream, start=1):
            begun = time.perf_counter()
            grade = pool.grade(gold, text)
            slowest = max(slowest, time.perf_counter() - begun)
            verdicts[f"{grade.verdict}, {grade.reason}"] += 1
            if done % every == 0:
                samples.append((done, _megabytes([own.pid]), _megabytes(pool.worker_pids)))
                if len(samples) % SAMPLES_BETWEEN == 0:
                    console.print(
                        f"{done:,} grades, {time.monotonic() - started:,.0f} s: parent "
                        f"{samples[-1][1]:.1f} MiB, workers "
                        f"{max(sample[2] for sample in samples[-SAMPLES_BETWEEN:]):.1f} MiB at most"
                    )
    figures = _flatness(samples)
    figures |= {
        "grades": num_grades,
        "seconds": round(time.monotonic() - started, 1),
        "slowest_seconds": round(slowest, 3),
        "verdicts": dict(verdicts.most_common()),
    }
    _show(figures, console)
    return figures


def _megabytes(pids: Sequence[int]) -> float:
    total = 0
    for pid in pids:
        try:
            total += psutil.Process(pid).memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


def _flatness(samples: Sequence[tuple[int, float, float]]) -> dict[str, Any]:
    """Growth over the second half, by a line through it; of the workers, between quarters."""
    half = samples[len(samples) // 2 :]
    slope, _ = linear_regression([done for done, _, _ in half], [parent for _, parent, _ in half])
    growth = slope * (half[-1][0] - half[0][0])
    middle = len(half) // 2
    third, fourth = (
        max(workers for _, _, workers in part) for part in (half[:middle], half[middle:])
    )
    return {
        "checkpoints": [
            {
                "grades": part[-1][0],
                "parent_mb": round(part[-1][1], 1),
                "workers_mb": round(part[-1][2], 1),
                "workers_highest_mb": round(max(workers for _, _, workers in part), 1),
            }
            for start in range(0, len(samples), SAMPLES_BETWEEN)
            if (part := samples[start : start + SAMPLES_BETWEEN])
        ],
        "parent_growth_second_half_mb": round(growth, 2),
        "workers_growth_of_highest_mb": round(fourth - third, 2),
        "is_flat": growth < ALLOWED_MB and fourth - third < ALLOWED_MB,
    }


def _show(figures: dict[str, Any], console: Console) -> None:
    table = Table(title="Resident memory, MiB", title_justify="left", title_style="bold")
    for column in ("grades", "parent", "workers", "workers, highest"):
        table.add_column(column, justify="right")
    for point in figures["checkpoints"]:
        table.add_row(f"{point['grades']:,}", *(str(value) for value in list(point.values())[1:]))
    console.print(table)
    console.print(
        f"{'Flat' if figures['is_flat'] else 'NOT FLAT'}: over the second half the parent grew by "
        f"{figures['parent_growth_second_half_mb']} MiB, the workers' highest by "
        f"{figures['workers_growth_of_highest_mb']} MiB. Slowest grade "
        f"{figures['slowest_seconds']} s."
    )
    console.print(figures["verdicts"])


# -- the stream -----------------------------------------------------------------------------


def requests(pairs: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Without end, deterministic: gold answer and text."""
    generator = random.Random(4)
    while True:
        draw = generator.random()
        if draw < 0.0003:
            yield _slow(generator)
        elif draw < 0.03:
            yield generator.choice(_HOSTILE)(generator)
        elif draw < 0.08:
            yield _symbolic(generator)
        elif draw < 0.4:
            pair = generator.choice(pairs)
            yield pair["gold"], f"Way {generator.randrange(10**9)}. {pair['prediction']}"
        else:
            gold, answer = generator.randrange(10**6), generator.randrange(10**6)
            yield str(gold), f"We add and find $\\boxed{{{answer}}}$, so {answer} it is."


def _symbolic(generator: random.Random) -> tuple[str, str]:
    a, b = generator.randrange(1, 10**4), generator.randrange(1, 10**4)
    right = a * b + generator.choice((0, 0, 1))
    return generator.choice(
        (
            (f"x^2+{a + b}x+{right}", f"\\boxed{{(x+{a})(x+{b})}}"),
            (f"\\sqrt{{{a}}}+\\sqrt{{{b}}}", f"\\boxed{{\\sqrt{{{a + b}+2\\sqrt{{{right}}}}}}}"),
            (f"\\ln {right}", f"\\boxed{{\\ln {a}+\\ln {b}}}"),
            (f"\\sin({a}t)\\cos({a}t)", f"\\boxed{{\\frac{{\\sin({2 * a}t)}}{{2}}}}"),
            (
                f"\\frac{{{a}}}{{1+\\sqrt{{{b}}}}}",
                f"\\boxed{{\\frac{{{a}(\\sqrt{{{b}}}-1)}}{{{b - 1}}}}}",
            ),
        )
    )


def _slow(generator: random.Random) -> tuple[str, str]:
    a, n = generator.randrange(2, 999), generator.randrange(30, 60)
    return (
        f"(\\sin x+{a}\\cos y+\\sqrt{{z}})^{{{2 * n}}}",
        f"\\boxed{{((\\sin x+{a}\\cos y)^2+2\\sqrt{{z}}(\\sin x+{a}\\cos y)+z)^{{{n}}}}}",
    )


def _boxed(answer: str) -> str:
    return f"\\boxed{{{answer}}}"


_HOSTILE: tuple[Callable[[random.Random], tuple[str, str]], ...] = (
    lambda g: (str(g.randrange(99)), _boxed(f"{g.randrange(2, 99)}^{{9^{{9^{{9}}}}}}")),
    lambda g: (str(g.randrange(99)), _boxed(f"(({g.randrange(9, 99)}!)!)!")),
    lambda g: (str(g.randrange(99)), _boxed("\\frac{1}{" * 300 + str(g.random()) + "}" * 300)),
    lambda g: (str(g.randrange(99)), "{" * 20_000 + str(g.random())),
    lambda g: (str(g.randrange(99)), _boxed("1" * g.randrange(1000, 100_000))),
    lambda g: (str(g.randrange(99)), _boxed(",".join(map(str, range(g.randrange(5000)))))),
    lambda g: ("1," * 500 + "1", _boxed("1," * 500 + str(g.random()))),
    lambda g: (str(g.randrange(99)), "\\boxed{" * 5_000 + str(g.random())),
    lambda g: (str(g.randrange(99)), _boxed(f"__import__('os').system('true {g.random()}')")),
    lambda g: (str(g.randrange(99)), _boxed(f"\\sum_{{k=1}}^{{10^{{{g.randrange(9, 99)}}}}} k^k")),
    lambda g: (str(g.randrange(99)), _boxed(f"\\binom{{10^{{{g.randrange(9, 99)}}}}}{{10^8}}")),
    lambda g: (str(g.randrange(99)), _boxed(f"(x+y+z)^{{{g.randrange(900, 9999)}}}-{g.random()}")),
    lambda g: (f"{g.random()} x^{{{g.randrange(99, 999)}}}", _boxed("(" * 39 + "x" + ")" * 39)),
    lambda g: (str(g.randrange(99)), "😀\u200b½√" * 2_000 + str(g.random())),
)
