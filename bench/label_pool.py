"""The pool that label policies are replayed from: many rollouts of every prefix.

Made once by the demo model (`make_pool`, through `flows.stages.generate`) and kept as a small
Parquet of what a replay needs: per rollout its prefix, text (so that passes come out of the
real splitter), verdict, whether it was cut off, and tokens. Solutions are the rollouts of the
root.
"""

import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from grading.verdict import Verdict
from labeling.steps import StepMethod, split_steps
from labeling.tree import PrefixTree, build_tree
from pipeline.records import FinishReason, Prefix, Problem, Rollout

METHOD = StepMethod.NEWLINE
POOL_SIZE = 256
NUM_PROBLEMS = 60
NUM_SOLUTIONS = 4

_SCHEMA = pa.schema(
    [
        ("problem_id", pa.dictionary(pa.int16(), pa.string())),
        ("prefix_id", pa.dictionary(pa.int16(), pa.string())),
        ("rollout_index", pa.int16()),
        ("text", pa.string()),
        ("verdict", pa.dictionary(pa.int8(), pa.string())),
        ("is_truncated", pa.bool_()),
        ("num_tokens", pa.int16()),
    ]
)


@dataclass(frozen=True, slots=True)
class PooledProblem:
    """A problem's solutions and, by prefix id, the rollouts of each prefix."""

    problem: Problem
    solutions: tuple[Rollout, ...]
    rollouts: dict[str, tuple[Rollout, ...]]

    def tree(self) -> PrefixTree:
        """The prefix tree with the solutions told and nothing else."""
        return build_tree(self.problem, self.solutions, method=METHOD)


def make_pool(
    path: Path,
    *,
    dataset: Path | None = None,
    num_problems: int = NUM_PROBLEMS,
    pool_size: int = POOL_SIZE,
) -> None:
    """Write the pool to `path`; `dataset` is a finished run of `pool_config`, else one is made."""
    from flows.progress import sampling_progress  # a replay needs none of these, nor torch
    from flows.run_config import check_config
    from flows.stages import generate
    from storage.journal import read_rollouts

    with tempfile.TemporaryDirectory() as folder:
        if dataset is None:
            dataset = Path(folder) / "pool"
            config = check_config(
                pool_config(num_problems, pool_size), origin="bench/label_pool.py"
            )
            with sampling_progress("pool") as on_progress:
                generate(config, dataset, on_progress=on_progress)
        rollouts = sorted(read_rollouts(dataset), key=lambda one: one.key)
    columns = {
        "problem_id": [one.problem_id for one in rollouts],
        "prefix_id": [one.prefix_id for one in rollouts],
        "rollout_index": [one.rollout_index for one in rollouts],
        "text": [one.text for one in rollouts],
        "verdict": [one.verdict.value for one in rollouts],
        "is_truncated": [one.is_truncated for one in rollouts],
        "num_tokens": [one.num_tokens for one in rollouts],
    }
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in _SCHEMA]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=_SCHEMA), path, compression="zstd", compression_level=19
    )


def pool_config(num_problems: int, pool_size: int) -> dict[str, object]:
    """The run that makes the pool: the demo's config with a large fixed K and no reuse."""
    return {
        "problems": {"source": "demo", "split": "train", "limit": num_problems},
        "model": {"name": "demo"},
        "engine": {"kind": "transformers", "num_threads": 1, "max_num_seqs": 96},
        "sampling": {"max_tokens": 160},
        "prompt": {"style": "plain"},
        "steps": {"method": METHOD},
        "grading": {"profile": "gsm8k"},
        "allocation": {
            "solutions_per_problem": NUM_SOLUTIONS,
            "policy": "fixed",
            "num_rollouts": pool_size,
            "reuse": False,
        },
    }


def read_pool(path: Path) -> list[PooledProblem]:
    """The problems of the pool, by id. Every prefix of a solution has its rollouts."""
    grouped: dict[str, dict[str, list[Rollout]]] = defaultdict(lambda: defaultdict(list))
    for row in pq.read_table(path).to_pylist():
        grouped[row["problem_id"]][row["prefix_id"]].append(_rollout(row))
    pool: list[PooledProblem] = []
    for problem_id, by_prefix in sorted(grouped.items()):
        solutions = by_prefix.pop(Prefix(problem_id).prefix_id)
        pool.append(
            PooledProblem(
                Problem(problem_id, "", "", "demo", "train"),
                tuple(solutions[:NUM_SOLUTIONS]),
                {prefix_id: tuple(rollouts) for prefix_id, rollouts in by_prefix.items()},
            )
        )
    return pool


def _rollout(row: dict[str, object]) -> Rollout:
    is_cut = bool(row["is_truncated"])
    return Rollout(
        problem_id=str(row["problem_id"]),
        prefix_id=str(row["prefix_id"]),
        rollout_index=int(str(row["rollout_index"])),
        text=str(row["text"]),
        final_answer="" if is_cut else "answer",
        verdict=Verdict(str(row["verdict"])),
        verdict_reason="",
        finish_reason=FinishReason.LENGTH if is_cut else FinishReason.STOP,
        num_tokens=int(str(row["num_tokens"])),
        completer="demo",
        sampling_digest="pool",
        grader_version="",
        seed=0,
        created_at="",
    )


@dataclass(frozen=True, slots=True)
class Truth:
    """What the pool says of its prefixes: arrays in the order of all trees' nodes.

    `own` is the share of correct among a prefix's own rollouts, `pooled` that with its
    ancestors' rollouts in the pool that pass through it. `multiplicity` is the number of
    solutions with the prefix, `problem_at` the problem's position.
    """

    prefix_ids: tuple[str, ...]
    own: np.ndarray
    pooled: np.ndarray
    multiplicity: np.ndarray
    problem_at: np.ndarray


def truth_of(pool: list[PooledProblem]) -> Truth:
    """Count the whole pool, passes found by the splitter."""
    ids: list[str] = []
    own: list[float] = []
    everything: list[float] = []
    multiplicity: list[int] = []
    problems: list[int] = []
    for position, pooled in enumerate(pool):
        tree = pooled.tree()
        counts = {prefix_id: [0, 0] for prefix_id in tree.nodes}
        for prefix_id, node in tree.nodes.items():
            for rollout in pooled.rollouts[prefix_id]:
                _count(counts[prefix_id], rollout)
                passed, steps = node, split_steps(node.prefix.text + rollout.text, METHOD)
                if steps[: node.prefix.num_steps] != node.prefix.steps:
                    continue
                for step in steps[node.prefix.num_steps : -1]:
                    if (passed := passed.children.get(step)) is None:
                        break
                    _count(counts[passed.prefix.prefix_id], rollout)
        for prefix_id, (correct, graded) in counts.items():
            ids.append(prefix_id)
            mine = [0, 0]
            for rollout in pooled.rollouts[prefix_id]:
                _count(mine, rollout)
            own.append(mine[0] / mine[1])
            everything.append(correct / graded)
            problems.append(position)
        multiplicity += [
            sum(tree.nodes[prefix_id] in one.nodes for one in tree.solutions)
            for prefix_id in counts
        ]
    return Truth(
        tuple(ids), np.array(own), np.array(everything), np.array(multiplicity), np.array(problems)
    )


def _count(counts: list[int], rollout: Rollout) -> None:
    if rollout.verdict is not Verdict.UNDECIDED:
        counts[0] += rollout.verdict is Verdict.CORRECT
        counts[1] += 1
