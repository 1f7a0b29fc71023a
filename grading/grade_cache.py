"""Grades seen before, bounded in number and in characters.

Two views: by (gold answer, answer), since K rollouts of a problem share few answers; and by a
digest of (gold answer, whole text), since completions of late prefixes often repeat word for
word, and then need not even be searched for their answer. The profile is the pool's own, so
it is no part of a key.

What a worker's death says of nothing but the worker is not kept. A `timeout` may be the
machine's load: it is kept only when it came again each time it was asked for anew.
"""

from hashlib import sha256
from typing import Generic, TypeVar

from grading.verdict import Grade

TextKey = tuple[str, bool, bytes]
"""Gold answer, whether the text was cut off, digest of the text."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_MAX_CACHED_CHARS = 512
"""Longer pairs are rare, so they are worth no memory."""
_DIED, _TIMEOUT = "worker-died", "timeout"
_MAX_RETRIES = 2
"""A pair that has timed out is compared again so often, when it is asked for."""


class GradeCache:
    """May be shared by threads."""

    def __init__(self, size: int) -> None:
        self._answers = _Recent[tuple[str, str], Grade](size)
        self._texts = _Recent[TextKey, Grade](size)
        self._num_timeouts = _Recent[tuple[str, str], int](size)

    def of_answer(self, gold: str, answer: str) -> Grade | None:
        """The grade of a bare answer."""
        return self._answers.find((gold, answer))

    def keep_answer(self, gold: str, answer: str, grade: Grade) -> None:
        """Remember the grade of a bare answer, unless it may be another the next time."""
        if len(gold) + len(answer) > _MAX_CACHED_CHARS or grade.reason == _DIED:
            return
        key = (gold, answer)
        if grade.reason == _TIMEOUT:
            num_timeouts = (self._num_timeouts.find(key) or 0) + 1
            self._num_timeouts.keep(key, num_timeouts)
            if num_timeouts <= _MAX_RETRIES:
                return
        self._answers.keep(key, grade)

    def of_text(self, key: TextKey) -> Grade | None:
        """The grade of a whole text, by its `text_key`."""
        return self._texts.find(key)

    def keep_text(self, key: TextKey, grade: Grade) -> None:
        """Remember the grade of a whole text, unless it may be another the next time."""
        if len(key[0]) + len(grade.answer) <= _MAX_CACHED_CHARS and grade.reason not in (
            _DIED,
            _TIMEOUT,
        ):
            self._texts.keep(key, grade)


def text_key(gold: str, text: str, *, is_truncated: bool) -> TextKey:
    """What only equal requests share; holds a digest of the text instead of the text."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-8", "surrogatepass")
    return gold, is_truncated, sha256(data).digest()


class _Recent(Generic[_Key, _Value]):
    """At most `size` values: those asked for of late, in two generations.

    When the young generation is half of all it becomes the old one, and what is asked for
    there is young again. Single operations on a dict are atomic, so no lock is needed: of two
    threads that race, one may lose an entry, which costs a grade computed twice.
    """

    def __init__(self, size: int) -> None:
        self._half = size // 2
        self._young: dict[_Key, _Value] = {}
        self._old: dict[_Key, _Value] = {}

    def find(self, key: _Key) -> _Value | None:
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.keep(key, value)
        return value

    def keep(self, key: _Key, value: _Value) -> None:
        if len(self._young) >= self._half:
            if not self._half:
                return
            self._old, self._young = self._young, {}
        self._young[key] = value
