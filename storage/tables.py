"""Records ↔ Arrow, column by column.

`pa.Table.from_pylist` is many times slower and drops unknown keys without a word.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields

import pyarrow as pa

from grading.verdict import Verdict
from pipeline.records import FinishReason, LabeledSolution, Problem, Rollout, StepLabel
from storage.schema import LABELS, PROBLEMS, ROLLOUTS


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
    """The rollouts of a table of the ROLLOUTS schema."""
    columns = _columns(table, Rollout)
    names = [field.name for field in fields(Rollout)]
    verdict_at, finish_at = names.index("verdict"), names.index("finish_reason")
    columns[verdict_at] = [Verdict(value) for value in columns[verdict_at]]
    columns[finish_at] = [FinishReason(value) for value in columns[finish_at]]
    return [Rollout(*row) for row in zip(*columns, strict=True)]


def labels_to_table(
    solutions: Sequence[LabeledSolution],
    *,
    completer: str,
    generator: str,
    sampling_digest: str,
    grader_version: str,
    hard_threshold: float,
) -> pa.Table:
    """One row a labelled solution, in order.

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
        "grader_version": constant(grader_version),
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


def labels_from_table(table: pa.Table) -> list[LabeledSolution]:
    """The labelled solutions of a table of the LABELS schema."""
    return [_labeled_solution(row) for batch in table.to_batches() for row in batch.to_pylist()]


def _labeled_solution(row: dict[str, object]) -> LabeledSolution:
    counts = zip(*(_ints(row[field.name]) for field in fields(StepLabel)), strict=True)
    problem = Problem(
        *(str(row[name]) for name in ("problem_id", "question", "gold_answer", "source")), split=""
    )
    steps = row["steps"]
    assert isinstance(steps, list)
    return LabeledSolution(
        problem=problem,
        solution_id=str(row["solution_id"]),
        steps=tuple(str(step) for step in steps),
        labels=tuple(StepLabel(*values) for values in counts),
        final_answer=str(row["final_answer"]),
        verdict=Verdict(str(row["verdict"])),
    )


def _ints(value: object) -> list[int]:
    assert isinstance(value, list)
    return [int(number) for number in value]


def _table(records: Sequence[Problem] | Sequence[Rollout], schema: pa.Schema) -> pa.Table:
    arrays = [
        pa.array([_text(getattr(record, field.name)) for record in records], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _text(value: object) -> object:
    # A lone surrogate, which a model's byte tokens can decode to, has no UTF-8 form.
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def _columns(table: pa.Table, record: type[Problem] | type[Rollout]) -> list[list[object]]:
    return [table.column(field.name).to_pylist() for field in fields(record)]


def concatenate(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """All rows of `tables`, each of `schema`; an empty table for none."""
    listed = list(tables)
    return pa.concat_tables(listed) if listed else schema.empty_table()
