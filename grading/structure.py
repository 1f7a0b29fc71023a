"""Compare two trees by shape: lists, tuples, sets of reals, matrices, relations, names.

Scalars are left to a function that the caller supplies, so the same rules serve the exact
tier and the symbolic one. Rules that follow the gold answer's shape, and so are not
symmetric: a number in a stated base is matched by its bare digits; rounding
(`grading.rounding`); `x=5` as an *answer* to any gold value stands for its last right-hand
side; named values as an answer to a bare list may come in any order.
"""

from collections.abc import Callable, Sequence

from grading.effort import FAST_STEPS, FULL_STEPS
from grading.exact import exact_value
from grading.matching import distinct, match_bags
from grading.matrices import reduced
from grading.naming import (
    as_binomial,
    letter_bijections,
    renamed_parameters,
    with_names_first,
    without_point_name,
)
from grading.relations import (
    expand_plus_minus,
    holds_free_signs,
    is_equation,
    is_joined_otherwise,
    letters_of,
)
from grading.rounding import agrees_by_rounding
from grading.sampling import divides_whole_letters
from grading.scalars import exact_proportional, exact_scalars, infinity_sign, value_bounds
from grading.sets import SET_LIKE, IncomparableError, canonical_set
from grading.shapes import (
    INTERVAL_LIKE,
    as_quotient,
    brackets,
    holds,
    holds_collection,
    in_radians,
    is_clock_time,
    parts,
    rows_of,
    sign_outside,
    with_quotients,
    without,
)
from grading.statements import ProportionComparison, Rules, StatementComparison
from grading.tokens import UnreadableError
from grading.tree import COLLECTIONS, Node, Op
from grading.verdict import Verdict, all_of, any_of
from grading.wording import same_wording

ScalarComparison = Callable[[Node, Node], Verdict]
"""Whether two scalars are equal; UNDECIDED where this tier cannot tell."""


class Comparison:
    """One tier's way to compare: its scalars, its zero sets, and the shapes above them."""

    def __init__(
        self,
        *,
        scalars: ScalarComparison,
        proportional: ProportionComparison,
        rounds: bool = True,
        num_steps: int = FULL_STEPS,
    ) -> None:
        self.rounds = rounds
        self.num_steps = num_steps
        self._scalars = scalars
        self._proportional = proportional
        self._statements = StatementComparison(
            Rules(
                same=self._same,
                ordered=self._ordered,
                sets=self._sets,
                order=self._order,
                proportional=proportional,
            )
        )

    @property
    def exactly(self) -> "Comparison":
        """The same without rounding rules, to tell whether one of them decided."""
        return Comparison(scalars=self._scalars, proportional=self._proportional, rounds=False)

    def compare(
        self, gold: Node, answer: Node, conditions: frozenset[str] = frozenset()
    ) -> Verdict:
        """The verdict on any two trees; conditions say what their letters run over.

        Raises:
            UnreadableError: `too-large`, from a scalar over budget; `unsupported`.
        """
        if holds_free_signs(gold) != holds_free_signs(answer):
            raise UnreadableError("unsupported")
        gold = with_names_first(expand_plus_minus(reduced(gold)))
        answer = with_names_first(expand_plus_minus(reduced(answer)))
        verdict = self._same(gold, answer)
        if verdict is Verdict.CORRECT:
            return verdict
        renamed = (
            self._same(gold, other) for other in renamed_parameters(gold, answer, conditions)
        )
        return any_of((verdict, *renamed))

    def _same(self, gold: Node, answer: Node) -> Verdict:
        if gold == answer:
            return Verdict.CORRECT
        ops = {gold.op, answer.op}
        if Op.CONGRUENT in ops or (ops == {Op.MOD} and not divides_whole_letters(gold, answer)):
            return self._statements.congruences(gold, answer)
        if Op.LIST in ops and is_joined_otherwise(gold, answer):
            return Verdict.INCORRECT
        if holds(gold, Op.REL) or holds(answer, Op.REL):
            return self._statements.relations(gold, answer)
        if Op.MATRIX in ops:
            return self._matrices(gold, answer)
        if ops & SET_LIKE:
            return self._sets(gold, answer)
        return self._values(gold, answer)

    # -- values -------------------------------------------------------------------

    def _values(self, gold: Node, answer: Node) -> Verdict:
        if gold.op is Op.SET and len(gold.args) == 1 and answer.op not in _BAGS:
            gold = gold.args[0]
        if answer.op is Op.SET and len(answer.args) == 1 and gold.op not in _BAGS:
            answer = answer.args[0]
        if Op.TUPLE in (gold.op, answer.op):
            gold, answer = without_point_name(gold), without_point_name(answer)
        gold, answer = as_binomial(gold, answer), as_binomial(answer, gold)
        ops = {gold.op, answer.op}
        if not ops & COLLECTIONS:
            if holds_collection(gold) != holds_collection(answer):
                return Verdict.INCORRECT
            return self._scalar(gold, answer)
        if not ops <= COLLECTIONS:
            return Verdict.INCORRECT
        if ops <= _BAGS:
            is_set = Op.SET in ops
            return match_bags(
                distinct(gold.args, scalars_too=is_set),
                distinct(answer.args, scalars_too=is_set),
                self._same,
            )
        if any(node.op is Op.SET and node.value != "bare" for node in (gold, answer)):
            return Verdict.INCORRECT
        return self._ordered(gold.args, answer.args)

    def _matrices(self, gold: Node, answer: Node) -> Verdict:
        if gold.op is answer.op:
            same_shape = gold.value == answer.value
            return self._ordered(gold.args, answer.args) if same_shape else Verdict.INCORRECT
        matrix, other = (gold, answer) if gold.op is Op.MATRIX else (answer, gold)
        if other.op is Op.SET and len(other.args) == 1:
            return self._same(*(without(node, Op.SET) for node in (gold, answer)))
        if other.op is Op.TUPLE and "1" in matrix.value.split(","):
            return self._ordered(gold.args, answer.args)
        rows = rows_of(other)
        if rows is None:
            return Verdict.INCORRECT
        gold, answer = (gold, rows) if matrix is gold else (rows, answer)
        return self._matrices(gold, answer)

    def _ordered(self, gold: Sequence[Node], answer: Sequence[Node]) -> Verdict:
        """Components in order; where a finite one agrees, another may have two digits."""
        if len(gold) != len(answer):
            return Verdict.INCORRECT
        pairs = list(zip(gold, answer, strict=True))
        verdicts = [self._same(g, a) for g, a in pairs]
        is_vouched = any(
            verdict is Verdict.CORRECT and not infinity_sign(g)
            for (g, _), verdict in zip(pairs, verdicts, strict=True)
        )
        if Verdict.INCORRECT in verdicts and is_vouched:
            for index, (g, a) in enumerate(pairs):
                if verdicts[index] is Verdict.INCORRECT and self._is_rounded(
                    g, a, is_component=True
                ):
                    verdicts[index] = Verdict.CORRECT
        return all_of(verdicts)

    def _scalar(self, gold: Node, answer: Node) -> Verdict:
        gold, answer = sign_outside(gold), sign_outside(answer)
        if gold.op is not answer.op:
            gold, answer = _in_base_ten(gold), _in_base_ten(answer)
        ops = {gold.op, answer.op}
        if ops & _ATOMS:
            return _atoms(gold, answer)
        if Op.RATIO in ops:
            return self._ratios(gold, answer)
        if gold.op is answer.op is Op.DEG:
            return self._rounded(gold.args[0], answer.args[0])
        if ops == {Op.PCT, Op.DEG}:
            return Verdict.INCORRECT
        if Op.DEG in ops:
            if _is_sign_dropped(gold, answer, Op.DEG):
                return Verdict.CORRECT
            if letters_of(gold):
                return self._scalars(without(gold, Op.DEG), without(answer, Op.DEG))
            return self._rounded(in_radians(gold), in_radians(answer))
        if Op.PCT in ops and gold.op is not answer.op and _is_sign_dropped(gold, answer, Op.PCT):
            return Verdict.CORRECT
        return self._rounded(gold, answer)

    def _rounded(self, gold: Node, answer: Node) -> Verdict:
        verdict = self._scalars(gold, answer)
        if verdict is Verdict.CORRECT or self._is_rounded(gold, answer):
            return Verdict.CORRECT
        if verdict is not Verdict.UNDECIDED:
            return verdict
        plain = with_quotients(gold), with_quotients(answer)
        return verdict if plain == (gold, answer) else self._scalars(*plain)

    def _is_rounded(self, gold: Node, answer: Node, *, is_component: bool = False) -> bool:
        if not self.rounds:
            return False
        agrees = agrees_by_rounding(gold, answer, bounds=value_bounds, is_component=is_component)
        return agrees is True

    def _ratios(self, gold: Node, answer: Node) -> Verdict:
        if gold.op is not answer.op:
            if gold.op is Op.NUM and answer.args[1:] == (_ONE,):
                return Verdict.UNDECIDED
            gold, answer = as_quotient(gold), as_quotient(answer)
            return (
                Verdict.INCORRECT
                if Op.RATIO in (gold.op, answer.op)
                else self._rounded(gold, answer)
            )
        if len(gold.args) != len(answer.args):
            return Verdict.INCORRECT
        if is_clock_time(gold) or is_clock_time(answer):
            return self._ordered(gold.args, answer.args)
        return all_of(
            self._scalars(Node(Op.MUL, (g, answer.args[0])), Node(Op.MUL, (gold.args[0], a)))
            for g, a in zip(gold.args[1:], answer.args[1:], strict=True)
        )

    # -- sets of reals ------------------------------------------------------------

    def _sets(self, gold: Node, answer: Node) -> Verdict:
        is_ordered = True
        canonical: list[Node | None] = []
        for node in (gold, answer):
            try:
                canonical.append(canonical_set(node, self._order))
            except IncomparableError:
                canonical.append(None)
                is_ordered = False
        first, second = canonical
        if first is not None and second is not None:
            return self._set_shapes(first, second)
        verdict = self._set_shapes(gold, answer)
        if verdict is Verdict.INCORRECT and _is_unsolved_set(gold, answer):
            return Verdict.UNDECIDED
        if verdict is Verdict.INCORRECT and not is_ordered:
            has_letters = letters_of(gold) or letters_of(answer)
            return verdict if has_letters else Verdict.UNDECIDED
        return verdict

    def _order(self, first: Node, second: Node) -> int:
        signs = infinity_sign(first), infinity_sign(second)
        if any(signs):
            return (signs[0] > signs[1]) - (signs[0] < signs[1])
        left, right = value_bounds(first), value_bounds(second)
        if left is not None and right is not None:
            if left[1] < right[0]:
                return -1
            if left[0] > right[1]:
                return 1
        if self._scalars(first, second) is Verdict.CORRECT:
            return 0
        raise IncomparableError

    def _set_shapes(self, gold: Node, answer: Node) -> Verdict:
        if {gold.op, answer.op} == {Op.UNION, Op.INTERSECTION}:
            return Verdict.INCORRECT
        if Op.UNION in (gold.op, answer.op) or gold.op is answer.op is Op.INTERSECTION:
            return match_bags(parts(gold), parts(answer), self._same_part)
        return self._same_part(gold, answer)

    def _same_part(self, gold: Node, answer: Node) -> Verdict:
        if gold.op in INTERVAL_LIKE and answer.op in INTERVAL_LIKE:
            if brackets(gold) != brackets(answer):
                return Verdict.INCORRECT
            return self._ordered(gold.args, answer.args)
        ops = {gold.op, answer.op}
        if not ops & SET_LIKE:
            return self._values(gold, answer)
        if len(ops) > 1 or len(gold.args) != len(answer.args) or gold.value != answer.value:
            return Verdict.INCORRECT
        if gold.op is Op.SET_BUILDER:
            return any_of(
                all_of(map(self._same, gold.args, other.args))
                for other in (answer, *letter_bijections(gold, answer))
            )
        return self._ordered(gold.args, answer.args)


EXACT = Comparison(scalars=exact_scalars, proportional=exact_proportional, num_steps=FAST_STEPS)

_ONE = Node(Op.NUM, value="1")
_BAGS = frozenset((Op.LIST, Op.SET))
_ATOMS = frozenset((Op.WORD, Op.BASED, Op.ELLIPSIS))


def _is_unsolved_set(gold: Node, answer: Node) -> bool:
    """A set by an equation that is not solved here, against one by its members."""
    builder, other = (gold, answer) if gold.op is Op.SET_BUILDER else (answer, gold)
    is_listed = other.op is Op.SET and builder.op is Op.SET_BUILDER
    return is_listed and any(map(is_equation, builder.args))


def _is_sign_dropped(gold: Node, answer: Node, sign: Op) -> bool:
    """Whether they are one number, which has its percent or degree sign on one side only.

    A bare gold number stands for a percentage only as a plain number, and not below 1: there
    the sign cannot be meant to be dropped.
    """
    number = without(answer, sign)
    if answer.op is Op.PCT:
        digits = without(number, Op.NEG)
        if digits.op is not Op.NUM or digits.value.startswith(("0", ".")):
            return False
    value = exact_value(number)
    return value is not None and value == exact_value(without(gold, sign))


def _in_base_ten(node: Node) -> Node:
    """A number whose stated base is ten, as the number."""
    digits, _, base = node.value.partition("_")
    return Node(Op.NUM, value=digits) if node.op is Op.BASED and base == "10" else node


def _atoms(gold: Node, answer: Node) -> Verdict:
    if gold.op is answer.op is Op.WORD:
        return same_wording(gold.value, answer.value)
    if gold.op is Op.BASED and answer.op is Op.NUM:
        is_equal = gold.value.partition("_")[0] == answer.value
    else:
        is_equal = gold.op is answer.op and gold.value == answer.value
    return Verdict.CORRECT if is_equal else Verdict.INCORRECT
