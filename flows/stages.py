"""The stages of a run as plain functions: read, compute, write. No Prefect here.

`generate` is the whole of `stepmark generate`; the Prefect flow calls the same stages as
tasks. Each stage reads what it needs from the dataset folder, so any of them can be run
again after a crash. The caller of a single stage holds the dataset's lock.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Any

from flows.engines import open_engine, resolve_engine
from flows.run_config import RunConfig
from grading.grade import is_gradable_gold
from grading.pool import GradePool, GraderStartError
from grading.verdict import Grade
from labeling.engine import LabelingTools, is_missing, roll_out
from labeling.estimate import label_problem
from pipeline.errors import ConfigError, DataError, EngineError
from pipeline.records import LabeledSolution, Prefix, Problem, Rollout
from pipeline.samplers.interrupts import interrupts_raised
from storage.dataset import (
    Journal,
    compact,
    dataset_lock,
    read_problems,
    read_rollouts,
    write_labels,
    write_manifest,
    write_problems,
)
from storage.files import write_json
from storage.problems import load_problems
from storage.tables import labels_to_table

FLUSH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far sampling is. Tokens and rollouts are those drawn in this run."""

    num_done: int
    num_problems: int
    num_rollouts: int
    num_tokens: int
    seconds: float


OnProgress = Callable[[Progress], None]


class Purpose(StrEnum):
    """What a dataset folder is for; the two do not share one."""

    LABELS = "labels"
    CANDIDATES = "candidates"


def generate(config: RunConfig, out: Path, *, on_progress: OnProgress) -> dict[str, object]:
    """Label the config's problems into the dataset `out`; returns the manifest.

    Continues what an earlier run of the same config began. Raises the errors of
    `pipeline.errors`; whatever was finished before stays in `out`.
    """
    with dataset_lock(out):
        prepare_problems(config, out)
        seconds = sample_rollouts(config, out, on_progress=on_progress)
        snapshot_labels(config, out)
        return finish(config, out, seconds=seconds)


def prepare_problems(config: RunConfig, out: Path, *, purpose: Purpose = Purpose.LABELS) -> int:
    """Read, check and store the problems; returns how many are to be worked on.

    Writes the ids and the rejected rows to `selection.json`, and the resolved config to
    `config.json`, once all is in order: a run that is refused changes neither. Raises
    ConfigError where the folder serves another purpose.
    """
    _check_purpose(out, purpose)
    loaded = load_problems(config.problems, is_gradable=is_gradable_gold)
    write_problems(out, loaded.problems)
    write_json(
        out / "selection.json",
        {
            "purpose": purpose,
            "split": config.problems.split,
            "problem_ids": [problem.problem_id for problem in loaded.problems],
            "rejected_rows": [asdict(rejection) for rejection in loaded.rejections],
        },
    )
    write_json(out / "config.json", config.model_dump(mode="json"))
    return len(loaded.problems)


def sample_rollouts(
    config: RunConfig, out: Path, *, on_progress: OnProgress, solutions_only: bool = False
) -> float:
    """Draw and grade the rollouts that are missing; returns the seconds it took.

    With nothing missing no engine is started.
    """
    started = monotonic()
    asyncio.run(draw_missing(config, out, on_progress=on_progress, solutions_only=solutions_only))
    return monotonic() - started


def snapshot_labels(config: RunConfig, out: Path) -> int:
    """Make the labels from the stored rollouts, replacing the snapshot; returns their number."""
    identity = resolve_engine(config).identity
    stored = stored_rollouts(config, out)
    labeled = label_stored(config, out, stored=stored)
    versions = {rollout.grader_version for group in stored.values() for rollout in group}
    splits: dict[str, list[LabeledSolution]] = {}
    for solution in labeled:
        splits.setdefault(solution.problem.split, []).append(solution)
    tables = {
        split: labels_to_table(
            solutions,
            completer=identity.completer,
            generator=identity.completer,
            sampling_digest=identity.sampling_digest,
            grader_version="+".join(sorted(versions)),  # of the stored verdicts
            hard_threshold=config.labels.hard_threshold,
        )
        for split, solutions in splits.items()
    }
    if not tables:
        raise DataError(
            f"{out}: no solution has a step to label; look at the texts in {out}/rollouts and at "
            "prompt.plain_template or sampling.max_tokens"
        )
    write_labels(out, tables)
    return len(labeled)


def label_stored(
    config: RunConfig, out: Path, *, stored: Mapping[str, Sequence[Rollout]]
) -> list[LabeledSolution]:
    """The labelled solutions of the selected problems, from `stored_rollouts`."""
    return [
        solution
        for problem in selected_problems(out)
        for solution in label_problem(
            problem,
            stored.get(problem.problem_id, ()),
            steps=config.steps,
            allocation=config.allocation,
        )
    ]


def finish(config: RunConfig, out: Path, *, seconds: float) -> dict[str, object]:
    """Compact the journal and write the manifest, last; returns it."""
    compact(out)
    identity = resolve_engine(config).identity
    problems = selected_problems(out)
    all_stored = stored_rollouts(config, out)
    stored = {problem.problem_id: all_stored.get(problem.problem_id, []) for problem in problems}
    labeled = label_stored(config, out, stored=stored)
    num_solutions = len(problems) * config.allocation.solutions_per_problem
    manifest: dict[str, object] = {
        "config": config.model_dump(mode="json"),
        "config_digest": config.digest(),
        "completer": identity.completer,
        "sampling_digest": identity.sampling_digest,
        "grader_version": identity.grader_version,
        "counts": {
            "problems": len(problems),
            "rejected_rows": len(rejected_rows(out)),
            "labeled_solutions": len(labeled),
            "solutions_without_steps": num_solutions - len(labeled),
            "labeled_steps": sum(len(solution.steps) for solution in labeled),
            **_rollout_counts(rollout for group in stored.values() for rollout in group),
        },
        "cost": {**_cost(stored), "sampling_seconds_of_last_run": round(seconds, 1)},
        "finished_at": _now(),
    }
    write_manifest(out, manifest)
    return manifest


def selected_problems(out: Path) -> list[Problem]:
    """The problems of the present selection, in its order and of its split."""
    selection = _selection(out)
    stored = {problem.problem_id: problem for problem in read_problems(out)}
    return [
        replace(stored[problem_id], split=selection["split"])
        for problem_id in selection["problem_ids"]
    ]


def rejected_rows(out: Path) -> list[dict[str, object]]:
    """The rejected rows of the present selection: `row` and `reason` each."""
    return list(_selection(out)["rejected_rows"])


def stored_rollouts(config: RunConfig, out: Path) -> dict[str, list[Rollout]]:
    """The stored rollouts of this config's sampling digest, by problem id."""
    digest = resolve_engine(config).identity.sampling_digest
    grouped: dict[str, list[Rollout]] = {}
    for rollout in read_rollouts(out, sampling_digests={digest}):
        grouped.setdefault(rollout.problem_id, []).append(rollout)
    return grouped


async def draw_missing(
    config: RunConfig, out: Path, *, on_progress: OnProgress, solutions_only: bool = False
) -> None:
    """`sample_rollouts` for a caller that has its own way to cancel it."""
    with interrupts_raised():
        problems = selected_problems(out)
        engine = resolve_engine(config)
        stored = stored_rollouts(config, out)
        missing = [
            problem
            for problem in problems
            if is_missing(
                problem,
                stored.get(problem.problem_id, ()),
                steps=config.steps,
                allocation=config.allocation,
                solutions_only=solutions_only,
            )
        ]
    if not missing:
        return
    meter = _Meter(on_progress, len(problems), len(problems) - len(missing))
    async with (
        open_engine(engine, config, problems=missing, state_path=out / "engine") as sampler,
        _journal(out) as journal,
    ):
        with GradePool(config.grading) as pool:

            async def grade(gold: str, text: str, is_cut_off: bool) -> Grade:
                try:
                    return await pool.agrade(gold, text, is_truncated=is_cut_off)
                except GraderStartError as error:
                    raise EngineError(str(error)) from error

            def write(rollouts: Sequence[Rollout]) -> None:
                journal.append(rollouts)
                meter.add(rollouts)

            await roll_out(
                missing,
                stored,
                tools=LabelingTools(
                    sampler=sampler,
                    encoder=engine.encoder,
                    grade=grade,
                    write=write,
                    now=_now,
                    on_done=meter.done,
                ),
                identity=engine.identity,
                sampling=config.sampling,
                steps=config.steps,
                allocation=config.allocation,
                solutions_only=solutions_only,
            )


@contextlib.asynccontextmanager
async def _journal(out: Path) -> AsyncGenerator[Journal, None]:
    """A journal that is flushed every few seconds even while nothing arrives."""
    with Journal(out) as journal:

        async def flush_regularly() -> None:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                journal.flush()

        flusher = asyncio.create_task(flush_regularly())
        try:
            yield journal
        finally:
            flusher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await flusher


class _Meter:
    """Adds up what was drawn and reports it."""

    def __init__(self, on_progress: OnProgress, num_problems: int, num_done: int) -> None:
        self._on_progress = on_progress
        self._num_problems = num_problems
        self._num_done = num_done
        self._num_rollouts = 0
        self._num_tokens = 0
        self._started = monotonic()
        self._report()

    def add(self, rollouts: Sequence[Rollout]) -> None:
        self._num_rollouts += len(rollouts)
        self._num_tokens += sum(rollout.num_tokens for rollout in rollouts)
        self._report()

    def done(self, _: Problem) -> None:
        self._num_done += 1
        self._report()

    def _report(self) -> None:
        self._on_progress(
            Progress(
                num_done=self._num_done,
                num_problems=self._num_problems,
                num_rollouts=self._num_rollouts,
                num_tokens=self._num_tokens,
                seconds=monotonic() - self._started,
            )
        )


def _check_purpose(out: Path, purpose: Purpose) -> None:
    if not (out / "selection.json").exists():
        return
    found = _selection(out).get("purpose")
    if found != purpose:
        raise ConfigError(f"{out} holds {found}, not {purpose}; give another folder")


def _selection(out: Path) -> dict[str, Any]:
    file = out / "selection.json"
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file} cannot be read ({error}); run `stepmark generate` again"
        ) from error


def _rollout_counts(rollouts: Iterable[Rollout]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for rollout in rollouts:
        counts["rollouts"] += 1
        counts[f"rollouts_{rollout.verdict}"] += 1
        counts["rollouts_truncated"] += rollout.is_truncated
    return dict(sorted(counts.items()))


def _cost(stored: Mapping[str, Sequence[Rollout]]) -> dict[str, object]:
    """Generated tokens by stage: root rollouts are the solutions."""
    solutions, prefixes = [0, 0], [0, 0]
    for problem_id, rollouts in stored.items():
        root_id = Prefix(problem_id).prefix_id
        for rollout in rollouts:
            stage = solutions if rollout.prefix_id == root_id else prefixes
            stage[0] += 1
            stage[1] += rollout.num_tokens
    return {
        "solutions": {"rollouts": solutions[0], "generated_tokens": solutions[1]},
        "prefixes": {"rollouts": prefixes[0], "generated_tokens": prefixes[1]},
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
