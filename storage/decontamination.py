"""Which problems stand in test sets, too: a model trained on them could not be judged by those.

A problem is *contaminated* where, after lower-casing and dropping punctuation,

- its words are those of a test question (`exact`),
- it shares an n-gram with one (`ngram`); n = 13 and any shared n-gram is the practice of
  GPT-3 (Brown et al., arXiv 2005.14165, appendix C); the share of the problem's own n-grams
  that the test question holds is kept, since maths questions also share phrases,
- or one of the two is shorter than n words, and stands in the other as a whole
  (`contained`); GPT-3 looks at no n below 8, so shorter texts count as exact matches only.

An operator is a word, so that 2+2 is not 2-2. The problems' n-grams are in memory, the test
sets are read row by row. Not covered: a question said in other words, another language.
"""

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.config import FrozenConfig
from pipeline.errors import ConfigError, DataError
from pipeline.records import Problem
from storage.problem_config import ProblemsConfig
from storage.problem_rows import Row, numbered_rows
from storage.problems import LoadedProblems, Rejection

MIN_WORDS = 8
"""Shorter texts are only looked for as a whole question."""


class DecontaminationConfig(FrozenConfig):
    """Test sets that the problems should not stand in; without `files` nothing is checked."""

    files: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Test sets: .jsonl, .csv or .parquet."""
    question_column: str | None = None
    """Of the test sets. None: `question`, or `problem` where a row has no `question`."""
    ngram: Annotated[int, Field(ge=2, le=64)] = 13
    """Words of an n-gram that a problem and a test question may not share."""
    min_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Of the problem's n-grams, this share must stand in one test question; 0: a single one."""
    exclude: bool = False
    """Reject contaminated problems as rows, instead of only reporting them."""


class Match(StrEnum):
    """How a problem and a test question agree."""

    EXACT = "exact"
    CONTAINED = "contained"
    NGRAM = "ngram"


@dataclass(frozen=True, slots=True)
class Contamination:
    """A problem and the test row that it agrees with most.

    `row` is 1-based in `file`, as in `storage.problem_rows`. `share` is the share of the
    problem's distinct n-grams in that row; 1 for `exact` and `contained`. `words` begin the
    common part.
    """

    problem_id: str
    match: Match
    file: str
    row: int
    share: float
    words: str


@dataclass(frozen=True, slots=True)
class Decontamination:
    """What the check found; `num_test_rows` by file, contaminated problems in their order."""

    num_test_rows: Mapping[str, int]
    found: tuple[Contamination, ...]


def find_contaminated(
    problems: Sequence[Problem], config: DecontaminationConfig
) -> Decontamination:
    """Compare the problems' questions with every question of the test sets.

    Raises ConfigError for a file that does not exist or has another suffix, DataError with
    file and row for one that cannot be read or that holds a row without a question.
    """
    index = _Index(problems, config)
    num_rows = dict.fromkeys(config.files, 0)
    for file, row, question in _test_questions(config):
        num_rows[file] += 1
        index.look_up(question, file, row)
    index.look_up_short()
    for file, count in num_rows.items():
        if not count:
            raise DataError(f"decontamination.files: {file} has no rows; remove or replace it")
    return Decontamination(num_rows, index.found())


def without_contaminated(loaded: LoadedProblems, found: Decontamination) -> LoadedProblems:
    """The contaminated problems as rejected rows. Raises DataError where no other is left."""
    hits = {hit.problem_id: hit for hit in found.found}
    kept: dict[Problem, int] = {}
    rejections = list(loaded.rejections)
    for problem, row in zip(loaded.problems, loaded.rows, strict=True):
        if hit := hits.get(problem.problem_id):
            why = f"contaminated ({hit.match}): row {hit.row} of {hit.file} asks it, too"
            rejections.append(Rejection(row, why))
        else:
            kept[problem] = row
    if not kept:
        raise DataError(
            f"decontamination.exclude leaves no problem: all {len(hits)} stand in "
            f"{', '.join(found.num_test_rows)}; take another problems.source or other test sets"
        )
    return LoadedProblems(
        tuple(kept), tuple(sorted(rejections, key=lambda one: one.row)), tuple(kept.values())
    )


def words_of(text: str) -> list[str]:
    """The words and operators of a text that comparisons are made on."""
    plain = unicodedata.normalize("NFKC", text).lower().translate(_SIGNS)
    return _WORD.findall(_HYPHEN.sub(" ", plain))


_SIGNS = str.maketrans({"−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "÷": "/"})
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_WORD = re.compile(r"[^\W_]+|[-+*/^=<>≤≥≠±√]")


class _Index:
    """The problems' n-grams by hash, and the best agreement of each problem so far."""

    def __init__(self, problems: Sequence[Problem], config: DecontaminationConfig) -> None:
        self._config = config
        self._problems = problems
        self._best: dict[int, Contamination] = {}
        self._whole: dict[int, list[int]] = {}
        self._by_gram: dict[int, array[int]] = {}
        self._num_grams = array("l", bytes(array("l").itemsize * len(problems)))
        self._short: dict[int, dict[int, tuple[str, int]]] = {}  # of test questions, by length
        self._lengths: set[int] = set()  # of problems that are shorter than an n-gram
        for number, problem in enumerate(problems):
            words = words_of(problem.question)
            if words:
                self._whole.setdefault(_hash(words), []).append(number)
            if len(words) >= config.ngram:
                grams = {_hash(gram) for gram in _grams(words, config.ngram)}
                self._num_grams[number] = len(grams)
                for gram in grams:
                    self._by_gram.setdefault(gram, array("l")).append(number)
            elif len(words) >= self._min_words:
                self._lengths.add(len(words))

    @property
    def _min_words(self) -> int:
        return min(MIN_WORDS, self._config.ngram)

    def look_up(self, question: str, file: str, row: int) -> None:
        """Compare a test question with all problems."""
        words = words_of(question)
        for number in self._whole.get(_hash(words), ()):
            self._note(number, Match.EXACT, file, row, 1.0, words)
        self._look_up_grams(words, file, row)
        for length in self._lengths:
            for gram in _grams(words, length):
                for number in self._whole.get(_hash(gram), ()):
                    self._note(number, Match.CONTAINED, file, row, 1.0, gram)
        if self._min_words <= len(words) < self._config.ngram:
            self._short.setdefault(len(words), {}).setdefault(_hash(words), (file, row))

    def look_up_short(self) -> None:
        """Compare the test questions that are shorter than an n-gram, kept until now."""
        for number, problem in enumerate(self._problems if self._short else ()):
            words = words_of(problem.question)
            for length, places in self._short.items():
                for gram in _grams(words, length):
                    if place := places.get(_hash(gram)):
                        self._note(number, Match.CONTAINED, *place, 1.0, gram)

    def found(self) -> tuple[Contamination, ...]:
        """In the order of the problems."""
        return tuple(self._best[number] for number in sorted(self._best))

    def _look_up_grams(self, words: list[str], file: str, row: int) -> None:
        shared: dict[int, tuple[int, Sequence[str]]] = {}
        seen: set[int] = set()
        for gram in _grams(words, self._config.ngram):
            key = _hash(gram)
            for number in () if key in seen else self._by_gram.get(key, ()):
                count, first = shared.get(number, (0, gram))
                shared[number] = (count + 1, first)
            seen.add(key)
        for number, (count, first) in shared.items():
            share = count / self._num_grams[number]
            if share >= self._config.min_share:
                self._note(number, Match.NGRAM, file, row, share, first)

    def _note(
        self, number: int, match: Match, file: str, row: int, share: float, words: Sequence[str]
    ) -> None:
        """Keep the better agreement; of equal ones the first."""
        best = self._best.get(number)
        if best is None or (_RANK[match], share) > (_RANK[best.match], best.share):
            problem_id = self._problems[number].problem_id
            shown = " ".join(words[: self._config.ngram])
            self._best[number] = Contamination(problem_id, match, file, row, share, shown)


_RANK = {Match.NGRAM: 0, Match.CONTAINED: 1, Match.EXACT: 2}


def _grams(words: Sequence[str], length: int) -> Iterator[Sequence[str]]:
    return (words[start : start + length] for start in range(len(words) - length + 1))


def _hash(words: Sequence[str]) -> int:
    """64 bits, of this process only."""
    return hash(tuple(words))


def _test_questions(config: DecontaminationConfig) -> Iterator[tuple[str, int, str]]:
    """Every question with its file and row."""
    for file in config.files:
        path = Path(file).expanduser()
        if path.suffix.lower() not in (".jsonl", ".csv", ".parquet"):
            raise ConfigError(
                f"decontamination.files: {file!r} is no .jsonl, .csv or .parquet file"
            )
        if not path.is_file():
            raise ConfigError(f"decontamination.files: there is no file {file!r}")
        unit = "row" if path.suffix.lower() == ".parquet" else "line"
        for number, row in numbered_rows(ProblemsConfig(source=str(path))):
            yield file, number, _question(row, f"{file}, {unit} {number}", config)


def _question(row: Row | str, place: str, config: DecontaminationConfig) -> str:
    if isinstance(row, str):
        raise DataError(f"decontamination.files: {place}: {row}; repair or remove the row")
    names: Iterable[str] = (config.question_column,) if config.question_column else _COLUMNS
    for name in names:
        question = row.get(name)
        if isinstance(question, str) and question.strip():
            return question
    raise DataError(
        f"decontamination.files: {place}: no question in column {' or '.join(map(repr, names))} "
        f"(the row has {', '.join(sorted(row))}); set decontamination.question_column, or remove "
        "the row"
    )


_COLUMNS = ("question", "problem")
