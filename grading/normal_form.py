"""Trees brought to one form without a computer algebra system: most equalities end here.

A form is a quotient of polynomials (`grading.polynomials`). Functions, sums, integrals,
limits and unknown functions are generators, named by the forms of their arguments, bound
letters renamed. Two trees with one form are equal wherever both are defined. Two with
different forms differ only if no relation holds among their generators.
Over a budget, or outside of scalars, there is no form.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from grading import polynomials as poly
from grading.calculus import derivative, holds_name, number, substituted
from grading.effort import FULL_STEPS, limited_to, spend, steps_left
from grading.estimate import bounds_of
from grading.exact import exact_value, integer_value
from grading.form_rules import (
    HALF,
    WHOLE_VALUES,
    exponential,
    logarithm,
    opaque,
    part_of,
    rational_power,
    root_of_squares,
    single_letter,
    special_angle,
    symbolic_power,
    undominated,
)
from grading.polynomials import Quotient
from grading.primes import TooManyTermsError
from grading.sampling import free_names
from grading.tokens import UnreadableError
from grading.tree import Node, Op, num_nodes
from grading.verdict import Verdict

_MAX_NODES = 6_000
_MAX_CACHED_NODES = 200
_MAX_CACHED_TERMS = 60
"""Thousands of forms are kept: those of large trees would fill the memory."""
_MAX_CHOICES = 10
_MAX_LATE_SIZE = 4_000
"""Products of terms that two forms may still be compared by when no steps are left."""


def compare_forms(first: Node, second: Node) -> Verdict:
    """CORRECT or INCORRECT where the forms prove it."""
    left = normal_form(first) if steps_left() > 0 else None
    right = None if left is None else normal_form(second)
    if left is None or right is None:
        return Verdict.UNDECIDED
    if steps_left() <= 0 and _crossing_size(left, right) > _MAX_LATE_SIZE:
        return Verdict.UNDECIDED
    try:
        difference = poly.difference(left, right)
    except TooManyTermsError:
        return Verdict.UNDECIDED
    finally:
        poly.restart()
    if not difference:
        return Verdict.CORRECT
    return Verdict.INCORRECT if poly.are_independent(difference) else Verdict.UNDECIDED


def _crossing_size(left: Quotient, right: Quotient) -> int:
    return len(left.upper) * len(right.lower) + len(right.upper) * len(left.lower)


def forms_proportional(first: Node, second: Node, positive: bool) -> Verdict:
    """CORRECT where first/second is one nonzero (positive) rational number."""
    if steps_left() <= 0:
        return Verdict.UNDECIDED
    left, right = normal_form(first), normal_form(second)
    if left is None or right is None or not left.upper or not right.upper:
        return Verdict.UNDECIDED
    try:
        upper = poly.product(left, Quotient(right.lower, {poly.UNIT: 1})).upper
        lower = poly.product(right, Quotient(left.lower, {poly.UNIT: 1})).upper
    except TooManyTermsError:
        return Verdict.UNDECIDED
    finally:
        poly.restart()
    monomial = next(iter(upper))
    if upper.keys() != lower.keys():
        return Verdict.UNDECIDED
    ratio = Fraction(upper[monomial]) / lower[monomial]
    if any(value != ratio * lower[key] for key, value in upper.items()):
        return Verdict.UNDECIDED
    return Verdict.INCORRECT if positive and ratio < 0 else Verdict.CORRECT


def divides_by_zero(node: Node) -> bool:
    """Whether a division in it has a divisor that is zero for certain."""
    if steps_left() <= 0:
        return False
    if node.op is Op.DIV:
        divisor = normal_form(node.args[1])
        if divisor is not None and not divisor.upper:
            return True
    return any(map(divides_by_zero, node.args))


def normal_form(node: Node) -> Quotient | None:
    """The form of a scalar; None where it has none, or is undefined."""
    size = num_nodes(node)
    if size > _MAX_NODES:
        return None
    try:
        form, cost = _costed_form(node) if size > _MAX_CACHED_NODES else _cached_form(node)
    except _TooLargeToKeepError as error:
        form, cost = error.form, error.cost
    # A form out of the cache costs what it did, so that no verdict depends on the cache.
    spend(cost)
    return form


def _costed_form(node: Node) -> tuple[Quotient | None, int]:
    """The form, made on a budget of its own, and the steps that it took."""
    with limited_to(FULL_STEPS):
        poly.restart()
        before = steps_left()
        try:
            form = _form(node)
        except (_NoFormError, TooManyTermsError, ZeroDivisionError, UnreadableError, OverflowError):
            form = None
        poly.restart()
        return form, before - steps_left()


class _TooLargeToKeepError(Exception):
    """Carries a long form past the cache, whose memory must stay small."""

    def __init__(self, form: Quotient, cost: int) -> None:
        super().__init__()
        self.form = form
        self.cost = cost


@lru_cache(maxsize=1024)
def _cached_form(node: Node) -> tuple[Quotient | None, int]:
    form, cost = _costed_form(node)
    if form is not None and len(form.upper) + len(form.lower) > _MAX_CACHED_TERMS:
        raise _TooLargeToKeepError(form, cost)
    return form, cost


class _NoFormError(Exception):
    pass


def _form(node: Node) -> Quotient:
    if node.op is Op.NUM:
        value = exact_value(node)
        assert value is not None
        return poly.constant(value.numerator if value.denominator == 1 else value)
    if node.op is Op.SYM:
        return poly.generator(node.value)
    builder = _BUILDERS.get(node.op)
    if builder is None:
        raise _NoFormError
    return builder(node)


def _sum(node: Node) -> Quotient:
    result = _form(node.args[0])
    for term in node.args[1:]:
        result = poly.total(result, _form(term))
    return result


def _product(node: Node) -> Quotient:
    result = _form(node.args[0])
    for factor in node.args[1:]:
        result = poly.product(result, _form(factor))
    return result


def _quotient(node: Node) -> Quotient:
    upper, lower = node.args
    return poly.product(_form(upper), poly.inverse(_form(lower)))


def _power(node: Node) -> Quotient:
    base, exponent = _form(node.args[0]), _form(node.args[1])
    known = exponent.rational()
    if known is not None:
        return rational_power(base, Fraction(known))
    if exponent.lower != {poly.UNIT: 1}:
        return opaque("power", base, exponent)
    return symbolic_power(base, exponent)


def _root(node: Node) -> Quotient:
    index = _form(node.args[1])
    known = index.rational()
    if known is None:
        return _power(Node(Op.POW, (node.args[0], Node(Op.DIV, (_ONE, node.args[1])))))
    return rational_power(_form(node.args[0]), 1 / Fraction(known))


def _function(node: Node) -> Quotient:
    argument = node.args[0]
    if node.value == "det":
        raise _NoFormError
    if argument.op is Op.DEG:
        scaled = Fraction(1, 180)
        form = poly.product(_form(argument.args[0]), poly.constant(scaled))
        form = poly.product(form, poly.generator("\\pi"))
    else:
        form = _form(argument)
    if node.value == "exp":
        return exponential(form)
    if node.value == "ln":
        return logarithm(form)
    number = form.rational()
    if node.value in WHOLE_VALUES and number is not None:
        return poly.constant(WHOLE_VALUES[node.value](Fraction(number)))
    if node.value in ("floor", "ceil"):
        return _whole_part(node, form)
    special = special_angle(node.value, form) or part_of(node.value, form)
    return opaque(node.value, form) if special is None else special


def _log_to_base(node: Node) -> Quotient:
    upper, lower = (logarithm(_form(arg)) for arg in node.args)
    return poly.product(upper, poly.inverse(lower))


def _whole_part(node: Node, form: Quotient) -> Quotient:
    """Of a constant between two whole numbers it is known."""
    if not free_names(node):
        bounds = bounds_of(node)
        if bounds is not None and bounds[0] == bounds[1] and abs(bounds[0]) < 1e15:
            return poly.constant(int(bounds[0]))
    return opaque(node.value, form)


def _absolute(node: Node) -> Quotient:
    form = _form(node.args[0])
    number = form.rational()
    if number is not None:
        return poly.constant(abs(number))
    if not free_names(node):
        bounds = bounds_of(node.args[0])
        if bounds is not None and (bounds[0] > 0 or bounds[1] < 0):
            return form if bounds[0] > 0 else poly.negated(form)
    mirrored = poly.conjugate(form)
    if mirrored is not None and mirrored != form:
        return rational_power(poly.product(form, mirrored), HALF)
    if len(form.upper) == 1 and single_letter(form) is None:
        square = poly.product(form, form)
        return root_of_squares(square, HALF) or opaque("abs", form)
    return opaque("abs", form)


def _factorial(node: Node) -> Quotient:
    form = _form(node.args[0])
    if form.rational() is None:
        return opaque("factorial", form)
    value = exact_value(node)
    if value is None:
        raise _NoFormError
    return poly.constant(value)


def _binomial(node: Node) -> Quotient:
    upper = _form(node.args[0])
    count = _form(node.args[1]).rational()
    if count is None or not 0 <= count <= 12 or Fraction(count).denominator != 1:
        value = exact_value(node)
        if value is not None:
            return poly.constant(value)
        return opaque("binomial", upper, _form(node.args[1]))
    result = poly.constant(Fraction(1, math.factorial(int(count))))
    for step in range(int(count)):
        result = poly.product(result, poly.total(upper, poly.constant(-step)))
    return result


def _choice(node: Node) -> Quotient:
    """gcd, lcm, max, min: numbers at once; an argument that another one beats is dropped."""
    forms = [_form(arg) for arg in node.args]
    if all(form.rational() is not None for form in forms):
        value = exact_value(node)
        if value is not None:
            return poly.constant(value)
    if node.value in ("max", "min"):
        bounds = [None if free_names(arg) else bounds_of(arg) for arg in node.args]
        left = undominated(node.value, forms, bounds)
        if len(left) == 1:
            return left[0]
        forms = left
    return poly.generator((node.value, frozenset(form.key() for form in forms)))


def _remainder(node: Node) -> Quotient:
    value = exact_value(node)
    if value is not None:
        return poly.constant(value)
    dividend, modulus = (_form(arg) for arg in node.args)
    ratio = Node(Op.FUNC, (Node(Op.DIV, node.args),), "floor")
    bounds = None if free_names(node) else bounds_of(ratio)
    if bounds is not None and bounds[0] == bounds[1] and abs(bounds[0]) < 1e15:
        multiple = poly.product(modulus, poly.constant(int(-bounds[0])))
        return poly.total(dividend, multiple)
    return opaque("mod", dividend, modulus)


def _call(node: Node) -> Quotient:
    return opaque(f"call {node.value}", *map(_form, node.args))


def _derivative(node: Node) -> Quotient:
    slope = derivative(node)
    if slope is not None:
        return _form(slope)
    body, variable = node.args
    if body.op is Op.SYM:
        return poly.generator(f"d^{node.value} {body.value}/d {variable.value}")
    return opaque(f"derivative {node.value}", *map(_form, node.args))


def _binding(node: Node) -> Quotient:
    """A sum, product, limit or integral: the bound letter renamed by its depth."""
    body, variable, *ends = node.args
    if node.op is Op.INTEGRAL and not ends:
        return opaque("integral", _form(body), _form(variable))
    if node.op is Op.SERIES:
        value = _short_series(node)
        if value is not None:
            return value
    if node.op is Op.LIMIT and not holds_name(body, variable.value):
        return _form(body)
    fresh = Node(Op.SYM, value=f"bound {_depth(body)}")
    inner = _form(substituted(body, variable.value, fresh))
    name = f"{node.op} {node.value}"
    return opaque(name, inner, *(_bound_end(end) for end in ends))


def _depth(node: Node) -> int:
    """How deep sums and integrals nest in it."""
    inner = max(map(_depth, node.args), default=0)
    return inner + (node.op in (Op.SERIES, Op.INTEGRAL, Op.LIMIT))


def _bound_end(node: Node) -> Quotient:
    if node.op is Op.INF:
        return poly.generator("infinity")
    if node.op is Op.NEG and node.args[0].op is Op.INF:
        return poly.negated(poly.generator("infinity"))
    return _form(node)


def _short_series(node: Node) -> Quotient | None:
    body, index, low_node, high_node = node.args
    try:
        value = exact_value(node)
    except UnreadableError:
        value = None
    if value is not None:
        return poly.constant(value)
    low, high = integer_value(low_node), integer_value(high_node)
    if low is None or high is None or not 0 <= high - low < _MAX_CHOICES:
        return None
    terms = (_form(substituted(body, index.value, number(k))) for k in range(low, high + 1))
    combine = poly.total if node.value == "sum" else poly.product
    result = next(terms)
    for term in terms:
        result = combine(result, term)
    return result


_ONE = Node(Op.NUM, value="1")
_BUILDERS: dict[Op, Callable[[Node], Quotient]] = {
    Op.ADD: _sum,
    Op.MUL: _product,
    Op.DIV: _quotient,
    Op.NEG: lambda node: poly.negated(_form(node.args[0])),
    Op.POW: _power,
    Op.ROOT: _root,
    Op.FUNC: _function,
    Op.LOG: _log_to_base,
    Op.ABS: _absolute,
    Op.PCT: lambda node: poly.product(_form(node.args[0]), poly.constant(Fraction(1, 100))),
    Op.DEG: lambda node: _form(node.args[0]),
    Op.FACT: _factorial,
    Op.BINOM: _binomial,
    Op.NARY: _choice,
    Op.MOD: _remainder,
    Op.CALL: _call,
    Op.DERIVATIVE: _derivative,
    Op.INTEGRAL: _binding,
    Op.SERIES: _binding,
    Op.LIMIT: _binding,
}
