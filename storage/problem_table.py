"""The problems of a dataset folder: `problems/part-*.parquet`, in the order they came.

Rows are only added. A problem whose gold answer changed keeps its id and has another row,
of which the last counts: its rollouts stay and are graded again. A problem whose question
changed is another problem, whose rollouts must not mix with the old one's: it goes on under
the id `<id>~<8 hex digits of the question>`, and back under its old id where the old
question comes back.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from pipeline.records import Problem
from storage.files import write_parquet
from storage.schema import PROBLEMS, read_table, table_batches
from storage.tables import concatenate, problems_from_table, problems_to_table

_IDS_IN_MEMORY = 65_536


@dataclass(frozen=True, slots=True)
class ProblemChanges:
    """Problems beside what is stored of them; their ids are those of the dataset.

    `problems` are all of them, in their order. `new`, `changed_gold` and `unchanged` hold
    ids; `changed_question` maps the source's id to the dataset's, and these are among the
    others, too: new at first, unchanged later.
    """

    problems: tuple[Problem, ...]
    new: tuple[str, ...]
    changed_gold: tuple[str, ...]
    unchanged: tuple[str, ...]
    changed_question: Mapping[str, str]


def compare_problems(stored: Iterable[Problem], problems: Sequence[Problem]) -> ProblemChanges:
    """What is new or changed in `problems`, whose ids are the source's, beside `stored`."""
    known = {problem.problem_id: problem for problem in stored}
    found: dict[str, Problem] = {}
    new: list[str] = []
    changed_gold: list[str] = []
    unchanged: list[str] = []
    changed_question: dict[str, str] = {}
    for problem in problems:
        problem_id = _dataset_id(problem, known, found)
        if problem_id != problem.problem_id:
            changed_question[problem.problem_id] = problem_id
        found[problem_id] = replace(problem, problem_id=problem_id)
        before = known.get(problem_id)
        if before is None:
            new.append(problem_id)
        elif before.gold_answer != problem.gold_answer:
            changed_gold.append(problem_id)
        else:
            unchanged.append(problem_id)
    return ProblemChanges(
        tuple(found.values()), tuple(new), tuple(changed_gold), tuple(unchanged), changed_question
    )


def write_problems(path: Path, problems: Sequence[Problem]) -> ProblemChanges:
    """Add what is new or changed to the dataset; `problems` have the source's ids."""
    changes = compare_problems(read_problems(path), problems)
    wanted = {*changes.new, *changes.changed_gold}
    rows = [problem for problem in changes.problems if problem.problem_id in wanted]
    if rows:
        write_parquet(_next_part(path / "problems"), problems_to_table(rows))
    return changes


def read_problems(path: Path) -> list[Problem]:
    """The problems as they are now, in the order in which they were first added."""
    return list({problem.problem_id: problem for problem in _rows(path)}.values())


def problem_parts(path: Path) -> list[Path]:
    """The files of the table, in the order in which they were written."""
    return _parts(path / "problems")


def added_order(path: Path) -> pa.Array:
    """The problems' ids in the order in which they were first added; no texts are read."""
    ids = [
        table.column("problem_id").combine_chunks()
        for part in _parts(path / "problems")
        for table in table_batches(part, PROBLEMS, num_rows=_IDS_IN_MEMORY, columns=("problem_id",))
    ]
    return pa.chunked_array(ids, pa.string()).unique()


def changed_golds(path: Path) -> dict[str, str]:
    """The present gold answers, by problem, that are not the ones first stored."""
    return golds_beside_first(path, ())


def golds_beside_first(path: Path, problems: Iterable[Problem]) -> dict[str, str]:
    """`changed_golds` as it would be, were `problems` (of the dataset's ids) written."""
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for problem in (*_rows(path), *problems):
        first.setdefault(problem.problem_id, problem.gold_answer)
        last[problem.problem_id] = problem.gold_answer
    return {problem_id: gold for problem_id, gold in last.items() if gold != first[problem_id]}


def _dataset_id(
    problem: Problem, known: Mapping[str, Problem], found: Mapping[str, Problem]
) -> str:
    problem_id = problem.problem_id
    while problem_id in found or (
        problem_id in known and known[problem_id].question != problem.question
    ):
        problem_id = f"{problem_id}~{_short_hash(problem.question)}"
    return problem_id


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _rows(path: Path) -> list[Problem]:
    tables = (read_table(part, PROBLEMS) for part in _parts(path / "problems"))
    return problems_from_table(concatenate(tables, PROBLEMS))


def _parts(folder: Path) -> list[Path]:
    return sorted(part for part in folder.glob("part-*.parquet") if part.stem[5:].isdecimal())


def _next_part(folder: Path) -> Path:
    numbers = [int(part.stem.partition("-")[2]) for part in _parts(folder)]
    return folder / f"part-{max(numbers, default=-1) + 1:06d}.parquet"
