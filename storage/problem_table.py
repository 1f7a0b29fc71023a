"""The problems of a dataset folder: `problems/part-*.parquet`, in the order they came."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import DataError
from pipeline.records import Problem
from storage.files import write_parquet
from storage.schema import PROBLEMS, read_table
from storage.tables import concatenate, problems_from_table, problems_to_table


def write_problems(path: Path, problems: Sequence[Problem]) -> None:
    """Add problems that are not stored yet.

    Raises DataError where a stored problem of the same id has another question or answer:
    its rollouts would then belong to two problems.
    """
    stored = {problem.problem_id: problem for problem in read_problems(path)}
    for problem in problems:
        other = stored.get(problem.problem_id)
        if other is not None and _content(other) != _content(problem):
            raise DataError(
                f"problem {problem.problem_id!r} is stored in {path} with another question or gold "
                "answer; give the changed problem a new id, or write to a new folder"
            )
    new = [problem for problem in problems if problem.problem_id not in stored]
    if new:
        write_parquet(_next_part(path / "problems"), problems_to_table(new))


def read_problems(path: Path) -> list[Problem]:
    """The stored problems, in the order in which they were added."""
    tables = (read_table(part, PROBLEMS) for part in _parts(path / "problems"))
    return problems_from_table(concatenate(tables, PROBLEMS))


def _content(problem: Problem) -> tuple[str, str]:
    return (problem.question, problem.gold_answer)


def _parts(folder: Path) -> list[Path]:
    return sorted(part for part in folder.glob("part-*.parquet") if part.stem[5:].isdecimal())


def _next_part(folder: Path) -> Path:
    numbers = [int(part.stem.partition("-")[2]) for part in _parts(folder)]
    return folder / f"part-{max(numbers, default=-1) + 1:06d}.parquet"
