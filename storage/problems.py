"""Problems from the rows of a source (`storage.problem_rows`) or of the bundled demo domain.

Columns are given by name or by a preset (`../docs/vocabulary.md` has the words). A row
that cannot be used is *rejected*: listed with its number and the reason, never fatal and
never dropped in silence.

A problem without an id column is named by its content, so the same question in two files
is the same problem, and a changed question is a new one. Its gold answer is no part of the
name: a corrected one has the stored rollouts graded again (decision 13).
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from pipeline.config import stable_digest
from pipeline.demo.problems import demo_problem
from pipeline.errors import ConfigError, DataError
from pipeline.records import Problem
from storage.problem_config import ProblemPreset, ProblemsConfig
from storage.problem_rows import Row, numbered_rows


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row that is not a usable problem."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class LoadedProblems:
    """The usable problems in the order of their rows, the rejected rows, and the problems' row
    numbers (the index, for the demo).
    """

    problems: tuple[Problem, ...]
    rejections: tuple[Rejection, ...]
    rows: tuple[int, ...]


UngradableReason = Callable[[str], str | None]
"""Why no answer could be compared with a gold answer, in a word; None where one can be."""

_WHY_UNGRADABLE = {
    "unparsable": "broken notation or no mathematics",
    "unsupported": "unsupported notation",
    "too-large": "too large",
}


def load_problems(config: ProblemsConfig, *, ungradable_reason: UngradableReason) -> LoadedProblems:
    """Read the problems of `config`; those with an ungradable gold answer are rejected.

    Raises ConfigError for a source or column that does not exist, DataError for a file
    that cannot be read or in which every row is rejected.
    """
    if config.source == "demo":
        made = tuple(_demo_problems(config))
        return LoadedProblems(made, (), tuple(range(config.start, config.start + len(made))))
    columns = _columns(config)
    problems: dict[str, Problem] = {}
    rows: dict[str, int] = {}
    rejections: list[Rejection] = []
    names: set[str] = set()
    for row_number, row in _window(numbered_rows(config), config):
        names.update(row if isinstance(row, Mapping) else ())
        made = _problem(row, config, columns, ungradable_reason)
        if isinstance(made, Problem) and made.problem_id in problems:
            first = problems[made.problem_id]
            made = _duplicate(made, first, rows[made.problem_id], columns)
        if isinstance(made, Problem):
            problems[made.problem_id] = made
            rows[made.problem_id] = row_number
        else:
            rejections.append(Rejection(row_number, made))
    if not problems:
        raise _nothing_usable(config, columns, names, rejections)
    return LoadedProblems(tuple(problems.values()), tuple(rejections), tuple(rows.values()))


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


def _duplicate(made: Problem, first: Problem, row: int, columns: "_Columns") -> str:
    if columns.problem_id is not None:
        return f"duplicate id {made.problem_id!r}"
    if made.gold_answer == first.gold_answer:
        return f"the same question as row {row}"
    golds = f"{made.gold_answer[:80]!r}, there {first.gold_answer[:80]!r}"
    return f"the same question as row {row} with another gold answer: here {golds}"


def _problem(
    row: Row | str,
    config: ProblemsConfig,
    columns: _Columns,
    ungradable_reason: UngradableReason,
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
    is_finite = is_number and gold_answer.lower() != "nan"
    why = ungradable_reason(gold_answer) if is_finite else "not a number"
    if why is not None:
        hint = "; is this problems.preset = 'gsm8k'?" if "####" in gold_answer else ""
        shown = f"{gold_answer[:80]!r} cannot be read as an answer"
        return f"gold answer {shown}: {_WHY_UNGRADABLE.get(why, why)}{hint}"
    if columns.problem_id is None:
        problem_id = f"q-{stable_digest(question.strip())}"
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
