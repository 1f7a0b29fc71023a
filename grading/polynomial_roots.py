"""Roots of equations of at most the second degree in one letter, where all are rational."""

import math
from fractions import Fraction

from grading.exact import exact_value
from grading.tree import Node, Op

_Polynomial = tuple[Fraction, ...]
"""Coefficients from the constant upwards, at most three."""

_MAX_COEFFICIENTS = 3


def rational_roots(equation: Node, letter: str) -> tuple[Fraction, ...] | None:
    """The different roots of `left = right`, rising; None where some are not rational.

    None, too, for another kind of equation, and where there is no root or every number is one.
    """
    sides = [_polynomial(side, letter) for side in equation.args]
    if sides[0] is None or sides[1] is None:
        return None
    constant, slope, leading = (
        first - second for first, second in zip(*map(_padded, sides[:2]), strict=True)
    )
    if leading == 0:
        return None if slope == 0 else (-constant / slope,)
    root = _square_root(slope * slope - 4 * leading * constant)
    if root is None:
        return None
    return tuple(sorted({(-slope + sign * root) / (2 * leading) for sign in (1, -1)}))


def _padded(polynomial: _Polynomial | None) -> _Polynomial:
    known = polynomial or ()
    return (*known, *[Fraction(0)] * (_MAX_COEFFICIENTS - len(known)))


def _polynomial(node: Node, letter: str) -> _Polynomial | None:
    if node == Node(Op.SYM, value=letter):
        return Fraction(0), Fraction(1)
    if node.op is Op.NEG:
        return _product(_polynomial(node.args[0], letter), (Fraction(-1),))
    if node.op is Op.ADD:
        total: _Polynomial | None = (Fraction(0),)
        for arg in node.args:
            total = _sum(total, _polynomial(arg, letter))
        return total
    if node.op is Op.MUL:
        product: _Polynomial | None = (Fraction(1),)
        for arg in node.args:
            product = _product(product, _polynomial(arg, letter))
        return product
    if node.op is Op.POW and node.args[1] == Node(Op.NUM, value="2"):
        base = _polynomial(node.args[0], letter)
        return _product(base, base)
    if node.op is Op.DIV:
        divisor = exact_value(node.args[1])
        return _product(_polynomial(node.args[0], letter), (1 / divisor,)) if divisor else None
    value = exact_value(node)
    return None if value is None else (value,)


def _sum(first: _Polynomial | None, second: _Polynomial | None) -> _Polynomial | None:
    if first is None or second is None:
        return None
    return tuple(a + b for a, b in zip(_padded(first), _padded(second), strict=True))


def _product(first: _Polynomial | None, second: _Polynomial | None) -> _Polynomial | None:
    if first is None or second is None:
        return None
    product = [Fraction(0)] * (len(first) + len(second))
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            product[i + j] += a * b
    while len(product) > 1 and product[-1] == 0:
        product.pop()
    return tuple(product) if len(product) <= _MAX_COEFFICIENTS else None


def _square_root(value: Fraction) -> Fraction | None:
    if value < 0:
        return None
    upper, lower = math.isqrt(value.numerator), math.isqrt(value.denominator)
    root = Fraction(upper, lower)
    return root if root * root == value else None
