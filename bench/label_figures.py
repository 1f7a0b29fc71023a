"""Figures of replayed labels: error, bias, coverage, agreement; by band of the true value.

Arrays are (seeds, nodes) or (nodes,), in the order of `Truth`. Weights are labels: a prefix
counts once for every solution that has it, as in what a PRM is trained on.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import beta

from bench.label_pool import Truth
from bench.label_replay import Replay
from labeling.policies.config import AllocationConfig
from pipeline.records import wilson_interval

BANDS = ("all", "0", "(0, .1]", "(.1, .9)", "[.9, 1)", "1")
INTERVALS = ("wilson", "jeffreys", "clopper_pearson")
NUM_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Replays:
    """A policy under every seed; `tokens` is the mean of the generated tokens of a run."""

    name: str
    config: AllocationConfig
    runs: tuple[Replay, ...]
    tokens: float

    def stack(self, field: str) -> np.ndarray:
        """One of `Replay`'s arrays under every seed: (seeds, nodes)."""
        return np.stack([getattr(run, field) for run in self.runs])


def figures(
    replays: Replays, baseline: Replays, other_baseline: Replays, truth: Truth
) -> dict[str, dict[str, float | None]]:
    """By band. `baseline` shares the seeds' streams, `other_baseline` has streams of its own."""
    measures = _measures(replays, baseline, other_baseline, truth)
    found = {
        band: _band_figures(measures, truth.multiplicity * _mask(band, truth.pooled), truth)
        for band in BANDS
    }
    low, high = _rmse_ratio_interval(measures["mse"], measures["baseline_mse"], truth)
    by_prefix = [
        _mean(measures[name], np.ones_like(truth.pooled)) for name in ("mse", "baseline_mse")
    ]
    found["all"] |= {
        "rmse_ratio_low": low,
        "rmse_ratio_high": high,
        "rmse_ratio_by_prefix": _ratio(_root(by_prefix[0]), _root(by_prefix[1])),
        "tokens_ratio": replays.tokens / baseline.tokens,
        "tokens_per_label": replays.tokens / float(truth.multiplicity.sum()),
    }
    return found


def _measures(
    replays: Replays, baseline: Replays, other_baseline: Replays, truth: Truth
) -> dict[str, np.ndarray]:
    """(seeds, nodes) each."""
    values, theirs = replays.stack("mc_values"), baseline.stack("mc_values")
    unbiased = np.stack([run.unbiased_values(replays.config) for run in replays.runs])
    hard = replays.stack("hard_labels")
    return {
        "bias": values - truth.pooled,
        "unbiased_bias": unbiased - truth.pooled,
        "unbiased_mse": (unbiased - truth.pooled) ** 2,
        "mse": (values - truth.pooled) ** 2,
        "baseline_mse": (theirs - truth.pooled) ** 2,
        "mse_own_truth": (values - truth.own) ** 2,
        "baseline_mse_own_truth": (theirs - truth.own) ** 2,
        "agreement_same_seeds": hard == baseline.stack("hard_labels"),
        "agreement_other_seeds": hard == other_baseline.stack("hard_labels"),
        "agreement_truth": hard == (truth.pooled > 0),
        "graded": replays.stack("num_graded"),
        "fresh": replays.stack("num_fresh"),
        **{f"coverage_{name}": _covered(name, replays, truth.pooled) for name in INTERVALS},
        "coverage_wilson_own_truth": _covered("wilson", replays, truth.own),
    }


def _band_figures(
    measures: dict[str, np.ndarray], weights: np.ndarray, truth: Truth
) -> dict[str, float | None]:
    row = {name: _mean(array, weights) for name, array in measures.items()}
    row["labels"] = float(weights.sum())
    for name in ("bias", "unbiased_bias"):
        row[f"{name}_se"] = _standard_error(measures[name], weights, truth)
    row["rmse"] = _root(row.pop("mse"))
    row["baseline_rmse"] = _root(row.pop("baseline_mse"))
    row["unbiased_rmse"] = _root(row.pop("unbiased_mse"))
    own = [_root(row.pop(name)) for name in ("mse_own_truth", "baseline_mse_own_truth")]
    row["rmse_ratio_own_truth"] = _ratio(own[0], own[1])
    row["rmse_ratio"] = _ratio(row["rmse"], row["baseline_rmse"])
    return row


def _mask(band: str, true_values: np.ndarray) -> np.ndarray:
    match band:
        case "0":
            return true_values == 0
        case "(0, .1]":
            return (true_values > 0) & (true_values <= 0.1)
        case "(.1, .9)":
            return (true_values > 0.1) & (true_values < 0.9)
        case "[.9, 1)":
            return (true_values >= 0.9) & (true_values < 1)
        case "1":
            return true_values == 1
        case _:
            return np.ones_like(true_values, dtype=bool)


def _mean(array: np.ndarray, weights: np.ndarray) -> float | None:
    chosen = array[:, weights > 0].astype(float)
    if not chosen.size or np.isnan(chosen).any():
        return None
    return float(np.average(chosen.mean(axis=0), weights=weights[weights > 0]))


def _standard_error(array: np.ndarray, weights: np.ndarray, truth: Truth) -> float | None:
    """Of a weighted mean, by resampling problems: prefixes of one problem are alike."""
    if np.isnan(array[:, weights > 0]).any() or not weights.sum():
        return None
    sums, totals = _by_problem(array.mean(axis=0) * weights, weights, truth)
    picks = _resamples(len(sums))
    kept = totals[picks].sum(axis=1)
    return float(np.std(sums[picks].sum(axis=1)[kept > 0] / kept[kept > 0]))


def _rmse_ratio_interval(
    mse: np.ndarray, baseline: np.ndarray, truth: Truth
) -> tuple[float, float]:
    """95 % interval of the ratio of two RMSEs, by resampling problems."""
    weights = truth.multiplicity
    mine, theirs = _by_problem(mse.mean(axis=0) * weights, baseline.mean(axis=0) * weights, truth)
    picks = _resamples(len(mine))
    ratios = np.sqrt(mine[picks].sum(axis=1) / theirs[picks].sum(axis=1))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def _by_problem(one: np.ndarray, other: np.ndarray, truth: Truth) -> tuple[np.ndarray, np.ndarray]:
    return np.bincount(truth.problem_at, one), np.bincount(truth.problem_at, other)


def _resamples(num_problems: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, num_problems, (NUM_RESAMPLES, num_problems))


def _root(mse: float | None) -> float | None:
    return None if mse is None else mse**0.5


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _covered(name: str, replays: Replays, true_values: np.ndarray) -> np.ndarray:
    bounds = np.array(
        [
            [_interval(name, label.num_correct, label.num_graded) for label in run.labels]
            for run in replays.runs
        ]
    )
    return (bounds[..., 0] <= true_values) & (true_values <= bounds[..., 1])


@cache
def _interval(name: str, correct: int, graded: int) -> tuple[float, float]:
    if name == "wilson":
        return wilson_interval(correct, graded)
    wrong = graded - correct
    if name == "jeffreys":
        low, high = beta.ppf([0.025, 0.975], correct + 0.5, wrong + 0.5)
    else:
        low = beta.ppf(0.025, correct, wrong + 1) if correct else 0.0
        high = beta.ppf(0.975, correct + 1, wrong) if wrong else 1.0
    return (float(low) if correct else 0.0, float(high) if wrong else 1.0)
