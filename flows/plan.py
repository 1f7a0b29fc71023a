"""What a run of a config would do to a dataset, and about what it would cost; changes nothing.

Counts of problems, rollouts to regrade and unfinished problems are exact. What sampling
would cost is a mean of what was spent before, per problem and per token, and a top-up is
stated by its upper bound: both depend on what will be drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flows.grader_versions import versions_for
from flows.ledger import CostLedger
from flows.plan_estimate import Estimate, Spent, estimate, spent_under
from flows.problem_check import load_checked_problems
from flows.regrade import num_to_regrade
from flows.roles import Roles, resolve_roles
from flows.run_config import RunConfig
from flows.sampling import wants_more
from flows.selection import Purpose, check_purpose, selected_ids
from flows.stored import stored_work
from labeling.work import Work, wide_prefixes
from pipeline.records import Problem
from storage.dataset import read_manifest
from storage.problem_table import (
    ProblemChanges,
    compare_problems,
    golds_beside_first,
    read_problems,
)
from storage.verdicts import GradedRows, graded_rows

_NOT_LABELS = ("engine", "train", "evaluate")
"""Sections that say where and how fast, or what comes after the labels."""
_LABELS_AGAIN = ("steps.", "allocation.", "refresh.", "labels.")
"""Keys with another value of which the same rollouts can give other labels …"""
_SAME_LABELS = ("allocation.budget.", "labels.keep_snapshots")
"""… but for these."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key of the config that differs from the last finished run's; texts of JSON values."""

    key: str
    old: object
    new: object

    @property
    def may_change_labels(self) -> bool:
        """Whether the same rollouts can have other labels now."""
        return self.key.startswith(_LABELS_AGAIN) and not self.key.startswith(_SAME_LABELS)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do. Problems are named by the dataset's ids."""

    new: tuple[str, ...]
    changed_question: Mapping[str, str]
    """The source's id of each problem whose question changed, and the dataset's."""
    changed_gold: tuple[str, ...]
    num_unchanged: int
    no_longer_selected: tuple[str, ...]
    rejected_rows: tuple[dict[str, object], ...]
    config_changes: tuple[KeyChange, ...]
    relabels: bool
    """Whether model, prompt, sampling, steps or seed are others than the last run's."""
    num_to_regrade: int
    num_unfinished: int
    """Problems for which the policy asks for more, new ones included."""
    num_wide_prefixes: int
    """That a top-up could spend on; those of unfinished problems come on top."""
    sampling: Estimate | None
    """None where nothing was ever sampled here, or nothing is missing."""
    top_up: Estimate | None
    """At most."""

    @property
    def does_nothing(self) -> bool:
        """Whether a run would change no label: it samples nothing and regrades nothing."""
        return not (
            self.num_unfinished
            or self.num_to_regrade
            or self.num_wide_prefixes
            or self.new
            or self.changed_gold
            or self.no_longer_selected
            or self.relabels
            or any(change.may_change_labels for change in self.config_changes)
        )

    def as_json(self) -> dict[str, Any]:
        """All fields, and `does_nothing`."""
        return {**asdict(self), "does_nothing": self.does_nothing}


def make_plan(config: RunConfig, out: Path) -> Plan:
    """Look at the problems' source, the config and the dataset `out`, which need not exist.

    Needs no lock: beside a live run the figures are those of one moment. Raises the errors
    with which the run would refuse.
    """
    check_purpose(out, Purpose.LABELS)
    checked = load_checked_problems(config, purpose=Purpose.LABELS)
    changes = compare_problems(read_problems(out), checked.loaded.problems)
    roles = resolve_roles(config)
    rows = graded_rows(out)
    before = selected_ids(out)
    now = {problem.problem_id for problem in changes.problems}
    manifest = read_manifest(out)
    unfinished, wide, finished = _look_at_work(config, roles, out, changes.problems)
    spent = spent_under(roles.digests, rows, CostLedger(out), finished)
    return Plan(
        new=changes.new,
        changed_question=changes.changed_question,
        changed_gold=changes.changed_gold,
        num_unchanged=len(changes.unchanged),
        no_longer_selected=tuple(one for one in before if one not in now),
        rejected_rows=tuple(
            {"row": one.row, "reason": one.reason} for one in checked.loaded.rejections
        ),
        config_changes=tuple(_config_changes(manifest.get("config"), config)),
        relabels=bool(manifest)
        and _digests(manifest) != (roles.completer.digest, roles.writer.digest),
        num_to_regrade=_num_to_regrade(config, roles, out, changes, rows),
        num_unfinished=len(unfinished),
        num_wide_prefixes=wide.num_prefixes,
        sampling=_sampling(config, unfinished, spent),
        top_up=_top_up(config, wide, spent),
    )


@dataclass(slots=True)
class _Wide:
    """Prefixes that a top-up could spend on, and the rollouts that would fill them."""

    num_prefixes: int = 0
    num_rollouts: int = 0


@dataclass(frozen=True, slots=True)
class _Unfinished:
    num_rollouts: int
    num_tokens: int


def _look_at_work(
    config: RunConfig, roles: Roles, out: Path, problems: Iterable[Problem]
) -> tuple[list[_Unfinished], _Wide, set[str]]:
    unfinished: list[_Unfinished] = []
    wide = _Wide()
    finished: set[str] = set()
    most = config.refresh.top_up_max_rollouts
    for work in stored_work(roles, out, problems=problems):
        if _is_unfinished(work, config):
            rollouts = (*work.rollouts, *(work.solutions or ()))
            unfinished.append(_Unfinished(len(rollouts), sum(one.num_tokens for one in rollouts)))
            continue
        finished.add(work.problem.problem_id)
        if config.refresh.tops_up:
            nodes = wide_prefixes(
                work, steps=config.steps, allocation=config.allocation, max_rollouts=most
            )
            wide.num_prefixes += len(nodes)
            wide.num_rollouts += sum(most - node.tally.total for node in nodes)
    return unfinished, wide, finished


def _is_unfinished(work: Work, config: RunConfig) -> bool:
    wanted = config.allocation.solutions_per_problem
    if work.solutions is not None and len(work.solutions) < wanted:
        return True  # the generator is asked first
    return wants_more(work, config)


def _num_to_regrade(
    config: RunConfig, roles: Roles, out: Path, changes: ProblemChanges, rows: Sequence[GradedRows]
) -> int:
    versions = versions_for(config, golds_beside_first(out, changes.problems))
    return num_to_regrade(config, out, rows, versions, digests=roles.digests)


def _sampling(
    config: RunConfig, unfinished: Sequence[_Unfinished], spent: Spent | None
) -> Estimate | None:
    if spent is None or not unfinished:
        return None
    rollouts = sum(max(1.0, spent.rollouts_a_problem - one.num_rollouts) for one in unfinished)
    tokens = sum(max(1.0, spent.tokens_a_problem - one.num_tokens) for one in unfinished)
    budget = config.allocation.budget
    return estimate(
        rollouts,
        tokens,
        spent,
        max_rollouts=budget.rollouts,
        max_tokens=budget.tokens,
        max_minutes=budget.minutes,
    )


def _top_up(config: RunConfig, wide: _Wide, spent: Spent | None) -> Estimate | None:
    if spent is None or not wide.num_prefixes:
        return None
    tokens = wide.num_rollouts * spent.tokens_a_problem / spent.rollouts_a_problem
    refresh = config.refresh
    return estimate(
        wide.num_rollouts,
        tokens,
        spent,
        max_rollouts=config.allocation.budget.rollouts,
        max_tokens=refresh.top_up_tokens,
        max_minutes=refresh.top_up_minutes,
    )


def _digests(manifest: Mapping[str, object]) -> tuple[object, object]:
    return manifest.get("sampling_digest"), manifest.get("generator_digest")


def _config_changes(before: object, config: RunConfig) -> Iterable[KeyChange]:
    if not isinstance(before, dict):
        return
    old = dict(_flat(before))
    new = dict(_flat(config.model_dump(mode="json")))
    for key in sorted({*old, *new}):
        is_about_labels = key.partition(".")[0] not in _NOT_LABELS
        if is_about_labels and old.get(key) != new.get(key):
            yield KeyChange(key, old.get(key), new.get(key))


def _flat(section: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, object]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
