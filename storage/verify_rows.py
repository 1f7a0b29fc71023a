"""The rows of a dataset's tables, checked one by one and beside each other.

Some rows are in memory at a time, of the problems only the ids. A file that cannot be read is
a finding, and is left out of what follows.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from grading.verdict import Verdict
from pipeline.errors import DataError
from pipeline.records import FinishReason
from storage.dataset import label_files
from storage.findings import REMAKE, RESTORE, Findings
from storage.journal import all_parts
from storage.merge import KEY_COLUMNS, merged_tables
from storage.schema import LABELS, PROBLEMS, ROLLOUTS, table_batches
from storage.tables import labels_from_table

_PART = re.compile(r"part-\d+\.parquet")
_ROWS_AT_ONCE = 16_384
_LABELS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class JournalRows:
    """How many rows are stored, and how many of them again."""

    num_rollouts: int
    num_doubled: int


def check_problems(findings: Findings) -> set[str]:
    """The ids of the stored problems."""
    ids: set[str] = set()
    for file in _data_files(findings, "problems"):
        for table in _tables(findings, file, PROBLEMS, RESTORE):
            if _nulls(table):
                findings.add(file, f"a row without {', '.join(_nulls(table))}", RESTORE)
            ids.update(table.column("problem_id").to_pylist())
    return ids


def check_journal(
    findings: Findings, problem_ids: Collection[str], *, replaced: Collection[str]
) -> JournalRows:
    """Each part by itself, then all that can be read, in the order of the keys.

    `replaced` are the names of the parts that another part replaces.
    """
    for file in _data_files(findings, "rollouts"):
        for table in _tables(findings, file, ROLLOUTS, RESTORE):
            for what in _wrong_rollouts(table, problem_ids):
                findings.add(file, what, RESTORE)
    whole = [
        part
        for part in all_parts(findings.path)
        if part not in findings.damaged and part.name not in replaced
    ]
    num_rollouts = num_doubled = 0
    try:
        for table in merged_tables(whole, keeps_duplicates=True):
            num_rollouts += table.num_rows
            num_doubled += _doubled(findings, table)
    except DataError as error:
        findings.add(findings.path / "rollouts", str(error), RESTORE)
    return JournalRows(num_rollouts, num_doubled)


def check_labels(findings: Findings, folder: Path, problem_ids: Collection[str]) -> int:
    """A snapshot's rows: each by itself, no solution twice, no unknown problem.

    Returns how many labelled solutions there are.
    """
    seen: set[str] = set()
    for file in label_files(folder):
        num_read = 0
        for table in _tables(findings, file, LABELS, REMAKE):
            try:
                labels_from_table(table, first_row=num_read)
            except DataError as error:
                findings.add(file, str(error), REMAKE)
            num_read += table.num_rows
            solutions = cast("list[str]", table.column("solution_id").to_pylist())
            if len(seen | set(solutions)) < len(seen) + len(solutions):
                findings.add(file, "it has a solution twice", REMAKE)
            seen.update(solutions)
            unknown = set(table.column("problem_id").to_pylist()) - set(problem_ids)
            if unknown:
                what = f"{min(map(str, unknown))!r} is no stored problem's id"
                findings.add(file, what, REMAKE)
    return len(seen)


def _doubled(findings: Findings, table: pa.Table) -> int:
    """How many rows are there again. With another text one of them does not belong here."""
    counted = table.group_by(list(KEY_COLUMNS)).aggregate(
        [("text", "count"), ("text", "count_distinct")]
    )
    other = counted.filter(pc.field("text_count_distinct") > 1)
    if other.num_rows:
        keys = [other.column(name)[0].as_py() for name in KEY_COLUMNS]
        findings.add(
            findings.path / "rollouts",
            f"{other.num_rows} rollouts are stored twice with other texts, the first is {keys}",
            "the part of the lowest number counts; move away the one that does not belong here",
        )
    return table.num_rows - counted.num_rows


def _wrong_rollouts(table: pa.Table, problem_ids: Collection[str]) -> Iterable[str]:
    if _nulls(table):
        yield f"a row without {', '.join(_nulls(table))}"
    for name, kind in (("verdict", Verdict), ("finish_reason", FinishReason)):
        values = set(table.column(name).to_pylist()) - {str(one) for one in kind} - {None}
        if values:
            yield f"{name} {min(values)!r} is none of {', '.join(kind)}"
    for name in ("rollout_index", "num_tokens"):
        below = table.filter(pc.field(name) < 0).column(name).to_pylist()
        if below:
            yield f"{name} {below[0]} is below 0"
    unknown = set(table.column("problem_id").to_pylist()) - set(problem_ids) - {None}
    if unknown:
        yield f"{len(unknown)} of its problems are not stored, the first is {min(unknown)!r}"


def _data_files(findings: Findings, folder: str) -> Iterator[Path]:
    for file in sorted((findings.path / folder).glob("[!.]*")):
        if _PART.fullmatch(file.name):
            yield file
        else:
            findings.add(file, "it is no part, so nothing reads it", "move it away")


def _tables(findings: Findings, file: Path, schema: pa.Schema, advice: str) -> Iterator[pa.Table]:
    """The rows, some at a time; ends with a finding where the file is damaged."""
    findings.files.add(file)
    num_rows = _LABELS_AT_ONCE if schema is LABELS else _ROWS_AT_ONCE
    try:
        yield from table_batches(file, schema, num_rows=num_rows)
    except DataError as error:
        findings.add(file, str(error).removeprefix(f"{file} "), advice)


def _nulls(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if table.column(name).null_count]
