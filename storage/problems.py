"""Read problems: jsonl, csv, Parquet, Hub datasets (also as folders), and the bundled demo domain.

Columns are given by name or by a preset (`../docs/vocabulary.md` has the words). A row
that cannot be used is *rejected*: listed with its number and the reason, never fatal and
never dropped in silence. Row numbers are 1-based: the line of a jsonl or csv file (the
csv header is line 1), the row of a Parquet file or of a dataset's split.

A problem without an id column is named by its content, so the same question in two files
is the same problem, and a changed question is a new one.
"""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from pipeline.config import FrozenConfig, stable_digest
from pipeline.demo.problems import demo_problem
from pipeline.errors import ConfigError, DataError
from pipeline.records import Problem


class ProblemPreset(StrEnum):
    """Column names and gold-answer form of a well-known dataset."""

    GSM8K = "gsm8k"
    MATH = "math"


class ProblemsConfig(FrozenConfig):
    """Which problems to take.

    `source` is `demo`, a file (.jsonl, .csv, .parquet), a folder that `load_dataset` reads
    (a clone or download of a Hub dataset), or a Hub dataset id; what is here goes before the Hub.
    """

    source: str = "demo"
    preset: ProblemPreset | None = None
    """The columns and the gold answers of a well-known dataset: gsm8k or math."""
    question_column: str | None = None
    """None: the preset's, else `question`."""
    answer_column: str | None = None
    """None: the preset's, else `answer`."""
    id_column: str | None = None
    """None names problems by their content."""
    hub_config: str | None = None
    hub_revision: str | None = None
    """A commit, tag or branch of the Hub; a commit can also be read from the local cache."""
    split: Annotated[str, Field(pattern=r"^\w{1,64}$")] = "train"
    """The split of a dataset or of the demo to read, and the split's name in the labels."""
    start: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1)] | None = None
    """Rows to read from `start`; None reads all (the demo has no end and needs one)."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row that is not a usable problem."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class LoadedProblems:
    """The usable problems in the order of their rows, and the rejected rows."""

    problems: tuple[Problem, ...]
    rejections: tuple[Rejection, ...]


MAX_CSV_FIELD = 2**31 - 1
"""Characters: more than a file of problems has."""

MAX_REASON = 300
"""Characters of a library's own message that are shown."""

Row = Mapping[str, object]
IsGradable = Callable[[str], bool]


def load_problems(config: ProblemsConfig, *, is_gradable: IsGradable) -> LoadedProblems:
    """Read the problems of `config`. `is_gradable` tells whether a gold answer parses.

    Raises ConfigError for a source or column that does not exist, DataError for a file
    that cannot be read or in which every row is rejected.
    """
    if config.source == "demo":
        return LoadedProblems(tuple(_demo_problems(config)), ())
    columns = _columns(config)
    problems: dict[str, Problem] = {}
    rejections: list[Rejection] = []
    names: set[str] = set()
    for row_number, row in _window(_rows(config), config):
        names.update(row if isinstance(row, Mapping) else ())
        made = _problem(row, config, columns, is_gradable)
        if isinstance(made, Problem) and made.problem_id in problems:
            made = f"duplicate id {made.problem_id!r}"
        if isinstance(made, Problem):
            problems[made.problem_id] = made
        else:
            rejections.append(Rejection(row_number, made))
    if not problems:
        raise _nothing_usable(config, columns, names, rejections)
    return LoadedProblems(tuple(problems.values()), tuple(rejections))


def _nothing_usable(
    config: ProblemsConfig, columns: "_Columns", names: set[str], rejections: list[Rejection]
) -> ConfigError | DataError:
    for name in (columns.question, columns.problem_id):
        if name is not None and names and name not in names:
            return ConfigError(
                f"{config.source} has no column {name!r}; it has {', '.join(sorted(names))}: set "
                "problems.question_column, problems.answer_column and problems.id_column"
            )
    first = f", row {rejections[0].row}: {rejections[0].reason}" if rejections else ""
    return DataError(
        f"{config.source} gave no usable problem ({len(rejections)} rows rejected{first}); check "
        "problems.preset, problems.answer_column, problems.start and problems.limit"
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    question: str
    gold_answer: Callable[[Row], object]
    problem_id: str | None


def _columns(config: ProblemsConfig) -> _Columns:
    match config.preset:
        case ProblemPreset.GSM8K:
            question, gold = "question", _gsm8k_gold
        case ProblemPreset.MATH:
            question, gold = "problem", _math_gold
        case None:
            question, gold = "question", _column_gold(config.answer_column or "answer")
    if config.answer_column:
        gold = _column_gold(config.answer_column)
    return _Columns(config.question_column or question, gold, config.id_column)


def _column_gold(name: str) -> Callable[[Row], object]:
    return lambda row: row.get(name)


def _gsm8k_gold(row: Row) -> object:
    answer = row.get("answer")
    if not isinstance(answer, str) or "####" not in answer:
        return None
    return answer.rpartition("####")[2].strip().replace(",", "")


def _math_gold(row: Row) -> object:
    if row.get("answer") is not None:
        return row["answer"]
    solution = row.get("solution")
    return last_boxed(solution) if isinstance(solution, str) else None


def last_boxed(text: str) -> str | None:
    r"""The content of the last complete `\boxed{…}` of a published solution."""
    for start in reversed([match.end() for match in re.finditer(r"\\boxed\s*\{", text)]):
        depth = 1
        for position in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            if depth == 0:
                return text[start:position]
    return None


def _problem(
    row: Row | str, config: ProblemsConfig, columns: _Columns, is_gradable: IsGradable
) -> Problem | str:
    """The row's problem, or why there is none."""
    if isinstance(row, str):
        return row
    question = row.get(columns.question)
    if not isinstance(question, str) or not question.strip():
        return f"no question in column {columns.question!r}"
    gold = columns.gold_answer(row)
    if gold is None or not str(gold).strip():
        return "no gold answer"
    if isinstance(gold, bool) or not isinstance(gold, (str, int, float, Decimal)):
        return f"gold answer is a {type(gold).__name__}, not a text or a number"
    gold_answer = str(gold).strip()
    if not (_is_unicode(question) and _is_unicode(gold_answer)):
        return "question or gold answer holds half of a surrogate pair, which is no character"
    is_number = isinstance(gold, str) or math.isfinite(gold)
    if not is_number or gold_answer.lower() == "nan" or not is_gradable(gold_answer):
        hint = "; is this problems.preset = 'gsm8k'?" if "####" in gold_answer else ""
        return f"gold answer {gold_answer[:80]!r} cannot be read as an answer{hint}"
    if columns.problem_id is None:
        problem_id = f"q-{stable_digest([question.strip(), gold_answer])}"
    else:
        given = row.get(columns.problem_id)
        if isinstance(given, bool):
            return f"id in column {columns.problem_id!r} is a bool, not a text or a whole number"
        if not isinstance(given, (str, int)) or not str(given).strip():
            return f"no id in column {columns.problem_id!r}"
        if not _is_unicode(str(given)):
            return "id holds half of a surrogate pair, which is no character"
        problem_id = str(given).strip()
    return Problem(problem_id, question.strip(), gold_answer, _source_name(config), config.split)


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _source_name(config: ProblemsConfig) -> str:
    path = Path(config.source).expanduser()
    return path.absolute().name if path.exists() else config.source


def _demo_problems(config: ProblemsConfig) -> Iterator[Problem]:
    if config.limit is None:
        raise ConfigError("problems.source = 'demo' has no end; set problems.limit")
    for index in range(config.start, config.start + config.limit):
        made = demo_problem(config.split, index)
        yield Problem(made.problem_id, made.question, made.gold_answer, "demo", config.split)


def _window(
    rows: Iterator[tuple[int, Row | str]], config: ProblemsConfig
) -> Iterator[tuple[int, Row | str]]:
    for position, numbered in enumerate(rows):
        if config.limit is not None and position >= config.start + config.limit:
            return
        if position >= config.start:
            yield numbered


def _rows(config: ProblemsConfig) -> Iterator[tuple[int, Row | str]]:
    """Numbered rows of the source; a string in a row's place says why it cannot be read."""
    try:
        path = Path(config.source).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"problems.source = {config.source[:80]!r} cannot be looked up ({reason}); give a "
            "file, a folder, a Hub dataset id or 'demo'"
        ) from error
    suffix = path.suffix.lower()
    readers = {".jsonl": _jsonl_rows, ".csv": _csv_rows, ".parquet": _parquet_rows}
    if is_folder:
        _require_readable(path, config)
        return _hub_rows(config, folder=path.absolute())
    if suffix in readers and is_file:
        return readers[suffix](path)
    if suffix in readers:
        raise ConfigError(f"problems.source = {config.source!r}: there is no such file")
    if is_file:
        raise ConfigError(
            f"problems.source = {config.source!r}: {suffix or 'no suffix'} is not a known "
            "format; give a .jsonl, .csv or .parquet file, or a folder"
        )
    if "/" not in config.source:  # load_dataset takes some such names for formats of files here
        raise ConfigError(
            f"problems.source = {config.source!r} is neither a file nor a folder here, and a Hub "
            "dataset id is OWNER/NAME"
        )
    return _hub_rows(config)


def _jsonl_rows(path: Path) -> Iterator[tuple[int, Row | str]]:
    with _opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield number, f"not JSON ({error})"
                continue
            yield number, row if isinstance(row, dict) else "not a JSON object"


def _csv_rows(path: Path) -> Iterator[tuple[int, Row | str]]:
    csv.field_size_limit(MAX_CSV_FIELD)  # the process's own; 131072 by default
    with _opened(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        try:
            header = next(reader, [])
            _require_distinct(header, path)
            number = reader.line_num + 1  # a row can take many lines: this is its first
            for values in reader:
                if len(values) > len(header):
                    yield number, f"{len(values)} fields, but the header has {len(header)}"
                elif values:
                    yield number, dict(zip(header, values, strict=False))
                number = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line {reader.line_num}: not valid csv ({error})") from error


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check its rights") from error


def _require_distinct(names: Sequence[str], path: Path) -> None:
    """Columns without a name, which a table program leaves at the edge, may be many."""
    repeated = [name for name, count in Counter(names).items() if name and count > 1]
    if repeated:
        raise ConfigError(
            f"{path} has more than one column {', '.join(map(repr, repeated))}; which one is "
            "meant cannot be told: rename or remove the others"
        )


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row | str]]:
    try:
        number = 0
        file = pq.ParquetFile(path)
        _require_distinct(file.schema_arrow.names, path)
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error


def _require_readable(folder: Path, config: ProblemsConfig) -> None:
    if config.hub_revision is not None:
        raise ConfigError(
            f"problems.source = {config.source!r} is a folder here, and problems.hub_revision = "
            f"{config.hub_revision!r} is only for the Hub: remove it, or move the folder"
        )
    if (folder / "state.json").is_file():
        raise ConfigError(
            f"problems.source = {config.source!r} was written by save_to_disk; give a folder of "
            "data files (write it with to_parquet, or download it from the Hub)"
        )


def _hub_rows(
    config: ProblemsConfig, *, folder: Path | None = None
) -> Iterator[tuple[int, Row | str]]:
    """Rows of a Hub dataset, or of the folder, which has what a Hub dataset has."""
    try:
        rows = _folder_split(config, folder) if folder else _hub_split(config)
        yield from enumerate(rows, start=1)
    except ConfigError:
        raise
    except Exception as error:  # datasets raises whatever its parts raise
        kind, more = ("folder of data files", "") if folder else ("Hub dataset", "hub_revision, ")
        raise ConfigError(
            f"problems.source = {config.source!r} cannot be read as a {kind}; check it and "
            f"problems.hub_config, {more}split: {_one_line(error)}"
        ) from error


def _folder_split(config: ProblemsConfig, folder: Path) -> Iterator[Row]:
    """Straight from the files: the cache of `datasets` does not notice that they change."""
    from datasets import load_dataset_builder

    with TemporaryDirectory() as empty_cache:
        builder = load_dataset_builder(str(folder), config.hub_config, cache_dir=empty_cache)
        yield from cast(Iterable[Row], builder.as_streaming_dataset(split=config.split))


def _hub_split(config: ProblemsConfig) -> Iterable[Row]:
    from datasets import load_dataset_builder
    from datasets.packaged_modules.cache.cache import Cache

    builder = load_dataset_builder(config.source, config.hub_config, revision=config.hub_revision)
    # where the Hub does not answer, datasets takes the newest of its cache, whatever the revision
    if config.hub_revision not in (None, builder.hash) and isinstance(builder, Cache):
        raise ConfigError(
            f"problems.hub_revision = {config.hub_revision!r} of {config.source!r} cannot be had "
            f"from the Hub, and the newest copy in the cache is commit {builder.hash}: go online, "
            "or name that commit"
        )
    builder.download_and_prepare()
    return cast(Iterable[Row], builder.as_dataset(split=config.split))


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:MAX_REASON] if text else repr(error)
