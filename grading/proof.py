r"""Proofs by sympy that two scalar trees are equal; the only importer of sympy.

Trees are built from whitelisted constructors on integers and names: no text reaches a
parser or `eval`. Sums, integrals, limits, and unknown functions are applied undefined
functions of their (built) arguments, bound letters renamed, so that equal ones cancel; where
that proves nothing sympy is asked for their values. Letters are taken positive only where the
points of `grading.samples` have covered the other signs, or no sign matters.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

import sympy

from grading.calculus import derivative, substituted
from grading.exact import exact_value, square_size
from grading.tokens import UnreadableError
from grading.tree import Node, Op
from grading.verdict import Verdict

_MAX_DETERMINANT = 5
_MAX_BITS = 4_000
"""Of an integer power that sympy may expand."""


class Letters(Enum):
    """What sympy may take letters for."""

    POSITIVE = auto()
    REAL = auto()

    def symbol(self, name: str) -> Any:
        """The letter as a symbol."""
        if self is Letters.POSITIVE:
            return sympy.Symbol(name, positive=True)
        return sympy.Symbol(name, real=True)


def cheap_proof(first: Node, second: Node, letters: Letters = Letters.POSITIVE) -> Verdict:
    """CORRECT where expanding, cancelling or denesting roots shows that they are equal."""
    difference = build(first, letters) - build(second, letters)
    for attempt in (_as_built, sympy.expand, sympy.sqrtdenest, _combined):
        if attempt(difference) == 0:
            return Verdict.CORRECT
    return Verdict.UNDECIDED


def dear_proof(first: Node, second: Node, letters: Letters = Letters.POSITIVE) -> Verdict:
    """CORRECT by any means of sympy; INCORRECT where worked-out values differ."""
    difference = build(first, letters) - build(second, letters)
    for attempt in (
        sympy.trigsimp,
        _with_logs_joined,
        _with_roots_factored,
        _with_choices_written_out,
        sympy.simplify,
    ):
        if attempt(difference) == 0:
            return Verdict.CORRECT
    if _holds_calculus(first) or _holds_calculus(second):
        difference = build(first, letters, work_out=True) - build(second, letters, work_out=True)
        if sympy.simplify(difference) == 0:
            return Verdict.CORRECT
        if _is_clearly_nonzero(difference):
            return Verdict.INCORRECT
    return Verdict.CORRECT if difference.equals(0) is True else Verdict.UNDECIDED


def whole_proof(first: Node, second: Node) -> Verdict:
    """CORRECT where they are equal for whole letters, which alone give them values."""
    difference = build(first) - build(second)
    whole = {
        symbol: sympy.Symbol(symbol.name, integer=True, positive=True)
        for symbol in difference.free_symbols
    }
    is_equal = sympy.simplify(difference.subs(whole)) == 0
    return Verdict.CORRECT if is_equal else Verdict.UNDECIDED


def settled_difference(first: Node, second: Node) -> Verdict:
    """For trees whose divisors (`gcd`, `lcm`) have no numeric value: by expansion and points."""
    difference = sympy.expand(build(first) - build(second))
    if difference == 0 or sympy.simplify(difference) == 0:
        return Verdict.CORRECT
    return Verdict.INCORRECT if _is_clearly_nonzero(difference) else Verdict.UNDECIDED


def is_constant_quotient(first: Node, second: Node) -> bool:
    """Whether first over second simplifies to a number."""
    return bool(sympy.simplify(build(first) / build(second)).is_number)


def build(node: Node, letters: Letters = Letters.POSITIVE, *, work_out: bool = False) -> Any:
    """The sympy expression of a scalar tree.

    Raises:
        UnreadableError: `unsupported`, `too-large`.
    """
    return _Builder(letters, work_out=work_out).build(node)


def _holds_calculus(node: Node) -> bool:
    return node.op in _CALCULUS or any(map(_holds_calculus, node.args))


def _is_clearly_nonzero(difference: Any) -> bool:
    """At two points, evaluated to 30 digits, with nothing left unevaluated."""
    if difference.has(sympy.Integral, sympy.Sum, sympy.Limit, sympy.Product):
        return False
    if difference.atoms(sympy.core.function.AppliedUndef):
        return False
    letters = sorted(difference.free_symbols, key=lambda symbol: symbol.name)
    for offset in (2, 5):
        point = {
            symbol: sympy.Rational(offset * 7 + 3 * position, 11)
            for position, symbol in enumerate(letters)
        }
        value = difference.subs(point).evalf(30)
        if not value.is_number or not value.is_finite or abs(value) < sympy.Rational(1, 10**9):
            return False
    return True


class _Builder:
    """Builds one expression; `work_out` asks sympy for the values of sums and integrals."""

    def __init__(self, letters: Letters, *, work_out: bool) -> None:
        self._letters = letters
        self._work_out = work_out

    def build(self, node: Node) -> Any:
        if node.op is Op.NUM:
            exact = exact_value(node)
            assert exact is not None
            return sympy.Rational(exact.numerator, exact.denominator)
        if node.op is Op.SYM:
            known = _CONSTANTS.get(node.value)
            return self._letters.symbol(node.value) if known is None else known
        if node.op in _CALCULUS:
            return self._calculus(node)
        if node.op is Op.FUNC:
            return self._function(node)
        if node.op is Op.CALL:
            return self._unknown(node.value, [self.build(arg) for arg in node.args])
        if node.op is Op.NARY:
            return _CHOICES[node.value](*(self.build(arg) for arg in node.args))
        builder = _BUILDERS.get(node.op)
        if builder is None:
            raise UnreadableError("unsupported")
        return builder(*(self.build(arg) for arg in node.args))

    def _function(self, node: Node) -> Any:
        argument = node.args[0]
        if node.value == "det":
            return self._determinant(argument)
        function = _FUNCTIONS.get(node.value)
        if function is None:
            return self._unknown(node.value, [self.build(argument)])
        scale = sympy.pi / 180 if argument.op is Op.DEG else sympy.Integer(1)
        return function(self.build(argument) * scale)

    def _determinant(self, matrix: Node) -> Any:
        size = square_size(matrix)
        if size is None:
            raise UnreadableError("unsupported")
        if size > _MAX_DETERMINANT:
            raise UnreadableError("too-large")
        cells = [self.build(cell) for cell in matrix.args]
        return sympy.Matrix(size, size, cells).det(method="berkowitz")

    def _unknown(self, name: str, args: list[Any]) -> Any:
        return sympy.Function(f"{name} of")(*args)

    def _calculus(self, node: Node) -> Any:
        if node.op is Op.DERIVATIVE:
            slope = derivative(node)
            if slope is not None:
                return self.build(slope)
            args = [self.build(arg) for arg in node.args]
            return self._unknown(f"derivative {node.value}", args)
        if self._work_out:
            return self._worked_out(node)
        body, variable, *ends = node.args
        if node.op is not Op.INTEGRAL or ends:
            body = substituted(body, variable.value, Node(Op.SYM, value=f"bound {_depth(body)}"))
        else:
            ends = [variable]
        args = [self.build(body), *(self._end(end) for end in ends)]
        return self._unknown(f"{node.op} {node.value}", args)

    def _worked_out(self, node: Node) -> Any:
        body, name, *ends = node.args
        bound = sympy.Symbol(name.value, **_assumptions(node))
        inner = self.build(body).subs(self._letters.symbol(name.value), bound)
        limits = [self._end(end) for end in ends]
        if node.op is Op.LIMIT:
            return _limit(inner, bound, limits[0], node.value)
        if node.op is Op.SERIES:
            total = sympy.summation if node.value == "sum" else sympy.product
            return _where_it_converges(total(inner, (bound, *limits)))
        value = sympy.integrate(inner, (bound, *limits) if limits else bound)
        return _where_it_converges(value)

    def _end(self, node: Node) -> Any:
        if node.op is Op.INF:
            return sympy.oo
        if node.op is Op.NEG and node.args[0].op is Op.INF:
            return -sympy.oo
        return self.build(node)


def _assumptions(node: Node) -> dict[str, bool]:
    return {"integer": True} if node.op is Op.SERIES else {"real": True}


def _limit(body: Any, variable: Any, target: Any, side: str) -> Any:
    if side or target in (sympy.oo, -sympy.oo):
        return sympy.limit(body, variable, target, side or "+")
    left, right = (sympy.limit(body, variable, target, way) for way in "-+")
    if left != right:
        raise UnreadableError("unsupported")
    return left


def _depth(node: Node) -> int:
    """How deep sums and integrals nest in it."""
    return max(map(_depth, node.args), default=0) + (node.op in _CALCULUS)


def _quotient(upper: Any, lower: Any) -> Any:
    return upper / lower


def _negated(value: Any) -> Any:
    return -value


def _hundredth(value: Any) -> Any:
    return value / 100


def _as_built(difference: Any) -> Any:
    return difference


def _combined(difference: Any) -> Any:
    return sympy.expand(sympy.cancel(sympy.together(sympy.expand_func(difference))))


def _with_logs_joined(difference: Any) -> Any:
    return sympy.expand(sympy.expand_log(difference))


def _with_roots_factored(difference: Any) -> Any:
    def is_root(part: Any) -> bool:
        return part.is_Pow and part.exp.is_Rational and not part.exp.is_Integer

    def factored(part: Any) -> Any:
        return sympy.factor(part.base) ** part.exp

    return sympy.expand(difference.replace(is_root, factored))


def _with_choices_written_out(difference: Any) -> Any:
    return sympy.expand(difference.rewrite(sympy.Abs))


def _where_it_converges(value: Any) -> Any:
    """The one case that sympy worked out, where the others are left as they were."""
    if not isinstance(value, sympy.Piecewise):
        return value
    known, *others = (case.args[0] for case in value.args)
    is_open = all(other.has(sympy.Integral, sympy.Sum, sympy.Product) for other in others)
    return known if is_open else value


def _sympy_root(radicand: Any, index: Any) -> Any:
    is_odd = index.is_Integer and index % 2 == 1
    return (
        -sympy.root(-radicand, index)
        if is_odd and radicand.is_negative
        else sympy.root(radicand, index)
    )


def _sympy_power(base: Any, exponent: Any) -> Any:
    if exponent.is_Rational and base.is_Rational and abs(base) != 1:
        bits = int(base.p).bit_length() + int(base.q).bit_length()
        if bits * abs(exponent) > _MAX_BITS:
            raise UnreadableError("too-large")
    if exponent.is_Rational and exponent.q % 2 == 1 and exponent.q > 1 and base.is_negative:
        return (-1) ** exponent.p * sympy.Pow(-base, exponent)
    return sympy.Pow(base, exponent)


def _factorial(argument: Any) -> Any:
    if argument.is_number and not abs(argument) < _MAX_BITS:
        raise UnreadableError("too-large")
    return sympy.factorial(argument)


def _divided(values: tuple[Any, ...], combine: Callable[[Any, Any], Any]) -> Any:
    """Of the primitive parts; of numbers in one power of a root, as sympy has it."""
    result = values[0]
    for value in values[1:]:
        result = combine(result, value)
    return result


def _shared(*values: Any) -> Any:
    return abs(sympy.gcd(values[0], 0)) if len(values) == 1 else _divided(values, sympy.gcd)


def _joined(*values: Any) -> Any:
    return abs(values[0]) if len(values) == 1 else _divided(values, sympy.lcm)


def _parts(node: Node) -> Iterator[Node]:
    yield node
    for arg in node.args:
        yield from _parts(arg)


def holds_symbolic_divisor(node: Node) -> bool:
    """Whether a `gcd` or `lcm` in it has no rational value."""
    return any(
        part.op is Op.NARY and part.value in ("gcd", "lcm") and exact_value(part) is None
        for part in _parts(node)
    )


_CALCULUS = frozenset((Op.INTEGRAL, Op.SERIES, Op.LIMIT, Op.DERIVATIVE))
_CONSTANTS: dict[str, Any] = {"\\pi": sympy.pi, "e": sympy.E, "i": sympy.I}
_CHOICES: dict[str, Callable[..., Any]] = {
    "gcd": _shared,
    "lcm": _joined,
    "max": sympy.Max,
    "min": sympy.Min,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec,
    "csc": sympy.csc, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan,
    "arccot": sympy.acot, "arcsec": sympy.asec, "arccsc": sympy.acsc, "sinh": sympy.sinh,
    "cosh": sympy.cosh, "tanh": sympy.tanh, "coth": sympy.coth, "sech": sympy.sech,
    "csch": sympy.csch, "arcsinh": sympy.asinh, "arccosh": sympy.acosh,
    "arctanh": sympy.atanh, "exp": sympy.exp, "ln": sympy.log, "floor": sympy.floor,
    "ceil": sympy.ceiling, "double-factorial": sympy.factorial2, "sgn": sympy.sign,
    "re": sympy.re, "im": sympy.im, "conj": sympy.conjugate, "arg": sympy.arg,
}  # fmt: skip
_BUILDERS: dict[Op, Callable[..., Any]] = {
    Op.ADD: sympy.Add,
    Op.MUL: sympy.Mul,
    Op.DIV: _quotient,
    Op.NEG: _negated,
    Op.PCT: _hundredth,
    Op.DEG: _as_built,
    Op.ABS: sympy.Abs,
    Op.POW: _sympy_power,
    Op.ROOT: _sympy_root,
    Op.LOG: sympy.log,
    Op.FACT: _factorial,
    Op.BINOM: sympy.binomial,
    Op.MOD: sympy.Mod,
}
