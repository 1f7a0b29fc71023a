"""Grade a file of answers: `stepmark grade --input IN.jsonl --output OUT.jsonl`.

In: `id`, `gold`, `prediction`, optional `form` (`answer` or `response`, the default), or in
place of `prediction` a `prediction_gen` of `prefix`, `unit`, `count`, `suffix`, which stands
for prefix + unit*count + suffix. Out, in the same order: `id`, `verdict`, `reason`,
`answer`, `seconds`. A null counts as absent;
other keys of a row are ignored. The input is read once, so a pipe will do; an output that
is a link is followed, and a device, a pipe or the standard output is written to as it is.
"""

import codecs
import errno
import json
import os
import stat
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TextIO, cast

from grading.config import GradingConfig
from grading.pool import GradePool
from grading.verdict import Grade, Verdict

MAX_GENERATED_CHARS = 64_000_000


class GradeInputError(ValueError):
    """A row of the input that cannot be graded; names the file and the line."""


class AnswerForm(StrEnum):
    """A bare answer, or a whole response in which it must be found."""

    ANSWER = "answer"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class GradeSummary:
    """How many rows got each verdict and reason, and which rules found their answers.

    A row of form `answer` counts under the rule `bare`.
    """

    by_reason: Counter[tuple[Verdict, str]] = field(default_factory=Counter[tuple[Verdict, str]])
    by_rule: Counter[str] = field(default_factory=Counter[str])

    @property
    def by_verdict(self) -> Counter[Verdict]:
        """Rows by verdict alone; only verdicts that occur."""
        counts: Counter[Verdict] = Counter()
        for (verdict, _), count in self.by_reason.items():
            counts[verdict] += count
        return counts


def grade_file(
    input_path: str | Path,
    output_path: str | Path,
    *,
    config: GradingConfig | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> GradeSummary:
    """Grade every row and return what came out.

    All rows, and that the output can be written, are checked before anything is graded; the
    output appears whole or not at all.
    `on_progress(done, total)` is called after each row.

    Raises:
        GradeInputError: a line that is no such row.
        OSError: a path that cannot be read or written.
    """
    config = config or GradingConfig()
    rows = _read_rows(Path(input_path))
    summary = GradeSummary()
    lines: list[str] = []
    with _opened_output(Path(output_path)) as output:
        with GradePool(config) as pool:
            pool.start()
            for result in _graded(pool, rows, num_threads=config.workers):
                summary.by_reason[(result.grade.verdict, result.grade.reason)] += 1
                summary.by_rule[result.rule] += 1
                lines.append(_line(result))
                on_progress(len(lines), len(rows))
        output.writelines(lines)
    return summary


def is_standard_output(path: str | Path) -> bool:
    """Whether what is written to `path` goes where `print` does."""
    try:
        return _is_standard_output(Path(path).stat())
    except OSError:
        return False


_LOOK_AHEAD = 64


@dataclass(frozen=True, slots=True)
class _Row:
    row_id: str | int
    gold: str
    prefix: str
    unit: str
    count: int
    suffix: str
    form: AnswerForm

    def prediction(self) -> str:
        return self.prefix + self.unit * self.count + self.suffix


@dataclass(frozen=True, slots=True)
class _Graded:
    row_id: str | int
    grade: Grade
    rule: str
    seconds: float


def _graded(pool: GradePool, rows: Sequence[_Row], *, num_threads: int) -> Iterator[_Graded]:
    """In order. A single worker needs no threads; more look a bounded number of rows ahead."""
    if num_threads == 1:
        yield from (_grade_row(pool, row) for row in rows)
        return
    threads = ThreadPoolExecutor(num_threads)
    pending: deque[Future[_Graded]] = deque()
    try:
        for row in rows:
            pending.append(threads.submit(_grade_row, pool, row))
            if len(pending) >= _LOOK_AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


def _grade_row(pool: GradePool, row: _Row) -> _Graded:
    prediction = row.prediction()
    started = time.perf_counter()
    if row.form is AnswerForm.ANSWER:
        answer, rule = prediction, "bare"
    else:
        found = pool.extract(prediction)
        answer, rule = found.answer, str(found.rule)
    grade = pool.grade_answer(row.gold, answer)
    return _Graded(row.row_id, grade, rule, time.perf_counter() - started)


def _line(result: _Graded) -> str:
    row = {
        "id": result.row_id,
        "verdict": result.grade.verdict,
        "reason": result.grade.reason,
        "answer": result.grade.answer,
        "seconds": round(result.seconds, 6),
    }
    return json.dumps(row) + "\n"


def _read_rows(path: Path) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in _numbered_lines(path):
        where = f"{path}, line {number}"
        try:
            value = cast("object", json.loads(line))
        except (ValueError, RecursionError) as error:
            raise GradeInputError(f"{where}: not JSON ({error}); one object a line") from error
        if not isinstance(value, dict):
            raise GradeInputError(f"{where}: expected a JSON object, not {type(value).__name__}")
        rows.append(_row_of(cast("dict[str, object]", value), where))
    return rows


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            raw = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if not raw.strip():
                continue
            try:
                yield number, raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise GradeInputError(f"{path}, line {number}: not UTF-8 ({error})") from error


def _row_of(value: dict[str, object], where: str) -> _Row:
    value = {name: found for name, found in value.items() if found is not None}
    row_id = value.get("id")
    if isinstance(row_id, bool) or not isinstance(row_id, (str, int)):
        raise GradeInputError(f"{where}: `id` must be a string or an integer, not {row_id!r}")
    form = value.get("form", AnswerForm.RESPONSE)
    if form not in tuple(AnswerForm):
        raise GradeInputError(f"{where}: `form` must be `answer` or `response`, not {form!r}")
    if ("prediction" in value) == ("prediction_gen" in value):
        raise GradeInputError(f"{where}: needs exactly one of `prediction` and `prediction_gen`")
    gold = _text(value, "gold", where)
    if "prediction" in value:
        return _Row(
            row_id, gold, _text(value, "prediction", where), "", 0, "", AnswerForm(str(form))
        )
    prefix, unit, count, suffix = _generated(value["prediction_gen"], where)
    return _Row(row_id, gold, prefix, unit, count, suffix, AnswerForm(str(form)))


def _generated(value: object, where: str) -> tuple[str, str, int, str]:
    if not isinstance(value, dict):
        raise GradeInputError(f"{where}: `prediction_gen` must be an object, not {value!r}")
    parts = cast("dict[str, object]", value)
    count = parts.get("count", 0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise GradeInputError(f"{where}: `count` must be a whole number ≥ 0, not {count!r}")
    prefix, unit, suffix = (
        _text(parts, name, where, default="") for name in ("prefix", "unit", "suffix")
    )
    count = count if unit else 0  # Python repeats not even nothing 2**63 times
    size = len(prefix) + len(unit) * count + len(suffix)
    if size > MAX_GENERATED_CHARS:
        shown = size if size < 10**18 else "more than 10^18"
        raise GradeInputError(
            f"{where}: `prediction_gen` stands for {shown} characters; the limit is "
            f"{MAX_GENERATED_CHARS}"
        )
    return prefix, unit, count, suffix


def _text(value: dict[str, object], name: str, where: str, *, default: str | None = None) -> str:
    found = value.get(name, default)
    if not isinstance(found, str):
        problem = "is missing" if name not in value else f"must be a string, not {found!r:.80}"
        raise GradeInputError(f"{where}: `{name}` {problem}")
    return found


@contextmanager
def _opened_output(path: Path) -> Generator[TextIO, None, None]:
    """A stream whose content takes `path`'s place on leaving, and is dropped after an error."""
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    if found is None or (stat.S_ISREG(found.st_mode) and not _is_standard_output(found)):
        with _replacing(path) as stream:
            yield stream
    elif stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "the output is a folder, name a file", str(path))
    else:
        # what the shell made of our standard output must keep its place in the file
        target = os.dup(1) if _is_standard_output(found) else path
        with open(target, "w", encoding="utf-8") as stream:  # noqa: PTH123 - or a descriptor
            if not isinstance(target, Path):
                sys.stdout.flush()
            yield stream


def _is_standard_output(found: os.stat_result) -> bool:
    try:
        return os.path.samestat(found, os.fstat(1))
    except OSError:  # closed
        return False


@contextmanager
def _replacing(path: Path) -> Generator[TextIO, None, None]:
    target = Path(os.path.realpath(path))  # a link stays one
    try:
        descriptor, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"
        )
    except OSError as error:  # it names the temporary file
        raise OSError(error.errno, error.strerror, str(path)) from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
