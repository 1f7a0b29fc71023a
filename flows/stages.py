"""The stages of a run as plain functions: read, compute, write. No Prefect here.

`generate` is the whole of `stepmark generate`; the Prefect flow calls the same stages as
tasks. Each stage reads what it needs from the dataset folder, so any of them can be run
again after a crash. The caller of a single stage holds the dataset's lock.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from flows.ledger import CostLedger, as_json
from flows.problem_check import load_checked_problems
from flows.regrade import regrade
from flows.regrade_report import RegradeReport
from flows.roles import Roles, resolve_roles
from flows.run_config import RunConfig, config_from_json
from flows.sampling import OnProgress, now, sample_rollouts, wants_more
from flows.selection import (
    Purpose,
    check_purpose,
    contamination_counts,
    rejected_rows,
    write_selection,
)
from flows.stored import label_work, stored_work
from labeling.estimate import LabeledProblem
from pipeline.errors import DataError
from pipeline.records import LabeledSolution, Prefix, Problem
from pipeline.samplers.sampler import SamplingStage
from storage.files import write_json
from storage.journal import MAX_PARTS_READ, compact
from storage.lock import dataset_lock
from storage.problem_table import write_problems
from storage.snapshots import publish_snapshot, stage_labels
from storage.splits import split_of_question
from storage.tables import labels_to_table

LABELS_A_ROW_GROUP = 1024


def generate(config: RunConfig, out: Path, *, on_progress: OnProgress) -> dict[str, object]:
    """Label the config's problems into the dataset `out`; returns the manifest.

    Continues what an earlier run began, and does what the changes since then ask for: new
    and changed problems, models and settings are sampled, other grader versions regraded.
    Raises the errors of `pipeline.errors`; whatever was finished before stays in `out`.
    """
    with dataset_lock(out):
        return generate_while_locked(config, out, on_progress=on_progress)


def generate_while_locked(
    config: RunConfig, out: Path, *, on_progress: OnProgress
) -> dict[str, object]:
    """`generate` for a caller that holds `dataset_lock`, to go on under the same one."""
    prepare_problems(config, out)
    begin_run(config, out)
    sample_rollouts(config, out, on_progress=on_progress, begins_run=False)
    return finish(config, out, counts=snapshot_labels(config, out))


def regrade_dataset(out: Path, *, dry_run: bool = False) -> RegradeReport:
    """Grade all that another grader version has graded, whatever its model; label anew.

    By the dataset's own config. A `dry_run` only says what would change. Raises as `generate`.
    """
    config = config_from_json(out / "config.json")
    check_purpose(out, Purpose.LABELS)
    roles = resolve_roles(config)
    if dry_run:
        return regrade(config, out, roles=roles, dry_run=True)
    with dataset_lock(out):
        report = regrade(config, out, roles=roles)
        if report.num_regraded:
            ledger = CostLedger(out)
            is_cut_short = ledger.last_run.budget_met
            ledger.begin_run()
            ledger.last_run.regraded = report.summary()
            ledger.last_run.seconds = report.seconds
            ledger.last_run.budget_met = is_cut_short  # nothing was drawn that was short
            ledger.write()
        finish(config, out, counts=snapshot_labels(config, out))
    return report


def prepare_problems(config: RunConfig, out: Path, *, purpose: Purpose = Purpose.LABELS) -> int:
    """Read, check and store the problems; returns how many are to be worked on.

    Writes the ids and the rejected rows to `selection.json`, and the resolved config to
    `config.json`, once all is in order: a run that is refused changes neither. Raises
    ConfigError where the folder serves another purpose.
    """
    check_purpose(out, purpose)
    checked = load_checked_problems(config, purpose=purpose)
    loaded = checked.loaded
    problems = write_problems(out, loaded.problems).problems
    write_selection(
        out,
        problems,
        purpose=purpose,
        split=config.problems.split,
        rejections=loaded.rejections,
        decontamination=checked.decontamination,
    )
    write_json(out / "config.json", config.model_dump(mode="json"))
    return len(problems)


def begin_run(config: RunConfig, out: Path) -> RegradeReport:
    """Begin a run in the ledger, and grade anew what another grader version has graded.

    Only rollouts of the config's models and settings. Samples nothing.
    """
    ledger = CostLedger(out)
    ledger.begin_run()
    ledger.write()  # a run that is killed while it regrades is a run
    roles = resolve_roles(config)
    report = regrade(config, out, roles=roles, digests=roles.digests)
    if report.num_regraded or report.num_without_prefix:
        ledger.last_run.regraded = report.summary()
        ledger.write()
    return report


def snapshot_labels(config: RunConfig, out: Path) -> dict[str, int]:
    """Make the labels of the next snapshot from the stored rollouts; returns the counts.

    Readers see it after `finish`. Rows are in the order of the problems' ids. One pass over the
    journal, some problems in memory at a time. Raises DataError where there is nothing to label.
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
    stage_labels(out, _label_tables(rows, config, roles))
    return dict(counts)


def labeled_solutions(config: RunConfig, out: Path) -> Iterator[LabeledSolution]:
    """The labelled solutions of the selected problems, made from the stored rollouts."""
    for work in stored_work(resolve_roles(config), out):
        yield from label_work(work, config).solutions


def finish(config: RunConfig, out: Path, *, counts: Mapping[str, int]) -> dict[str, object]:
    """Compact the journal, then make the labels of `snapshot_labels` the current ones by
    the manifest, which is written last; returns it.

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
        "counts": {"rejected_rows": len(rejected_rows(out)), **contamination_counts(out), **shown},
        "cost": {
            **_cost(roles, out),
            "tokens_per_label": round(tokens / num_labels, 2) if num_labels else None,
        },
        "regraded": CostLedger(out).last_run.regraded,
        "finished_at": now(),
    }
    return publish_snapshot(out, manifest, keep=config.labels.keep_snapshots)


def _labels(
    config: RunConfig, roles: Roles, out: Path, counts: Counter[str], *, is_cut_short: bool
) -> Iterator[tuple[LabeledSolution, str]]:
    """Each labelled solution with the grader's version of its problem's verdicts."""
    counts.update(dict.fromkeys(_COUNTS, 0))
    for work in stored_work(roles, out):
        made = label_work(work, config)
        labeled = made.solutions
        _count(work.problem, made, counts)
        counts["problems_unfinished"] += is_cut_short and wants_more(work, config)
        stored = itertools.chain(work.rollouts, work.solutions or ())
        version = "+".join(sorted({rollout.grader_version for rollout in stored}))
        for solution in labeled:
            yield solution, version


def _label_tables(
    rows: Iterator[tuple[LabeledSolution, str]], config: RunConfig, roles: Roles
) -> Iterator[tuple[str, pa.Table]]:
    """Each split's rows, in their order, some at a time."""

    def table(group: list[tuple[LabeledSolution, str]]) -> pa.Table:
        return labels_to_table(
            [solution for solution, _ in group],
            completer=roles.completer.identity.completer,
            generator=roles.writer.identity.completer,
            sampling_digest=roles.completer.digest,
            grader_versions=[version for _, version in group],
            hard_threshold=config.labels.hard_threshold,
        )

    groups: defaultdict[str, list[tuple[LabeledSolution, str]]] = defaultdict(list)
    for row in rows:
        split = _split(row[0].problem, config)
        groups[split].append(row)
        if len(groups[split]) == LABELS_A_ROW_GROUP:
            yield split, table(groups.pop(split))
    yield from ((split, table(group)) for split, group in sorted(groups.items()))


def _split(problem: Problem, config: RunConfig) -> str:
    shares = config.labels.splits
    return problem.split if shares is None else split_of_question(problem.question, shares)


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


def _count(problem: Problem, made: LabeledProblem, counts: Counter[str]) -> None:
    """Of what is stored only what makes the labels: the same in an old folder and a fresh one."""
    root_id = Prefix(problem.problem_id).prefix_id
    num_solutions = sum(rollout.prefix_id == root_id for rollout in made.rollouts)
    counts["problems"] += 1
    counts["labeled_solutions"] += len(made.solutions)
    counts["solutions_without_steps"] += num_solutions - len(made.solutions)
    for solution in made.solutions:
        counts["labeled_steps"] += len(solution.steps)
        counts["steps_without_label"] += sum(not label.num_graded for label in solution.labels)
    for rollout in made.rollouts:
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
