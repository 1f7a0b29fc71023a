"""The exact tier's scalars: rational numbers, infinities, normal forms, rigorous bounds.

Says CORRECT only by exact arithmetic or one normal form, INCORRECT by exact arithmetic, by
forms without relations, or where the two values' bounds are apart; everything else is left
to the symbolic tier. No floating-point error can decide.
"""

import math
from fractions import Fraction

from grading.effort import steps_left
from grading.estimate import are_different, are_disproportional, bounds_of
from grading.exact import exact_value
from grading.normal_form import compare_forms, divides_by_zero, forms_proportional
from grading.sampling import divides_whole_letters
from grading.tokens import UnreadableError
from grading.tree import Node, Op
from grading.verdict import Verdict


def exact_scalars(gold: Node, answer: Node) -> Verdict:
    """Whether two scalars are equal; UNDECIDED where only symbols can tell.

    Raises:
        UnreadableError: `too-large`, unless bounds tell the two apart.
    """
    if gold == answer:
        return Verdict.CORRECT
    if gold.op is answer.op is Op.SYM:
        return Verdict.INCORRECT
    gold_sign, answer_sign = infinity_sign(gold), infinity_sign(answer)
    if gold_sign or answer_sign:
        return Verdict.CORRECT if gold_sign == answer_sign else Verdict.INCORRECT
    if steps_left() <= 0:
        return Verdict.UNDECIDED
    try:
        gold_value, answer_value = exact_value(gold), exact_value(answer)
    except UnreadableError:
        if are_different(gold, answer):
            return Verdict.INCORRECT
        raise
    if gold_value is not None and answer_value is not None:
        return Verdict.CORRECT if gold_value == answer_value else Verdict.INCORRECT
    verdict = compare_forms(gold, answer)
    if verdict is Verdict.UNDECIDED and divides_whole_letters(gold, answer):
        return verdict
    if verdict is Verdict.UNDECIDED and are_different(gold, answer):
        return Verdict.INCORRECT
    if verdict is Verdict.UNDECIDED and divides_by_zero(gold) != divides_by_zero(answer):
        return Verdict.INCORRECT
    return verdict


def exact_proportional(first: Node, second: Node, positive: bool) -> Verdict:
    """Whether first/second is one nonzero (positive) constant."""
    if first == second:
        return Verdict.CORRECT
    verdict = forms_proportional(first, second, positive)
    if verdict is Verdict.UNDECIDED and are_disproportional(first, second, positive):
        return Verdict.INCORRECT
    return verdict


def value_bounds(node: Node) -> tuple[Fraction, Fraction] | None:
    """Rational bounds, inclusive, of a constant's real value; equal where it is rational."""
    try:
        value = exact_value(node)
    except UnreadableError:
        return None
    if value is not None:
        return value, value
    bounds = bounds_of(node)
    if bounds is None or not (math.isfinite(bounds[0]) and math.isfinite(bounds[1])):
        return None
    return Fraction(bounds[0]), Fraction(bounds[1])


def infinity_sign(node: Node) -> int:
    """1, -1, or 0 for anything finite."""
    if node.op is Op.INF:
        return 1
    if node.op is Op.NEG:
        return -infinity_sign(node.args[0])
    if node.op is Op.PCT:
        return infinity_sign(node.args[0])
    return 0
