"""Recompute the verdicts of stored rollouts with the present grader; nothing is sampled.

One pass over the journal, problem by problem: a rollout whose grader version is not the
expected one (`flows.grader_versions`) is graded again from its stored text, with the text
of its prefix, which the problem's stored solutions give. All rows are then written anew
into one part. A rollout whose prefix no stored solution has stays as it is, counted; where
no other is out of date, nothing is written.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pyarrow as pa

from flows.grader_versions import GraderVersions, expected_versions
from flows.regrade_report import RegradeReport
from flows.roles import Roles
from flows.run_config import RunConfig
from flows.selection import selected_problems
from flows.stored import label_work, work_of
from grading.pool import GradePool, GraderStartError
from grading.verdict import Grade
from labeling.steps import StepMethod
from labeling.tree import PrefixTree
from pipeline.errors import EngineError
from pipeline.records import FinishReason, Prefix, Problem, Rollout
from storage.journal import live_parts, rewrite
from storage.merge import merged_tables
from storage.problem_table import read_problems
from storage.tables import rollouts_from_table
from storage.verdicts import GradedRows, graded_rows, with_grades


def regrade(
    config: RunConfig,
    out: Path,
    *,
    roles: Roles,
    digests: set[str] | None = None,
    dry_run: bool = False,
) -> RegradeReport:
    """Grade anew what another grader version has graded; says what changed.

    Only rollouts under `digests`, where given. The caller holds the dataset's lock, but for
    a `dry_run`, which writes nothing. Killed at any instant it leaves all verdicts as they
    were or all as they are now. Raises EngineError where no grader can be started.
    """
    started = monotonic()
    versions = expected_versions(config, out)
    report = RegradeReport()
    if _any_out_of_date(graded_rows(out), versions, digests=digests):
        search = _search(config, out, versions, digests)
        num_lost, finds_any = 0, False
        for found, num_without_prefix in search.in_journal(out):
            num_lost += num_without_prefix
            if finds_any := bool(found):
                break
        if finds_any:
            _grade_anew(search, roles, out, report, dry_run=dry_run)
        else:
            report.num_without_prefix = num_lost
    report.seconds = monotonic() - started
    return report


def num_to_regrade(
    config: RunConfig,
    out: Path,
    rows: Iterable[GradedRows],
    versions: GraderVersions,
    *,
    digests: set[str] | None,
) -> int:
    """How many rollouts of the journal, whose rows are `rows`, `regrade` would grade anew.

    Raises DataError for a damaged part.
    """
    if not _any_out_of_date(rows, versions, digests=digests):
        return 0
    search = _search(config, out, versions, digests)
    return sum(len(found) for found, _ in search.in_journal(out))


def _any_out_of_date(
    rows: Iterable[GradedRows], versions: GraderVersions, *, digests: set[str] | None
) -> bool:
    return any(
        row.grader_version != versions.of(row.problem_id)
        and (digests is None or row.sampling_digest in digests)
        for row in rows
    )


def _search(
    config: RunConfig, out: Path, versions: GraderVersions, digests: set[str] | None
) -> "_Search":
    problems = {problem.problem_id: problem for problem in read_problems(out)}
    return _Search(config, problems, versions, digests)


def _grade_anew(
    search: "_Search", roles: Roles, out: Path, report: RegradeReport, *, dry_run: bool
) -> None:
    with GradePool(search.config.grading) as pool:
        selected = {problem.problem_id for problem in selected_problems(out)}
        job = _Pass(search, roles, selected, pool, report)
        if dry_run:
            for table in merged_tables(live_parts(out)):
                job.change(table)
        else:
            rewrite(out, job.change)


@dataclass(frozen=True, slots=True)
class _Search:
    """Finds the rollouts that are out of date."""

    config: RunConfig
    problems: Mapping[str, Problem]
    versions: GraderVersions
    digests: set[str] | None

    def in_journal(self, out: Path) -> Iterator[tuple[list["_OutOfDate"], int]]:
        """What `in_table` finds, some thousand rows at a time."""
        return map(self.in_table, merged_tables(live_parts(out)))

    def in_table(self, table: pa.Table) -> tuple[list["_OutOfDate"], int]:
        """Those to grade in a table of whole problems, and how many have lost their prefix."""
        found: list[_OutOfDate] = []
        num_without_prefix = 0
        for problem_id, first, last in _spans(table.column("problem_id").to_pylist()):
            part = table.slice(first, last - first)
            rows = self._rows_out_of_date(part, self.versions.of(problem_id))
            problem = self.problems.get(problem_id)
            if not rows or problem is None:
                num_without_prefix += len(rows)
                continue
            rollouts = rollouts_from_table(part)
            wanted = {rollouts[row].prefix_id for row in rows}
            prefixes = _prefixes(problem, rollouts, wanted, first=self.config.steps.method)
            for row in rows:
                prefix = prefixes.get(rollouts[row].prefix_id)
                if prefix is None:
                    num_without_prefix += 1
                else:
                    found.append(_OutOfDate(first + row, problem, prefix, rollouts[row]))
        return found, num_without_prefix

    def _rows_out_of_date(self, table: pa.Table, version: str) -> list[int]:
        versions = table.column("grader_version").to_pylist()
        digests = table.column("sampling_digest").to_pylist()
        return [
            row
            for row, (found, digest) in enumerate(zip(versions, digests, strict=True))
            if found != version and (self.digests is None or digest in self.digests)
        ]


@dataclass(frozen=True, slots=True)
class _Pass:
    """What the pass works with; `change` is called with whole problems, one table at a time."""

    search: _Search
    roles: Roles
    selected: set[str]
    pool: GradePool
    report: RegradeReport

    def change(self, table: pa.Table) -> pa.Table | None:
        """The table with new verdicts; None where none is out of date."""
        found, num_without_prefix = self.search.in_table(table)
        self.report.num_without_prefix += num_without_prefix
        if not found:
            return None
        requests = [
            (one.problem.gold_answer, one.text, one.rollout.finish_reason is FinishReason.LENGTH)
            for one in found
        ]
        try:
            grades = list(self.pool.grade_many(requests))
        except GraderStartError as error:
            raise EngineError(str(error)) from error
        regraded = list(zip(found, grades, strict=True))
        versions = self.search.versions
        changed = with_grades(
            table,
            {one.row: (grade, versions.of(one.problem.problem_id)) for one, grade in regraded},
        )
        self._note(table, changed, regraded)
        return changed

    def _note(
        self, before: pa.Table, after: pa.Table, regraded: Sequence[tuple["_OutOfDate", Grade]]
    ) -> None:
        flipped: dict[str, Problem] = {}
        for one, grade in regraded:
            self.report.note_verdict(one.problem, one.prefix, one.rollout, grade)
            is_flipped = grade.verdict is not one.rollout.verdict
            if is_flipped and one.problem.problem_id in self.selected:
                flipped[one.problem.problem_id] = one.problem
        if not flipped:
            return
        config = self.search.config
        for problem_id, first, last in _spans(before.column("problem_id").to_pylist()):
            if problem_id in flipped:
                old, new = (
                    label_work(
                        work_of(
                            self.roles,
                            flipped[problem_id],
                            rollouts_from_table(table.slice(first, last - first)),
                        ),
                        config,
                    ).solutions
                    for table in (before, after)
                )
                self.report.note_labels(old, new, threshold=config.labels.hard_threshold)


@dataclass(frozen=True, slots=True)
class _OutOfDate:
    """A rollout to grade, and the row of the table that it stands in."""

    row: int
    problem: Problem
    prefix: Prefix
    rollout: Rollout

    @property
    def text(self) -> str:
        return self.prefix.text + self.rollout.text


def _spans(problem_ids: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Each problem with its first row and the row after its last."""
    first = 0
    for problem_id, group in itertools.groupby(problem_ids):
        last = first + sum(1 for _ in group)
        yield problem_id, first, last
        first = last


def _prefixes(
    problem: Problem, rollouts: Sequence[Rollout], wanted: set[str], *, first: StepMethod
) -> dict[str, Prefix]:
    """The prefixes of the stored solutions, under every sampling digest, by id.

    Solutions are split by the method `first`, and by the others where some of `wanted` is not
    found: an older config may have had another.
    """
    root = Prefix(problem.problem_id)
    roots = [one for one in rollouts if one.prefix_id == root.prefix_id]
    found = {root.prefix_id: root}
    for method in (first, *(one for one in StepMethod if one is not first)):
        if wanted <= found.keys():
            break
        trees: dict[str, PrefixTree] = {}  # indices are distinct under one digest only
        for rollout in roots:
            if rollout.sampling_digest not in trees:
                trees[rollout.sampling_digest] = PrefixTree(problem, method=method)
            trees[rollout.sampling_digest].tell_solution(rollout)
        for tree in trees.values():
            found |= {prefix_id: node.prefix for prefix_id, node in tree.nodes.items()}
    return found
