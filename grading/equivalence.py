r"""The symbolic tier: are two scalar trees equal? Composes refutation, testing and proof.

"Different" is settled by bounds (`grading.estimate`) or by values at random points with 100
and with 200 digits that differ in both (`grading.samples`). "Equal" needs one of

* one normal form (`grading.normal_form`), or a proof by sympy (`grading.proof`);
* *identity by testing*: agreement to 150 digits at 20 points or more of at least two scales
  (one, for constants), none of them refuting. This is sound enough only because (1) both
  trees are short and made of arithmetic, roots and elementary functions: nothing piecewise,
  no unknown function; (2) every intermediate value at a counted point lies between 2**-50 and
  2**50, so that no term hides below the precision (`x + 10^{-200}` is not counted, nor is
  `x + e^{-10^9 x^2}`); (3) the numerals are few and small beside 150 digits, so an accident
  has no room; (4) one scale reaches beyond the largest constant, where the branches of
  `\sqrt{(x-100)^2}` part, and every pattern of signs is tried. What is left
  differs, if at all, off the places where answers live.

Where the points agree and neither holds the verdict is undecided, never correct.
Letters are real; odd roots of negative numbers are real; `i` and `e` are the constants;
`\log` without a base is the natural one. Runs inside worker processes (`grading.worker`),
which are killed at the deadline: nothing here watches a clock.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from fractions import Fraction

from grading import proof
from grading.divisors import at_whole_numbers
from grading.samples import WHOLE_SCALE, Sample, samples
from grading.sampling import (
    MAX_PATTERN_LETTERS,
    divides_whole_letters,
    free_names,
    is_sign_safe,
)
from grading.scalars import exact_proportional, exact_scalars, value_bounds
from grading.structure import Comparison
from grading.tokens import UnreadableError
from grading.tree import Node, Op, num_nodes
from grading.verdict import Verdict

_POINTS_NEEDED = 3
_ROUNDS = 16
_FIRST_ROUNDS = 3
_IDENTITY_POINTS = 20
_IDENTITY_SCALES = 2
_MAX_IDENTITY_NODES = 120
_MAX_IDENTITY_DIGITS = 80
_MAX_REACH = 10**6
_MAX_LANDMARKS = 10


def symbolic_scalars(gold: Node, answer: Node, *, tested: list[Node] | None = None) -> Verdict:
    """Equal, different or unproven; an answer equal by testing alone is added to `tested`.

    Raises:
        UnreadableError: `too-large` where a value has no affordable size; `unsupported`.
    """
    verdict = exact_scalars(gold, answer)
    if verdict is not Verdict.UNDECIDED:
        return verdict
    # One order for both, since sympy's success may depend on it.
    gold, answer = sorted((gold, answer), key=repr)
    if (verdict := _of_divisors(gold, answer)) is not None:
        return verdict
    names = sorted(free_names(gold) | free_names(answer))
    outcome = _first_test(gold, answer, names)
    if outcome is _Test.REFUTED:
        return Verdict.INCORRECT
    if outcome is _Test.OPEN:
        return Verdict.UNDECIDED
    if outcome is _Test.AGREES_AT_WHOLE_NUMBERS:
        return proof.whole_proof(gold, answer)
    # Positive letters prove what the points bear out for the other signs, and analytic trees.
    is_covered = outcome is _Test.AGREES and len(names) <= MAX_PATTERN_LETTERS
    is_safe = is_sign_safe(gold) and is_sign_safe(answer)
    letters = proof.Letters.POSITIVE if is_covered or is_safe else proof.Letters.REAL
    verdict = proof.cheap_proof(gold, answer, letters)
    if verdict is Verdict.UNDECIDED and outcome is _Test.AGREES:
        verdict = _identity_by_testing(gold, answer, names)
        if verdict is Verdict.CORRECT and tested is not None:
            tested.append(answer)
    return proof.dear_proof(gold, answer, letters) if verdict is Verdict.UNDECIDED else verdict


def symbolic_proportional(first: Node, second: Node, positive: bool) -> Verdict:
    """Whether first/second is one nonzero (positive) constant, so that both relations agree."""
    verdict = exact_proportional(first, second, positive)
    if verdict is not Verdict.UNDECIDED:
        return verdict
    first, second = sorted((first, second), key=repr)
    names = sorted(free_names(first) | free_names(second))
    drawn = samples(first, second, names, rounds=2, landmarks=_landmarks(first, second))
    quotients = [value for sample in drawn if (value := sample.quotient) is not None]
    if len(quotients) < _POINTS_NEEDED:
        return Verdict.UNDECIDED
    model = quotients[0]
    if any(abs(value - model) > abs(model) / 10**30 for value in quotients):
        return Verdict.INCORRECT
    if positive and not (model.imag == 0 and model.real > 0):
        return Verdict.INCORRECT
    is_constant = proof.is_constant_quotient(first, second)
    return Verdict.CORRECT if is_constant else Verdict.UNDECIDED


SYMBOLIC = Comparison(scalars=symbolic_scalars, proportional=symbolic_proportional)


def _of_divisors(gold: Node, answer: Node) -> Verdict | None:
    """Where one holds a `gcd`, `lcm` or remainder of letters; None leaves it to points."""
    is_symbolic = proof.holds_symbolic_divisor(gold) or proof.holds_symbolic_divisor(answer)
    if divides_whole_letters(gold, answer):
        outcome = at_whole_numbers(gold, answer)
        if outcome is not Verdict.CORRECT:
            return outcome
        # Proofs may take letters for real ones: they confirm, and never refute.
        verdict = proof.settled_difference(gold, answer)
        return Verdict.UNDECIDED if verdict is Verdict.INCORRECT else verdict
    return proof.settled_difference(gold, answer) if is_symbolic else None


class _Test(Enum):
    """What values at a few points say."""

    REFUTED = auto()
    OPEN = auto()
    AGREES = auto()
    AGREES_AT_WHOLE_NUMBERS = auto()
    NO_VALUES = auto()


def _first_test(gold: Node, answer: Node, names: list[str]) -> _Test:
    agreements, is_whole = 0, bool(names)
    landmarks = _landmarks(gold, answer)
    reach = _reach(landmarks)
    drawn = samples(gold, answer, names, rounds=_FIRST_ROUNDS, reach=reach, landmarks=landmarks)
    try:
        for sample in drawn:
            if sample.round and agreements >= _POINTS_NEEDED:
                break
            if sample.differs:
                return _Test.REFUTED
            agreements += sample.agrees
            is_whole &= sample.scale == WHOLE_SCALE
    except UnreadableError as error:
        if error.reason != "unsupported":
            raise
        return _Test.NO_VALUES
    if agreements < (_POINTS_NEEDED if names else 1):
        return _Test.OPEN
    return _Test.AGREES_AT_WHOLE_NUMBERS if is_whole else _Test.AGREES


def _identity_by_testing(gold: Node, answer: Node, names: list[str]) -> Verdict:
    if not _may_be_tested(gold) or not _may_be_tested(answer):
        return Verdict.UNDECIDED
    numerals = [digits for tree in (gold, answer) for digits in _numerals(tree)]
    if sum(map(len, numerals)) > _MAX_IDENTITY_DIGITS:
        return Verdict.UNDECIDED
    if not names:
        return _constants_agree(gold, answer)
    landmarks = _landmarks(gold, answer)
    reach = _reach(landmarks)
    if not reach:
        return Verdict.UNDECIDED
    counted: list[Sample] = []
    drawn = samples(gold, answer, names, rounds=_ROUNDS, reach=reach, landmarks=landmarks)
    for sample in drawn:
        if sample.differs:
            return Verdict.INCORRECT
        if sample.agrees_closely:
            counted.append(sample)
        elif sample.is_clean:
            return Verdict.UNDECIDED
        is_enough = len({sample.scale for sample in counted}) >= _IDENTITY_SCALES
        if sample.round >= _FIRST_ROUNDS and is_enough and len(counted) >= _IDENTITY_POINTS:
            return Verdict.CORRECT
    return Verdict.UNDECIDED


def _reach(landmarks: Sequence[Fraction]) -> int:
    """A size well beyond every constant, where cases part; 0 where that is too far."""
    largest = max(landmarks, default=0)
    return int(largest) * 4 + 40 if largest < _MAX_REACH else 0


def _landmarks(gold: Node, answer: Node) -> list[Fraction]:
    """Sizes of the constants and of the numerals in them, the largest first."""
    sizes = {size for tree in (gold, answer) for size in _constant_sizes(tree)}
    return sorted(sizes, reverse=True)[:_MAX_LANDMARKS]


def _constant_sizes(node: Node) -> Iterator[Fraction]:
    if node.op is Op.NUM or (node.args and not free_names(node)):
        bounds = value_bounds(node)
        if bounds is not None:
            yield max(abs(bounds[0]), abs(bounds[1]))
    for arg in node.args:
        yield from _constant_sizes(arg)


def _constants_agree(gold: Node, answer: Node) -> Verdict:
    drawn = list(samples(gold, answer, [], rounds=1))
    is_close = bool(drawn) and all(sample.agrees_closely for sample in drawn)
    return Verdict.CORRECT if is_close else Verdict.UNDECIDED


def _may_be_tested(node: Node) -> bool:
    return num_nodes(node) <= _MAX_IDENTITY_NODES and _is_elementary(node)


def _is_elementary(node: Node) -> bool:
    if node.op is Op.FUNC and node.value not in _ELEMENTARY:
        return False
    return node.op in _TESTABLE and all(map(_is_elementary, node.args))


def _numerals(node: Node) -> list[str]:
    if node.op is Op.NUM:
        return [node.value]
    return [digits for arg in node.args for digits in _numerals(arg)]


_TESTABLE = frozenset(
    (Op.NUM, Op.SYM, Op.ADD, Op.MUL, Op.DIV, Op.NEG, Op.POW, Op.ROOT, Op.FUNC, Op.LOG, Op.PCT,
     Op.DEG)
)  # fmt: skip
_ELEMENTARY_NAMES = """
    sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp ln
"""
_ELEMENTARY = frozenset(_ELEMENTARY_NAMES.split())
