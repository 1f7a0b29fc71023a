"""The stages of a run as plain functions: read, compute, write. No Prefect here.

`generate` is the whole of `stepmark generate`; the Prefect flow calls the same stages as
tasks. Each stage reads what it needs from the dataset folder, so any of them can be run
again after a crash. The caller of a single stage holds the dataset's lock.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from flows.ledger import CostLedger, as_json
from flows.roles import Roles, resolve_roles
from flows.run_config import RunConfig
from flows.sampling import OnProgress, now, sample_rollouts, wants_more
from flows.selection import Purpose, check_purpose, rejected_rows, write_selection
from flows.stored import root_rollouts, stored_work
from grading.grade import ungradable_reason
from labeling.engine import Work
from labeling.estimate import label_problem
from pipeline.errors import DataError
from pipeline.records import LabeledSolution
from pipeline.samplers.sampler import SamplingStage
from storage.dataset import write_labels, write_manifest
from storage.files import write_json
from storage.journal import MAX_PARTS_READ, compact
from storage.lock import dataset_lock
from storage.problem_table import write_problems
from storage.problems import load_problems
from storage.tables import labels_to_table

LABELS_A_ROW_GROUP = 1024


def generate(config: RunConfig, out: Path, *, on_progress: OnProgress) -> dict[str, object]:
    """Label the config's problems into the dataset `out`; returns the manifest.

    Continues what an earlier run of the same config began. Raises the errors of
    `pipeline.errors`; whatever was finished before stays in `out`.
    """
    with dataset_lock(out):
        prepare_problems(config, out)
        sample_rollouts(config, out, on_progress=on_progress)
        return finish(config, out, counts=snapshot_labels(config, out))


def prepare_problems(config: RunConfig, out: Path, *, purpose: Purpose = Purpose.LABELS) -> int:
    """Read, check and store the problems; returns how many are to be worked on.

    Writes the ids and the rejected rows to `selection.json`, and the resolved config to
    `config.json`, once all is in order: a run that is refused changes neither. Raises
    ConfigError where the folder serves another purpose.
    """
    check_purpose(out, purpose)
    loaded = load_problems(config.problems, ungradable_reason=ungradable_reason)
    write_problems(out, loaded.problems)
    write_selection(
        out,
        loaded.problems,
        purpose=purpose,
        split=config.problems.split,
        rejections=loaded.rejections,
    )
    write_json(out / "config.json", config.model_dump(mode="json"))
    return len(loaded.problems)


def snapshot_labels(config: RunConfig, out: Path) -> dict[str, int]:
    """Make the labels from the stored rollouts, replacing the snapshot; returns the counts.

    Rows are in the order of the problems' ids. One pass over the journal, some problems in
    memory at a time. Raises DataError where there is nothing to label.
    """
    compact(out, max_parts=MAX_PARTS_READ)
    roles = resolve_roles(config)
    counts: Counter[str] = Counter()
    is_cut_short = CostLedger(out).last_run.budget_met
    labels = _labels(config, roles, out, counts, is_cut_short=is_cut_short)
    first = next(labels, None)
    if first is None:
        why = "the budget was met before a solution was finished" if is_cut_short else (
            f"look at the texts in {out}/rollouts and at prompt.plain_template or "
            "sampling.max_tokens"
        )  # fmt: skip
        raise DataError(f"{out}: no solution has a step to label; {why}")
    rows = itertools.chain([first], labels)
    split = first[0].problem.split  # one for all: the selection's
    write_labels(out, split, _label_tables(rows, config, roles))
    return dict(counts)


def labeled_solutions(config: RunConfig, out: Path) -> Iterator[LabeledSolution]:
    """The labelled solutions of the selected problems, made from the stored rollouts."""
    for work in stored_work(resolve_roles(config), out):
        yield from _label(work, config)


def finish(config: RunConfig, out: Path, *, counts: Mapping[str, int]) -> dict[str, object]:
    """Compact the journal and write the manifest, last; returns it.

    `counts` are those of `snapshot_labels`.
    """
    compact(out)
    roles = resolve_roles(config)
    tokens = counts["generated_tokens_of_labels"]
    shown = {name: n for name, n in sorted(counts.items()) if name != "generated_tokens_of_labels"}
    num_labels = counts["labeled_steps"] - counts["steps_without_label"]
    manifest: dict[str, object] = {
        "config": config.model_dump(mode="json"),
        "config_digest": config.digest(),
        "completer": roles.completer.identity.completer,
        "generator": roles.writer.identity.completer,
        "sampling_digest": roles.completer.digest,
        "generator_digest": roles.writer.digest,
        "grader_version": roles.completer.identity.grader_version,
        "counts": {"rejected_rows": len(rejected_rows(out)), **shown},
        "cost": {
            **_cost(roles, out),
            "tokens_per_label": round(tokens / num_labels, 2) if num_labels else None,
        },
        "finished_at": now(),
    }
    write_manifest(out, manifest)
    return manifest


def _labels(
    config: RunConfig, roles: Roles, out: Path, counts: Counter[str], *, is_cut_short: bool
) -> Iterator[tuple[LabeledSolution, str]]:
    """Each labelled solution with the grader's version of its problem's verdicts."""
    counts.update(dict.fromkeys(_COUNTS, 0))
    for work in stored_work(roles, out):
        labeled = _label(work, config)
        _count(work, labeled, config, counts)
        counts["problems_unfinished"] += is_cut_short and wants_more(work, config)
        stored = itertools.chain(work.rollouts, work.solutions or ())
        version = "+".join(sorted({rollout.grader_version for rollout in stored}))
        for solution in labeled:
            yield solution, version


def _label(work: Work, config: RunConfig) -> list[LabeledSolution]:
    return label_problem(
        work.problem,
        work.rollouts,
        steps=config.steps,
        allocation=config.allocation,
        solutions=work.solutions,
    )


def _label_tables(
    rows: Iterator[tuple[LabeledSolution, str]], config: RunConfig, roles: Roles
) -> Iterator[pa.Table]:
    while group := list(itertools.islice(rows, LABELS_A_ROW_GROUP)):
        yield labels_to_table(
            [solution for solution, _ in group],
            completer=roles.completer.identity.completer,
            generator=roles.writer.identity.completer,
            sampling_digest=roles.completer.digest,
            grader_versions=[version for _, version in group],
            hard_threshold=config.labels.hard_threshold,
        )


_COUNTS = (
    "problems",
    "problems_unfinished",
    "labeled_solutions",
    "solutions_without_steps",
    "labeled_steps",
    "steps_without_label",
    "rollouts",
    "rollouts_correct",
    "rollouts_incorrect",
    "rollouts_undecided",
    "rollouts_truncated",
    "generated_tokens_of_labels",
)


def _count(
    work: Work, labeled: list[LabeledSolution], config: RunConfig, counts: Counter[str]
) -> None:
    solutions = work.solutions
    if solutions is None:
        solutions = root_rollouts(work.problem, work.rollouts)
    wanted = config.allocation.solutions_per_problem
    counts["problems"] += 1
    counts["labeled_solutions"] += len(labeled)
    counts["solutions_without_steps"] += sum(
        solution.rollout_index < wanted for solution in solutions
    ) - len(labeled)
    for solution in labeled:
        counts["labeled_steps"] += len(solution.steps)
        counts["steps_without_label"] += sum(not label.num_graded for label in solution.labels)
    for rollout in itertools.chain(work.rollouts, work.solutions or ()):
        counts["rollouts"] += 1
        counts[f"rollouts_{rollout.verdict}"] += 1
        counts["rollouts_truncated"] += rollout.is_truncated
        counts["generated_tokens_of_labels"] += rollout.num_tokens


def _cost(roles: Roles, out: Path) -> dict[str, object]:
    """What all runs of these models spent, by stage, and the last run."""
    ledger = CostLedger(out)
    solutions = ledger.total(roles.writer.digest, SamplingStage.SOLUTIONS)
    prefixes = ledger.total(roles.completer.digest, SamplingStage.PREFIXES)
    return {
        SamplingStage.SOLUTIONS.value: as_json(solutions),
        SamplingStage.PREFIXES.value: as_json(prefixes),
        "last_run": as_json(ledger.last_run),
    }
