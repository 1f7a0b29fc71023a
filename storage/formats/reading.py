"""Foreign files read into labelled solutions: which rows were kept, which left out and why."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.errors import ConfigError, DataError
from storage.formats import math_shepherd, prm800k, process_bench, trl_stepwise
from storage.formats.foreign import BadRowError, ForeignSolution, Row
from storage.formats.options import ImportFormat, ImportOptions
from storage.formats.rows import numbered_rows

MAX_LISTED = 1000
"""Malformed rows that are listed; all are counted."""

OnProgress = Callable[[int, int], None]
"""(KiB read, KiB of all files)"""

_READERS: dict[
    ImportFormat, Callable[[Row, ImportOptions, Counter[str]], Iterator[ForeignSolution]]
] = {
    ImportFormat.PRM800K: prm800k.read_row,
    ImportFormat.MATH_SHEPHERD: math_shepherd.read_row,
    ImportFormat.TRL_STEPWISE: trl_stepwise.read_row,
    ImportFormat.PROCESS_BENCH: process_bench.read_row,
}


@dataclass(frozen=True, slots=True)
class MalformedRow:
    """A row that is not of its format. `row` is 1-based: a line of jsonl, a row of Parquet."""

    file: str
    row: int
    reason: str


@dataclass(slots=True)
class ReadingReport:
    """What became of the rows: `rows` is the sum of `rows kept`, `rows malformed` and the
    `rows dropped: …`. Complete once all is read.
    """

    counts: Counter[str] = field(default_factory=Counter[str])
    malformed: list[MalformedRow] = field(default_factory=list[MalformedRow])


def foreign_solutions(
    files: Sequence[Path],
    kind: ImportFormat,
    options: ImportOptions,
    *,
    strict: bool,
    report: ReadingReport,
    on_progress: OnProgress,
) -> Iterator[ForeignSolution]:
    """The labelled solutions of all files, one row in memory at a time.

    Raises ConfigError for a file that is not there or options that do not fit, DataError for a
    damaged file, for a malformed row where `strict`, and where all rows are malformed.
    """
    _require_files(files)
    read_row = _READERS[kind]
    sizes = [file.stat().st_size for file in files]
    for index, file in enumerate(files):
        before = sum(sizes[:index])

        def on_bytes(done: int, before: int = before) -> None:
            on_progress((before + done) >> 10, sum(sizes) >> 10)

        for number, row in numbered_rows(file, on_bytes=on_bytes):
            report.counts["rows"] += 1
            of_row: Counter[str] = Counter()
            try:
                solutions = list(read_row(_readable(row), options, of_row))
            except BadRowError as error:
                _keep_malformed(report, MalformedRow(str(file), number, str(error)), strict=strict)
                continue
            except ConfigError as error:
                raise ConfigError(f"{file}, row {number}: {error}") from error
            report.counts["rows kept"] += bool(solutions)
            report.counts.update(of_row)
            for solution in solutions:
                yield replace(solution, source=solution.source or file.name)
    _require_a_good_row(report, kind)


def _readable(row: Row | str) -> Row:
    if isinstance(row, str):
        raise BadRowError(row)
    return row


def _require_files(files: Sequence[Path]) -> None:
    for file in files:
        if not file.is_file():
            raise ConfigError(f"{file}: there is no such file")
    resolved = Counter(file.resolve() for file in files)
    for file in files:
        if resolved[file.resolve()] > 1:
            raise ConfigError(f"{file} is given twice")


def _keep_malformed(report: ReadingReport, row: MalformedRow, *, strict: bool) -> None:
    if strict:
        raise DataError(
            f"{row.file}, row {row.row}: {row.reason}; correct it, or leave --strict away to have "
            "such rows counted and left out"
        )
    report.counts["rows malformed"] += 1
    if len(report.malformed) < MAX_LISTED:
        report.malformed.append(row)


def _require_a_good_row(report: ReadingReport, kind: ImportFormat) -> None:
    num_rows = report.counts["rows"]
    if num_rows == 0:
        raise DataError("the files hold no row; check that they are the right ones")
    if report.counts["rows malformed"] == num_rows:
        first = report.malformed[0]
        raise DataError(
            f"none of {num_rows} rows is of the format {kind}; the first, {first.file}, row "
            f"{first.row}: {first.reason}"
        )
