"""Canonical sets of reals, from trees."""

import pytest

from grading.exact import exact_value
from grading.expression import parse_body
from grading.naming import with_names_first
from grading.relations import region_of
from grading.sets import IncomparableError, canonical_set
from grading.tree import Node, Op


def order(first: Node, second: Node) -> int:
    signs = [
        {Node(Op.INF): 1, Node(Op.NEG, (Node(Op.INF),)): -1}.get(end, 0) for end in (first, second)
    ]
    if any(signs):
        return (signs[0] > signs[1]) - (signs[0] < signs[1])
    left, right = exact_value(first), exact_value(second)
    if left is None or right is None:
        raise IncomparableError
    return (left > right) - (left < right)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"(1,2)\cup[2,3)", "(1,3)"),
        (r"(1,2)\cup(2,3)", r"(1,2)\cup(2,3)"),
        (r"(1,2)\cup(2,3)\cup\{2\}", "(1,3)"),
        (r"[5,6)\cup[1,2]", r"[1,2]\cup[5,6)"),
        (r"(0,9)\cap[4,\infty)", "[4,9)"),
        (r"(0,2)\cap(2,4)", r"\{\}"),
        (r"(0,1]\cap[1,4)", r"\{1\}"),
        (r"\mathbb{R}\setminus\{3,1\}", r"(-\infty,1)\cup(1,3)\cup(3,\infty)"),
        (r"\{1,2,3\}\setminus\{2,7\}", r"\{1,3\}"),
        (r"[0,4]\setminus(1,2)", r"[0,1]\cup[2,4]"),
        (r"[2,2]", r"\{2\}"),
        (r"\{2,1,2.0\}", r"\{1,2\}"),
        (r"\{x \mid 0 < x \le 5\}", "(0,5]"),
        (r"\mathbb{Z}\cap[-1,2)", r"\{-1,0,1\}"),
    ],
)
def test_canonical(text: str, expected: str) -> None:
    canonical = canonical_set(parse_body(text), order)
    assert canonical is not None
    again = canonical_set(parse_body(expected), order)
    assert canonical == again


@pytest.mark.parametrize(
    "text", ["(5,1)", r"\{(1,2)\}", "7", "(1,2,3)", r"\mathbb{Z}", r"\mathbb{Q}"]
)
def test_no_set_of_reals(text: str) -> None:
    assert canonical_set(parse_body(text), order) is None


def test_letters_have_no_order() -> None:
    with pytest.raises(IncomparableError):
        canonical_set(parse_body("(a,b)"), order)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x>3", r"(3,\infty)"), ("3<x", r"(3,\infty)"), ("1<x\\le 4", "(1,4]"), ("x=7", r"\{7\}"),
        ("x\\ne 7", r"(-\infty,7)\cup(7,\infty)"), ("4-2x\\ge 0", r"(-\infty,2]"),
        ("|x|\\le 2", "[-2,2]"),
        ("|x|>2", r"(-\infty,-2)\cup(2,\infty)"), ("2x+1<x+4", r"(-\infty,3)"),
        ("1<3-x<2", "(1,2)"),
    ],
)  # fmt: skip
def test_region_of_a_relation(text: str, expected: str) -> None:
    region = region_of(parse_body(text), Node(Op.SYM, value="x"))
    assert region is not None
    assert canonical_set(region, order) == canonical_set(parse_body(expected), order)


@pytest.mark.parametrize("text", ["x^2<4", "x<y", "y<2", "x<x", "\\sin x < 1"])
def test_no_region(text: str) -> None:
    relation, name = parse_body(text), Node(Op.SYM, value="x")
    region = region_of(relation, name)
    assert region is None or text == "x<y"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5=x", "x=5"), ("n=2,3", "n=2,n=3"), ("x=\\frac12\\approx 0.5", "x=\\frac12"),
     ("x\\approx 0.5", "x=0.5"), ("2+3=x=5", "2+3=x=5")],
)  # fmt: skip
def test_names_first(text: str, expected: str) -> None:
    assert with_names_first(parse_body(text)) == parse_body(expected)


def test_a_named_tuple_becomes_named_values_in_its_own_order() -> None:
    named = with_names_first(parse_body("(q,p)=(3,2)"))
    assert named.args == parse_body("q=3,p=2").args
    assert named.value == "tuple"
