"""Compare two trees by shape: lists, tuples, sets, intervals, relations, units of angle.

Scalars are left to a function that the caller supplies, so the same rules serve the exact
tier and the symbolic one. Rules that follow the gold answer's shape, and so are not
symmetric: a number in a stated base is matched by its bare digits; `x=5` as an *answer* to
any gold value stands for its last right-hand side.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from grading.exact import exact_value
from grading.relations import (
    expand_plus_minus,
    free_name,
    interval_of,
    is_equation,
    is_membership,
    is_name,
    name_first,
    set_of,
    upward,
    zero_form,
)
from grading.tree import COLLECTIONS, SEQUENCES, Node, Op
from grading.verdict import Verdict

ScalarComparison = Callable[[Node, Node], Verdict]
"""Whether two scalars are equal; UNDECIDED where this tier cannot tell."""

ProportionComparison = Callable[[Node, Node, bool], Verdict]
"""Whether a/b is one nonzero constant, and a positive one where the flag is set; so that
`a = 0` and `b = 0`, or `a < 0` and `b < 0`, say the same."""

_MAX_UNORDERED = 64


class Comparison:
    """One tier's way to compare: its scalars, its zero sets, and the shapes above them."""

    def __init__(self, *, scalars: ScalarComparison, proportional: ProportionComparison) -> None:
        self._scalars = scalars
        self._proportional = proportional

    def compare(self, gold: Node, answer: Node) -> Verdict:
        """The verdict on any two trees.

        Raises:
            UnreadableError: `too-large`, from a scalar over budget.
        """
        gold, answer = expand_plus_minus(gold), expand_plus_minus(answer)
        if gold == answer:
            return Verdict.CORRECT
        if _holds(gold, Op.REL) or _holds(answer, Op.REL):
            return self._relations(gold, answer)
        return self._values(gold, answer)

    # -- values -------------------------------------------------------------------

    def _values(self, gold: Node, answer: Node) -> Verdict:
        gold, answer = _merge_sets(gold), _merge_sets(answer)
        if gold.op is Op.SET and len(gold.args) == 1 and answer.op not in COLLECTIONS:
            gold = gold.args[0]
        if answer.op is Op.SET and len(answer.args) == 1 and gold.op not in COLLECTIONS:
            answer = answer.args[0]
        ops = {gold.op, answer.op}
        if not ops & COLLECTIONS:
            return self._scalar(gold, answer)
        if Op.UNION in ops:
            return self._unordered(_parts(gold, Op.UNION), _parts(answer, Op.UNION))
        if Op.MATRIX in ops:
            return self._matrices(gold, answer)
        if Op.INTERVAL in ops:
            return self._intervals(gold, answer)
        if not ops <= COLLECTIONS:
            return Verdict.INCORRECT
        if ops <= {Op.LIST, Op.SET}:
            return self._unordered(gold.args, answer.args)
        if Op.SET in ops:
            return Verdict.INCORRECT
        return self._ordered(gold.args, answer.args)

    def _matrices(self, gold: Node, answer: Node) -> Verdict:
        if gold.op is answer.op:
            same_shape = gold.value == answer.value
            return self._ordered(gold.args, answer.args) if same_shape else Verdict.INCORRECT
        matrix, other = (gold, answer) if gold.op is Op.MATRIX else (answer, gold)
        if other.op is not Op.TUPLE or "1" not in matrix.value.split(","):
            return Verdict.INCORRECT
        return self._ordered(gold.args, answer.args)

    def _intervals(self, gold: Node, answer: Node) -> Verdict:
        if {gold.op, answer.op} > {Op.INTERVAL, Op.TUPLE} or len(gold.args) != len(answer.args):
            return Verdict.INCORRECT
        if gold.op not in _INTERVAL_LIKE or answer.op not in _INTERVAL_LIKE:
            return Verdict.INCORRECT
        if _brackets(gold) != _brackets(answer):
            return Verdict.INCORRECT
        return self._ordered(gold.args, answer.args)

    def _ordered(self, gold: Sequence[Node], answer: Sequence[Node]) -> Verdict:
        if len(gold) != len(answer):
            return Verdict.INCORRECT
        return _all(self.compare(g, a) for g, a in zip(gold, answer, strict=True))

    def _unordered(self, gold: Sequence[Node], answer: Sequence[Node]) -> Verdict:
        if len(gold) != len(answer):
            return Verdict.INCORRECT
        if len(gold) > _MAX_UNORDERED:
            return self._ordered(gold, answer)
        left = list(answer)
        is_certain = True
        for item in gold:
            verdicts = [self.compare(item, other) for other in left]
            if Verdict.CORRECT in verdicts:
                del left[verdicts.index(Verdict.CORRECT)]
            elif Verdict.UNDECIDED in verdicts:
                is_certain = False
            else:
                return Verdict.INCORRECT
        return Verdict.CORRECT if is_certain else Verdict.UNDECIDED

    def _scalar(self, gold: Node, answer: Node) -> Verdict:
        ops = {gold.op, answer.op}
        if ops & _ATOMS:
            return _atoms(gold, answer)
        if Op.RATIO in ops:
            return self._ratios(gold, answer)
        readings = [(gold, answer)]
        for op, scale in ((Op.PCT, _percent_of), (Op.DEG, _radians_of)):
            if gold.op is op and answer.op is op:
                return self._scalars(gold.args[0], answer.args[0])
            if gold.op is op:
                readings = [(gold.args[0], answer), (scale(gold.args[0]), answer)]
            elif answer.op is op:
                readings = [(gold, answer.args[0]), (gold, scale(answer.args[0]))]
        return _any(self._scalars(g, a) for g, a in readings)

    def _ratios(self, gold: Node, answer: Node) -> Verdict:
        if gold.op is not answer.op:
            ratio, other = (gold, answer) if gold.op is Op.RATIO else (answer, gold)
            if len(ratio.args) != 2:
                return Verdict.INCORRECT
            return self._scalars(Node(Op.DIV, ratio.args), other)
        if len(gold.args) != len(answer.args):
            return Verdict.INCORRECT
        if _is_clock_time(gold) or _is_clock_time(answer):
            return self._ordered(gold.args, answer.args)
        return _all(
            self._scalars(Node(Op.MUL, (g, answer.args[0])), Node(Op.MUL, (gold.args[0], a)))
            for g, a in zip(gold.args[1:], answer.args[1:], strict=True)
        )

    # -- relations ----------------------------------------------------------------

    def _relations(self, gold: Node, answer: Node) -> Verdict:
        gold, answer = name_first(gold), name_first(answer)
        if gold.op is answer.op is Op.REL:
            return self._two_relations(gold, answer)
        if gold.op is Op.REL:
            return self._relation_and_value(gold, answer)
        if answer.op is Op.REL:
            return self._relation_and_value(answer, gold, is_answer_relation=True)
        return self._relation_lists(gold, answer)

    def _relation_and_value(
        self, relation: Node, value: Node, *, is_answer_relation: bool = False
    ) -> Verdict:
        reduced: Node | None = None
        if is_membership(relation):
            reduced = relation.args[1]
        elif value.op in _INTERVAL_LIKE:
            reduced = interval_of(relation)
        elif is_equation(relation) and (is_name(relation.args[0]) or is_answer_relation):
            reduced = relation.args[-1]
        if reduced is None:
            return Verdict.INCORRECT
        return self.compare(value, reduced) if is_answer_relation else self.compare(reduced, value)

    def _two_relations(self, gold: Node, answer: Node) -> Verdict:
        if is_membership(gold) or is_membership(answer):
            gold_set, answer_set = set_of(gold), set_of(answer)
            if gold_set is None or answer_set is None or gold.args[0] != answer.args[0]:
                return Verdict.INCORRECT
            return self.compare(gold_set, answer_set)
        if is_equation(gold) and is_equation(answer):
            if is_name(gold.args[0]) and gold.args[0] == answer.args[0]:
                return self.compare(gold.args[-1], answer.args[-1])
            if len(gold.args) == len(answer.args) == 2:
                return self._proportional(zero_form(gold), zero_form(answer), False)
            return Verdict.INCORRECT
        return self._inequalities(gold, answer)

    def _inequalities(self, gold: Node, answer: Node) -> Verdict:
        gold_interval, answer_interval = interval_of(gold), interval_of(answer)
        if gold_interval is not None and answer_interval is not None:
            if free_name(gold) != free_name(answer):
                return Verdict.INCORRECT
            return self.compare(gold_interval, answer_interval)
        gold, answer = upward(gold), upward(answer)
        if gold.value != answer.value:
            return Verdict.INCORRECT
        if len(gold.args) == len(answer.args) == 2 and gold.value in ("<", "<="):
            return self._proportional(zero_form(gold), zero_form(answer), True)
        return self._ordered(gold.args, answer.args)

    def _relation_lists(self, gold: Node, answer: Node) -> Verdict:
        if gold.op not in SEQUENCES or answer.op not in SEQUENCES:
            return Verdict.INCORRECT
        gold_named = all(item.op is Op.REL for item in gold.args)
        answer_named = all(item.op is Op.REL for item in answer.args)
        if gold_named and answer_named:
            return self._unordered(gold.args, answer.args)
        named = gold if gold_named else answer
        if len({item.args[0] for item in named.args if item.args}) == 1:
            return self._unordered(gold.args, answer.args)
        return self._ordered(gold.args, answer.args)


_INTERVAL_LIKE = frozenset((Op.INTERVAL, Op.TUPLE, Op.UNION))
_ATOMS = frozenset((Op.WORD, Op.BASED, Op.ELLIPSIS))


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    result = Verdict.CORRECT
    for verdict in verdicts:
        if verdict is Verdict.INCORRECT:
            return verdict
        if verdict is Verdict.UNDECIDED:
            result = verdict
    return result


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    result = Verdict.INCORRECT
    for verdict in verdicts:
        if verdict is Verdict.CORRECT:
            return verdict
        if verdict is Verdict.UNDECIDED:
            result = verdict
    return result


def _atoms(gold: Node, answer: Node) -> Verdict:
    if gold.op is Op.BASED and answer.op is Op.NUM:
        is_equal = gold.value.partition("_")[0] == answer.value
    else:
        is_equal = gold.op is answer.op and gold.value == answer.value
    return Verdict.CORRECT if is_equal else Verdict.INCORRECT


def _percent_of(node: Node) -> Node:
    return Node(Op.DIV, (node, Node(Op.NUM, value="100")))


def _radians_of(node: Node) -> Node:
    return Node(
        Op.DIV, (Node(Op.MUL, (node, Node(Op.SYM, value="\\pi"))), Node(Op.NUM, value="180"))
    )


def _is_clock_time(ratio: Node) -> bool:
    """Zero parts and leading zeros belong to times, which do not scale."""
    return any(
        part.op is Op.NUM and (part.value.startswith("0") or part.value.strip("0.") == "")
        for part in ratio.args
    )


def _holds(node: Node, op: Op) -> bool:
    return node.op is op or (node.op in SEQUENCES and any(arg.op is op for arg in node.args))


def _parts(node: Node, op: Op) -> tuple[Node, ...]:
    return node.args if node.op is op else (node,)


def _merge_sets(node: Node) -> Node:
    if node.op is not Op.UNION or any(part.op is not Op.SET for part in node.args):
        return node
    members = dict.fromkeys(member for part in node.args for member in part.args)
    return Node(Op.SET, tuple(members))


def _brackets(node: Node) -> str:
    return node.value if node.op is Op.INTERVAL else "()"


# -- the exact tier -------------------------------------------------------------------


def exact_scalars(gold: Node, answer: Node) -> Verdict:
    """Decides where both are rational numbers, both infinite, or the trees are the same."""
    if gold == answer:
        return Verdict.CORRECT
    if gold.op is answer.op is Op.SYM:
        return Verdict.INCORRECT
    gold_sign, answer_sign = _infinity_sign(gold), _infinity_sign(answer)
    if gold_sign or answer_sign:
        return Verdict.CORRECT if gold_sign == answer_sign else Verdict.INCORRECT
    gold_value, answer_value = exact_value(gold), exact_value(answer)
    if gold_value is None or answer_value is None:
        return Verdict.UNDECIDED
    return Verdict.CORRECT if gold_value == answer_value else Verdict.INCORRECT


def exact_proportional(first: Node, second: Node, positive: bool) -> Verdict:
    """The exact tier knows only constants, so it leaves equations to the symbolic one."""
    if first == second:
        return Verdict.CORRECT
    first_value, second_value = exact_value(first), exact_value(second)
    if first_value is None or second_value is None or not (first_value and second_value):
        return Verdict.UNDECIDED
    has_sign = math.copysign(1, Fraction(first_value * second_value)) > 0
    return Verdict.CORRECT if has_sign or not positive else Verdict.INCORRECT


EXACT = Comparison(scalars=exact_scalars, proportional=exact_proportional)


def _infinity_sign(node: Node) -> int:
    if node.op is Op.INF:
        return 1
    if node.op is Op.NEG:
        return -_infinity_sign(node.args[0])
    return 0
