r"""Two readings with units, percent and degree signs or clock times: which values to compare.

A stated unit is converted into the gold answer's; a single letter after a number is a unit
only where the other side states one of its dimension (`5000 m` against `5 km`). A percentage
is no length, an angle no percentage.
"""

from fractions import Fraction

from grading.readings import Reading
from grading.rounding import declared_decimal
from grading.shapes import in_radians, sign_outside
from grading.tree import COLLECTIONS, Node, Op
from grading.units import unit_ratio

Pair = tuple[Node, Node]
"""A gold tree and an answer's tree that are equal where the readings are."""


def comparable_values(gold: Reading, answer: Reading) -> tuple[list[Pair], str]:
    """The pairs of which one must be equal, and "units" where a conversion made them.

    None at all where the units contradict each other.
    """
    as_read = (gold.tree, answer.tree)
    if not gold.unit and not answer.unit:
        return _of_letters(gold.tree, answer.tree)
    if _MERIDIEMS & {gold.unit, answer.unit}:
        return _clock_times(gold, answer), "units"
    signs = [sign_outside(tree).op for tree in as_read]
    if (Op.PCT in signs or Op.DEG in signs) and signs[0] is not signs[1]:
        return _with_sign(gold, answer)
    gold_tree, gold_unit = _with_letter_unit(gold, answer.unit)
    answer_tree, answer_unit = _with_letter_unit(answer, gold.unit)
    ratio = unit_ratio(gold_unit, answer_unit)
    if ratio is None:
        return [], ""
    if ratio != 1:
        return [(gold_tree, _times(ratio, answer_tree))], "units"
    pairs = [(gold_tree, answer_tree)]
    if not gold_unit and answer_unit == "cent" and declared_decimal(gold_tree) is not None:
        # A bare gold with a part is an amount in dollars.
        pairs.append((gold_tree, _times(Fraction(1, 100), answer_tree)))
    return pairs, ""


_MERIDIEMS = frozenset(("am", "pm"))
_MINUTES = 60
_LETTER_UNITS = {
    "m": "m", "g": "gram", "s": "second", "h": "hour", "L": "liter", "l": "liter", "J": "joule",
    "N": "newton", "W": "watt", "V": "volt", "K": "kelvin", "F": "degree-f", "C": "degree-c",
}  # fmt: skip


def _of_letters(gold: Node, answer: Node) -> tuple[list[Pair], str]:
    """`1 m^3` against `1000 L`: two letters that are units of one dimension."""
    if gold.op is answer.op is Op.MUL and gold.args[-1] != answer.args[-1]:
        gold_number, gold_unit = _split_product(gold, "")
        answer_number, answer_unit = _split_product(answer, gold_unit)
        ratio = unit_ratio(gold_unit, answer_unit) if gold_unit and answer_unit else None
        if ratio is not None:
            return [(gold, answer), (gold_number, _times(ratio, answer_number))], ""
    return [(gold, answer)], ""


def _with_sign(gold: Reading, answer: Reading) -> tuple[list[Pair], str]:
    """Where one is a percentage or an angle in degrees and the other has a unit."""
    unit = gold.unit or answer.unit
    if unit == "radian":
        return [(_radians(gold.tree), _radians(answer.tree))], "units"
    is_angle = Op.DEG in (sign_outside(gold.tree).op, sign_outside(answer.tree).op)
    is_possible = unit.startswith("degree") if is_angle else "^-" in unit or unit == "unit"
    return ([(gold.tree, answer.tree)] if is_possible else []), ""


def _radians(tree: Node) -> Node:
    return in_radians(sign_outside(tree))


def _with_letter_unit(reading: Reading, other_unit: str) -> tuple[Node, str]:
    """`5000 m` as number and unit, where the other unit is of that dimension."""
    tree = reading.tree
    if reading.unit or not other_unit:
        return tree, reading.unit
    if tree.op is Op.NEG:
        inner, unit = _split_product(tree.args[0], other_unit)
        return (Node(Op.NEG, (inner,)) if unit else tree), unit
    return _split_product(tree, other_unit)


def _split_product(tree: Node, other_unit: str) -> tuple[Node, str]:
    if tree.op is not Op.MUL:
        return tree, ""
    *numbers, last = tree.args
    power = ""
    if last.op is Op.POW and last.args[1].op is Op.NUM:
        last, power = last.args[0], "^" + last.args[1].value
    unit = _LETTER_UNITS.get(last.value, "") if last.op is Op.SYM else ""
    if not unit or power not in ("", "^2", "^3") or unit_ratio(other_unit, unit + power) is None:
        return tree, ""
    number = numbers[0] if len(numbers) == 1 else Node(Op.MUL, tuple(numbers))
    return number, unit + power


def _times(factor: Fraction, tree: Node) -> Node:
    """The tree with its value, or every value that it holds, multiplied."""
    if tree.op in COLLECTIONS:
        return Node(tree.op, tuple(_times(factor, arg) for arg in tree.args), tree.value)
    if tree.op is Op.REL:
        return Node(tree.op, (*tree.args[:-1], _times(factor, tree.args[-1])), tree.value)
    upper = Node(Op.MUL, (Node(Op.NUM, value=str(factor.numerator)), tree))
    return Node(Op.DIV, (upper, Node(Op.NUM, value=str(factor.denominator))))


def _clock_times(gold: Reading, answer: Reading) -> list[Pair]:
    """Minutes after midnight; a time without a meridiem may be in either half of the day."""
    times = [_minutes(reading.tree, reading.unit) for reading in (gold, answer)]
    pairs: list[Pair] = []
    if times[0] is not None and times[1] is not None:
        pairs.append((_number(times[0]), _number(times[1])))
    if not gold.unit or not answer.unit or (gold.unit == answer.unit and not pairs):
        pairs.append((gold.tree, answer.tree))
    return pairs


def _minutes(tree: Node, meridiem: str) -> Fraction | None:
    parts = tree.args if tree.op is Op.RATIO else (tree,)
    is_time = len(parts) == 2 or (len(parts) == 1 and bool(meridiem))
    if not is_time or not all(map(_is_two_digits, parts)):
        return None
    hour, minute = (*(int(part.value) for part in parts), 0)[:2]
    if minute >= _MINUTES or hour > 23 or (meridiem and not 1 <= hour <= 12):
        return None
    if meridiem:
        hour = hour % 12 + (12 if meridiem == "pm" else 0)
    return Fraction(hour * _MINUTES + minute)


def _is_two_digits(node: Node) -> bool:
    return node.op is Op.NUM and node.value.isdecimal() and len(node.value) <= 2


def _number(value: Fraction) -> Node:
    return Node(Op.NUM, value=str(value))
