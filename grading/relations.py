r"""Relations and plus-minus signs rewritten so that shapes can be compared.

Pure functions from tree to tree: `\pm` as two values, an inequality or "not equal" as the set
of values of its one letter (solved where it is linear in that letter), an equation as the
expression that it sets to zero. Names of values are in `grading.naming`.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from grading.exact import exact_value
from grading.tree import COLLECTIONS, SEQUENCES, Node, Op

_UPWARD = {">": "<", ">=": "<=", "supset": "subset", "supseteq": "subseteq"}
_INFINITY = Node(Op.INF)
_MINUS_INFINITY = Node(Op.NEG, (_INFINITY,))
REAL_LINE = Node(Op.INTERVAL, (_MINUS_INFINITY, _INFINITY), "()")
CONSTANTS = frozenset(("\\pi", "e", "i"))


def expand_plus_minus(node: Node) -> Node:
    r"""`\pm` stands for two values, all signs of one item switching together.

    In a tuple it stands for two tuples: `(\pm 5, 0)` for `(5, 0), (-5, 0)`.
    """
    if node.op in SEQUENCES:
        if node.op is Op.TUPLE:
            values = _two_values(node)
            return node if len(values) == 1 else Node(Op.LIST, values)
        items: list[Node] = []
        for item in node.args:
            items.extend(_two_values(item))
        return replace(node, args=tuple(items)) if len(items) != len(node.args) else node
    values = _two_values(node)
    return values[0] if len(values) == 1 else Node(Op.LIST, values)


def holds_free_signs(node: Node) -> bool:
    r"""Whether it is `(\pm 5, \pm 3)`, or holds it: two points or four, as the author meant."""
    if node.op is Op.TUPLE:
        signs = [_signs_in(arg) for arg in node.args]
        return sum(map(bool, signs)) > 1 and "-" not in "".join(signs)
    return node.op in (Op.LIST, Op.SET, Op.REL) and any(map(holds_free_signs, node.args))


def is_joined_otherwise(first: Node, second: Node) -> bool:
    """Whether one says "or" where the other says "and" of several letters.

    Of one letter `x = 1, x = 2` and `x = 1 or x = 2` say the same.
    """
    joiners = [node.value == "or" and node.op is Op.LIST for node in (first, second)]
    if joiners[0] == joiners[1]:
        return False
    either, other = (first, second) if joiners[0] else (second, first)
    if not all(item.op is Op.REL for item in either.args):
        is_both = other.op is Op.LIST and other.value in ("land", "and")
        return is_both and all(item.op is Op.SYM for item in (*either.args, *other.args))
    if other.op not in SEQUENCES:
        return False
    return len({_subject(item) for item in either.args}) > 1


def is_membership(node: Node) -> bool:
    """Whether the relation says that something lies in a set."""
    return node.op is Op.REL and node.value == "in"


def is_equation(node: Node) -> bool:
    """Whether it is a chain of equations."""
    return node.op is Op.REL and set(node.value.split()) == {"="}


def letters_of(node: Node) -> frozenset[str]:
    """The letters in a tree, without the constants."""
    if node.op is Op.SYM:
        return frozenset() if node.value in CONSTANTS else frozenset((node.value,))
    return frozenset[str]().union(*map(letters_of, node.args)) if node.args else frozenset()


def rational_number(value: Fraction) -> Node:
    """The tree of a rational number."""
    digits = Node(Op.NUM, value=str(abs(value.numerator)))
    if value.denominator != 1:
        digits = Node(Op.DIV, (digits, Node(Op.NUM, value=str(value.denominator))))
    return Node(Op.NEG, (digits,)) if value < 0 else digits


def zero_form(relation: Node) -> Node:
    """Left minus right, for a relation of two operands."""
    return Node(Op.ADD, (relation.args[0], Node(Op.NEG, (relation.args[1],))))


def upward(relation: Node) -> Node:
    """The same chain with `<` and `<=`, or inclusions to the right, where it points one way."""
    operators = relation.value.split()
    if not all(operator in _UPWARD for operator in operators):
        return relation
    flipped = " ".join(_UPWARD[operator] for operator in reversed(operators))
    return Node(Op.REL, tuple(reversed(relation.args)), flipped)


def bounded_name(relation: Node) -> Node | None:
    """The letter, `f(x)` or `|x|` that the relation describes; None where not exactly one."""
    names = [arg for arg in relation.args if _is_letter(arg)]
    if len(names) == 1 and relation.op is Op.REL:
        return names[0]
    letters = sorted(letters_of(relation))
    return Node(Op.SYM, value=letters[0]) if len(letters) == 1 else None


def region_of(node: Node, name: Node) -> Node | None:
    """The set of values that a relation, or several joined ones, leave to the name.

    The set is a tree that `grading.sets` evaluates: relations joined by "or" are a union,
    others an intersection. None where a relation is no plain condition on the name.
    """
    if node.op is Op.LIST:
        regions = [region_of(item, name) for item in node.args]
        parts = tuple(region for region in regions if region is not None)
        if len(parts) != len(regions):
            return None
        return Node(Op.UNION if node.value == "or" else Op.INTERSECTION, parts)
    if node.op is not Op.REL:
        return None
    if len(node.args) == 2 and _is_name_or_size(node.args[0], name):
        region = _stated_region(node)
        if region is not None:
            return region if node.args[0] == name else _unfolded(region)
    return _interval_of(node, name)


def says_region(node: Node) -> bool:
    """Whether a relation, or one of several, is more than an equation."""
    if node.op is Op.LIST:
        return any(says_region(item) for item in node.args)
    return node.op is Op.REL and not is_equation(node)


def _subject(relation: Node) -> Node:
    """What the relation describes; the relation itself where that is no one thing."""
    first = relation.args[0]
    if is_equation(relation) and (first.op is Op.TUPLE or len(letters_of(first)) == 1):
        return first
    return bounded_name(relation) or relation


# -- plus and minus -----------------------------------------------------------------------


def _two_values(node: Node) -> tuple[Node, ...]:
    is_closed = node.op in COLLECTIONS and node.op is not Op.TUPLE
    if is_closed or not _contains_plus_minus(node):
        return (node,)
    if node.op is Op.REL:
        last = _two_values(node.args[-1])
        return tuple(replace(node, args=(*node.args[:-1], value)) for value in last)
    return (_signed_copy(node, "+"), _signed_copy(node, "-"))


def _signs_in(node: Node) -> str:
    return node.value if node.op is Op.PM else "".join(map(_signs_in, node.args))


def _contains_plus_minus(node: Node) -> bool:
    return node.op is Op.PM or any(map(_contains_plus_minus, node.args))


def _signed_copy(node: Node, sign: str) -> Node:
    args = tuple(_signed_copy(arg, sign) for arg in node.args)
    if node.op is not Op.PM:
        return replace(node, args=args)
    return args[0] if node.value == sign else Node(Op.NEG, args)


# -- regions ------------------------------------------------------------------------------


def _is_letter(node: Node) -> bool:
    if node.op is Op.ABS:
        return _is_letter(node.args[0])
    return node.op is Op.CALL or (node.op is Op.SYM and node.value not in CONSTANTS)


def _is_name_or_size(node: Node, name: Node) -> bool:
    return node in (name, Node(Op.ABS, (name,)))


def _stated_region(relation: Node) -> Node | None:
    """Of `x in S`, `x notin S`, `x = a` and `x != a`; `x = {a, b}` is meant as membership."""
    value = relation.args[1]
    if relation.value == "in" or (relation.value == "=" and value.op is Op.SET):
        return value
    if relation.value == "notin" or (relation.value == "!=" and value.op is Op.SET):
        return Node(Op.SET_MINUS, (REAL_LINE, value))
    if relation.value not in ("=", "!=") or value.op in COLLECTIONS:
        return None
    point = Node(Op.SET, (value,))
    return point if relation.value == "=" else Node(Op.SET_MINUS, (REAL_LINE, point))


def _interval_of(relation: Node, name: Node) -> Node | None:
    """The interval of one letter between bounds: `0<x<5`, `x>=2`, `2<=|x|`; else None."""
    chain = upward(relation)
    operators = chain.value.split()
    if not set(operators) <= {"<", "<="} or len(chain.args) > 3:
        return None
    if name not in chain.args and Node(Op.ABS, (name,)) not in chain.args:
        return _solved_interval(chain, name)
    is_size = name not in chain.args
    position = chain.args.index(Node(Op.ABS, (name,)) if is_size else name)
    if len(chain.args) == 3 and position != 1:
        return None
    others = [arg for index, arg in enumerate(chain.args) if index != position]
    if name.op is Op.SYM and any(name.value in letters_of(other) for other in others):
        return _solved_interval(chain, name)
    interval = _between(chain, position)
    return _unfolded(interval) if is_size else interval


def _between(chain: Node, position: int) -> Node:
    operators = chain.value.split()
    low, left, high, right = _MINUS_INFINITY, "(", _INFINITY, ")"
    if position > 0:
        low, left = chain.args[position - 1], "[" if operators[position - 1] == "<=" else "("
    if position < len(operators):
        high, right = chain.args[position + 1], "]" if operators[position] == "<=" else ")"
    return Node(Op.INTERVAL, (low, high), left + right)


def _unfolded(sizes: Node) -> Node:
    """The numbers whose absolute value lies in the interval."""
    if sizes.op is Op.SET:
        mirror = Node(Op.SET, tuple(Node(Op.NEG, (size,)) for size in sizes.args))
        return Node(Op.UNION, (sizes, mirror))
    if sizes.op is not Op.INTERVAL:
        return sizes
    low, high = sizes.args
    mirror = Node(Op.INTERVAL, (_negative(high), _negative(low)), _mirrored(sizes.value))
    if low == _MINUS_INFINITY:
        return Node(Op.INTERSECTION, (sizes, mirror))
    return Node(Op.UNION, (sizes, mirror))


def _negative(node: Node) -> Node:
    return node.args[0] if node.op is Op.NEG else Node(Op.NEG, (node,))


def _mirrored(brackets: str) -> str:
    return ("[" if brackets[1] == "]" else "(") + ("]" if brackets[0] == "[" else ")")


# -- linear inequalities ------------------------------------------------------------------


def _solved_interval(chain: Node, name: Node) -> Node | None:
    """A chain that is linear in the letter, with rational coefficients, solved for it."""
    if name.op is not Op.SYM:
        return None
    operators = chain.value.split()
    conditions: list[Node] = []
    for left, right, operator in zip(chain.args[:-1], chain.args[1:], operators, strict=True):
        first, second = linear_in(left, name.value), linear_in(right, name.value)
        if first is None or second is None:
            return None
        slope, constant = first[0] - second[0], second[1] - first[1]
        if slope == 0:
            return None
        bound = rational_number(constant / slope)
        is_below = slope > 0
        bracket = operator == "<="
        if is_below:
            ends, brackets = (_MINUS_INFINITY, bound), "(]" if bracket else "()"
        else:
            ends, brackets = (bound, _INFINITY), "[)" if bracket else "()"
        conditions.append(Node(Op.INTERVAL, ends, brackets))
    return conditions[0] if len(conditions) == 1 else Node(Op.INTERSECTION, tuple(conditions))


def linear_in(node: Node, letter: str) -> tuple[Fraction, Fraction] | None:
    """Slope and constant of what is linear in the letter, with rational coefficients."""
    if node == Node(Op.SYM, value=letter):
        return Fraction(1), Fraction(0)
    if node.op in (Op.ADD, Op.NEG):
        lines = [linear_in(arg, letter) for arg in node.args]
        known = [line for line in lines if line is not None]
        if len(known) != len(lines):
            return None
        sign = -1 if node.op is Op.NEG else 1
        return sign * sum((line[0] for line in known), Fraction(0)), sign * sum(
            (line[1] for line in known), Fraction(0)
        )
    if node.op is Op.MUL:
        return _product_line(node.args, letter)
    if node.op is Op.DIV:
        upper, lower = linear_in(node.args[0], letter), exact_value(node.args[1])
        return (upper[0] / lower, upper[1] / lower) if upper is not None and lower else None
    value = exact_value(node)
    return None if value is None else (Fraction(0), value)


def _product_line(factors: Sequence[Node], letter: str) -> tuple[Fraction, Fraction] | None:
    result = Fraction(0), Fraction(1)
    for factor in factors:
        line = linear_in(factor, letter)
        if line is None or (line[0] and result[0]):
            return None
        result = (line[0] * result[1] + line[1] * result[0], line[1] * result[1])
    return result
