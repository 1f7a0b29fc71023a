"""The grader beside math-verify: right verdicts, time, and memory over 100,000 grades.

    .venv/bin/python -m bench.grading accuracy throughput math500 gsm8k soak

Parts (all five where none is named): `accuracy` on the case files, by kind and suite;
`throughput` of one process on the same realistic pairs, cold and with K=16 rollouts a
problem; `math500`, every gold against itself, re-spelt, and against other problems' golds;
`gsm8k`, agreement with published verdicts; `soak`, memory of pool and parent. Prints tables
and puts each part's figures into a JSON file, leaving the other parts there as they are.
"""

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script, this file would hide the package `grading`
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.grading_engines import Engine, EngineProcess, Result, time_rows
from bench.grading_material import (
    RESPELLINGS,
    Row,
    Shared,
    cold_pairs,
    repeated_pairs,
    same_pairs,
)
from bench.grading_soak import soak
from grading.config import GradingConfig, GradingProfile
from grading.pool import GradePool
from grading.verdict import Verdict
from grading.version import GRADER_VERSION

ROOT = Path(__file__).resolve().parents[1]
REFERENCE_SAMPLE = 2000
CROSS_PAIRS = 20
HOSTILE = "adv-"
OUTCOMES = ("right", "wrong =", "wrong ≠", "undecided")

console = Console(width=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--json", type=Path, default=ROOT / "bench" / "results" / "grading.json")
    parser.add_argument("--soak-grades", type=int, default=100_000)
    parser.add_argument("--without-math-verify", action="store_true")

    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for name in options.parts or PARTS:
        console.rule(name)
        figures = {"grader_version": GRADER_VERSION, **PARTS[name](options)}
        _write(options.json, name, figures)
    console.print(f"Figures: {options.json}")


def _write(path: Path, name: str, figures: dict[str, Any]) -> None:
    known = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**known, name: figures}, indent=1, ensure_ascii=False) + "\n")


def _engines(options: argparse.Namespace) -> tuple[Engine, ...]:
    return (Engine.STEPMARK,) if options.without_math_verify else tuple(Engine)


# -- accuracy -----------------------------------------------------------------------------


def accuracy(options: argparse.Namespace) -> dict[str, Any]:
    rows = Shared(options.shared).cases()
    figures: dict[str, Any] = {}
    results: dict[Engine, list[Result]] = {}
    for engine in _engines(options):
        with EngineProcess(engine) as process:
            results[engine] = [
                process.grade(row) for row in track(rows, engine, console=console, transient=True)
            ]
            figures[f"{engine} killed at 10 s"] = process.num_killed
    for contested in (False, True):
        name = "contested" if contested else "uncontested"
        chosen = [index for index, row in enumerate(rows) if row["contested"] is contested]
        figures[name] = _accuracy_table(name, rows, chosen, results)
    figures["not right"] = [
        {**_brief(rows[index]), "verdict": result["verdict"]}
        for index, result in enumerate(results[Engine.STEPMARK])
        if not rows[index]["contested"] and _outcome(rows[index], result) != "right"
    ]
    return figures


def _accuracy_table(
    title: str, rows: Sequence[Row], chosen: Iterable[int], results: dict[Engine, list[Result]]
) -> dict[str, dict[str, dict[str, int]]]:
    counts: dict[str, dict[Engine, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for index in chosen:
        row = rows[index]
        kinds = (row["kind"], "all cases") if "suite" not in row else (f"suite {row['suite']}",)
        hostile = row["kind"].startswith(HOSTILE)
        for kind in (*kinds, *(["hostile"] if hostile else ["plain"] if len(kinds) > 1 else [])):
            for engine, found in results.items():
                outcome = _outcome(row, found[index])
                counts[kind][engine][outcome] += 1
                counts[kind][engine]["not wrong ="] += outcome != "wrong ="
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("kind or suite", no_wrap=True)
    table.add_column("rows", justify="right")
    for engine in results:
        for number, column in enumerate(OUTCOMES):
            head = f"{'' if number else engine}\n{column}"
            table.add_column(head, justify="right", no_wrap=True)
    for kind in sorted(counts, key=lambda kind: (_rank(kind), kind)):
        cells = [str(sum(counts[kind][Engine.STEPMARK][name] for name in OUTCOMES))]
        for engine in results:
            cells += [str(counts[kind][engine][name]) for name in OUTCOMES]
        table.add_row(kind, *cells, style="bold" if _rank(kind) else "")
    console.print(table)
    for engine in results:
        hostile = counts["hostile"][engine]
        num_rows = sum(hostile[name] for name in OUTCOMES)
        console.print(
            f"{engine}: {hostile['not wrong =']} of {num_rows} hostile rows are not wrongly "
            "called correct."
        )
    return {
        kind: {engine.value: dict(found) for engine, found in by_engine.items()}
        for kind, by_engine in counts.items()
    }


def _rank(kind: str) -> int:
    return 2 if kind.startswith("suite") else int(kind in ("all cases", "plain", "hostile"))


def _outcome(row: Row, result: Result) -> str:
    verdict = result["verdict"]
    if verdict is None:
        return "undecided"
    if verdict is row["expected"]:
        return "right"
    return "wrong =" if verdict else "wrong ≠"


def _brief(row: Row) -> Row:
    return {"id": row["id"], "gold": row["gold"][:80], "prediction": row["prediction"][:120]}


# -- throughput ---------------------------------------------------------------------------


def throughput(options: argparse.Namespace) -> dict[str, Any]:
    shared = Shared(options.shared)
    cold = cold_pairs(shared)
    runs = {"cold": cold, "K=16": repeated_pairs(shared), "K=16, same texts": same_pairs(cold)}
    table = Table(title="One process", title_justify="left", title_style="bold")
    for column in ("pairs", "engine", "number", "pairs/s", "×", "p50 ms", "p99 ms", "max ms"):
        table.add_column(column, justify="left" if column in ("pairs", "engine") else "right")
    figures: dict[str, Any] = {}
    for name, rows in runs.items():
        speeds: dict[Engine, float] = {}
        for engine in reversed(_engines(options)):
            is_sample = engine is Engine.MATH_VERIFY and len(rows) > REFERENCE_SAMPLE
            timed = random.Random(2).sample(rows, REFERENCE_SAMPLE) if is_sample else rows
            found = _timing(timed, time_rows(engine, timed))
            speeds[engine] = found["pairs_per_second"]
            found["ratio"] = round(speeds[engine] / next(iter(speeds.values())), 1)
            figures[f"{name} {engine}"] = found
            table.add_row(
                name,
                f"{engine}{' (a sample)' * is_sample}",
                str(found["number"]),
                f"{speeds[engine]:,.0f}",
                f"{found['ratio']:,}",
                *(f"{found[f'{key}_ms']:,.3f}" for key in ("p50", "p99", "max")),
            )
    console.print(table)
    console.print(
        "Extraction included; the same pairs in fresh processes one after the other. "
        f"math-verify's K=16 figures are of random samples of {REFERENCE_SAMPLE}: it keeps nothing."
    )
    return figures


def _timing(rows: Sequence[Row], report: dict[str, Any]) -> dict[str, Any]:
    seconds = sorted(result["seconds"] for result in report["results"])
    by_source: dict[str, list[float]] = defaultdict(list)
    for row, result in zip(rows, report["results"], strict=True):
        by_source[row["source"]].append(result["seconds"])
    return {
        "number": len(rows),
        "pairs_per_second": round(len(rows) / report["seconds"], 1),
        "p50_ms": round(1000 * seconds[len(seconds) // 2], 4),
        "p99_ms": round(1000 * seconds[int(0.99 * len(seconds))], 3),
        "max_ms": round(1000 * seconds[-1], 2),
        "verdicts": Counter(str(result["verdict"]) for result in report["results"]),
        "by_source": {name: round(len(s) / sum(s), 1) for name, s in by_source.items()},
        "memory_mb": report["memory_mb"],
    }


# -- MATH-500 -----------------------------------------------------------------------------


def math500(options: argparse.Namespace) -> dict[str, Any]:
    golds = [row["answer"] for row in Shared(options.shared).math500()]
    generator = random.Random(3)
    figures: dict[str, Any] = {}
    with GradePool(GradingConfig(profile=GradingProfile.MATH)) as pool:
        for name, respell in {"itself": str, **RESPELLINGS}.items():
            pairs = [(gold, respell(gold)) for gold in golds]
            figures[name] = _failing(pool, pairs, Verdict.CORRECT)
        boxed = [(gold, pool.extract(f"Thus $\\boxed{{{gold}}}$.").answer) for gold in golds]
        figures["in a box"] = _failing(pool, boxed, Verdict.CORRECT)
        cross = [
            (gold, generator.choice(golds)) for gold in golds for _ in range(CROSS_PAIRS)
        ]  # fmt: skip
        cross = sorted({pair for pair in cross if pair[0] != pair[1]})
        figures["another's gold"] = _failing(pool, cross, Verdict.INCORRECT)
    table = Table(title="MATH-500 golds", title_justify="left", title_style="bold")
    for column in ("against", "pairs", *Verdict):
        table.add_column(column, justify="left" if column == "against" else "right")
    for name, found in figures.items():
        table.add_row(name, *(str(found[key]) for key in ("pairs", *Verdict)))
    console.print(table)
    _print_rows("Not correct, though the same answer", (
        [name, *pair] for name, found in figures.items() if name != "another's gold"
        for pair in found["not as expected"]
    ))  # fmt: skip
    _print_rows("Called correct: another problem's gold (check by hand)", (
        pair for pair in figures["another's gold"]["not as expected"] if pair[2] == "correct"
    ))  # fmt: skip
    return figures


def _failing(
    pool: GradePool, pairs: Sequence[tuple[str, str]], expected: Verdict
) -> dict[str, Any]:
    counts: Counter[Verdict] = Counter()
    failing: list[list[str]] = []
    for gold, answer in pairs:
        grade = pool.grade_answer(gold, answer)
        counts[grade.verdict] += 1
        if grade.verdict is not expected:
            failing.append([gold, answer, grade.verdict.value, grade.reason])
    verdicts = {verdict.value: counts[verdict] for verdict in Verdict}
    return {"pairs": len(pairs), **verdicts, "not as expected": failing}


def _print_rows(title: str, rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    for row in rows:
        table.add_row(*(repr(cell)[1:-1] for cell in row))
    if table.row_count:
        console.print(table)


# -- GSM8K --------------------------------------------------------------------------------


def gsm8k(options: argparse.Namespace) -> dict[str, Any]:
    rows = Shared(options.shared).gsm8k()
    disagreements: list[list[str]] = []
    with GradePool(GradingConfig(profile=GradingProfile.GSM8K)) as pool:
        requests = [(row["gold_answer"], row["solution"], False) for row in rows]
        for row, grade in zip(rows, pool.grade_many(requests), strict=True):
            published = Verdict.CORRECT if row["is_correct"] else Verdict.INCORRECT
            if grade.verdict is not published:
                disagreements.append(
                    [row["problem_id"], row["generator"], row["gold_answer"], grade.answer,
                     grade.verdict.value, grade.reason, published.value, row["solution"][-80:]]
                )  # fmt: skip
    console.print(f"{len(rows) - len(disagreements)} of {len(rows)} as published.")
    _print_rows("Disagreements", disagreements)
    return {"rows": len(rows), "disagreements": disagreements}


# -- memory -------------------------------------------------------------------------------


def memory(options: argparse.Namespace) -> dict[str, Any]:
    return soak(Shared(options.shared), options.soak_grades, console=console)


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "accuracy": accuracy,
    "throughput": throughput,
    "math500": math500,
    "gsm8k": gsm8k,
    "soak": memory,
}

if __name__ == "__main__":
    main()
