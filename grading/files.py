"""Grade a file of answers: `stepmark grade --input IN.jsonl --output OUT.jsonl`.

In: `id`, `gold`, `prediction`, optional `form` (`answer` or `response`, the default), or in
place of `prediction` a `prediction_gen` of `prefix`, `unit`, `count`, `suffix`, which stands
for prefix + unit*count + suffix. Out, in the same order: `id`, `verdict`, `reason`,
`answer`, `seconds`. A null counts as absent;
other keys of a row are ignored.
"""

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import cast

from grading.config import GradingConfig
from grading.pool import GradePool
from grading.verdict import Verdict

MAX_GENERATED_CHARS = 64_000_000


class GradeInputError(ValueError):
    """A row of the input that cannot be graded; names the file and the line."""


class AnswerForm(StrEnum):
    """A bare answer, or a whole response in which it must be found."""

    ANSWER = "answer"
    RESPONSE = "response"


def grade_file(
    input_path: str | Path,
    output_path: str | Path,
    *,
    config: GradingConfig | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Counter[Verdict]:
    """Grade every row and return how many got each verdict.

    All rows are checked before anything is graded; the output appears whole or not at all.
    `on_progress(done, total)` is called after each row.

    Raises:
        GradeInputError: a line that is no such row.
        OSError: a path that cannot be read or written.
    """
    config = config or GradingConfig()
    rows = _read_rows(Path(input_path))
    counts: Counter[Verdict] = Counter()
    lines: list[str] = []
    with GradePool(config) as pool, ThreadPoolExecutor(config.workers) as threads:
        for result in threads.map(partial(_grade_row, pool), rows):
            counts[Verdict(str(result["verdict"]))] += 1
            lines.append(json.dumps(result) + "\n")
            on_progress(len(lines), len(rows))
    _write_whole(Path(output_path), lines)
    return counts


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


def _grade_row(pool: GradePool, row: _Row) -> dict[str, object]:
    prediction = row.prediction()
    started = time.perf_counter()
    if row.form is AnswerForm.ANSWER:
        grade = pool.grade_answer(row.gold, prediction)
    else:
        grade = pool.grade(row.gold, prediction)
    return {
        "id": row.row_id,
        "verdict": grade.verdict,
        "reason": grade.reason,
        "answer": grade.answer,
        "seconds": round(time.perf_counter() - started, 6),
    }


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
        for number, raw in enumerate(stream, start=1):
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
    size = len(prefix) + len(unit) * count + len(suffix)
    if size > MAX_GENERATED_CHARS:
        raise GradeInputError(
            f"{where}: `prediction_gen` stands for {size} characters; the limit is "
            f"{MAX_GENERATED_CHARS}"
        )
    return prefix, unit, count, suffix


def _text(value: dict[str, object], name: str, where: str, *, default: str | None = None) -> str:
    found = value.get(name, default)
    if not isinstance(found, str):
        problem = "is missing" if name not in value else f"must be a string, not {found!r:.80}"
        raise GradeInputError(f"{where}: `{name}` {problem}")
    return found


def _write_whole(path: Path, lines: list[str]) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.writelines(lines)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
