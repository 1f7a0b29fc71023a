"""The tree of an answer: what the grammar of `grading.expression` yields."""

from dataclasses import dataclass
from enum import StrEnum


class Op(StrEnum):
    """Kinds of tree nodes; the comment gives `args` and what `value` holds."""

    NUM = "num"  # value: digits, perhaps with a point
    SYM = "sym"  # value: a letter or Greek name, perhaps with a subscript
    WORD = "word"  # value: case-folded words
    BASED = "based"  # value: "digits_base"
    INF = "inf"
    ELLIPSIS = "ellipsis"
    ADD = "add"  # two or more
    MUL = "mul"  # two or more
    DIV = "div"
    POW = "pow"
    NEG = "neg"
    PM = "pm"  # one; value "+" for \pm, "-" for \mp
    FACT = "fact"
    PCT = "pct"
    DEG = "deg"
    ROOT = "root"  # radicand, index
    FUNC = "func"  # one; value: sin, ln, exp, floor, ceil, det, re, im, conj, sgn, ...
    NARY = "nary"  # one or more; value: gcd, lcm, max, min
    MOD = "mod"  # dividend, modulus: the remainder, with the modulus's sign
    CALL = "call"  # arguments of an unknown function; value: its name, such as f or g'
    INTEGRAL = "integral"  # integrand, variable, and perhaps low, high
    SERIES = "series"  # term, index, low, high; value: sum, prod
    LIMIT = "limit"  # expression, variable, target; value: "", "+", "-" (the side)
    DERIVATIVE = "derivative"  # expression, variable; value: the order in digits
    LOG = "log"  # argument, base
    BINOM = "binom"
    ABS = "abs"
    LIST = "list"  # no brackets; value: "", "or", "and" (words), "land" (sign), "tuple" (was one)
    TUPLE = "tuple"  # round brackets
    SET = "set"  # value: "bare" where the braces were TeX's own, else ""
    INTERVAL = "interval"  # low, high; value: its brackets, such as "[)"
    UNION = "union"
    INTERSECTION = "intersection"
    SET_MINUS = "set-minus"  # two
    SET_BUILDER = "set-builder"  # member, then one or more conditions
    NUMBERS = "numbers"  # value: N, Z, Q, C, perhaps with + or * (R is an interval)
    CONGRUENT = "congruent"  # left, right, modulus; value: "" or "not"
    REL = "rel"  # operands of a chain; value: the operators, space separated
    RATIO = "ratio"
    MATRIX = "matrix"  # cells by rows; value: "rows,columns"


@dataclass(frozen=True, slots=True)
class Node:
    """A tree node; equality is structural."""

    op: Op
    args: tuple["Node", ...] = ()
    value: str = ""


COLLECTIONS = frozenset((Op.LIST, Op.TUPLE, Op.SET, Op.INTERVAL, Op.UNION, Op.MATRIX))
SEQUENCES = frozenset((Op.LIST, Op.TUPLE, Op.SET))


def num_nodes(node: Node) -> int:
    """How many nodes the tree has."""
    return 1 + sum(map(num_nodes, node.args))
