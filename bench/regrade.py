"""What regrading costs beside sampling: the same rollouts, drawn once and graded again.

    .venv/bin/python -m bench.regrade                     # some minutes on 2 cores
    .venv/bin/python -m bench.regrade --num-problems 100

The demo model on the CPU with the default policy labels some problems; then every stored
rollout is graded anew, because the grader's profile (and so its version) is another, and
back again. Sampling is the time with requests under way, of the longer of the two stages, so
rather too little; engine start is left out. Regrading is the whole pass: reading, prefixes,
grading, labels of what flipped, the new part. Not covered: a larger model, to which the
demo's cost is nothing, and answers that need the symbolic worker.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flows.ledger import CostLedger
from flows.regrade import regrade
from flows.roles import resolve_roles
from flows.run_config import RunConfig, check_config
from flows.stages import generate
from pipeline.samplers.sampler import SamplingStage
from storage.journal import read_rollouts
from storage.lock import dataset_lock

ROOT = Path(__file__).resolve().parents[1]
WANTED_RATIO = 100.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--num-problems", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/regrade.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stepmark-regrade-") as folder:
        figures = measure(Path(folder), options.num_problems, repeats=options.repeats)
    show(figures, Console(width=100))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"Figures: {options.json}")


def run_config(num_problems: int, profile: str) -> RunConfig:
    return check_config(
        {
            "problems": {"limit": num_problems},
            "engine": {"kind": "transformers"},
            "sampling": {"max_tokens": 160},
            "prompt": {"style": "plain"},
            "steps": {"method": "newline"},
            "grading": {"profile": profile},
        },
        origin="bench",
    )


def measure(out: Path, num_problems: int, *, repeats: int) -> dict[str, Any]:
    """Draw, then regrade to and fro; raises where a pass does not touch every rollout."""
    config = run_config(num_problems, "auto")
    generate(config, out, on_progress=lambda _: None)
    digest = resolve_roles(config).completer.digest
    ledger = CostLedger(out)
    stages = {stage: ledger.total(digest, stage) for stage in SamplingStage}
    rollouts = read_rollouts(out)
    passes: list[float] = []
    with dataset_lock(out):
        for number in range(repeats):
            other = run_config(num_problems, "auto" if number % 2 else "gsm8k")
            report = regrade(other, out, roles=resolve_roles(other))
            if report.num_regraded != len(rollouts):
                raise RuntimeError(f"{report.num_regraded} of {len(rollouts)} were regraded")
            passes.append(report.seconds)
    sampling, regrading = max(one.seconds for one in stages.values()), statistics.median(passes)
    return {
        "num_problems": num_problems,
        "num_rollouts": len(rollouts),
        "generated_tokens": sum(one.generated_tokens for one in stages.values()),
        "sampling_seconds": round(sampling, 3),
        "regrading_seconds": round(regrading, 4),
        "passes": [round(seconds, 4) for seconds in passes],
        "microseconds_a_rollout": round(1e6 * regrading / len(rollouts), 1),
        "ratio": round(sampling / regrading, 1),
        "is_enough": sampling / regrading >= WANTED_RATIO,
    }


def show(figures: dict[str, Any], console: Console) -> None:
    table = Table(title="Regrading beside sampling", title_justify="left", title_style="bold")
    for heading in ("", "seconds", "µs a rollout"):
        table.add_column(heading, justify="left" if not heading else "right")
    num = figures["num_rollouts"]
    for name in ("sampling", "regrading"):
        seconds = figures[f"{name}_seconds"]
        table.add_row(name, f"{seconds:,.3f}", f"{1e6 * seconds / num:,.0f}")
    console.print(table)
    console.print(
        f"{num:,} rollouts of {figures['num_problems']} problems, "
        f"{figures['generated_tokens']:,} tokens: regrading costs 1/{figures['ratio']:,.0f} of "
        f"sampling (wanted: 1/{WANTED_RATIO:.0f}); medians of {len(figures['passes'])} passes."
    )


if __name__ == "__main__":
    main()
