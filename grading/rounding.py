"""Declared decimal precision: when a rounded number stands for the exact one.

A decimal is a plain one (`12.54`), perhaps signed, in percent, in degrees, or times a power
of ten; its precision is its last digit. One without a fractional part declares none, so
integers are never rounded. Three rules, none of which looks at relative error:

* a decimal *gold* of 3 significant digits or more is matched by any exact value that rounds
  to it, a half away from zero or to the even digit;
* an exact *gold* whose decimals do not end is matched by its correct rounding to 4 significant
  digits or more;
* two decimals are equal only exactly, save where one has more decimals and rounds to the
  other, which has 3 significant digits or more, or 4 where it is one decimal shorter only.

Inside a vector 2 digits suffice once another component agrees (`is_component`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from grading.tree import Node, Op

Bounds = Callable[[Node], tuple[Fraction, Fraction] | None]
"""Rational bounds, inclusive, of a constant's real value; None where there are none."""


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal as written: its value, the worth of its last digit, its significant digits."""

    value: Fraction
    last_place: Fraction
    num_digits: int


def declared_decimal(node: Node) -> Decimal | None:
    """The decimal that a tree spells; None for integers and everything else."""
    written = _written(node)
    return None if written is None or written.value.denominator == 1 else written


def holds_decimal(node: Node) -> bool:
    """Whether a number with a point stands anywhere in the tree."""
    return "." in node.value if node.op is Op.NUM else any(map(holds_decimal, node.args))


def agrees_by_rounding(
    gold: Node, answer: Node, *, bounds: Bounds, is_component: bool = False
) -> bool | None:
    """Whether one is the other's declared rounding; None where no rule applies."""
    gold_decimal, answer_decimal = declared_decimal(gold), declared_decimal(answer)
    if gold_decimal is not None and answer_decimal is not None:
        return _two_decimals(gold_decimal, answer_decimal, 2 if is_component else 3)
    if gold_decimal is not None:
        if gold_decimal.num_digits < (2 if is_component else 3):
            return None
        value = bounds(answer)
        return None if value is None else _is_rounding(value, gold_decimal)
    if answer_decimal is None or answer_decimal.num_digits < (2 if is_component else 4):
        return None
    value = bounds(gold)
    if value is None or (value[0] == value[1] and _ends(value[0])):
        return None
    return _is_rounding(value, answer_decimal)


_MAX_DIGITS = 60
_MIN_CLOSE_DIGITS = 4
_MAX_EXPONENT = 60
_DOUBLE_DIGITS = 13
_DOUBLE_ERROR = Fraction(1, 2**51)
"""A printed double is not always the correct rounding at its last digit."""


def _written(node: Node) -> Decimal | None:
    if node.op is Op.NUM:
        return _plain(node.value)
    if node.op is Op.NEG:
        return _scaled(_written(node.args[0]), -1)
    if node.op is Op.PCT:
        inner = node.args[0]
        if inner.op is Op.NUM and inner.value.isdigit() and inner.value[-1:] != "0":
            inner = Node(Op.NUM, value=inner.value + ".")
        return _scaled(_written(inner), Fraction(1, 100))
    if node.op is Op.DEG:
        return _written(node.args[0])
    if node.op is Op.MUL and len(node.args) == 2:
        scale = _power_of_ten(node.args[1])
        return None if scale is None else _scaled(_written(node.args[0]), scale)
    return None


def _plain(digits: str) -> Decimal | None:
    whole, point, part = digits.partition(".")
    if not point or len(digits) > _MAX_DIGITS:
        return None
    num_digits = len((whole + part).lstrip("0"))
    return Decimal(
        Fraction(whole + part) / 10 ** len(part), Fraction(1, 10 ** len(part)), num_digits
    )


def _scaled(decimal: Decimal | None, scale: Fraction | int) -> Decimal | None:
    if decimal is None:
        return None
    return Decimal(decimal.value * scale, decimal.last_place * abs(scale), decimal.num_digits)


def _power_of_ten(node: Node) -> Fraction | None:
    if node.op is not Op.POW or node.args[0] != Node(Op.NUM, value="10"):
        return None
    exponent = node.args[1]
    digits = exponent.args[0] if exponent.op is Op.NEG else exponent
    if digits.op is not Op.NUM or not digits.value.isdigit() or len(digits.value) > 2:
        return None
    size = Fraction(10) ** min(int(digits.value), _MAX_EXPONENT)
    return 1 / size if exponent.op is Op.NEG else size


def _two_decimals(first: Decimal, second: Decimal, least_digits: int) -> bool | None:
    coarse, fine = sorted((first, second), key=lambda decimal: -decimal.last_place)
    gap = coarse.last_place / fine.last_place
    if gap < 10 or coarse.num_digits < (least_digits if gap >= 100 else _MIN_CLOSE_DIGITS):
        return None
    return _rounds_to(fine.value, coarse)


def _rounds_to(value: Fraction, decimal: Decimal) -> bool:
    """Whether it rounds to the decimal, a half away from zero or to the even digit."""
    excess = (abs(value) - abs(decimal.value)) * 2
    if excess == decimal.last_place:
        return (decimal.value / decimal.last_place) % 2 == 0
    is_same_side = value * decimal.value >= 0
    return is_same_side and -decimal.last_place <= excess < decimal.last_place


def _is_rounding(value: tuple[Fraction, Fraction], decimal: Decimal) -> bool:
    if value[0] == value[1] and decimal.num_digits < _DOUBLE_DIGITS:
        return _rounds_to(value[0], decimal)
    slack = decimal.last_place / 2
    if decimal.num_digits >= _DOUBLE_DIGITS:
        width = value[1] - value[0]
        slack = max(slack, abs(decimal.value) * _DOUBLE_ERROR + width)
    return decimal.value - slack <= value[0] and value[1] <= decimal.value + slack


def _ends(value: Fraction) -> bool:
    """Whether its decimals end: no prime but 2 and 5 below the line."""
    rest = value.denominator
    rest //= rest & -rest
    while rest % 5 == 0:
        rest //= 5
    return rest == 1
