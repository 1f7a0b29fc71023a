"""Solutions gathered under their questions: an external sort in a temporary SQLite file.

Foreign files have a question's rows anywhere; labels stand in the order of problem ids. Memory
is that of SQLite's page cache, whatever is gathered.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

from grading.verdict import Verdict
from pipeline.errors import DataError
from pipeline.records import LabeledSolution, Problem, StepLabel
from storage.formats.foreign import ForeignSolution

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE problems (id TEXT PRIMARY KEY, question TEXT, gold TEXT, source TEXT) WITHOUT ROWID;
CREATE TABLE solutions (number INTEGER PRIMARY KEY, problem TEXT, name TEXT, content TEXT);
CREATE TABLE seen (
    problem TEXT, name TEXT, content TEXT, PRIMARY KEY (problem, name)
) WITHOUT ROWID;
"""
_IN_ORDER = """
SELECT p.id, p.question, p.gold, p.source, s.name, s.content
FROM problems p JOIN solutions s ON s.problem = p.id ORDER BY p.id, s.number
"""


_counts_of = attrgetter(*(field.name for field in fields(StepLabel)))


class Arrival(StrEnum):
    """What became of a solution; only a new one is kept."""

    NEW = "new"
    DUPLICATE = "duplicate"
    CONFLICT = "same steps, other labels"


class GatheredSolutions:
    """Takes solutions in any order and gives them by problem. A context manager, whose file in
    `folder` goes at the end.

    The first of several with the same question and name (or steps) stays. A question's gold
    answer is the first that is not empty.
    """

    def __init__(self, folder: Path, *, origin: str, split: str) -> None:
        """`origin` names the format in the solutions' ids."""
        self._origin, self._split = origin, split
        self.num_other_gold_answers = 0
        self._file = folder / ".solutions.sqlite"
        self._database = sqlite3.connect(self._file, isolation_level=None)
        self._database.executescript(_SCHEMA)
        self._database.execute("BEGIN")

    def __enter__(self) -> "GatheredSolutions":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._file.unlink(missing_ok=True)

    def add(self, solution: ForeignSolution, verdict: Verdict, grader_version: str) -> Arrival:
        """Keep a solution, unless it is there already. Raises DataError for a full disk."""
        try:
            return self._add(solution, verdict, grader_version)
        except sqlite3.Error as error:
            raise DataError(
                f"the solutions cannot be sorted in a temporary file ({error}); free space beside "
                "--out, then run the same command again"
            ) from error

    def _add(self, solution: ForeignSolution, verdict: Verdict, grader_version: str) -> Arrival:
        problem_id = solution.problem_id
        name = solution.name or _digest(solution.steps)
        labels = list(map(_counts_of, solution.labels))
        content_digest = _digest([solution.steps, labels])
        added = self._database.execute(
            "INSERT OR IGNORE INTO seen VALUES (?, ?, ?)",
            (problem_id, _plain(name), content_digest),
        )
        if not added.rowcount:
            query = "SELECT content FROM seen WHERE problem = ? AND name = ?"
            stored = self._database.execute(query, (problem_id, _plain(name))).fetchone()[0]
            return Arrival.DUPLICATE if stored == content_digest else Arrival.CONFLICT
        self._add_problem(problem_id, solution)
        content = {
            "steps": solution.steps,
            "labels": labels,
            "final_answer": solution.final_answer,
            "verdict": verdict,
            "generator": solution.generator,
            "grader_version": grader_version,
        }
        self._database.execute(
            "INSERT INTO solutions (problem, name, content) VALUES (?, ?, ?)",
            (problem_id, _plain(name), json.dumps(content)),
        )
        return Arrival.NEW

    def _add_problem(self, problem_id: str, solution: ForeignSolution) -> None:
        gold = _plain(solution.gold_answer)
        self._database.execute(
            "INSERT OR IGNORE INTO problems VALUES (?, ?, ?, ?)",
            (problem_id, _plain(solution.question), gold, _plain(solution.source)),
        )
        query = "SELECT gold FROM problems WHERE id = ?"
        stored = self._database.execute(query, (problem_id,)).fetchone()[0]
        if stored == gold or not solution.gold_answer:
            return
        if json.loads(stored):
            self.num_other_gold_answers += 1
        else:
            update = "UPDATE problems SET gold = ? WHERE id = ?"
            self._database.execute(update, (gold, problem_id))

    def problems(self) -> Iterator[Problem]:
        """The questions that have a solution, in the order of their ids."""
        query = "SELECT id, question, gold, source FROM problems ORDER BY id"
        with closing(self._database.execute(query)) as rows:
            for row in rows:
                yield self._problem(row)

    def solutions(self) -> Iterator[tuple[LabeledSolution, str, str]]:
        """Each solution, its generator and the grader's version, by problem id and arrival."""
        self._database.execute("CREATE INDEX IF NOT EXISTS of_problem ON solutions (problem)")
        with closing(self._database.execute(_IN_ORDER)) as rows:
            for *problem, name, text in rows:
                content: dict[str, Any] = json.loads(text)
                made = LabeledSolution(
                    problem=self._problem(problem),
                    solution_id=f"{problem[0]}/{self._origin}/{json.loads(name)}",
                    steps=tuple(content["steps"]),
                    labels=tuple(StepLabel(*label) for label in content["labels"]),
                    final_answer=content["final_answer"],
                    verdict=Verdict(content["verdict"]),
                )
                yield made, content["generator"], content["grader_version"]

    def _problem(self, row: list[str] | tuple[str, ...]) -> Problem:
        problem_id, *texts = row
        return Problem(problem_id, *map(json.loads, texts), split=self._split)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]


def _plain(text: str) -> str:
    """As JSON, in which SQLite's text has neither a NUL nor anything but ASCII."""
    return json.dumps(text)
