"""Values without a computer algebra system: exact, bounded, and by normal form."""

import math
import random
import subprocess
import sys
from fractions import Fraction

import pytest

from grading import intervals
from grading.estimate import are_different, are_disproportional, bounds_of
from grading.exact import exact_value
from grading.expression import parse_body
from grading.intervals import UndefinedError
from grading.matrices import reduced
from grading.normal_form import compare_forms, forms_proportional
from grading.scalars import exact_scalars
from grading.tokens import UnreadableError
from grading.tree import Node, Op
from grading.verdict import Verdict

CORRECT, INCORRECT, UNDECIDED = Verdict.CORRECT, Verdict.INCORRECT, Verdict.UNDECIDED


def tree(text: str) -> Node:
    return parse_body(text)


def letter(name: str) -> Node:
    return Node(Op.SYM, value=name)


def number(value: int) -> Node:
    digits = Node(Op.NUM, value=str(abs(value)))
    return digits if value >= 0 else Node(Op.NEG, (digits,))


def series(kind: str, term: str, low: int, high: int) -> Node:
    return Node(Op.SERIES, (tree(term), letter("k"), number(low), number(high)), kind)


def nary(name: str, *args: str) -> Node:
    return Node(Op.NARY, tuple(map(tree, args)), name)


def mod(dividend: str, modulus: str) -> Node:
    return Node(Op.MOD, (tree(dividend), tree(modulus)))


def function(name: str, argument: str) -> Node:
    return Node(Op.FUNC, (tree(argument),), name)


def call(name: str, *args: str) -> Node:
    return Node(Op.CALL, tuple(map(tree, args)), name)


def matrix(rows: list[list[str]]) -> Node:
    cells = tuple(tree(cell) for row in rows for cell in row)
    return Node(Op.MATRIX, cells, f"{len(rows)},{len(rows[0])}")


def integral(body: str, *ends: str) -> Node:
    return Node(Op.INTEGRAL, (tree(body), letter("x"), *map(tree, ends)))


def derivative(body: str, order: int = 1) -> Node:
    return Node(Op.DERIVATIVE, (tree(body), letter("x")), str(order))


class TestExact:
    @pytest.mark.parametrize(
        ("node", "value"),
        [
            (function("floor", "-3.5"), -4),
            (function("ceil", "-3.5"), -3),
            (function("sgn", "-7"), -1),
            (function("double-factorial", "7"), 105),
            (nary("gcd", r"\frac{2}{3}", r"\frac{4}{9}"), Fraction(2, 9)),
            (nary("lcm", r"\frac{2}{3}", r"\frac{4}{9}"), Fraction(4, 3)),
            (nary("gcd", "-12", "18", "8"), 2),
            (nary("lcm", "-4", "6"), 12),
            (nary("lcm", "5", "0"), 0),
            (nary("max", r"\frac{1}{3}", "0.3"), Fraction(1, 3)),
            (nary("min", "2", "-2"), -2),
            (mod("17", "5"), 2),
            (mod("-17", "5"), 3),
            (mod("17", "-5"), -3),
            (mod(r"\frac{7}{2}", "2"), Fraction(3, 2)),
            (mod("3^{10^{40}}", "7"), pow(3, 10**40, 7)),
            (series("sum", "k^3", 1, 20), 44100),
            (series("prod", "2k", 1, 4), 384),
            (series("sum", "k", 4, 3), 0),
            (tree(r"\log_{4} 8"), Fraction(3, 2)),
            (Node(Op.FUNC, (matrix([["2", "1"], ["7", "5"]]),), "det"), 3),
            (Node(Op.FUNC, (matrix([["0", "1"], ["1", "0"]]),), "det"), -1),
        ],
    )
    def test_value(self, node: Node, value: Fraction | int) -> None:
        assert exact_value(node) == value

    @pytest.mark.parametrize(
        "node",
        [
            tree("x+1"),
            tree(r"\log_{2} 3"),
            mod("5", "0"),
            series("sum", r"\frac{1}{k}", 0, 3),
            tree(r"\sqrt{2}"),
        ],
    )
    def test_none(self, node: Node) -> None:
        assert exact_value(node) is None

    @pytest.mark.parametrize(
        "node", [tree("7^{10^9}"), tree("90000!"), series("sum", "k", 1, 10**9)]
    )
    def test_too_large(self, node: Node) -> None:
        with pytest.raises(UnreadableError, match="too-large"):
            exact_value(node)


class TestIntervals:
    def test_hold_the_truth(self) -> None:
        """Every function applied to a small interval holds its value at the middle."""
        generator = random.Random(3)
        plain = {
            "sin": math.sin, "cos": math.cos, "tan": math.tan, "arctan": math.atan,
            "exp": math.exp, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh,
            "floor": math.floor, "ceil": math.ceil, "ln": math.log,
        }  # fmt: skip
        for name, exact in plain.items():
            for _ in range(200):
                middle = generator.uniform(0.01 if name == "ln" else -9, 9)
                width = 10 ** generator.uniform(-12, 0)
                low = max(middle - width, 1e-9) if name == "ln" else middle - width
                bounds = intervals.FUNCTIONS[name]((low, middle + width))
                assert bounds[0] <= exact(middle) <= bounds[1]

    def test_arithmetic(self) -> None:
        assert intervals.are_apart(intervals.total([(1, 2), (1, 2)]), (4.5, 5))
        assert not intervals.are_apart((1, 2), (2, 3))
        assert intervals.quotient((1, 2), (-1, 1)) == intervals.WHOLE
        assert intervals.integer_power((-2, 1), 2)[0] <= 0
        assert intervals.power((9.0, 9.0), (1e9, 1e9))[1] == math.inf
        with pytest.raises(UndefinedError):
            intervals.root((-2, -1), 2)
        with pytest.raises(UndefinedError):
            intervals.quotient((1, 1), (0, 0))


class TestEstimate:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("2", "8^{8^{8^{8}}}"),
            ("5", "0.2^{10^{11}}"),
            ("0", "0.2^{10^{11}}"),
            ("1", "((12!)!)!"),
            ("3", r"\binom{2000000}{1000000}"),
            ("-1", "e^{e^{e^{e^{e^{e}}}}}"),
            (r"\sqrt{3}", "1.732"),
            ("2-3q", "2-3r"),
            ("(u+v)^{300}", "u^{300}+v^{300}"),
            (r"\arcsin\sqrt{t}", r"\arccos(1-2t)"),
            ("(-1)^{m}", "(-1)^{m+1}"),
            ("|t|", "t"),
            (r"e^{\pi\sqrt{67}}", "147197952743"),
            ("7^{7^{7}}", "7^{7^{8}}"),
            ("5^{5^{5^{5}}}", "5^{5^{5^{5^{5}}}}"),
            ("70000!", "70001!"),
            ("10^{10^{12}}", "e^{10^{12}}"),
        ],
    )
    def test_different(self, first: str, second: str) -> None:
        assert are_different(tree(first), tree(second))
        assert are_different(tree(second), tree(first))

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (r"\sin^2 t+\cos^2 t", "1"),
            (r"\sqrt{7+4\sqrt{3}}", r"2+\sqrt{3}"),
            ("t+10^{-300}", "t"),
            ("8^{8^{8^{8}}}", "8^{8^{8^{8}}}+1"),
            ("8^{8^{8}}", "2^{3\\cdot 8^{8}}"),
            (r"\sqrt{-1}", "1"),
        ],
    )
    def test_not_proved_different(self, first: str, second: str) -> None:
        assert not are_different(tree(first), tree(second))

    def test_sums_and_integrals(self) -> None:
        low, high = bounds_of(series("sum", r"\frac{1}{k}", 1, 10**12)) or (0.0, 0.0)
        assert low < math.log(10**12) + 0.5772156649 < high
        assert high - low < 4
        low, high = bounds_of(integral("e^x", "0", "1")) or (0.0, 0.0)
        assert low < math.e - 1 < high
        assert high - low < 0.1

    def test_unknown_functions(self) -> None:
        assert are_different(call("g", "x"), call("g", "y"))
        assert are_different(call("g", "x"), call("h", "x"))
        assert are_different(call("g", "2x"), Node(Op.MUL, (number(2), call("g", "x"))))
        assert not are_different(call("g", "x+y"), call("g", "y+x"))

    def test_disproportional(self) -> None:
        assert are_disproportional(tree("x+2y"), tree("x+3y"), False)
        assert not are_disproportional(tree("x+2y"), tree("3x+6y"), True)
        assert are_disproportional(tree("x+2y"), tree("-x-2y"), True)

    def test_determinant_of_polynomials(self) -> None:
        rows = [[f"x^{{{i * j}}}+{i + j}" for j in range(8)] for i in range(8)]
        assert are_different(Node(Op.FUNC, (matrix(rows),), "det"), number(1))


EQUAL = [
    ("x^2+4x+4", "(x+2)^2"),
    (r"\frac{x^2-9}{x-3}", "x+3"),
    (r"\frac{6}{\sqrt{3}}", r"2\sqrt{3}"),
    (r"\sqrt{50}", r"5\sqrt{2}"),
    (r"\frac{1}{2+\sqrt{3}}", r"2-\sqrt{3}"),
    (r"\sqrt[3]{54}", r"3\sqrt[3]{2}"),
    (r"\frac{x^2-4}{\sqrt{x+2}}", r"(x-2)\sqrt{x+2}"),
    ("x^{2/3}", r"\sqrt[3]{x}^2"),
    (r"\sqrt{9t^2}", "3|t|"),
    ("|-3ab|", "3|b||a|"),
    (r"\ln 12", r"2\ln 2+\ln 3"),
    (r"\log_{3} 6", r"1+\log_{3} 2"),
    (r"e^{2t}e^{t}", r"e^{3t}"),
    (r"2^{t+3}", r"8\cdot 2^{t}"),
    (r"e^{i\pi}", "-1"),
    (r"\frac{5}{2+i}", "2-i"),
    ("(1+i)^{8}", "16"),
    ("|5-12i|", "13"),
    (r"\sin 30^{\circ}", r"\frac{1}{2}"),
    (r"\tan\frac{2\pi}{3}", r"-\sqrt{3}"),
    (r"\binom{m}{2}", r"\frac{m(m-1)}{2}"),
    (r"\sqrt{-7}", r"i\sqrt{7}"),
    (r"\sin(a+b)\cdot 2", r"2\sin(b+a)"),
]
DIFFERENT = [
    ("x^2+4x+4", "(x+3)^2"),
    ("3+4i", "3-4i"),
    (r"5\sqrt{2}", r"2\sqrt{5}"),
    (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5}"),
    ("x^{1/2}", "x^{1/3}"),
    (r"2\pi", "6.28"),
    ("ab", "a+b"),
]
OPEN = [
    (r"\sqrt{(x-100)^2}", "100-x"),
    (r"\ln t^2", r"2\ln t"),
    (r"\sin^2 t", r"1-\cos^2 t"),
    (r"\arctan(\tan t)", "t"),
    (r"\sqrt{s}\sqrt{t}", r"\sqrt{st}"),
]


class TestForms:
    @pytest.mark.parametrize(("first", "second"), EQUAL)
    def test_equal(self, first: str, second: str) -> None:
        assert compare_forms(tree(first), tree(second)) is CORRECT
        assert compare_forms(tree(second), tree(first)) is CORRECT

    @pytest.mark.parametrize(("first", "second"), DIFFERENT)
    def test_different(self, first: str, second: str) -> None:
        assert compare_forms(tree(first), tree(second)) is INCORRECT

    @pytest.mark.parametrize(("first", "second"), OPEN)
    def test_open(self, first: str, second: str) -> None:
        assert compare_forms(tree(first), tree(second)) is UNDECIDED

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (call("g", "x+1"), call("g", "1+x")),
            (derivative(r"x^2\ln x"), tree(r"2x\ln x+x")),
            (derivative("x^5", 3), tree("60x^2")),
            (integral("x+b"), integral("b+x")),
            (integral("x^2", "0", "b"), integral("xx", "0", "b")),
            (nary("max", "x", "x+1"), tree("x+1")),
            (nary("min", "a", "b"), nary("min", "b", "a")),
            (nary("max", r"\sqrt{7}", "2"), tree(r"\sqrt{7}")),
            (mod(r"\sqrt{11}", r"\sqrt{2}"), tree(r"\sqrt{11}-2\sqrt{2}")),
            (function("floor", r"\sqrt{11}"), number(3)),
            (function("conj", "a+2i"), tree("a-2i")),
            (function("im", "(1+i)^3"), number(2)),
            (series("sum", "x^k", 0, 2), tree("1+x+x^2")),
            (Node(Op.LIMIT, (tree("c"), letter("x"), number(2)), "+"), tree("c")),
        ],
    )
    def test_operators(self, first: Node, second: Node) -> None:
        assert compare_forms(first, second) is CORRECT

    def test_bound_letters_are_renamed(self) -> None:
        def total(index: str, term: str) -> Node:
            return Node(Op.SERIES, (tree(term), letter(index), number(1), letter("n")), "sum")

        assert compare_forms(total("k", "k^2"), total("j", "j^2")) is CORRECT
        assert compare_forms(total("k", "k^2"), total("j", "j^3")) is not CORRECT
        assert compare_forms(total("k", "m"), total("m", "m")) is not CORRECT

    def test_proportional(self) -> None:
        line = tree("2x+4y-6")
        assert forms_proportional(line, tree("x+2y-3"), True) is CORRECT
        assert forms_proportional(line, tree("3-x-2y"), False) is CORRECT
        assert forms_proportional(line, tree("3-x-2y"), True) is INCORRECT
        assert forms_proportional(line, tree("x+2y-4"), False) is UNDECIDED

    def test_budget(self) -> None:
        assert compare_forms(tree("(a+b+c+d+f)^{90}"), number(1)) is UNDECIDED

    def test_long_identity(self) -> None:
        powers = "+".join(f"x^{{{k}}}" for k in range(1, 120))
        assert compare_forms(tree(r"\frac{x^{120}-1}{x-1}"), tree(f"1+{powers}")) is CORRECT


class TestScalars:
    def test_towers(self) -> None:
        assert exact_scalars(number(1), tree("6^{6^{6^{6}}}")) is INCORRECT
        assert exact_scalars(tree("6^{6^{6^{6}}}"), tree("6^{6^{6^{6}}}")) is CORRECT
        with pytest.raises(UnreadableError, match="too-large"):
            exact_scalars(tree("6^{6^{6^{6}}}"), tree("6^{6^{6^{6}}}+1"))

    def test_no_value(self) -> None:
        assert exact_scalars(number(3), tree(r"\frac{1}{\sqrt{4}-2}")) is INCORRECT
        assert exact_scalars(tree(r"\frac{1}{0}"), tree(r"\frac{2}{0}")) is not CORRECT


class TestMatrices:
    SQUARE = matrix([["1", "2"], ["3", "4"]])

    def check(self, node: Node, rows: list[list[str]]) -> None:
        expected, got = matrix(rows), reduced(node)
        assert got.op is Op.MATRIX
        assert got.value == expected.value
        pairs = zip(got.args, expected.args, strict=True)
        assert all(exact_scalars(a, b) is CORRECT for a, b in pairs)

    def test_arithmetic(self) -> None:
        self.check(Node(Op.ADD, (self.SQUARE, self.SQUARE)), [["2", "4"], ["6", "8"]])
        self.check(Node(Op.NEG, (self.SQUARE,)), [["-1", "-2"], ["-3", "-4"]])
        self.check(Node(Op.MUL, (letter("t"), self.SQUARE)), [["t", "2t"], ["3t", "4t"]])
        self.check(Node(Op.POW, (self.SQUARE, number(3))), [["37", "54"], ["81", "118"]])
        self.check(Node(Op.POW, (self.SQUARE, letter("T"))), [["1", "3"], ["2", "4"]])
        self.check(Node(Op.POW, (self.SQUARE, number(-1))), [["-2", "1"], ["1.5", "-0.5"]])

    def test_shapes_must_fit(self) -> None:
        row = matrix([["1", "2"]])
        product = Node(Op.MUL, (row, row))
        assert reduced(product) == product
        self.check(Node(Op.MUL, (row, self.SQUARE)), [["7", "10"]])


def test_fast_tier_needs_no_algebra_system() -> None:
    program = "import sys, grading.grade; print(sorted({'sympy', 'mpmath'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
