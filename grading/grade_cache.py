"""Grades seen before, bounded in number and in characters.

Two views: by (gold answer, answer), since K rollouts of a problem share few answers; and by a
digest of (gold answer, whole text), since completions of late prefixes often repeat word for
word, and then need not even be searched for their answer. The profile is the pool's own, so
it is no part of a key.
"""

from hashlib import blake2b
from typing import Generic, TypeVar

from grading.verdict import Grade

_Key = TypeVar("_Key")
_MAX_CACHED_CHARS = 512
"""Longer pairs are rare, so they are worth no memory."""


class GradeCache:
    """May be shared by threads."""

    def __init__(self, size: int) -> None:
        self._answers = _RecentGrades[tuple[str, str]](size)
        self._texts = _RecentGrades[bytes](size)

    def of_answer(self, gold: str, answer: str) -> Grade | None:
        """The grade of a bare answer."""
        return self._answers.find((gold, answer))

    def keep_answer(self, gold: str, answer: str, grade: Grade) -> None:
        """Remember the grade of a bare answer."""
        if len(gold) + len(answer) <= _MAX_CACHED_CHARS:
            self._answers.keep((gold, answer), grade)

    def of_text(self, key: bytes) -> Grade | None:
        """The grade of a whole text, by its `text_key`."""
        return self._texts.find(key)

    def keep_text(self, key: bytes, grade: Grade) -> None:
        """Remember the grade of a whole text."""
        if len(grade.answer) <= _MAX_CACHED_CHARS:
            self._texts.keep(key, grade)


def text_key(gold: str, text: str, *, is_truncated: bool) -> bytes:
    """A digest that only equal requests share."""
    request = f"{len(gold)} {is_truncated:d} {gold}{text}"
    return blake2b(request.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _RecentGrades(Generic[_Key]):
    """At most `size` grades: those asked for of late, in two generations.

    When the young generation is half of all it becomes the old one, and what is asked for
    there is young again. Single operations on a dict are atomic, so no lock is needed: of two
    threads that race, one may lose an entry, which costs a grade computed twice.
    """

    def __init__(self, size: int) -> None:
        self._half = size // 2
        self._young: dict[_Key, Grade] = {}
        self._old: dict[_Key, Grade] = {}

    def find(self, key: _Key) -> Grade | None:
        grade = self._young.get(key)
        if grade is None:
            grade = self._old.get(key)
            if grade is not None:
                self.keep(key, grade)
        return grade

    def keep(self, key: _Key, grade: Grade) -> None:
        if len(self._young) >= self._half:
            if not self._half:
                return
            self._old, self._young = self._young, {}
        self._young[key] = grade
