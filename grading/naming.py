r"""Names of values: `x = 5`, `(p, q) = (3, 2)`, `f(n) = 2n`, and letters that may be renamed.

Pure functions from tree to tree. A name is a letter, a call, a length such as `AB`, a ratio or
absolute value of those, a tuple of those, or words. Letters are renamed only where the
choice of letter says nothing: the argument of a function that is being defined, and the
parameter of a family of solutions.
"""

from collections.abc import Iterator
from itertools import permutations

from grading.relations import CONSTANTS, is_equation, letters_of
from grading.tree import SEQUENCES, Node, Op

_NAMED_FUNCTIONS = frozenset(("sin", "cos", "tan", "cot", "det", "re", "im", "arg", "deg", "dim"))
_COUNTERS = frozenset(("k", "n", "m"))
"""Letters that count whole turns without being said to: `2 \\pi r` is no family."""
_WHOLE = frozenset(("integer", "natural", "whole"))
_OF_TERMS = SEQUENCES | {Op.ADD, Op.NEG, Op.PM, Op.INTERVAL, Op.UNION}
_OF_TURNS = frozenset((Op.NUM, Op.SYM, Op.DEG, Op.MUL, Op.ADD, Op.NEG, Op.PM, Op.DIV))
_PI = Node(Op.SYM, value="\\pi")
_MINUS_ONE = Node(Op.NEG, (Node(Op.NUM, value="1"),))
_IN_ORDER = ("abc", "mn", "pq", "rst", "uvw", "xyz", "xz")
_MAX_RENAMED = 2
_UNIT_VECTORS = {f"\\{accent}{{{letter}}}": letter for accent in ("hat", "vec") for letter in "ijk"}
_ARBITRARY = frozenset("ck")
_VARIABLES = frozenset(("x", "y", "z", "t", "u", "v", "w", "s", "r", "\\theta"))
_COORDINATES = frozenset("xyz")
_CHOICES = Node(Op.SYM, value="C")
_RATIOS = frozenset((Op.RATIO, Op.DIV))
_DOMAINS = _WHOLE | frozenset(("real", "rational", "complex", "positive", "nonzero", "negative"))


def is_name(node: Node) -> bool:
    """Whether the tree can name a value."""
    if node.op is Op.SYM:
        return node.value not in CONSTANTS or node.value == "e"
    if node.op is Op.DERIVATIVE:
        return node.args[0].op is Op.SYM
    if node.op is Op.FUNC:
        return node.value in _NAMED_FUNCTIONS and is_name(node.args[0])
    if node.op in (Op.MUL, Op.RATIO, Op.DIV, Op.TUPLE, Op.ABS):
        return all(map(is_name, node.args))
    return node.op in (Op.CALL, Op.WORD)


def is_value_name(node: Node) -> bool:
    """Whether what it equals is its value: a name, or a sum of letters as in `a + b = 5`.

    Sums and products of coordinates (`x + y = 5`, `xy = 5`) are curves.
    """
    if node.op in (Op.ADD, Op.MUL) and letters_of(node) & _COORDINATES:
        return False
    is_sum = node.op is Op.ADD and all(arg.op is Op.SYM for arg in node.args)
    return is_name(node) or (is_sum and all(map(is_name, node.args)))


def is_named(node: Node) -> bool:
    """Whether it is an equation that gives a name's value."""
    return is_equation(node) and is_name(node.args[0])


def with_names_first(node: Node) -> Node:
    """Named values in one form.

    `5=x` becomes `x=5`; `n=2,3,4` names every item; `(p,q)=(3,2)` becomes `p=3, q=2`;
    `p=5, q=2, p=7, q=2` becomes two named pairs; "Total: 7" becomes an equation.
    """
    if node.op in (Op.LIST, Op.SET):
        items = [_named(item) for item in _flat(node)]
        items = _grouped(_distributed(items))
        if len(items) == 1 and is_equation(items[0]):
            return _unpacked(items[0])
        return Node(node.op, tuple(items), node.value)
    return _unpacked(_named(node))


def with_plain_unit_vectors(node: Node) -> Node:
    r"""`3\hat{i} - 2\hat{j}` as `3i - 2j`, which is what `\mathbf{i}` leaves."""
    hats = letters_of(node) & _UNIT_VECTORS.keys()
    return _renamed(node, _UNIT_VECTORS) if hats - {"\\hat{i}", "\\vec{i}"} else node


def renamed_argument(gold: Node, answer: Node) -> Node:
    """The answer `f(z)=...` with the letters of the gold `f(x)=...`, where they define one f."""
    first, second = gold.args[0], answer.args[0]
    if first == second or not (first.op is second.op is Op.CALL and first.value == second.value):
        return answer
    old = [arg.value for arg in second.args if arg.op is Op.SYM]
    new = [arg.value for arg in first.args if arg.op is Op.SYM]
    if not len(old) == len(set(old)) == len(new) == len(set(new)) == len(second.args):
        return answer
    if not all(map(_is_argument, (gold, answer))):
        return answer
    free = letters_of(answer) - set(old)
    if free & set(new):
        return answer
    return _renamed(answer, dict(zip(old, new, strict=True)))


def turned_ratio(gold: Node, answer: Node) -> Node:
    """The answer `b : a = 3 : 2` as `a : b = 2 : 3` where that is the gold's name."""
    name, value = answer.args[0], answer.args[-1]
    if name.op not in _RATIOS or len(name.args) != 2 or len(answer.args) != 2:
        return answer
    if gold.args[0] != Node(gold.args[0].op, name.args[::-1]):
        return answer
    if value.op in _RATIOS and len(value.args) == 2:
        value = Node(value.op, value.args[::-1])
    else:
        value = Node(Op.DIV, (Node(Op.NUM, value="1"), value))
    return Node(Op.REL, (gold.args[0], value), answer.value)


def renamed_parameters(
    gold: Node, answer: Node, conditions: frozenset[str] = frozenset()
) -> Iterator[Node]:
    r"""The answer with its parameters renamed to the gold's, in each way that may be meant.

    A letter of one side alone is a parameter where it counts turns (`k\pi`, `30^\circ +
    360^\circ n`): k, m and n do, any letter that a condition calls whole. In several named or
    bare expressions (`(t, 2t)`) it is one where a condition says what it runs over, and so is
    a constant of an antiderivative that the condition names. The case of an arbitrary constant
    says nothing: `x^2 + c`, `c e^x`, `c_1`; elsewhere it does (a side c, an angle C).
    """
    gold_letters, answer_letters = _value_letters(gold), _value_letters(answer)
    missing = sorted(gold_letters - answer_letters)
    extra = sorted(answer_letters - gold_letters)
    if _name_letters(gold) & set(missing) or _name_letters(answer) & set(extra):
        return
    if not missing or len(missing) != len(extra) or len(missing) > _MAX_RENAMED:
        return
    for order in permutations(missing):
        pairs = dict(zip(extra, order, strict=True))
        if all(
            _may_be_renamed((gold, new), (answer, old), conditions) for old, new in pairs.items()
        ):
            yield _renamed(answer, pairs)


def letter_bijections(gold: Node, answer: Node) -> Iterator[Node]:
    """The answer with the letters that it alone has renamed to those that the gold alone has."""
    gold_letters, answer_letters = letters_of(gold), letters_of(answer)
    missing, extra = sorted(gold_letters - answer_letters), sorted(answer_letters - gold_letters)
    if missing and len(missing) == len(extra) <= _MAX_RENAMED:
        for order in permutations(missing):
            yield _renamed(answer, dict(zip(extra, order, strict=True)))


def in_name_order(named: Node) -> Node:
    """Named values by their names, where those have an order: x before y, p before q."""
    names = [item.args[0] for item in named.args]
    letters = "".join(name.value for name in names if name.op is Op.SYM)
    ordered = "".join(sorted(letters))
    is_known = len(ordered) == len(names) and any(ordered in run for run in _IN_ORDER)
    if named.value == "tuple" or not is_known:
        return named
    items = sorted(named.args, key=lambda item: item.args[0].value)
    return Node(named.op, tuple(items), named.value)


def without_point_name(node: Node) -> Node:
    """`P(-1, 6)` as the pair: one capital letter before it."""
    if node.op is not Op.MUL or len(node.args) != 2:
        return node
    name, point = node.args
    is_name = name.op is Op.SYM and len(name.value) == 1 and name.value.isupper()
    return point if is_name and point.op is Op.TUPLE else node


def as_binomial(node: Node, other: Node) -> Node:
    """`C(10, 3)` as the binomial, where the other side is no point and no call."""
    if node.op is not Op.MUL or len(node.args) != 2 or other.op in SEQUENCES or other.op is Op.MUL:
        return node
    name, pair = node.args
    is_choice = name == _CHOICES and pair.op is Op.TUPLE and len(pair.args) == 2
    is_whole = is_choice and all(arg.op is Op.NUM and arg.value.isdecimal() for arg in pair.args)
    return Node(Op.BINOM, pair.args) if is_whole else node


def _may_be_renamed(
    gold: tuple[Node, str], answer: tuple[Node, str], conditions: frozenset[str]
) -> bool:
    """Of trees with the letters that would become one."""
    letters = {gold[1], answer[1]}
    words = frozenset(word for condition in conditions for word in condition.split())
    is_whole = bool(words & _WHOLE)
    if (is_whole or letters <= _COUNTERS) and all(
        _counts_turns(tree, letter, is_whole=is_whole) for tree, letter in (gold, answer)
    ):
        return True
    if conditions and words <= _DOMAINS and _is_several(gold[0]) and _is_several(answer[0]):
        return True
    is_named = bool(conditions & {letter.casefold() for letter in letters})
    return (is_named or _differ_in_case(*letters)) and all(
        _is_constant(tree, letter) for tree, letter in (gold, answer)
    )


def _is_argument(definition: Node) -> bool:
    """Whether the letters of `f(x) = ...` are arguments: variables, or in what it equals.

    The probabilities P(A) and P(B) are two numbers.
    """
    letters = letters_of(definition.args[0])
    return letters <= _VARIABLES | _COUNTERS or letters <= letters_of(definition.args[-1])


def _differ_in_case(first: str, second: str) -> bool:
    is_usual = first.casefold().partition("_")[0] in _ARBITRARY
    return is_usual and first.casefold() == second.casefold()


def _is_constant(node: Node, letter: str) -> bool:
    """Whether the letter is an arbitrary constant: one term of a sum, or a factor of it, in
    which a variable occurs.
    """
    if node.op is Op.REL or node.op in SEQUENCES:
        return any(_is_constant(arg, letter) for arg in node.args)
    if not letters_of(node) & _VARIABLES:
        return False
    symbol = Node(Op.SYM, value=letter)
    terms = node.args if node.op is Op.ADD else (node,)
    return any(
        term == symbol if term.op is Op.SYM else _has_free_factor(term, symbol) for term in terms
    )


def _has_free_factor(term: Node, symbol: Node) -> bool:
    """A constant times what a variable occurs in: `C e^{-kt}`, `3cx`, `c_1 sin x`."""
    is_factor = term.op is Op.MUL and symbol in term.args
    return is_factor and ("_" in symbol.value or bool(letters_of(term) & _VARIABLES))


def _is_several(node: Node) -> bool:
    """A tuple, or several named values."""
    if is_named(node):
        return _is_several(node.args[-1])
    if node.op is Op.TUPLE or (node.op is Op.LIST and all(map(is_named, node.args))):
        return len(node.args) > 1
    return node.op in SEQUENCES and any(map(_is_several, node.args))


def _counts_turns(node: Node, letter: str, *, is_whole: bool) -> bool:
    """Whether the letter occurs only in terms that are numbers times pi or degrees times it
    (or times a sum in it), or any numbers where it is known to be whole.
    """
    if letter not in letters_of(node):
        return True
    if is_named(node):
        return _counts_turns(node.args[-1], letter, is_whole=is_whole)
    if node.op in _OF_TERMS:
        return all(_counts_turns(arg, letter, is_whole=is_whole) for arg in node.args)
    is_turn = len(letters_of(node)) == 1 and _is_turn(node, letter)
    return is_turn and (is_whole or _holds_turn(node))


def _is_turn(term: Node, letter: str) -> bool:
    """Linear in the letter, save for a factor (-1) to its power."""
    if letter not in letters_of(term):
        return True
    if term.op is Op.POW:
        return term.args[0] == _MINUS_ONE
    if term.op is Op.DIV and letter in letters_of(term.args[1]):
        return False
    if term.op is Op.MUL and sum(letter in letters_of(arg) for arg in term.args) > 1:
        return False
    return term.op in _OF_TURNS and all(_is_turn(arg, letter) for arg in term.args)


def _holds_turn(term: Node) -> bool:
    return term == _PI or term.op is Op.DEG or any(map(_holds_turn, term.args))


def _value_letters(node: Node) -> frozenset[str]:
    """Letters of the values, without the names."""
    if node.op is Op.REL and is_named(node):
        return letters_of(node.args[-1])
    if node.op in SEQUENCES:
        return frozenset[str]().union(*map(_value_letters, node.args)) if node.args else frozenset()
    return letters_of(node)


def _name_letters(node: Node) -> frozenset[str]:
    if node.op is Op.REL:
        return letters_of(node.args[0])
    if node.op in SEQUENCES and node.args:
        return frozenset[str]().union(*map(_name_letters, node.args))
    return frozenset()


def _renamed(node: Node, names: dict[str, str]) -> Node:
    if node.op is Op.SYM:
        return Node(Op.SYM, value=names.get(node.value, node.value))
    return Node(node.op, tuple(_renamed(arg, names) for arg in node.args), node.value)


# -- forms of naming ------------------------------------------------------------------------


def _named(node: Node) -> Node:
    node = _exact_part(node)
    if node.op is Op.RATIO and len(node.args) == 2 and node.args[0].op is Op.WORD:
        return Node(Op.REL, node.args, "=")
    if is_equation(node) and is_name(node.args[-1]) and not is_name(node.args[0]):
        return Node(Op.REL, tuple(reversed(node.args)), node.value)
    return node


def _exact_part(node: Node) -> Node:
    """`x = 1/3 approx 0.33` says `x = 1/3`; where all is approximate, that is the value."""
    operators = node.value.split() if node.op is Op.REL else []
    if "approx" not in operators or not set(operators) <= {"=", "approx"}:
        return node
    num_exact = operators.index("approx")
    if num_exact == 0 and not is_name(node.args[0]):
        return node.args[0]
    num_exact = num_exact or 1
    return Node(Op.REL, node.args[: num_exact + 1], " ".join(["="] * num_exact))


def _flat(node: Node) -> Iterator[Node]:
    for item in node.args:
        if item.op is Op.LIST and node.op is Op.LIST:
            yield from item.args
        else:
            yield item


def _distributed(items: list[Node]) -> list[Node]:
    """`n=2,3,4`: the first item's name is everybody's."""
    first = items[0] if items else Node(Op.LIST)
    is_stated = first.op is Op.REL and first.value in ("=", "!=") and is_name(first.args[0])
    if not is_stated or any(item.op is Op.REL for item in items[1:]):
        return items
    return [first, *(Node(Op.REL, (first.args[0], item), first.value) for item in items[1:])]


def _grouped(items: list[Node]) -> list[Node]:
    if len(items) < 4 or not all(is_named(item) for item in items):
        return items
    names = [item.args[0] for item in items]
    period = names.index(names[0], 1) if names[0] in names[1:] else 0
    if period < 2 or len(names) % period or names != names[:period] * (len(names) // period):
        return items
    if len(set(names[:period])) != period:
        return items
    return [
        Node(
            Op.REL,
            (
                Node(Op.TUPLE, tuple(names[:period])),
                Node(Op.TUPLE, tuple(item.args[-1] for item in items[start : start + period])),
            ),
            "=",
        )
        for start in range(0, len(items), period)
    ]


def _unpacked(node: Node) -> Node:
    if not is_named(node) or node.args[0].op is not Op.TUPLE:
        return node
    names, values = node.args[0].args, node.args[-1].args
    if node.args[-1].op is not Op.TUPLE or len(names) != len(values):
        return node
    pairs = zip(names, values, strict=True)
    return Node(Op.LIST, tuple(Node(Op.REL, pair, "=") for pair in pairs), "tuple")
