"""The symbolic tier on trees: what it proves, what it refutes, and what it leaves open."""

import random

import pytest

from grading.equivalence import symbolic_proportional, symbolic_scalars
from grading.estimate import are_different
from grading.expression import parse_body
from grading.normal_form import compare_forms
from grading.samples import samples
from grading.sampling import free_names
from grading.tree import Node, Op
from grading.verdict import Verdict

CORRECT, INCORRECT, UNDECIDED = Verdict.CORRECT, Verdict.INCORRECT, Verdict.UNDECIDED


def letter(name: str) -> Node:
    return Node(Op.SYM, value=name)


def nary(name: str, *args: str) -> Node:
    return Node(Op.NARY, tuple(map(parse_body, args)), name)


def series(term: str, low: str, high: str) -> Node:
    return Node(
        Op.SERIES, (parse_body(term), letter("k"), parse_body(low), parse_body(high)), "sum"
    )


def limit(body: str, target: str, side: str = "") -> Node:
    return Node(Op.LIMIT, (parse_body(body), letter("x"), parse_body(target)), side)


def integral(body: str, *ends: str) -> Node:
    return Node(Op.INTEGRAL, (parse_body(body), letter("x"), *map(parse_body, ends)))


def both_ways(first: Node | str, second: Node | str) -> Verdict:
    left, right = (parse_body(x) if isinstance(x, str) else x for x in (first, second))
    verdict = symbolic_scalars(left, right)
    assert symbolic_scalars(right, left) is verdict
    return verdict


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\sin^2 t", r"1-\cos^2 t"),
        (r"\cos(2t)", r"2\cos^2 t-1"),
        (r"\sqrt{7+4\sqrt{3}}", r"2+\sqrt{3}"),
        (r"\arctan 2+\arctan 3", r"\frac{3\pi}{4}"),
        (r"\cos\frac{\pi}{5}", r"\frac{1+\sqrt{5}}{4}"),
        (r"\sqrt[3]{2+\sqrt{5}}+\sqrt[3]{2-\sqrt{5}}", "1"),
        (r"\frac{e^t-e^{-t}}{2}", r"\sinh t"),
        (r"2\arcsin\sqrt{t}", r"\arccos(1-2t)"),
        (r"\sqrt{3t}", r"\sqrt{3}\sqrt{t}"),
        ("(m+1)!", "(m+1)m!"),
        (r"e^{i\pi/4}", r"\frac{1+i}{\sqrt{2}}"),
        (nary("gcd", "x", "y"), "1"),
        (nary("lcm", "3y", "x"), "3xy"),
        (nary("lcm", r"\sqrt{3}", r"\sqrt{2}"), r"\sqrt{6}"),
        (series("k", "1", "n"), r"\frac{n(n+1)}{2}"),
        (series(r"\frac{1}{k^2}", "1", r"\infty"), r"\frac{\pi^2}{6}"),
        (integral("x^3", "0", "2"), "4"),
        (integral("x", "a", "b"), r"\frac{b^2-a^2}{2}"),
        (limit(r"\frac{\sin x}{x}", "0"), "1"),
    ],
)
def test_equal(first: Node | str, second: Node | str) -> None:
    assert both_ways(first, second) is CORRECT


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\sqrt{(x-100)^2}", "100-x"),
        (r"\sqrt{x^2}", "x"),
        ("x+10^{-200}", "x"),
        (r"e^{\pi\sqrt{163}}", "262537412640768744"),
        (r"\arctan(\tan t)", "t"),
        (nary("gcd", "a", "b"), "2"),
        (series(r"\frac{1}{k^2}", "1", r"\infty"), "2"),
        (limit(r"\frac{1-\cos x}{x^2}", "0"), "1"),
        (integral("x^3", "0", "2"), "5"),
        (r"\frac{1+\sqrt{5}}{2}", "1.6180339887"),
    ],
)
def test_different(first: Node | str, second: Node | str) -> None:
    assert both_ways(first, second) is INCORRECT


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\cos(10^{-40})", "1"),
        (r"x+e^{-10^{8}x^2-10^{8}}", "x"),
        (r"\lfloor x\rfloor+\lfloor -x\rfloor+1", "0"),
    ],
)
def test_never_correct(first: str, second: str) -> None:
    """Agreement at points proves nothing where a term can hide, or a function jumps."""
    assert both_ways(first, second) is not CORRECT


def test_proportional() -> None:
    circle, other = parse_body("x^2+y^2-4"), parse_body("3x^2+3y^2-12")
    assert symbolic_proportional(circle, other, True) is CORRECT
    assert symbolic_proportional(circle, parse_body("4-x^2-y^2"), True) is INCORRECT
    assert symbolic_proportional(circle, parse_body("x^2+y^2-5"), False) is INCORRECT
    trigonometric = parse_body(r"2\sin t\cos t"), parse_body(r"3\sin(2t)")
    assert symbolic_proportional(*trigonometric, False) is CORRECT


NUMBERS = tuple(Node(Op.NUM, value=digits) for digits in ("1", "2", "3", "8", "12", "0.5"))
HALF = Node(Op.DIV, (NUMBERS[0], NUMBERS[1]))
ATOMS = (*NUMBERS, letter("x"), letter("y"), letter("x"), letter("\\pi"), letter("e"))


def random_tree(generator: random.Random, depth: int) -> Node:
    if depth == 0 or generator.random() < 0.15:
        return generator.choice(ATOMS)
    first, second = (random_tree(generator, depth - 1) for _ in range(2))
    return generator.choice(
        (
            Node(Op.ADD, (first, second)),
            Node(Op.ADD, (first, Node(Op.NEG, (second,)))),
            Node(Op.MUL, (first, second)),
            Node(Op.DIV, (first, second)),
            Node(Op.POW, (first, generator.choice((*NUMBERS[1:3], HALF, second)))),
            Node(Op.ROOT, (first, generator.choice(NUMBERS[1:3]))),
            Node(Op.ABS, (first,)),
            Node(Op.FUNC, (first,), generator.choice(("sin", "exp", "ln", "tan", "floor"))),
            Node(Op.NARY, (first, second), generator.choice(("max", "min"))),
            Node(Op.CALL, (first,), "g"),
        )
    )


def rewritten(generator: random.Random, node: Node) -> Node:
    """An equal tree, spelt in another way."""
    args = tuple(rewritten(generator, arg) for arg in node.args)
    if node.op in (Op.ADD, Op.MUL):
        args = args[::-1]
    if node.op is Op.ROOT:
        return Node(Op.POW, (args[0], Node(Op.DIV, (NUMBERS[0], args[1]))))
    if node.op is Op.MUL and args[0].op is Op.ADD:
        return Node(Op.ADD, tuple(Node(Op.MUL, (term, args[1])) for term in args[0].args))
    if node.op is Op.POW and args[1] == NUMBERS[1]:
        return Node(Op.MUL, (args[0], args[0]))
    return Node(node.op, args, node.value)


def test_fast_verdicts_agree_with_values() -> None:
    """Forms and bounds against values to 200 digits, on random trees and their rewritings."""
    generator = random.Random(7)
    decided = {CORRECT: 0, INCORRECT: 0}
    for _ in range(400):
        first = random_tree(generator, generator.choice((1, 2, 3)))
        is_rewritten = generator.random() < 0.5
        second = rewritten(generator, first) if is_rewritten else random_tree(generator, 1)
        verdict = compare_forms(first, second)
        is_apart = are_different(first, second)
        assert not (verdict is CORRECT and is_apart)
        assert not (is_rewritten and (verdict is INCORRECT or is_apart)), (first, second)
        if verdict is CORRECT:
            names = sorted(free_names(first) | free_names(second))
            assert not any(s.differs for s in samples(first, second, names, rounds=1))
        if verdict is not UNDECIDED or is_apart:
            decided[CORRECT if verdict is CORRECT else INCORRECT] += 1
    assert min(decided.values()) > 100
