"""Peak memory of training against the number of labelled solutions.

    .venv/bin/python -m bench.train_memory --data ../shared/data/gsm8k_model_solutions.jsonl

Labels of real questions and solutions, each told apart by a number in its question, train a tiny
model for one epoch in a process of its own. VmHWM is what the process ever had in memory at once,
pages of the mapped file of encoded labels among it; RssAnon is what it holds itself at the end.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_TINY = {"hidden": 64, "layers": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="question, solution; jsonl")
    parser.add_argument("--sizes", default="2000,20000")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(train(options.run)))
        return
    rows = [json.loads(line) for line in options.data.open(encoding="utf-8")]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # /tmp may be memory
        base = make_base(Path(folder), rows)
        for size in map(int, options.sizes.split(",")):
            labels = Path(folder) / str(size)
            write_labels(labels, rows, size)
            (labels / "base").symlink_to(base)
            command = [sys.executable, "-m", "bench.train_memory", "--data", str(options.data)]
            done = subprocess.run(
                [*command, "--run", str(labels)], check=True, capture_output=True, text=True
            )
            print(done.stdout.strip())


def make_base(folder: Path, rows: list[dict[str, Any]]) -> Path:
    from transformers import LlamaForCausalLM

    from bench.packing import make_model, make_tokenizer

    make_tokenizer(rows).save_pretrained(folder / "base")
    LlamaForCausalLM(make_model(**_TINY).config).save_pretrained(folder / "base")
    return folder / "base"


def write_labels(folder: Path, rows: list[dict[str, Any]], size: int) -> None:
    """A thousand rows at a time: this process need not be large either."""
    folder.mkdir()
    writer = None
    for start in range(0, size, 1000):
        part = [_label(rows[i % len(rows)], i) for i in range(start, min(start + 1000, size))]
        table = pa.Table.from_pylist(part)
        writer = writer or pq.ParquetWriter(folder / "train-00000-of-00001.parquet", table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def _label(row: dict[str, Any], index: int) -> dict[str, Any]:
    from labeling.steps import StepMethod, split_steps

    steps = list(split_steps("\n" + row["solution"].strip(), StepMethod.NEWLINE))
    good = bool(row["is_correct"])
    return {
        "problem_id": str(index),
        "question": f"{index}. {row['question']}",
        "solution_id": str(index),
        "steps": steps,
        "num_correct": [8 * good] * len(steps),
        "num_incorrect": [8 * (not good)] * len(steps),
        "mc_value": [float(good)] * len(steps),
        "hard_label": [good] * len(steps),
    }


def train(labels: Path) -> dict[str, Any]:
    from train.config import TrainConfig
    from train.trainer import train_prm

    config = TrainConfig(base_model=str(labels / "base"), packing=True, batch_size=32)
    report = train_prm(labels, labels / "prm", config)
    status = Path("/proc/self/status").read_text()
    return {
        "solutions": report.num_solutions,
        "steps": report.num_steps,
        "updates": report.num_updates,
        "seconds": report.seconds,
        **{
            f"{name}_mib": int(re.findall(rf"{name}:\s+(\d+)", status)[0]) // 1024
            for name in ("VmHWM", "RssAnon")
        },
    }


if __name__ == "__main__":
    main()
