r"""Letters in `gcd`, `lcm` and remainders stand for whole numbers: trees tried at such numbers.

`\gcd(m, n)` is 1 as a polynomial and hardly ever is as a number, so two trees that differ at
one choice of whole numbers are different. Which trees are meant so: `divides_whole_letters`
in `grading.sampling`.
"""

import random
from collections.abc import Iterator

from grading.calculus import number, substituted
from grading.exact import exact_value
from grading.sampling import free_names
from grading.scalars import exact_scalars
from grading.tokens import UnreadableError
from grading.tree import Node, Op
from grading.verdict import Verdict

__all__ = ["at_whole_numbers"]


def at_whole_numbers(first: Node, second: Node) -> Verdict:
    """INCORRECT where positive whole letters tell them apart, CORRECT where many agree.

    The letters run over numbers with many common divisors, odd and even ones, and multiples of
    the numerals. Agreement is no proof. UNDECIDED where too few points have values.
    """
    names = sorted(free_names(first) | free_names(second))
    num_agreeing = 0
    for point in _points(names, sorted(_whole_numerals(first) | _whole_numerals(second))):
        trees = [first, second]
        for name, value in point.items():
            trees = [substituted(tree, name, number(value)) for tree in trees]
        try:
            verdict = exact_scalars(trees[0], trees[1])
        except UnreadableError:
            continue
        if verdict is Verdict.INCORRECT:
            return verdict
        num_agreeing += verdict is Verdict.CORRECT
    return Verdict.CORRECT if num_agreeing >= _MIN_AGREEING else Verdict.UNDECIDED


_MIN_AGREEING = 20
_NUM_DRAWN = 24
_MAX_NUMERALS = 4
_MAX_NUMERAL = 10_000
_WHOLE = (6, 4, 12, 9, 2, 15, 30, 3, 8, 5, 1, 60, 7, 36)
"""Together these have common divisors and have none, in many ways."""


def _whole_numerals(node: Node) -> set[int]:
    if node.op is Op.NUM:
        value = exact_value(node)
        is_usable = value is not None and value.denominator == 1 and 1 < value <= _MAX_NUMERAL
        return {int(value)} if value is not None and is_usable else set()
    return set[int]().union(*map(_whole_numerals, node.args)) if node.args else set()


def _points(names: list[str], numerals: list[int]) -> Iterator[dict[str, int]]:
    """The first ones share divisors in turn; then seeded ones, and multiples of numerals."""
    for start in range(len(_WHOLE)):
        yield {
            name: _WHOLE[(start + place * (start % 3 + 1)) % len(_WHOLE)]
            for place, name in enumerate(names)
        }
    generator = random.Random(0)
    steps = [1, *numerals[:_MAX_NUMERALS]]
    for turn in range(_NUM_DRAWN):
        yield {
            name: steps[(turn + place) % len(steps)] * generator.randint(1, 24)
            for place, name in enumerate(names)
        }
