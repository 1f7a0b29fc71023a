"""The rows that `stepmark solve` reads and writes: questions in, graded answers out.

`solved.jsonl` gets a row a question as soon as it is answered, so that a killed run goes on
where it was. A row is keyed by the question and everything that decides its answer; rows of
other settings are refused. Half a row at the end, of a run killed while it wrote, is cut
off. One process at a time holds the file, by a kernel lock.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from grading.pool import GradePool
from grading.verdict import Verdict
from pipeline.errors import ConfigError, DataError, DatasetLockedError
from pipeline.records import Problem
from search.solver import SearchResult, Solution


@dataclass(frozen=True, slots=True)
class SolveSummary:
    """Counts of an output's rows. `num_graded` had a gold answer; `num_kept` were answered
    by an earlier run.
    """

    num_questions: int
    num_kept: int
    num_without_answer: int
    num_graded: int
    num_correct: int
    num_majority_correct: int
    num_undecided: int
    num_tokens: int


class SolvedFile:
    """The output file, held by this process. Rows are JSON objects with a `key`."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self._stream = stream

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> "Generator[SolvedFile]":
        """Create or open it. Raises DatasetLockedError where another run holds it."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = path.open("a+b")
        except OSError as error:
            raise ConfigError(f"--output {path} cannot be written: {error}") from error
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise DatasetLockedError(
                    f"{path} is being written by another run; wait for it or name another file"
                ) from error
            solved = cls(path, stream)
            solved._cut_half_row()
            yield solved

    def rows(self) -> list[dict[str, Any]]:
        """All rows. Raises DataError naming one that is none of ours."""
        self._stream.seek(0)
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(self._stream, 1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(self._not_ours(number)) from error
            if not isinstance(row, dict) or "key" not in row or "num_tokens" not in row:
                raise DataError(self._not_ours(number))
            rows.append(cast("dict[str, Any]", row))
        return rows

    def require_keys(self, keys: Collection[str]) -> set[str]:
        """The keys that are there. Raises ConfigError for a row whose key is none of `keys`."""
        rows = self.rows()
        for row in rows:
            if row["key"] not in keys:
                raise ConfigError(
                    f"{self.path} has an answer to {row.get('problem_id')!r} of another input, "
                    "PRM, model or [search]; name another output file, or remove this one"
                )
        return {str(row["key"]) for row in rows}

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row; it is on the disk when this returns."""
        try:
            self._stream.write(json.dumps(row, ensure_ascii=True).encode() + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise DataError(
                f"{self.path} cannot be written: {error}; what it has is kept, run the same "
                "command again"
            ) from error

    def _cut_half_row(self) -> None:
        self._stream.seek(0)
        content = self._stream.read()
        self._stream.truncate(content.rfind(b"\n") + 1)

    def _not_ours(self, number: int) -> str:
        return f"{self.path} row {number} is no row of `stepmark solve`; name another output file"


def problem_of(row: Mapping[str, object], place: str, *, default_id: str) -> Problem:
    """A question's problem. Raises ConfigError or DataError naming the key and the place."""
    texts = {"problem_id": default_id, "gold_answer": ""}
    for name in ("question", "problem_id", "gold_answer"):
        value = row.get(name, texts.get(name))
        if isinstance(value, int | float) and not isinstance(value, bool) and name != "question":
            value = str(value)
        if not isinstance(value, str):
            raise DataError(f"{place}: {name} = {str(value)[:80]!r} is no text")
        texts[name] = value
    if not texts["question"].strip():
        raise DataError(f"{place} is empty: there is nothing to solve")
    return Problem(
        texts["problem_id"], texts["question"].strip(), texts["gold_answer"], "solve", "solve"
    )


def read_questions(path: Path) -> list[Problem]:
    """The problems of a jsonl file. Raises DataError naming the file and row."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"--input {path} cannot be read: {error}") from error
    problems: list[Problem] = []
    first_at: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path} row {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place} is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise DataError(f"{place} is no object with a `question`")
        problem = problem_of(cast("dict[str, object]", row), place, default_id=str(number))
        first = first_at.setdefault(problem.problem_id, number)
        if first != number:
            raise DataError(
                f"{place} has the problem_id {problem.problem_id!r} of row {first}; ids are to be "
                "distinct"
            )
        problems.append(problem)
    if not problems:
        raise DataError(f"--input {path} has no rows; each is to have a `question`")
    return problems


def result_as_json(result: SearchResult, *, with_tree: bool) -> dict[str, Any]:
    """The result as a JSON object, its solutions ranked, its trees as a flat list."""
    content: dict[str, Any] = {
        "question": result.question,
        "method": result.method,
        "aggregation": result.aggregation,
        "answer": result.answer,
        "majority_answer": result.majority_answer,
        "weighted_answer": result.weighted_answer,
        "num_tokens": result.num_tokens,
        "num_samples": result.num_samples,
        "stopped": result.stopped,
        "solutions": [_solution_json(one) for one in result.solutions],
    }
    return content | ({"tree": result.tree()} if with_tree else {})


async def graded_row(
    key: str, problem: Problem, result: SearchResult, *, pool: GradePool
) -> dict[str, Any]:
    """The row of an answered question; verdicts where there is a gold answer."""
    row: dict[str, Any] = {"key": key, "problem_id": problem.problem_id}
    row |= result_as_json(result, with_tree=False)
    if problem.gold_answer:
        grades = [
            await asyncio.to_thread(pool.grade_answer, problem.gold_answer, answer)
            for answer in (result.answer, result.majority_answer)
        ]
        row |= {
            "gold_answer": problem.gold_answer,
            "verdict": grades[0].verdict,
            "verdict_reason": grades[0].reason,
            "majority_verdict": grades[1].verdict,
        }
    return row


def summary_of(rows: Sequence[Mapping[str, Any]], *, num_kept: int) -> SolveSummary:
    """Counts of the rows."""
    graded = [row for row in rows if "verdict" in row]
    return SolveSummary(
        num_questions=len(rows),
        num_kept=num_kept,
        num_without_answer=sum(not row["answer"] for row in rows),
        num_graded=len(graded),
        num_correct=sum(row["verdict"] == Verdict.CORRECT for row in graded),
        num_majority_correct=sum(row["majority_verdict"] == Verdict.CORRECT for row in graded),
        num_undecided=sum(row["verdict"] == Verdict.UNDECIDED for row in graded),
        num_tokens=sum(row["num_tokens"] for row in rows),
    )


def _solution_json(solution: Solution) -> dict[str, Any]:
    return {
        "text": solution.text,
        "answer": solution.answer,
        "score": solution.score,
        "steps": list(solution.steps),
        "step_scores": list(solution.step_scores),
        "tokens": solution.tokens,
        "is_cut_off": solution.is_cut_off,
    }
