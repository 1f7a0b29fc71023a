"""Rows gathered for a Parquet row group: so many, or so much text, whichever comes first.

Rows can be huge; a bound on their number alone bounds no memory.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

MAX_ROWS = 1024
MAX_CHARACTERS = 1 << 22

_Item = TypeVar("_Item")


def row_groups(
    items: Iterable[_Item], num_characters: Callable[[_Item], int]
) -> Iterator[list[_Item]]:
    """The items in order, in lists of at least one."""
    group: list[_Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += num_characters(item)
        if len(group) == MAX_ROWS or size >= MAX_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group
