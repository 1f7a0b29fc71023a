"""Accuracy against generated tokens: beam, DVTS and MCTS beside best-of-N, demo domain.

    python -m bench.search --prm PRM --problems 500 --out bench/results/search.json

Every method answers the same unseen problems with the same model and PRM, at each N. A
pool of solutions a problem is the baseline: best-of-N *at equal tokens* takes, for each
problem, as many solutions of the pool as the method's own tokens for that problem pay for
(the last one by a fraction: the mean of the accuracies with and without it). The pool is
exchangeable, so the baseline is the mean over several shuffles of it. Intervals are 95 %
percentile bootstraps over problems, the same resamples for every row, so differences are
paired. `--oracle` puts the exact step truth in the PRM's place: what a search could gain.

Not measured: the PRM's own tokens, which step-level methods spend more of (counted as
`scored_steps`).
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from flows.evaluation import answer_key
from flows.run_config import RunConfig, load_config
from flows.solve import Prm, search_problems
from grading.pool import GradePool
from grading.verdict import Verdict
from pipeline.demo.truth import demo_problem_of
from pipeline.records import Problem
from search.best_of_n import Candidate, best_of_n, majority_vote
from search.config import SearchConfig, SearchMethod
from search.demo_scorer import demo_oracle
from search.scoring import Aggregation, QuestionAndSteps, StepScorer
from search.solver import SearchResult, Solution
from storage.problem_config import ProblemsConfig
from storage.problems import load_problems

NUM_SHUFFLES = 16
NUM_RESAMPLES = 4000
GUIDED = (SearchMethod.BEAM, SearchMethod.DVTS, SearchMethod.MCTS)


@dataclass(frozen=True, slots=True)
class Row:
    """A method at N. Shares in [0, 1]; `tokens` and `scored_steps` are means a problem.

    `gain` is its accuracy minus best-of-N's at equal tokens, with its 95 % interval;
    `majority_equal` is the majority vote's accuracy at equal tokens. `num_beyond_pool`
    problems spent more tokens than the pool has: the baseline has too few there.
    """

    method: str
    n: int
    tokens: float
    scored_steps: float
    accuracy: float
    low: float
    high: float
    best_of_n_equal: float
    majority_equal: float
    gain: float
    gain_low: float
    gain_high: float
    num_beyond_pool: int
    seconds: float


class Counting:
    """A scorer that counts the steps it scores."""

    def __init__(self, scorer: StepScorer) -> None:
        self._scorer = scorer
        self.num_steps = 0

    def score(self, items: Sequence[QuestionAndSteps]) -> list[tuple[float, ...]]:
        self.num_steps += sum(len(steps) for _, steps in items)
        return self._scorer.score(items)


class Pool:
    """One problem's sampled solutions, as the baseline that any number of tokens pays for."""

    def __init__(self, result: SearchResult, is_right: Sequence[bool], *, seed: str) -> None:
        rows = [
            (Candidate(one.steps, one.answer, _verdict(right), one.step_scores), one.tokens)
            for one, right in zip(result.solutions, is_right, strict=True)
        ]
        rng = random.Random(seed)
        self._shuffles = [rng.sample(rows, len(rows)) for _ in range(NUM_SHUFFLES)]
        self._aggregation = result.aggregation
        self.num_tokens = sum(tokens for _, tokens in rows)
        self._cached: dict[tuple[int, int], tuple[float, float]] = {}

    def accuracy_at(self, tokens: float) -> tuple[float, float]:
        """Of best-of-N and of the majority vote with so many tokens, means over shuffles."""
        return _mean([self._of_shuffle(index, tokens) for index in range(NUM_SHUFFLES)])

    def accuracy_of(self, n: int) -> tuple[float, float]:
        """Of best-of-N and of the majority vote with `n` solutions."""
        return _mean([self._right(index, n) for index in range(NUM_SHUFFLES)])

    def _of_shuffle(self, index: int, tokens: float) -> tuple[float, float]:
        spent = 0
        for n, (_, own) in enumerate(self._shuffles[index]):
            if spent + own > tokens:
                part = (tokens - spent) / own
                without, with_it = self._right(index, n), self._right(index, n + 1)
                return (
                    (1 - part) * without[0] + part * with_it[0],
                    (1 - part) * without[1] + part * with_it[1],
                )
            spent += own
        return self._right(index, len(self._shuffles[index]))

    def _right(self, index: int, n: int) -> tuple[float, float]:
        if n == 0:
            return 0.0, 0.0
        if (index, n) not in self._cached:
            group = [candidate for candidate, _ in self._shuffles[index][:n]]
            self._cached[index, n] = (
                float(best_of_n(group, how=self._aggregation).is_correct),
                float(majority_vote(group, answer_key=answer_key).is_correct),
            )
        return self._cached[index, n]


def main() -> None:
    """Search, grade, compare, write."""
    options = _options()
    config = _config(options)
    problems = _problems(options)
    scorer = Counting(_scorer(options, problems))
    prm = Prm(scorer, "bench", Aggregation(options.aggregation))
    rows: list[Row] = []
    with GradePool(config.grading) as grader:
        pools, pool_row = _pools(config, problems, prm, grader, options)
        rows += [_pool_row(pools, n, pool_row) for n in options.ns if n <= options.pool]
        for method in options.methods:
            for n in options.ns:
                if method != SearchMethod.MCTS and n % options.expansions:
                    continue
                search = _search(options, method, n)
                started, before = monotonic(), scorer.num_steps
                results = _run(config, search, problems, prm)
                right = [
                    _is_right(grader, problem, result.picked)
                    for problem, result in zip(problems, results, strict=True)
                ]
                rows.append(
                    _row(
                        method,
                        n,
                        results,
                        right,
                        pools,
                        scored_steps=(scorer.num_steps - before) / len(problems),
                        seconds=monotonic() - started,
                    )
                )
                print(_line(rows[-1]), flush=True)
    _report(rows, options)


def _pools(
    config: RunConfig,
    problems: list[Problem],
    prm: Prm,
    grader: GradePool,
    options: argparse.Namespace,
) -> tuple[list[Pool], tuple[list[float], list[int]]]:
    """The baseline's solutions, and per problem their steps and number."""
    results = _run(config, _search(options, SearchMethod.BEST_OF_N, options.pool), problems, prm)
    pools = [
        Pool(
            result,
            [_is_right(grader, problem, one) for one in result.solutions],
            seed=problem.problem_id,
        )
        for problem, result in zip(problems, results, strict=True)
    ]
    steps = [sum(len(one.steps) for one in r.solutions) / len(r.solutions) for r in results]
    return pools, (steps, [len(result.solutions) for result in results])


def _pool_row(pools: list[Pool], n: int, sizes: tuple[list[float], list[int]]) -> Row:
    steps, nums = sizes
    right = np.array([pool.accuracy_of(n) for pool in pools])
    tokens = [n * pool.num_tokens / num for pool, num in zip(pools, nums, strict=True)]
    low, high = _interval(right[:, 0])
    best, majority = right.mean(0)
    return Row(
        method=SearchMethod.BEST_OF_N,
        n=n,
        tokens=float(np.mean(tokens)),
        scored_steps=n * float(np.mean(steps)),
        accuracy=float(best),
        low=low,
        high=high,
        best_of_n_equal=float(best),
        majority_equal=float(majority),
        gain=0.0,
        gain_low=0.0,
        gain_high=0.0,
        num_beyond_pool=0,
        seconds=0.0,
    )


def _row(
    method: SearchMethod,
    n: int,
    results: list[SearchResult],
    right: list[bool],
    pools: list[Pool],
    *,
    scored_steps: float,
    seconds: float,
) -> Row:
    own = np.array(right, dtype=np.float64)
    spent = [result.num_tokens for result in results]
    equal = np.array([pool.accuracy_at(t) for pool, t in zip(pools, spent, strict=True)])
    low, high = _interval(own)
    gain_low, gain_high = _interval(own - equal[:, 0])
    return Row(
        method=method,
        n=n,
        tokens=float(np.mean(spent)),
        scored_steps=scored_steps,
        accuracy=float(own.mean()),
        low=low,
        high=high,
        best_of_n_equal=float(equal[:, 0].mean()),
        majority_equal=float(equal[:, 1].mean()),
        gain=float((own - equal[:, 0]).mean()),
        gain_low=gain_low,
        gain_high=gain_high,
        num_beyond_pool=sum(t > p.num_tokens for p, t in zip(pools, spent, strict=True)),
        seconds=seconds,
    )


def _interval(values: np.ndarray) -> tuple[float, float]:
    """95 % percentile bootstrap of the mean over problems."""
    rng = np.random.default_rng(0)  # the same resamples for all rows: differences are paired
    num = len(values)
    counts = rng.multinomial(num, np.full(num, 1 / num), size=NUM_RESAMPLES)
    low, high = np.quantile(counts @ values / num, [0.025, 0.975])
    return float(low), float(high)


def _run(
    config: RunConfig, search: SearchConfig, problems: list[Problem], prm: Prm
) -> list[SearchResult]:
    with tempfile.TemporaryDirectory() as state:
        return asyncio.run(
            search_problems(
                config.model_copy(update={"search": search}),
                problems,
                prm=prm,
                state_path=Path(state),
            )
        )


def _search(options: argparse.Namespace, method: SearchMethod, n: int) -> SearchConfig:
    return SearchConfig(
        method=method,
        n=n,
        expansions=options.expansions,
        rollouts=options.rollouts,
        guide=Aggregation(options.guide),
        exploration=options.exploration,
    )


def _is_right(grader: GradePool, problem: Problem, solution: Solution | None) -> bool:
    if solution is None:
        return False
    grade = grader.grade(problem.gold_answer, solution.text, is_truncated=solution.is_cut_off)
    return grade.verdict is Verdict.CORRECT


def _verdict(is_right: bool) -> Verdict:
    return Verdict.CORRECT if is_right else Verdict.INCORRECT


def _mean(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    first, second = np.mean(pairs, axis=0)
    return float(first), float(second)


def _scorer(options: argparse.Namespace, problems: list[Problem]) -> StepScorer:
    if options.oracle:
        return demo_oracle({one.question: demo_problem_of(one.problem_id) for one in problems})
    from train.scorer import PrmScorer

    return PrmScorer.load(options.prm)


def _config(options: argparse.Namespace) -> RunConfig:
    return load_config(options.config, [f"engine.kind={options.engine}"])


def _problems(options: argparse.Namespace) -> list[Problem]:
    wanted = ProblemsConfig(split=options.split, limit=options.problems)
    return list(load_problems(wanted, ungradable_reason=lambda _: None).problems)


def _line(row: Row) -> str:
    return (
        f"{row.method:10} N={row.n:<3} {row.tokens:8.0f} tokens  {100 * row.accuracy:5.1f} % "
        f"({100 * row.low:.1f} to {100 * row.high:.1f})  best-of-N at equal tokens "
        f"{100 * row.best_of_n_equal:5.1f}, majority {100 * row.majority_equal:5.1f}  "
        f"gain {100 * row.gain:+5.1f} ({100 * row.gain_low:+.1f} to {100 * row.gain_high:+.1f})"
        + (f"  {row.num_beyond_pool} beyond the pool" if row.num_beyond_pool else "")
    )


def _report(rows: list[Row], options: argparse.Namespace) -> None:
    for row in sorted(rows, key=lambda row: row.tokens):
        print(_line(row))
    content: dict[str, Any] = {
        "options": {key: str(value) for key, value in vars(options).items()},
        "rows": [asdict(row) for row in rows],
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        _plot(rows, options.plot)


def _plot(rows: list[Row], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for method in dict.fromkeys(row.method for row in rows):
        own = sorted((row for row in rows if row.method == method), key=lambda row: row.tokens)
        accuracies = [100 * row.accuracy for row in own]
        errors = [
            [100 * (row.accuracy - row.low) for row in own],
            [100 * (row.high - row.accuracy) for row in own],
        ]
        tokens = [row.tokens for row in own]
        axes.errorbar(tokens, accuracies, yerr=errors, marker="o", capsize=2, label=method)
    axes.set_xscale("log")
    axes.set_xlabel("generated tokens a problem")
    axes.set_ylabel("accuracy, %")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Accuracy against generated tokens.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prm", type=Path, help="a PRM folder")
    source.add_argument("--oracle", action="store_true", help="the exact step truth instead")
    parser.add_argument("--config", type=Path, default=Path("configs/demo.toml"))
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--split", default="test", help="training never draws from it")
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--ns", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--pool", type=int, default=64, help="solutions of the baseline")
    parser.add_argument("--methods", type=SearchMethod, nargs="+", default=list(GUIDED))
    parser.add_argument("--expansions", type=int, default=4)
    parser.add_argument("--rollouts", type=int, default=0, help="of mcts")
    parser.add_argument("--aggregation", default="min", choices=list(Aggregation))
    parser.add_argument("--guide", default="last", choices=list(Aggregation))
    parser.add_argument("--exploration", type=float, default=1.25, help="of mcts")
    parser.add_argument("--out", type=Path, help="JSON")
    parser.add_argument("--plot", type=Path, help="PNG or SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
