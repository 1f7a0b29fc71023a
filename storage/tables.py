"""Records ↔ Arrow, column by column.

`pa.Table.from_pylist` is many times slower and drops unknown keys without a word.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from enum import StrEnum
from operator import attrgetter
from typing import TypeVar, cast

import pyarrow as pa

from grading.verdict import Verdict
from pipeline.errors import DataError
from pipeline.records import FinishReason, LabeledSolution, Problem, Rollout, StepLabel
from storage.schema import LABELS, PROBLEMS, ROLLOUTS

_Kind = TypeVar("_Kind", bound=StrEnum)


def problems_to_table(problems: Sequence[Problem]) -> pa.Table:
    """One row a problem, in order."""
    return _table(problems, PROBLEMS)


def problems_from_table(table: pa.Table) -> list[Problem]:
    """The problems of a table of the PROBLEMS schema."""
    return [Problem(*row) for row in zip(*_columns(table, Problem), strict=True)]


def rollouts_to_table(rollouts: Sequence[Rollout]) -> pa.Table:
    """One row a rollout, in order."""
    return _table(rollouts, ROLLOUTS)


def rollouts_from_table(table: pa.Table) -> list[Rollout]:
    """The rollouts of a table of the ROLLOUTS schema.

    Raises DataError, with the row's number (from 0), for an unknown verdict or finish reason.
    """
    columns = _columns(table, Rollout)
    names = [field.name for field in fields(Rollout)]
    for name, kind in (("verdict", Verdict), ("finish_reason", FinishReason)):
        at = names.index(name)
        member_of = {str(one): one for one in kind}
        try:
            columns[at] = [member_of[cast("str", value)] for value in columns[at]]
        except KeyError:
            for row, value in enumerate(columns[at]):
                _member(kind, value, f"row {row} of the rollouts")
            raise
    return [Rollout(*row) for row in zip(*columns, strict=True)]


def labels_to_table(
    solutions: Sequence[LabeledSolution],
    *,
    completer: str,
    generator: str,
    sampling_digest: str,
    grader_versions: Sequence[str],
    hard_threshold: float,
) -> pa.Table:
    """One row a labelled solution, in order; `grader_versions` has one for each.

    A step without a graded rollout has null for `mc_value` and `hard_label`, and the
    interval (0, 1).
    """

    def each(value: Callable[[StepLabel], object]) -> list[list[object]]:
        return [[value(label) for label in solution.labels] for solution in solutions]

    def constant(value: str) -> list[str]:
        return [value] * len(solutions)

    columns: dict[str, Sequence[object]] = {
        "problem_id": [s.problem.problem_id for s in solutions],
        "question": [s.problem.question for s in solutions],
        "gold_answer": [s.problem.gold_answer for s in solutions],
        "source": [s.problem.source for s in solutions],
        "solution_id": [s.solution_id for s in solutions],
        "completer": constant(completer),
        "generator": constant(generator),
        "sampling_digest": constant(sampling_digest),
        "grader_version": list(grader_versions),
        "steps": [list(s.steps) for s in solutions],
        "num_rollouts": each(lambda label: label.num_rollouts),
        "num_reused": each(lambda label: label.num_reused),
        "num_correct": each(lambda label: label.num_correct),
        "num_incorrect": each(lambda label: label.num_incorrect),
        "num_undecided": each(lambda label: label.num_undecided),
        "num_truncated": each(lambda label: label.num_truncated),
        "mc_value": each(lambda label: None if math.isnan(label.mc_value) else label.mc_value),
        "interval_low": each(lambda label: label.interval[0]),
        "interval_high": each(lambda label: label.interval[1]),
        "hard_label": each(
            lambda label: label.hard_label(hard_threshold) if label.num_graded else None
        ),
        "first_error": [s.first_error(hard_threshold) for s in solutions],
        "final_answer": [s.final_answer for s in solutions],
        "verdict": [s.verdict.value for s in solutions],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in LABELS]
    return pa.Table.from_arrays(arrays, schema=LABELS)


def labels_from_table(table: pa.Table, *, first_row: int = 0) -> list[LabeledSolution]:
    """The labelled solutions of a table of the LABELS schema.

    Raises DataError, with the row's number (the first is `first_row`) and its solution, for a
    null, for lists that are not as long as `steps`, for counts that do not add up and an
    unknown verdict.
    """
    rows = (row for batch in table.to_batches() for row in batch.to_pylist())
    return [
        _labeled_solution(row, f"row {index} of the labels (solution {row['solution_id']!r})")
        for index, row in enumerate(rows, start=first_row)
    ]


def _labeled_solution(row: dict[str, object], place: str) -> LabeledSolution:
    texts = {name: _present(row[name], name, place) for name in _LABEL_TEXTS}
    steps = [str(step) for step in _filled(row["steps"], "steps", place)]
    counts = {
        field.name: [
            _count(n, field.name, place) for n in _filled(row[field.name], field.name, place)
        ]
        for field in fields(StepLabel)
    }
    lengths = {name: len(listed) for name, listed in counts.items() if len(listed) != len(steps)}
    if not steps or lengths:
        raise DataError(f"{place}: {len(steps)} steps, but the lists have {lengths}; {_REMAKE}")
    labels = tuple(StepLabel(*values) for values in zip(*counts.values(), strict=True))
    for index, label in enumerate(labels):
        if label.num_graded + label.num_undecided != label.num_rollouts:
            raise DataError(
                f"{place}: step {index} has {label.num_rollouts} rollouts, but "
                f"{label.num_graded + label.num_undecided} verdicts; {_REMAKE}"
            )
    return LabeledSolution(
        problem=Problem(
            *(texts[name] for name in ("problem_id", "question", "gold_answer", "source")), split=""
        ),
        solution_id=texts["solution_id"],
        steps=tuple(steps),
        labels=labels,
        final_answer=texts["final_answer"],
        verdict=_member(Verdict, texts["verdict"], place),
    )


_LABEL_TEXTS = (
    "problem_id",
    "question",
    "gold_answer",
    "source",
    "solution_id",
    "final_answer",
    "verdict",
)
_REMAKE = "make the labels again with `stepmark generate`"


def _present(value: object, name: str, place: str) -> str:
    if value is None:
        raise DataError(f"{place}: {name} is null; {_REMAKE}")
    return str(value)


def _filled(value: object, name: str, place: str) -> list[object]:
    if not isinstance(value, list) or None in value:
        raise DataError(f"{place}: {name} is null or holds a null; {_REMAKE}")
    return cast("list[object]", value)


def _count(value: object, name: str, place: str) -> int:
    if not isinstance(value, int) or value < 0:
        raise DataError(f"{place}: {name} holds {value!r}, which is no count; {_REMAKE}")
    return value


def _member(kind: type[_Kind], value: object, place: str) -> _Kind:
    try:
        return kind(str(value))
    except ValueError as error:
        raise DataError(
            f"{place}: {value!r} is none of {', '.join(kind)}; the file is damaged or another "
            "program's"
        ) from error


def _table(records: Sequence[Problem] | Sequence[Rollout], schema: pa.Schema) -> pa.Table:
    columns = [map(attrgetter(field.name), records) for field in schema]
    arrays = [_array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: Iterable[object], kind: pa.DataType) -> pa.Array:
    listed = list(values)
    try:
        return pa.array(listed, kind)
    except UnicodeEncodeError:
        # a lone surrogate, which a model's byte tokens can decode to, has no UTF-8 form
        return pa.array([_text(value) for value in listed], kind)


def _text(value: object) -> object:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _columns(table: pa.Table, record: type[Problem] | type[Rollout]) -> list[list[object]]:
    return [table.column(field.name).to_pylist() for field in fields(record)]


def concatenate(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """All rows of `tables`, each of `schema`; an empty table for none."""
    listed = list(tables)
    return pa.concat_tables(listed) if listed else schema.empty_table()
