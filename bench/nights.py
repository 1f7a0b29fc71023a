"""Nights on one dataset with the demo model: what each one draws, grades anew and changes.

    .venv/bin/python -m bench.nights               # some minutes on 2 cores

1. all problems are new; 2. some are added, one question is reworded, one gold answer is
another, one problem is gone; 3. another grader (its profile is part of its version); 4. and
on: a budget for the widest intervals, until there is nothing to do. Each night runs in a
process of its own, as `stepmark generate` does: the seconds are those of the command, and
those of its start-up (imports, tokenizer) are measured apart by `stepmark plan`, which
samples nothing either.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flows.ledger import CostLedger
from pipeline.demo.problems import demo_problem
from storage.dataset import read_labels, read_manifest
from storage.snapshots import list_snapshots

ROOT = Path(__file__).resolve().parents[1]
TOP_UP_MAX_ROLLOUTS = 25
"""A prefix: enough to see it, few enough to come to its end."""
CONFIG = """
[problems]
source = "{source}"
id_column = "id"
[engine]
kind = "transformers"
[sampling]
max_tokens = 160
[prompt]
style = "plain"
[steps]
method = "newline"
"""


@dataclass(frozen=True, slots=True)
class Night:
    """What a night was given, spent and changed. Labels are those of steps."""

    name: str
    seconds: float
    rollouts: int
    generated_tokens: int
    top_up_tokens: int
    regraded: int
    verdict_flips: int
    num_snapshots: int
    labels: int
    labels_added: int
    labels_removed: int
    labels_changed: int


@dataclass
class Source:
    """The file of problems, as it is tonight."""

    file: Path
    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, first: int, last: int) -> None:
        for index in range(first, last):
            made = demo_problem("train", index)
            self.rows[made.problem_id] = {"question": made.question, "answer": made.gold_answer}

    def change_some(self) -> None:
        reworded, other_gold, gone = sorted(self.rows)[:3]
        question = self.rows[reworded]["question"]
        self.rows[reworded]["question"] = question.replace(" How many", " So how many")
        answer = int(self.rows[other_gold]["answer"])
        self.rows[other_gold]["answer"] = str(answer + 1)
        del self.rows[gone]

    def write(self) -> None:
        rows = ({"id": name, **row} for name, row in self.rows.items())
        self.file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--num-problems", type=int, default=16)
    parser.add_argument("--top-up-tokens", type=int, default=8_000)
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/nights.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stepmark-nights-") as folder:
        nights, start_up = measure(Path(folder), options.num_problems, options.top_up_tokens)
    show(nights, start_up, Console(width=130))
    figures = {"nights": [asdict(night) for night in nights], "start_up_seconds": start_up}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"Figures: {options.json}")


def measure(folder: Path, num_problems: int, top_up_tokens: int) -> tuple[list[Night], float]:
    source, out = Source(folder / "problems.jsonl"), folder / "dataset"
    config = folder / "run.toml"
    config.write_text(CONFIG.format(source=source.file))
    source.add(0, num_problems)
    nights = [_night("all new", source, config, out)]
    source.add(num_problems, num_problems + max(1, num_problems // 8))
    source.change_some()
    nights.append(_night("new and changed", source, config, out))
    grader = ["--set", "grading.profile=gsm8k"]
    nights.append(_night("another grader", source, config, out, *grader))
    top_up = [
        *grader,
        *("--set", f"refresh.top_up_tokens={top_up_tokens}"),
        *("--set", f"refresh.top_up_max_rollouts={TOP_UP_MAX_ROLLOUTS}"),
    ]
    while nights[-1].name == "another grader" or nights[-1].rollouts:
        nights.append(_night(f"top-up: {top_up_tokens:,} tokens", source, config, out, *top_up))
    started = time.monotonic()
    _stepmark("plan", config, out, *top_up)
    return nights, round(time.monotonic() - started, 2)


def _night(name: str, source: Source, config: Path, out: Path, *more: str) -> Night:
    source.write()
    before = _labels(out)
    started = time.monotonic()
    _stepmark("generate", config, out, *more)
    seconds = time.monotonic() - started
    after, run = _labels(out), CostLedger(out).last_run
    regraded: dict[str, Any] = run.regraded or {"rollouts": 0, "verdict_flips": {}}
    return Night(
        name=name,
        seconds=round(seconds, 2),
        rollouts=run.rollouts,
        generated_tokens=run.generated_tokens,
        top_up_tokens=run.top_up_tokens,
        regraded=regraded["rollouts"],
        verdict_flips=sum(regraded["verdict_flips"].values()),
        num_snapshots=len(list_snapshots(out)),
        labels=len(after),
        labels_added=len(after.keys() - before.keys()),
        labels_removed=len(before.keys() - after.keys()),
        labels_changed=sum(before[key] != after[key] for key in before.keys() & after.keys()),
    )


def _labels(out: Path) -> dict[tuple[str, int], object]:
    if not read_manifest(out):
        return {}
    return {
        (solution.solution_id, step_index): label
        for solution in read_labels(out)
        for step_index, label in enumerate(solution.labels)
    }


def _stepmark(command: str, config: Path, out: Path, *more: str) -> None:
    subprocess.run(
        [
            sys.executable, "-c", "from flows.cli import main; main()", command,
            "--config", str(config), "--out", str(out), *more,
        ],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        env={"OMP_NUM_THREADS": "1", **os.environ},
    )  # fmt: skip


def show(nights: list[Night], start_up: float, console: Console) -> None:
    table = Table(title="Nights", title_justify="left", title_style="bold")
    columns = (
        "night", "seconds", "rollouts", "tokens", "top-up", "regraded", "flips", "snapshots",
        "labels", "added", "removed", "changed",
    )  # fmt: skip
    for heading in columns:
        table.add_column(heading, justify="left" if heading == "night" else "right")
    for night in nights:
        name, *figures = asdict(night).values()
        table.add_row(name, *(f"{value:,}" for value in figures))
    console.print(table)
    console.print(f"`stepmark plan`, which loads the same and samples nothing: {start_up:.1f} s.")


if __name__ == "__main__":
    main()
