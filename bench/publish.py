"""How much of a dataset the second publish uploads, and how long making the files takes.

    python -m bench.publish [--problems N] [--compare] [--json FILE]

Labels with the texts of `../shared/data/gsm8k_model_solutions.jsonl`, their numbers and some of
their words replaced so that no two are alike, four solutions a problem. Then, against the first
publish, a second one of

- `grown`: 1 % more problems,
- `topped up`: 1 % of the rows, anywhere, with more rollouts in one of their steps,
- `both`.

Counted are the bytes that are not there already, by whole files (what LFS sends) and by chunks
(what the Hub's Xet storage sends). Chunks are cut as Xet does it: a gear hash over the last 64
bytes whose 16 highest bits are 0, at least 8 KiB and at most 128 KiB; only its table of random
numbers is another one. --compare adds other row groups, and rows in the order of the ids.
"""

import argparse
import copy
import hashlib
import json
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from grading.verdict import Verdict
from pipeline.records import LabeledSolution, Problem, StepLabel
from storage.hub_files import FOLDERS, write_hub_files
from storage.hub_rows import ROWS_A_GROUP
from storage.lock import dataset_lock
from storage.problem_table import write_problems
from storage.snapshots import write_snapshot
from storage.tables import labels_to_table

ROOT = Path(__file__).resolve().parents[1]
MATERIAL = ROOT.parent / "shared/data/gsm8k_model_solutions.jsonl"
SOLUTIONS_A_PROBLEM = 4
SHARE = 0.01
_MIN_CHUNK, _MAX_CHUNK, _WINDOW, _TOP_BITS = 8 << 10, 128 << 10, 64, 16
_GEAR = np.array(
    [int.from_bytes(hashlib.sha256(bytes([byte])).digest()[:8], "big") for byte in range(256)],
    dtype=np.uint64,
)
_ROWS_AT_ONCE = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=40_000)
    parser.add_argument("--material", type=Path, default=MATERIAL)
    parser.add_argument("--compare", action="store_true", help="Other layouts, too.")
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/publish.json")
    given = parser.parse_args()
    writer = Writer(given.material, seed=0)
    first = [one for index in range(given.problems) for one in writer.solutions(index)]
    more = range(given.problems, given.problems + round(SHARE * given.problems))
    new = [one for index in more for one in writer.solutions(index)]
    nights = {
        "grown": [*first, *new],
        "topped up": writer.topped_up(first),
        "both": writer.topped_up([*first, *new]),
    }
    layouts = {"as published": (False, ROWS_A_GROUP)}
    if given.compare:
        layouts |= {f"{rows:,} rows a group": (False, rows) for rows in (4096, 16_384, 65_536)}
        layouts |= {"in the order of ids": (True, ROWS_A_GROUP)}
    found = [
        row for name, layout in layouts.items() for row in measure(name, layout, first, nights)
    ]
    show(found)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure(
    name: str,
    layout: tuple[bool, int],
    first: list[LabeledSolution],
    nights: dict[str, list[LabeledSolution]],
) -> Iterator[dict[str, object]]:
    by_id, rows_a_group = layout
    with published(first, by_id=by_id, rows_a_group=rows_a_group) as (before, seconds):
        old_files = {_sha(file.read_bytes()) for file in before}
        old_chunks = {_sha(chunk) for file in before for chunk in chunks(file.read_bytes())}
        counts_share = share_of_counts([file for file in before if file.parent.name == "data"])
    for night, solutions in nights.items():
        with published(solutions, by_id=by_id, rows_a_group=rows_a_group) as (after, _):
            contents = [file.read_bytes() for file in after]
        total = sum(map(len, contents))
        whole = sum(len(content) for content in contents if _sha(content) not in old_files)
        cut = sum(new_bytes(content, old_chunks) for content in contents)
        yield {
            "layout": name,
            "night": night,
            "rows": len(solutions),
            "files": len(contents),
            "bytes": total,
            "share_by_files": whole / total,
            "share_by_chunks": cut / total,
            "share_of_counts": counts_share,
            "seconds_to_make_the_first": seconds,
        }


@contextmanager
def published(
    solutions: Sequence[LabeledSolution], *, by_id: bool, rows_a_group: int
) -> Iterator[tuple[list[Path], float]]:
    """The files that a publish would upload, and the seconds that it took to make them."""
    with tempfile.TemporaryDirectory() as folder:
        path, staging = Path(folder) / "dataset", Path(folder) / "staging"
        ordered = sorted(solutions, key=lambda one: one.problem.problem_id)
        with dataset_lock(path):
            write_problems(path, [one.problem for one in (ordered if by_id else solutions)][::4])
            write_snapshot(path, _tables(ordered), {"completer": "c"}, keep=1)
        started = time.perf_counter()
        write_hub_files(
            path, path / "snapshots" / "000001", staging,
            hard_threshold=0.0, rows_a_group=rows_a_group,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        names = tuple(FOLDERS.values())
        yield sorted(file for name in names for file in (staging / name).glob("*.parquet")), seconds


def chunks(content: bytes) -> Iterator[bytes]:
    """The content cut where its own bytes say so."""
    hashes = _GEAR[np.frombuffer(content, np.uint8)]
    width = 1
    while width < _WINDOW:  # the sum over twice as many bytes, of two sums
        shifted = np.zeros_like(hashes)
        shifted[width:] = hashes[:-width] << np.uint64(width)
        hashes = hashes + shifted
        width *= 2
    cuts = np.flatnonzero((hashes >> np.uint64(64 - _TOP_BITS)) == 0) + 1
    start = 0
    while start < len(content):
        latest = min(start + _MAX_CHUNK, len(content))
        at = np.searchsorted(cuts, start + _MIN_CHUNK)
        end = int(cuts[at]) if at < len(cuts) and cuts[at] < latest else latest
        yield content[start:end]
        start = end


def new_bytes(content: bytes, known: set[bytes]) -> int:
    """Of the chunks that are not known."""
    seen = copy.copy(known)
    found = 0
    for chunk in chunks(content):
        name = _sha(chunk)
        found += 0 if name in seen else len(chunk)
        seen.add(name)
    return found


def share_of_counts(files: Sequence[Path]) -> float:
    """The share of the bytes of the columns that a changed count changes."""
    of_counts = total = 0
    for file in files:
        metadata = pq.read_metadata(file)
        for group in range(metadata.num_row_groups):
            for index in range(metadata.num_columns):
                column = metadata.row_group(group).column(index)
                is_count = column.path_in_schema.startswith(
                    ("num_", "mc_", "interval", "hard", "first")
                )
                of_counts += column.total_compressed_size if is_count else 0
        total += file.stat().st_size
    return of_counts / total


class Writer:
    """Writes solutions of which no two are alike, with counts as K = 10–20 gives them."""

    def __init__(self, material: Path, *, seed: int) -> None:
        lines = material.read_text(encoding="utf-8").splitlines()
        self._rows = [json.loads(line) for line in lines]
        self._words = [word for row in self._rows for word in row["solution"].split()]
        self._random = random.Random(seed)

    def solutions(self, index: int) -> list[LabeledSolution]:
        row = self._random.choice(self._rows)
        question = self._varied(row["question"])
        name = hashlib.sha256(f"problem {index}".encode()).hexdigest()[:16]
        problem = Problem(name, question, str(self._random.randrange(999)), "openai/gsm8k", "train")
        return [self._solution(problem, row["solution"], n) for n in range(SOLUTIONS_A_PROBLEM)]

    def topped_up(self, solutions: list[LabeledSolution]) -> list[LabeledSolution]:
        changed = list(solutions)
        for index in self._random.sample(range(len(solutions)), round(SHARE * len(solutions))):
            labels = list(changed[index].labels)
            at = self._random.randrange(len(labels))
            old = labels[at]
            labels[at] = replace(
                old,
                num_rollouts=old.num_rollouts + 8,
                num_correct=old.num_correct + 5,
                num_incorrect=old.num_incorrect + 3,
            )
            changed[index] = replace(changed[index], labels=tuple(labels))
        return changed

    def _varied(self, text: str) -> str:
        text = re.sub(r"\d+", lambda _: str(self._random.randrange(1, 999)), text)
        words = text.split(" ")
        for _ in range(len(words) // 5):
            words[self._random.randrange(len(words))] = self._random.choice(self._words)
        return " ".join(words)

    def _solution(self, problem: Problem, text: str, number: int) -> LabeledSolution:
        lines = self._varied(text).split("\n")
        steps = tuple(line if at == 0 else f"\n{line}" for at, line in enumerate(lines))
        value, labels = self._random.random(), list[StepLabel]()
        for _ in steps[:-1]:
            value = min(1.0, max(0.0, self._random.gauss(value, 0.15)))
            labels.append(self._label(value))
        is_right = self._random.random() < value
        labels.append(StepLabel(1, 0, int(is_right), int(not is_right), 0, 0))
        verdict = Verdict.CORRECT if is_right else Verdict.INCORRECT
        name = f"{problem.problem_id}/0123456789abcdef/{number}"
        answer = str(self._random.randrange(999))
        return LabeledSolution(problem, name, steps, tuple(labels), answer, verdict)

    def _label(self, value: float) -> StepLabel:
        drawn = self._random.randrange(10, 21)
        correct = sum(self._random.random() < value for _ in range(drawn))
        undecided = sum(self._random.random() < 0.02 for _ in range(drawn - correct))
        incorrect = drawn - correct - undecided
        truncated = sum(self._random.random() < 0.05 for _ in range(incorrect))
        reused = self._random.randrange(drawn)
        return StepLabel(drawn, reused, correct, incorrect, undecided, truncated)


def _tables(rows: Sequence[LabeledSolution]) -> Iterator[tuple[str, pa.Table]]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[start : start + _ROWS_AT_ONCE]
        yield (
            "train",
            labels_to_table(
                part,
                completer="Qwen/Qwen2.5-7B-Instruct",
                generator="Qwen/Qwen2.5-7B-Instruct",
                sampling_digest="0123456789abcdef",
                grader_versions=["1.0"] * len(part),
                hard_threshold=0.0,
            ),
        )


def _sha(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def show(found: Sequence[dict[str, object]]) -> None:
    table = Table(title="Bytes that the second publish uploads, of all bytes")
    for name in ("layout", "night", "rows", "files", "MB", "by files (LFS)", "by chunks (Xet)"):
        table.add_column(name)
    for row in found:
        table.add_row(
            str(row["layout"]),
            str(row["night"]),
            f"{row['rows']:,}",
            str(row["files"]),
            f"{float(str(row['bytes'])) / 1e6:.1f}",
            f"{100 * float(str(row['share_by_files'])):.1f} %",
            f"{100 * float(str(row['share_by_chunks'])):.1f} %",
        )
    console = Console()
    console.print(table)
    counts, seconds = found[0]["share_of_counts"], found[0]["seconds_to_make_the_first"]
    console.print(
        f"Columns of counts are {100 * float(str(counts)):.1f} % of the labels' bytes; the first "
        f"files took {float(str(seconds)):.1f} s."
    )


if __name__ == "__main__":
    main()
