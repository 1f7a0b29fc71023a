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
_PARAMETERS = frozenset(
    ("k", "n", "m", "t", "s", "r", "l", "j", "c", "C", "K", "\\lambda", "\\ell")
)
_MAX_RENAMED = 2
_RATIOS = frozenset((Op.RATIO, Op.DIV))


def is_name(node: Node) -> bool:
    """Whether the tree can name a value."""
    if node.op is Op.SYM:
        return node.value not in CONSTANTS or node.value == "e"
    if node.op is Op.FUNC:
        return node.value in _NAMED_FUNCTIONS and is_name(node.args[0])
    if node.op in (Op.MUL, Op.RATIO, Op.DIV, Op.TUPLE, Op.ABS):
        return all(map(is_name, node.args))
    return node.op in (Op.CALL, Op.WORD)


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


def renamed_argument(gold: Node, answer: Node) -> Node:
    """The answer `f(z)=...` with the letters of the gold `f(x)=...`, where they define one f."""
    first, second = gold.args[0], answer.args[0]
    if first == second or not (first.op is second.op is Op.CALL and first.value == second.value):
        return answer
    old = [arg.value for arg in second.args if arg.op is Op.SYM]
    new = [arg.value for arg in first.args if arg.op is Op.SYM]
    if not len(old) == len(set(old)) == len(new) == len(set(new)) == len(second.args):
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


def renamed_parameters(gold: Node, answer: Node) -> Iterator[Node]:
    """The answer with its parameters renamed to the gold's, in each way that may be meant.

    A letter of one side alone is a parameter where it differs from the other's in case only,
    or where it is a usual one and the answer is a family: several expressions, or multiples
    of pi.
    """
    gold_letters, answer_letters = _value_letters(gold), _value_letters(answer)
    missing = sorted(gold_letters - answer_letters)
    extra = sorted(answer_letters - gold_letters)
    if _name_letters(gold) & set(missing) or _name_letters(answer) & set(extra):
        return
    if not missing or len(missing) != len(extra) or len(missing) > _MAX_RENAMED:
        return
    is_family = _is_family(gold) and _is_family(answer)
    for order in permutations(missing):
        pairs = dict(zip(extra, order, strict=True))
        if all(_may_rename(new, old, is_family=is_family) for old, new in pairs.items()):
            yield _renamed(answer, pairs)


def letter_bijections(gold: Node, answer: Node) -> Iterator[Node]:
    """The answer with the letters that it alone has renamed to those that the gold alone has."""
    gold_letters, answer_letters = letters_of(gold), letters_of(answer)
    missing, extra = sorted(gold_letters - answer_letters), sorted(answer_letters - gold_letters)
    if missing and len(missing) == len(extra) <= _MAX_RENAMED:
        for order in permutations(missing):
            yield _renamed(answer, dict(zip(extra, order, strict=True)))


def _may_rename(gold_letter: str, answer_letter: str, *, is_family: bool) -> bool:
    if gold_letter.casefold() == answer_letter.casefold():
        return gold_letter in _PARAMETERS or answer_letter in _PARAMETERS
    return is_family and bool(_PARAMETERS & {gold_letter, answer_letter})


def _is_family(node: Node) -> bool:
    if node.op is Op.REL:
        return is_named(node) and _is_family(node.args[-1])
    if node.op is Op.TUPLE or (node.op is Op.LIST and all(map(is_named, node.args))):
        return len(node.args) > 1
    if node.op in SEQUENCES:
        return any(map(_is_family, node.args))
    return _holds_pi_multiple(node)


def _holds_pi_multiple(node: Node) -> bool:
    if node.op is Op.MUL:
        has_pi = any(arg == Node(Op.SYM, value="\\pi") for arg in node.args)
        return has_pi and bool(letters_of(node))
    return any(map(_holds_pi_multiple, node.args))


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
    return Node(Op.LIST, tuple(Node(Op.REL, pair, "=") for pair in pairs))
