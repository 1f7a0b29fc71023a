"""Step-DPO on the demo domain: accuracy at temperature 1 before and after, same problems.

    python -m bench.step_dpo --out out/step-dpo                      # the settings of the docs
    python -m bench.step_dpo --out out/step-dpo --model FOLDER \\
        --try "dpo.beta=0.1" --try "dpo.beta=0.5 dpo.learning_rate=1e-5"

Labels of `--problems` training problems, pairs of sibling steps from them, one training a
`--try`, and `--samples` solutions of each policy to each of `--test-problems` problems that
neither labels nor the model's own training come from. The demo model's siblings are seldom far
apart, so the pairs' limits are wider than the defaults of `stepmark export`. Accuracy is the
mean over problems of the share of right solutions; intervals are 95 % percentile bootstraps
over problems, the same resamples for all policies, so the gain's is paired. Everything is kept
in `--out`: the same command goes on after a stop, and another `--try` uses the same labels and
pairs.

Settings chosen by this table are to be measured once more on other problems (`--test-start`).
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flows.evaluation import sample_candidates
from flows.run_config import RunConfig, load_config
from flows.stages import generate
from flows.step_dpo import step_dpo
from grading.verdict import Verdict
from pipeline.config import stable_digest
from search.best_of_n import ProblemCandidates
from storage.dataset import stored_labels
from storage.files import file_hash
from storage.formats.options import ExportFormat, ExportOptions
from storage.formats.writing import write_foreign

NUM_RESAMPLES = 10_000

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Policy:
    """How a policy answers. Shares in [0, 1]; `gain` is over the base, on the same problems.

    `steps` and `characters` are means a solution, and `without_answer` the share of solutions
    without a final answer: what a collapsed policy shows first. `distinct` is the mean number
    of different solutions a problem, of `--samples`.
    """

    name: str
    accuracy: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    any_right: float
    steps: float
    characters: float
    without_answer: float
    distinct: float
    training: dict[str, Any] | None


def main() -> None:
    options = _options()
    console = Console(width=140)
    given = [f"model.name={options.model}", *(options.set or [])]
    config = load_config(options.config, [*given, f"problems.limit={options.problems}"])
    pairs, counts = _pairs(config, options)
    console.print(f"pairs: {counts}")
    base = _answers(config, options, options.out / "answers-base")
    policies = [_policy("base", base, base, None)]
    for settings in options.try_ or [""]:
        trained = load_config(
            options.config, [*given, f"dpo.base_model={options.model}", *settings.split()]
        )
        name = stable_digest([trained.dpo.digest(), file_hash(pairs)])
        folder = options.out / f"policy-{name}"
        report = json.loads(_trained(trained, pairs, folder).read_text(encoding="utf-8"))
        answering = trained.model_copy(
            update={"model": trained.model.model_copy(update={"name": str(folder)})}
        )
        answers = _answers(answering, options, options.out / f"answers-{name}")
        policies.append(
            _policy(settings.replace("dpo.", "") or "[dpo] as it is", answers, base, report)
        )
        console.print(_table(policies))  # after each: tries are long
    content = {
        "options": {key: str(value) for key, value in vars(options).items()},
        "pairs": counts,
        "policies": [asdict(policy) for policy in policies],
    }
    path = options.json or options.out / "step_dpo.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    console.print(f"Figures: {path}")


def _pairs(config: RunConfig, options: argparse.Namespace) -> tuple[Path, dict[str, int]]:
    labels, path = options.out / "labels", options.out / "pairs.jsonl"
    generate(config, labels, on_progress=lambda _: None)
    exported = ExportOptions(
        high=options.high,
        low=options.low,
        margin=options.margin,
        pairs_per_prefix=options.pairs_per_prefix,
    )
    counts = write_foreign(path, stored_labels(labels), ExportFormat.STEP_DPO, exported)
    return path, dict(sorted(counts.items()))


def _trained(config: RunConfig, pairs: Path, folder: Path) -> Path:
    """The report of the policy in `folder`, trained if it is not there."""
    report = folder / "dpo_report.json"
    if not report.is_file():
        step_dpo(config, pairs, folder)
    return report


def _answers(
    config: RunConfig, options: argparse.Namespace, folder: Path
) -> list[ProblemCandidates]:
    problems = config.evaluate.problems.model_copy(
        update={"split": "test", "start": options.test_start, "limit": options.test_problems}
    )
    evaluate = config.evaluate.model_copy(update={"problems": problems, "ns": (options.samples,)})
    return sample_candidates(
        config.model_copy(update={"evaluate": evaluate}),
        folder.with_name(f"{folder.name}-{options.test_start}-{options.test_problems}"),
        on_progress=lambda _: None,
    )


def _policy(
    name: str,
    answers: Sequence[ProblemCandidates],
    base: Sequence[ProblemCandidates],
    training: dict[str, Any] | None,
) -> Policy:
    assert [one.problem_id for one in answers] == [one.problem_id for one in base]
    own, before = shares_right(answers), shares_right(base)
    solutions = [one for problem in answers for one in problem.candidates]
    low, high = interval(own)
    gain_low, gain_high = interval(own - before)
    return Policy(
        name=name,
        accuracy=float(own.mean()),
        low=low,
        high=high,
        gain=float((own - before).mean()),
        gain_low=gain_low,
        gain_high=gain_high,
        any_right=float((own > 0).mean()),
        steps=float(np.mean([len(one.steps) for one in solutions])),
        characters=float(np.mean([len("".join(one.steps)) for one in solutions])),
        without_answer=float(np.mean([not one.answer for one in solutions])),
        distinct=float(np.mean([len({one.steps for one in p.candidates}) for p in answers])),
        training=training,
    )


def shares_right(answers: Sequence[ProblemCandidates]) -> Shares:
    """The share of right solutions of each problem."""
    return np.array(
        [
            np.mean([one.verdict is Verdict.CORRECT for one in problem.candidates])
            for problem in answers
        ],
        dtype=np.float64,
    )


def interval(values: Shares) -> tuple[float, float]:
    """95 % percentile bootstrap of the mean over problems."""
    rng = np.random.default_rng(0)  # the same resamples for all: differences are paired
    num = len(values)
    counts = rng.multinomial(num, np.full(num, 1 / num), size=NUM_RESAMPLES)
    low, high = np.quantile(counts @ values / num, [0.025, 0.975])
    return float(low), float(high)


def _table(policies: Sequence[Policy]) -> Table:
    names = ("policy", "right, % (95 %)", "gain, points (95 %)", "any right, %", "steps")
    table = Table(*names, "characters", "no answer, %", "distinct", "pairs told apart, %", "chosen")
    for one in policies:
        kept = (one.training or {}).get("validation")
        table.add_row(
            one.name,
            f"{100 * one.accuracy:.1f} ({100 * one.low:.1f} to {100 * one.high:.1f})",
            f"{100 * one.gain:+.1f} ({100 * one.gain_low:+.1f} to {100 * one.gain_high:+.1f})",
            f"{100 * one.any_right:.1f}",
            f"{one.steps:.2f}",
            f"{one.characters:.0f}",
            f"{100 * one.without_answer:.1f}",
            f"{one.distinct:.2f}",
            f"{100 * kept['accuracy']:.1f}" if kept else "",
            f"{kept['chosen_reward']:+.2f}" if kept else "",
        )
    return table


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of all that is made")
    parser.add_argument("--model", default="demo", help="the policy before: a folder, or demo")
    parser.add_argument("--config", type=Path, default=Path("configs/demo.toml"))
    parser.add_argument("--set", action="append", help="keys of the config, for all of it")
    parser.add_argument(
        "--try", dest="try_", action="append", help="keys of [dpo], one training each"
    )
    parser.add_argument("--problems", type=int, default=600, help="that are labelled")
    parser.add_argument("--high", type=float, default=0.5, help="of the pairs")
    parser.add_argument("--low", type=float, default=0.4)
    parser.add_argument("--margin", type=float, default=0.25)
    parser.add_argument("--pairs-per-prefix", type=int, default=4)
    parser.add_argument("--test-problems", type=int, default=500)
    parser.add_argument("--test-start", type=int, default=0)
    parser.add_argument("--samples", type=int, default=4, help="solutions a test problem")
    parser.add_argument("--json", type=Path, help="default: step_dpo.json in --out")
    return parser.parse_args()


if __name__ == "__main__":
    main()
