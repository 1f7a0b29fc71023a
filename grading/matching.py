"""Match two bags of items: same items, in any order, each as often.

Identical items are paired first and rational numbers by value, so that long lists cost no
more than sorting; only what is left is compared pair by pair, and not above a bound.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from grading.exact import exact_value
from grading.tree import Node, Op
from grading.verdict import Verdict

MAX_PAIRED = 64
"""Items that are compared all with all."""


def match_bags(
    gold: Sequence[Node], answer: Sequence[Node], compare: Callable[[Node, Node], Verdict]
) -> Verdict:
    """CORRECT where a pairing exists; UNDECIDED where a comparison or the bound leaves it open.

    Raises:
        UnreadableError: `too-large`, from an item over budget.
    """
    if len(gold) != len(answer):
        return Verdict.INCORRECT
    left, right = _without_identical(gold, answer)
    if not left:
        return Verdict.CORRECT
    gold_values, answer_values = _values(left), _values(right)
    if gold_values is not None and gold_values == answer_values:
        return Verdict.CORRECT
    if len(left) > MAX_PAIRED:
        is_exact = gold_values is not None and answer_values is not None
        return Verdict.INCORRECT if is_exact else Verdict.UNDECIDED
    return _paired(left, right, compare)


def distinct(items: Sequence[Node], *, scalars_too: bool) -> tuple[Node, ...]:
    """Items without repeats; a list's scalars keep theirs, for they may count multiplicity."""
    seen: set[Node] = set()
    kept: list[Node] = []
    for item in items:
        if item not in seen or not (scalars_too or item.op in _SOLUTIONS):
            kept.append(item)
        seen.add(item)
    return tuple(kept)


_SOLUTIONS = frozenset((Op.TUPLE, Op.SET, Op.REL, Op.INTERVAL))


def _without_identical(
    gold: Sequence[Node], answer: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    gold_counts, answer_counts = Counter(gold), Counter(answer)
    return (
        list((gold_counts - answer_counts).elements()),
        list((answer_counts - gold_counts).elements()),
    )


def _values(items: Sequence[Node]) -> list[Fraction] | None:
    values: list[Fraction] = []
    for item in items:
        value = exact_value(item)
        if value is None:
            return None
        values.append(value)
    return sorted(values)


def _paired(
    gold: Sequence[Node], answer: Sequence[Node], compare: Callable[[Node, Node], Verdict]
) -> Verdict:
    left = list(answer)
    is_certain = True
    for item in gold:
        verdicts = [compare(item, other) for other in left]
        if Verdict.CORRECT in verdicts:
            del left[verdicts.index(Verdict.CORRECT)]
        elif Verdict.UNDECIDED in verdicts:
            is_certain = False
        else:
            return Verdict.INCORRECT
    return Verdict.CORRECT if is_certain else Verdict.UNDECIDED
