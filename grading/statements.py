"""Compare statements: equations, inequalities, named values, congruences.

What a statement says of one letter is a set of its values, compared as a set; an equation
with a name gives that name's value; other equations and inequalities are compared by what
they set to zero. Values, sets and proportions are left to the functions of `Rules`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from grading.calculus import number
from grading.exact import exact_value
from grading.matching import distinct, match_bags
from grading.naming import (
    in_name_order,
    is_name,
    is_named,
    is_value_name,
    renamed_argument,
    turned_ratio,
)
from grading.relations import (
    bounded_name,
    is_equation,
    is_joined_otherwise,
    is_membership,
    letters_of,
    linear_in,
    region_of,
    says_region,
    upward,
    zero_form,
)
from grading.restated import is_arithmetic, restates
from grading.sets import SET_LIKE, IncomparableError, Order, canonical_set
from grading.shapes import holds, with_quotients
from grading.tree import COLLECTIONS, SEQUENCES, Node, Op
from grading.verdict import Verdict, all_of, any_of

ProportionComparison = Callable[[Node, Node, bool], Verdict]
"""Whether a/b is one nonzero constant, and a positive one where the flag is set; so that
`a = 0` and `b = 0`, or `a < 0` and `b < 0`, say the same."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the caller compares what statements are made of."""

    same: Callable[[Node, Node], Verdict]
    ordered: Callable[[Sequence[Node], Sequence[Node]], Verdict]
    sets: Callable[[Node, Node], Verdict]
    order: Order
    proportional: ProportionComparison


class StatementComparison:
    """Compare two trees of which one at least is a statement, or a list that holds one."""

    def __init__(self, rules: Rules) -> None:
        self._same = rules.same
        self._ordered = rules.ordered
        self._sets = rules.sets
        self._order = rules.order
        self._proportional = rules.proportional

    def relations(self, gold: Node, answer: Node) -> Verdict:
        """Where an equation or inequality is among them."""
        if is_joined_otherwise(gold, answer):
            return Verdict.INCORRECT
        if says_region(gold) or says_region(answer):
            verdict = self._regions(gold, answer)
            if verdict is not None:
                return verdict
        if gold.op is answer.op is Op.REL:
            return self._two_relations(gold, answer)
        if gold.op in SEQUENCES and answer.op in SEQUENCES:
            return self._named_lists(gold, answer)
        if gold.op is Op.REL:
            return self._relation_and_value(gold, answer)
        if answer.op is Op.REL:
            return self._relation_and_value(answer, gold, is_answer=True)
        return Verdict.INCORRECT

    def _regions(self, gold: Node, answer: Node) -> Verdict | None:
        """Conditions on one letter as sets of its values; None where one is no such condition."""
        stated = [_region_name(node) for node in (gold, answer)]
        names = {name for name in stated if name is not None}
        inner = {name.args[0] if name.op is Op.ABS else name for name in names}
        # A condition on |x| against a bare set may speak of |x| or of x.
        choices = [names] if names == inner else [inner, names] if None in stated else [inner]
        verdicts = [self._regions_of(gold, answer, choice) for choice in choices if choice]
        known = [verdict for verdict in verdicts if verdict is not None]
        return any_of(known) if known else None

    def _regions_of(self, gold: Node, answer: Node, names: set[Node]) -> Verdict | None:
        regions = [self._region(node, names) for node in (gold, answer)]
        if regions[0] is None or regions[1] is None:
            return None
        if len(names) == 1:
            return self._sets(regions[0], regions[1])
        # `y > 2x` and `x < y/2` speak of both letters.
        return None if letters_of(gold) & letters_of(answer) else Verdict.INCORRECT

    def _region(self, node: Node, names: Iterable[Node]) -> Node | None:
        if not holds(node, Op.REL):
            is_set = node.op in SET_LIKE or node.op in COLLECTIONS
            return node if is_set else Node(Op.SET, (node,))
        for name in names:
            region = region_of(node, name)
            if region is not None:
                return self._alternatives(node, region)
        return None

    def _alternatives(self, node: Node, region: Node) -> Node:
        """Conditions joined by a comma or "and" that exclude each other are alternatives."""
        is_list = node.op is Op.LIST and node.value != "land"
        if not is_list or region.op is not Op.INTERSECTION:
            return region
        try:
            is_empty = canonical_set(region, self._order) == Node(Op.SET)
        except IncomparableError:
            return region
        return Node(Op.UNION, region.args) if is_empty else region

    def _relation_and_value(
        self, relation: Node, value: Node, *, is_answer: bool = False
    ) -> Verdict:
        def ordered(first: Node, second: Node) -> Verdict:
            return self._same(second, first) if is_answer else self._same(first, second)

        if is_membership(relation):
            return ordered(relation.args[1], value)
        if not is_equation(relation):
            is_chain = value.op is Op.LIST and len(set(relation.value.split())) == 1
            is_chain = is_chain and all(map(is_name, relation.args)) and len(relation.args) > 2
            is_same = is_chain and relation.args == value.args
            return Verdict.CORRECT if is_same else Verdict.INCORRECT
        verdict = Verdict.INCORRECT
        if any(map(is_value_name, relation.args)):
            verdict = ordered(relation.args[-1], value)
        elif is_answer and all(map(is_arithmetic, relation.args)):
            # Plain arithmetic: it says its value where it is true.
            steps = (self._same(left, right) for left, right in pairwise(relation.args))
            verdict = all_of((*steps, ordered(relation.args[-1], value)))
        elif is_answer and restates(relation.args[0], relation.args[-1], value):
            return ordered(relation.args[-1], value)
        if verdict is not Verdict.CORRECT:
            verdict = any_of((verdict, self._solved(relation, value)))
        if verdict is Verdict.INCORRECT and not is_answer:
            return self._identity(relation, value)
        return verdict

    def _identity(self, relation: Node, value: Node) -> Verdict:
        """A gold identity between two spellings is matched by a third."""
        left, right = relation.args[0], relation.args[-1]
        if len(relation.args) != 2 or not letters_of(value) or is_name(left):
            return Verdict.INCORRECT
        return all_of(self._same(left, other) for other in (right, value))

    def _solved(self, relation: Node, value: Node) -> Verdict:
        """`y + 1 = 2x` says `y = value` where the value has every letter but y."""
        letters = letters_of(value)
        missing = letters_of(relation) - letters
        if (
            any(map(is_name, relation.args))
            or not letters
            or len(missing) != 1
            or len(relation.args) != 2
        ):
            return Verdict.INCORRECT
        if value.op in COLLECTIONS or value.op in SET_LIKE or not letters < letters_of(relation):
            return Verdict.INCORRECT
        name = Node(Op.SYM, value=next(iter(missing)))
        stated = Node(Op.ADD, (name, Node(Op.NEG, (value,))))
        return self._proportional(zero_form(relation), stated, False)

    def _two_relations(self, gold: Node, answer: Node) -> Verdict:
        if is_equation(gold) and is_equation(answer):
            answer = renamed_argument(gold, turned_ratio(gold, answer))
            if is_name(gold.args[0]) and gold.args[0] == answer.args[0]:
                return self._same(gold.args[-1], answer.args[-1])
            if _is_algebraic(gold) and _is_algebraic(answer):
                zeros = [zero_form(with_quotients(relation)) for relation in (gold, answer)]
                return self._proportional(zeros[0], zeros[1], False)
            return Verdict.INCORRECT
        gold, answer = upward(gold), upward(answer)
        if gold.value != answer.value:
            return Verdict.INCORRECT
        if is_membership(gold):
            is_same = gold.args[0] == answer.args[0]
            return self._same(gold.args[1], answer.args[1]) if is_same else Verdict.INCORRECT
        if gold.value in _SYMMETRIC:
            orders = (answer.args, answer.args[::-1])
            return any_of(self._ordered(gold.args, order) for order in orders)
        if _is_algebraic(gold) and _is_algebraic(answer) and gold.value in ("<", "<=", "!="):
            return self._proportional(zero_form(gold), zero_form(answer), gold.value != "!=")
        return self._ordered(gold.args, answer.args)

    def _named_lists(self, gold: Node, answer: Node) -> Verdict:
        gold_named, answer_named = _all_named(gold), _all_named(answer)
        if gold_named == answer_named:
            is_bag = {gold.op, answer.op} <= {Op.LIST, Op.SET}
            if not is_bag:
                return self._ordered(gold.args, answer.args)
            items = [distinct(node.args, scalars_too=False) for node in (gold, answer)]
            verdict = match_bags(items[0], items[1], self._same)
            return self._by_place(gold, answer) if verdict is Verdict.INCORRECT else verdict
        bare_op = answer.op if gold_named else gold.op
        if bare_op is Op.TUPLE:
            gold = in_name_order(gold) if gold_named else gold
            answer = in_name_order(answer) if answer_named else answer
        named = gold if gold_named else answer
        has_one_name = len({item.args[0] for item in named.args}) == 1
        values = [distinct(_bare(node), scalars_too=False) for node in (gold, answer)]
        if has_one_name or (answer_named and bare_op is Op.LIST):
            is_bag = bare_op in (Op.LIST, Op.SET)
            return match_bags(values[0], values[1], self._same) if is_bag else Verdict.INCORRECT
        return (
            self._ordered(_bare(gold), _bare(answer))
            if bare_op is not Op.SET
            else Verdict.INCORRECT
        )

    def _by_place(self, gold: Node, answer: Node) -> Verdict:
        """Values labelled in other words: equal in order, each pair of labels sharing a word."""
        pairs = list(zip(_word_labels(gold), _word_labels(answer), strict=False))
        is_relabelled = len(pairs) == len(gold.args) == len(answer.args) > 0
        if not is_relabelled or set(_word_labels(gold)) == set(_word_labels(answer)):
            return Verdict.INCORRECT
        verdict = self._ordered(_bare(gold), _bare(answer))
        is_shared = all(set(first.split()) & set(second.split()) for first, second in pairs)
        return verdict if verdict is not Verdict.CORRECT or is_shared else Verdict.UNDECIDED

    def congruences(self, gold: Node, answer: Node) -> Verdict:
        """Where one at least is a congruence: the same residue of the same modulus."""
        gold, answer = _as_congruence(gold, answer), _as_congruence(answer, gold)
        if gold.op is not answer.op:
            if Op.REL in (gold.op, answer.op):
                # `x = 1` is one number, a class is many.
                return Verdict.INCORRECT
            gold = gold.args[1] if gold.op is Op.CONGRUENT else gold
            answer = answer.args[1] if answer.op is Op.CONGRUENT else answer
            return self._same(gold, answer)
        modulus = self._same(gold.args[2], answer.args[2])
        if gold.value != answer.value or not _has_one_name(gold, answer):
            return Verdict.INCORRECT
        if modulus is not Verdict.CORRECT:
            return Verdict.INCORRECT
        parts = [exact_value(part) for part in (gold.args[1], answer.args[1], gold.args[2])]
        first, second, divisor = parts
        if first is None or second is None or not divisor:
            return self._same(gold.args[1], answer.args[1])
        is_multiple = ((first - second) / divisor).denominator == 1
        return Verdict.CORRECT if is_multiple else Verdict.INCORRECT


def _has_one_name(first: Node, second: Node) -> bool:
    names = {node.args[0] for node in (first, second)} - {_NO_NAME}
    return len(names) < 2


def _as_congruence(node: Node, other: Node) -> Node:
    """`x = 7k + 3` as a congruence, where the other one is a congruence of the same name.

    `3 mod 7` is one without a name.
    """
    if node.op is Op.MOD and other.op in (Op.MOD, Op.CONGRUENT):
        return Node(Op.CONGRUENT, (_NO_NAME, *node.args))
    if not is_equation(node) or other.op is not Op.CONGRUENT or node.args[0] != other.args[0]:
        return node
    letters = letters_of(node.args[-1])
    if len(letters) != 1 or letters & letters_of(node.args[0]):
        return node
    line = linear_in(node.args[-1], next(iter(letters)))
    if line is None or line[0] == 0 or line[0].denominator * line[1].denominator != 1:
        return node
    residue, modulus = number(line[1].numerator), number(abs(line[0].numerator))
    return Node(Op.CONGRUENT, (node.args[0], residue, modulus))


def _word_labels(node: Node) -> list[str]:
    """The names of a list of values that are all named by words."""
    names = [item.args[0] for item in node.args if item.op is Op.REL]
    return [name.value for name in names if name.op is Op.WORD]


_NO_NAME = Node(Op.WORD)
_SYMMETRIC = frozenset(("approx", "cong", "equiv", "parallel", "perp", "~"))


def _region_name(node: Node) -> Node | None:
    if node.op is Op.REL:
        return bounded_name(node)
    if not holds(node, Op.REL):
        return None
    names = {_region_name(item) for item in node.args}
    return next(iter(names)) if len(names) == 1 else None


def _is_algebraic(relation: Node) -> bool:
    return len(relation.args) == 2 and not any(
        arg.op in (Op.CALL, Op.WORD, Op.TUPLE) or arg.op in COLLECTIONS or arg.op in SET_LIKE
        for arg in relation.args
    )


def _all_named(node: Node) -> bool:
    return all(map(is_named, node.args))


def _bare(node: Node) -> tuple[Node, ...]:
    return tuple(item.args[-1] if is_named(item) else item for item in node.args)
