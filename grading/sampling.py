"""Where trees are tried out: their free letters, the points, and stand-ins for functions."""

import zlib
from collections.abc import Iterator

from grading.tree import Node, Op

Point = dict[str, tuple[float, float]]
"""Low and high end of each letter's value."""

SCALES = (
    (1.0, 3.0), (-3.0, -1.0), (0.0, 1.0), (0.0, 0.0625), (-1.0, 0.0), (4.0, 40.0), (-40.0, -4.0),
    (-3.0, 3.0), (-40.0, 40.0),
)  # fmt: skip
"""Ranges that letters are drawn from in turn: functions with narrow domains need the small
ones, those by cases the negative and the large ones."""


def free_names(node: Node) -> frozenset[str]:
    """The letters that can take a value: not the constants, not a bound index."""
    if node.op is Op.SYM:
        return frozenset() if node.value in CONSTANT_NAMES else frozenset((node.value,))
    names = frozenset[str]().union(*map(free_names, node.args)) if node.args else frozenset[str]()
    if node.op is Op.SERIES or (node.op is Op.INTEGRAL and len(node.args) == 4):
        outer = (free_names(arg) for arg in node.args[2:])
        return frozenset[str]().union(names - {node.args[1].value}, *outer)
    return names


CONSTANT_NAMES = frozenset(("\\pi", "e", "i"))


def call_scales(name: str, num_args: int) -> tuple[float, list[tuple[float, float, float]]]:
    """An offset, then weight, scale and phase of a sine of each argument of a function.

    This stands for an unknown function; all fixed by the name, all exact as floats.
    """
    waves = [
        (float(position), 0.5 + _spread(name, 2 * position), _spread(name, 2 * position + 1))
        for position in range(1, num_args + 1)
    ]
    return 1.0 + _spread(name, 0), waves


def points(names: list[str]) -> Iterator[Point]:
    """One point a scale, and one of whole numbers; a single empty one without letters."""
    if not names:
        yield {}
        return
    for index, (low, high) in enumerate(SCALES):
        yield {name: (value := low + (high - low) * _spread(name, index), value) for name in names}
    # Whole numbers serve powers of negative bases and indices.
    yield {name: (float(2 + position), float(2 + position)) for position, name in enumerate(names)}


def _spread(name: str, index: int) -> float:
    """A number between 0 and 1, fixed by the name and the index: a multiple of 2**-24."""
    return (zlib.crc32(f"{name} {index}".encode()) >> 8 | 1) / 2**24
