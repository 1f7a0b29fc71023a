"""What a label costs and how true it is, by policy, replayed from recorded rollouts.

    .venv/bin/python -m bench.label_efficiency              # tables in about a minute
    .venv/bin/python -m bench.label_efficiency --sweep      # settings of `adaptive`
    .venv/bin/python -m bench.label_efficiency --make-pool  # remake the pool: a quarter of an hour

The pool holds 256 rollouts of the demo model for each of 620 prefixes (60 problems × 4
solutions; `bench/data/label_pool.parquet`). Every policy runs as it is (`labeling.allocate` on
`labeling.tree`) with rollouts drawn from it, many seeds. Truth is the share of correct among
a prefix's pooled rollouts and its ancestors' that pass through it; figures are means over
labels, so a prefix counts once for every solution that has it. Baseline, in the same run:
fixed K = 16 without reuse, every solution paying for its own prefixes.

Not covered: other models and texts, where prefixes are shared less; seconds (prefix caches).
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.label_figures import BANDS, Replays, figures
from bench.label_pool import PooledProblem, Truth, make_pool, read_pool, truth_of
from bench.label_replay import Stream, replay, true_first_errors
from grading.verdict import Verdict
from labeling.policies.config import AllocationConfig, AllocationPolicy, BudgetConfig

ROOT = Path(__file__).resolve().parents[1]
BASELINE = "fixed 16, textbook"
SHARED = "fixed 16, shared"
LIMIT = "limit: fixed 16 again, other seeds"
DEFAULT = "adaptive, reuse (default)"
K = 16
OTHER_STREAMS = 1_000_000

console = Console(width=130)

Figures = dict[str, dict[str, float | None]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pool", type=Path, default=ROOT / "bench/data/label_pool.parquet")
    parser.add_argument(
        "--make-pool", action="store_true", help="remake --pool with the demo model"
    )
    parser.add_argument(
        "--from-dataset", type=Path, help="with --make-pool: a finished run's folder"
    )
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument(
        "--sweep", action="store_true", help="settings of adaptive, beside the rest"
    )
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/label_efficiency.json")
    options = parser.parse_args()
    if options.make_pool:
        make_pool(options.pool, dataset=options.from_dataset)
        console.print(f"Pool: {options.pool}, {options.pool.stat().st_size / 1e3:.0f} kB")
        return
    pool = read_pool(options.pool)
    bench = Bench(pool, truth_of(pool), options.seeds)
    results = {
        "pool": bench.describe(),
        "policies": bench.policies(),
        "first_error": bench.first_error(),
        "sweep": bench.sweep() if options.sweep else {},
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    console.print(f"Figures: {options.json}")


class Bench:
    """The pool, its truth, the seeds' streams, and the baselines that all is measured by."""

    def __init__(self, pool: Sequence[PooledProblem], truth: Truth, num_seeds: int) -> None:
        self.pool, self.truth = pool, truth
        self.streams = [Stream(pool, seed) for seed in range(num_seeds)]
        self.others = [Stream(pool, OTHER_STREAMS + seed) for seed in range(num_seeds)]
        textbook = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=K, reuse=False)
        self.baseline = self.run(BASELINE, textbook, is_shared=False)
        self.other = self.run(BASELINE, textbook, streams=self.others, is_shared=False)

    def run(
        self,
        name: str,
        config: AllocationConfig,
        *,
        streams: Sequence[Stream] | None = None,
        is_shared: bool = True,
        token_budget: int | None = None,
    ) -> Replays:
        runs = tuple(
            replay(self.pool, config, stream, token_budget=token_budget)
            for stream in streams or self.streams
        )
        paid = np.ones_like(self.truth.multiplicity) if is_shared else self.truth.multiplicity
        tokens = float(np.mean([(run.num_tokens * paid).sum() for run in runs]))
        return Replays(name, config, runs, tokens)

    def figures(self, replays: Replays) -> Figures:
        return figures(replays, self.baseline, self.other, self.truth)

    def describe(self) -> dict[str, float]:
        solutions = [one for pooled in self.pool for one in pooled.solutions]
        described: dict[str, float] = {
            "problems": len(self.pool),
            "solutions": len(solutions),
            "solutions right": sum(one.verdict is Verdict.CORRECT for one in solutions),
            "prefixes": len(self.truth.prefix_ids),
            "labels (proper prefixes of solutions)": int(self.truth.multiplicity.sum()),
            "rollouts": sum(len(own) for pooled in self.pool for own in pooled.rollouts.values()),
            "share of labels with true value 0": _share(self.truth, self.truth.pooled == 0),
            "share of labels with true value 1": _share(self.truth, self.truth.pooled == 1),
            "seeds": len(self.streams),
        }
        table = Table("pool", "", title="What is replayed", title_justify="left")
        for name, number in described.items():
            table.add_row(name, f"{number:,.3g}" if isinstance(number, float) else f"{number:,}")
        console.print(table)
        return described

    def policies(self) -> dict[str, Figures]:
        fixed = AllocationConfig(policy=AllocationPolicy.FIXED, num_rollouts=K)
        success = AllocationConfig(policy=AllocationPolicy.FIRST_SUCCESS, num_rollouts=K)
        default = self.run(DEFAULT, AllocationConfig())
        budget = round(default.tokens)
        widest = AllocationConfig(
            policy=AllocationPolicy.UNCERTAIN_FIRST, budget=BudgetConfig(tokens=budget)
        )
        found = {
            one.name: self.figures(one)
            for one in (
                self.baseline,
                self.run(SHARED, _textbook(fixed)),
                self.run("fixed 16, reuse", fixed),
                self.run("adaptive, shared", _textbook(AllocationConfig())),
                default,
                self.run("uncertain-first, reuse", widest, token_budget=budget),
                self.run("first-success, shared", _textbook(success)),
                self.run("first-success, reuse", success),
            )
        }
        limit = self.figures(self.other)
        found[LIMIT] = limit
        rows = {name: one["all"] for name, one in found.items()}
        _print(_ERROR_COLUMNS, rows, "What a label costs, and its error")
        _print(_RMSE_COLUMNS, rows, "RMSE ÷ that of fixed 16 on the same seeds")
        _print(_TRUST_COLUMNS, rows, "Coverage of the 95 % interval; equal hard labels")
        for name in (BASELINE, DEFAULT):
            by_band = {band: found[name][band] for band in BANDS}
            _print(_BAND_COLUMNS, by_band, f"{name}: error by true value")
            _print(_TRUST_COLUMNS, by_band, f"{name}: coverage and hard labels by true value")
        return found

    def sweep(self) -> dict[str, Figures]:
        found: dict[str, Figures] = {}
        for low, high, increment, width in _SWEEP:
            config = AllocationConfig(
                min_rollouts=low,
                max_rollouts=high,
                increment=increment,
                max_interval_width=width,
            )
            name = f"{low} to {high} by {increment}, width {width}"
            found[name] = self.figures(self.run(name, config))
        rows = {name: one["all"] for name, one in found.items()}
        _print(_ERROR_COLUMNS, rows, "Settings of adaptive, reuse")
        _print(_RMSE_COLUMNS | _TRUST_COLUMNS, rows, "Settings of adaptive, reuse", width=170)
        return found

    def first_error(self) -> dict[str, dict[str, float | None]]:
        """What is paid for the prefixes of wrong solutions; a textbook pays one a solution."""
        search = AllocationConfig(policy=AllocationPolicy.FIRST_ERROR, num_rollouts=K)
        fixed = self.run(SHARED, self.baseline.config)
        truth = true_first_errors(self.pool, self.truth)
        in_wrong = self._num_wrong_solutions()
        found: dict[str, dict[str, float | None]] = {}
        for one in (
            self.baseline,
            fixed,
            self.run("first-error, shared", _textbook(search)),
            self.run("first-error, reuse", search),
            replace(self.other, name=LIMIT),
        ):
            paid = in_wrong if one.name in {BASELINE, LIMIT} else in_wrong > 0
            row: dict[str, float | None] = {}
            for cost, field in (("rollouts", "num_fresh"), ("tokens", "num_tokens")):
                spent = float((one.stack(field) * paid).sum())
                row[f"{cost} / {BASELINE}"] = spent / float(
                    (self.baseline.stack(field) * in_wrong).sum()
                )
                row[f"{cost} / {SHARED}"] = spent / float(
                    (fixed.stack(field) * (in_wrong > 0)).sum()
                )
            row["same as fixed, same seeds"] = _same(one, self.baseline)
            row["same as fixed, other seeds"] = _same(one, self.other)
            same = [np.equal(run.first_errors, truth).mean() for run in one.runs]
            row["same as truth"] = float(np.mean(same))
            found[one.name] = row
        columns = {key: (key, "{:.3f}".format) for key in found[BASELINE]}
        _print(columns, found, f"First error of {len(truth)} wrong solutions")
        return found

    def _num_wrong_solutions(self) -> np.ndarray:
        counts: list[int] = []
        for pooled in self.pool:
            tree = pooled.tree()
            wrong = [one for one in tree.solutions if one.rollout.verdict is Verdict.INCORRECT]
            counts += [sum(node in one.nodes for one in wrong) for node in tree.nodes.values()]
        return np.array(counts)


def _textbook(config: AllocationConfig) -> AllocationConfig:
    return config.model_copy(update={"reuse": False})


def _share(truth: Truth, mask: np.ndarray) -> float:
    return float(np.average(mask, weights=truth.multiplicity))


def _same(one: Replays, other: Replays) -> float:
    pairs = zip(one.runs, other.runs, strict=True)
    return float(np.mean([np.equal(a.first_errors, b.first_errors).mean() for a, b in pairs]))


_SWEEP = [
    (low, high, increment, width)
    for low, high in ((10, 16), (10, 20), (12, 20))
    for increment in (2, 5)
    for width in (0.25, 0.3, 0.35)
]

Columns = dict[str, tuple[str, Callable[[float], str]]]
_PERCENT = "{:.1%}".format
_SIGNED = "{:+.4f}".format
_RATIO = "{:.3f}".format
_ERROR_COLUMNS: Columns = {
    "tokens_ratio": ("tokens\n÷ base", _RATIO),
    "tokens_per_label": ("tokens\na label", "{:.0f}".format),
    "fresh": ("fresh", "{:.1f}".format),
    "graded": ("graded", "{:.1f}".format),
    "rmse": ("RMSE", "{:.4f}".format),
    "rmse_ratio": ("RMSE\n÷ base", _RATIO),
    "bias": ("bias", _SIGNED),
    "bias_se": ("±", "{:.4f}".format),
    "unbiased_bias": ("unbiased\nbias", _SIGNED),
}
_BAND_COLUMNS: Columns = {
    "labels": ("labels", "{:.0f}".format),
    **{
        key: _ERROR_COLUMNS[key]
        for key in ("fresh", "graded", "rmse", "rmse_ratio", "bias", "bias_se", "unbiased_bias")
    },
}
_RMSE_COLUMNS: Columns = {
    "rmse_ratio": ("RMSE\n÷ base", _RATIO),
    "rmse_ratio_low": ("95 % interval\nfrom", _RATIO),
    "rmse_ratio_high": ("\nto", _RATIO),
    "rmse_ratio_by_prefix": ("every prefix\ncounted once", _RATIO),
    "rmse_ratio_own_truth": ("truth of the own\n256 only", _RATIO),
}
_TRUST_COLUMNS: Columns = {
    "coverage_wilson": ("Wilson", _PERCENT),
    "coverage_jeffreys": ("Jeffreys", _PERCENT),
    "coverage_clopper_pearson": ("Clopper-\nPearson", _PERCENT),
    "agreement_same_seeds": ("= fixed,\nsame seeds", _PERCENT),
    "agreement_other_seeds": ("= fixed,\nother seeds", _PERCENT),
    "agreement_truth": ("= truth", _PERCENT),
}


def _print(
    columns: Columns, rows: Mapping[str, Mapping[str, float | None]], title: str, width: int = 130
) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    for heading, _ in columns.values():
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        cells = [(row.get(key), shown) for key, (_, shown) in columns.items()]
        table.add_row(name, *("" if number is None else shown(number) for number, shown in cells))
    Console(width=width).print(table)


if __name__ == "__main__":
    main()
