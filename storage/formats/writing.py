"""Labelled solutions written as a foreign file, jsonl or Parquet by suffix, whole or not at all."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution
from storage.files import write_parquet_batches, write_whole
from storage.formats import math_shepherd, rlhflow, step_pairs, trl_stepwise
from storage.formats.foreign import Row
from storage.formats.options import ExportFormat, ExportOptions
from storage.formats.row_groups import row_groups

_WRITERS: dict[
    ExportFormat,
    Callable[[Iterable[LabeledSolution], ExportOptions, Counter[str]], Iterator[Row]],
] = {
    ExportFormat.TRL_STEPWISE: trl_stepwise.write_rows,
    ExportFormat.MATH_SHEPHERD: math_shepherd.write_rows,
    ExportFormat.RLHFLOW: rlhflow.write_rows,
    ExportFormat.STEP_DPO: step_pairs.write_step_dpo,
    ExportFormat.TRL_PREFERENCE: step_pairs.write_preferences,
}

# what ends a line for some readers of text, though not in JSON
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def write_foreign(
    out: Path, solutions: Iterable[LabeledSolution], kind: ExportFormat, options: ExportOptions
) -> Counter[str]:
    """Write `out`; returns what was kept and what was left out, by reason.

    Raises ConfigError for another suffix, and DataError where no row comes out: then, as after
    any error, `out` is as it was.
    """
    write = _writer(out)
    counts: Counter[str] = Counter()
    rows = _counted(_WRITERS[kind](solutions, options, counts), out, kind, counts)
    write(out, rows, _schema(kind, options))
    return counts


def check_suffix(out: Path) -> None:
    """Raise ConfigError where `out` is of no kind that can be written."""
    _writer(out)


def _writer(out: Path) -> Callable[[Path, Iterator[Row], pa.Schema], None]:
    match out.suffix.lower():
        case ".jsonl":
            return _write_jsonl
        case ".parquet":
            return _write_parquet
        case _:
            raise ConfigError(f"--out {out} ends in neither .jsonl nor .parquet; name it so")


def _counted(
    rows: Iterator[Row], out: Path, kind: ExportFormat, counts: Counter[str]
) -> Iterator[Row]:
    for row in rows:
        counts["rows written"] += 1
        yield row
    if not counts["rows written"]:
        reasons = "; ".join(f"{what}: {n}" for what, n in sorted(counts.items()) if n)
        raise DataError(
            f"{out} is not written: nothing in the dataset makes a row of {kind} "
            f"({reasons or 'it has no solution'})"
        )


def _schema(kind: ExportFormat, options: ExportOptions) -> pa.Schema:
    match kind:
        case ExportFormat.TRL_STEPWISE:
            return trl_stepwise.schema(options.labels)
        case ExportFormat.MATH_SHEPHERD:
            return math_shepherd.SCHEMA
        case ExportFormat.RLHFLOW:
            return rlhflow.SCHEMA
        case ExportFormat.STEP_DPO:
            return step_pairs.STEP_DPO_SCHEMA
        case ExportFormat.TRL_PREFERENCE:
            return step_pairs.PREFERENCE_SCHEMA


def _write_jsonl(out: Path, rows: Iterator[Row], _: pa.Schema) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            for row in rows:
                line = json.dumps(row, ensure_ascii=False, allow_nan=False)
                stream.write(line.translate(_LINE_ENDS) + "\n")

    write_whole(out, write)


def _write_parquet(out: Path, rows: Iterator[Row], schema: pa.Schema) -> None:
    write_parquet_batches(out, _tables(rows, schema), schema=schema)


def _tables(rows: Iterator[Row], schema: pa.Schema) -> Iterator[pa.Table]:
    for group in row_groups(rows, lambda row: len(str(row))):
        columns = [pa.array([row[field.name] for row in group], field.type) for field in schema]
        yield pa.Table.from_arrays(columns, schema=schema)
