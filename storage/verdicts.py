"""What the journal's verdicts were made with, and tables with other verdicts in their place.

A look at four columns of the journal: no text is read.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from grading.verdict import Grade
from storage.journal import live_parts
from storage.schema import ROLLOUTS, table_batches

_COLUMNS = ("problem_id", "sampling_digest", "grader_version", "num_tokens")
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class GradedRows:
    """Rows of one problem under one sampling digest that one grader version has graded."""

    problem_id: str
    sampling_digest: str
    grader_version: str
    num_rollouts: int
    num_tokens: int


def graded_rows(path: Path) -> list[GradedRows]:
    """All rows of the journal, counted. A row that a crash has doubled counts twice.

    Raises DataError for a damaged part.
    """
    rollouts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    tokens: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for part in live_parts(path):
        for table in table_batches(part, ROLLOUTS, num_rows=_ROWS_AT_ONCE, columns=_COLUMNS):
            counted = table.group_by(list(_COLUMNS[:3])).aggregate(
                [("num_tokens", "count"), ("num_tokens", "sum")]
            )
            names = (*_COLUMNS[:3], "num_tokens_count", "num_tokens_sum")
            columns = [counted.column(name).to_pylist() for name in names]
            for problem_id, digest, version, num_rollouts, num_tokens in zip(*columns, strict=True):
                key = (problem_id, digest, version)
                rollouts[key] += num_rollouts
                tokens[key] += num_tokens
    return [GradedRows(*key, count, tokens[key]) for key, count in rollouts.items()]


def with_grades(table: pa.Table, grades: Mapping[int, tuple[Grade, str]]) -> pa.Table:
    """The table with another grade, and the grader's version, in the rows of `grades`."""
    columns: dict[str, dict[int, str]] = {
        "final_answer": {row: grade.answer for row, (grade, _) in grades.items()},
        "verdict": {row: grade.verdict.value for row, (grade, _) in grades.items()},
        "verdict_reason": {row: grade.reason for row, (grade, _) in grades.items()},
        "grader_version": {row: version for row, (_, version) in grades.items()},
    }
    for name, changed in columns.items():
        at = table.schema.get_field_index(name)
        values = table.column(at).to_pylist()
        for row, value in changed.items():
            values[row] = value
        field = table.schema.field(at)
        table = table.set_column(at, field, pa.array(values, field.type))
    return table
