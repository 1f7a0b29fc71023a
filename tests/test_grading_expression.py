"""The grammar: two spellings of one thing are one tree; different things are different trees."""

import time

import pytest

from grading.expression import parse_body
from grading.tokens import MAX_TOKENS, UnreadableError
from grading.tree import Node


def spelt(node: Node) -> str:
    """A tree on one line: `div(1, 2)`, `func[sin](x)`."""
    if not node.args:
        return node.value or node.op.value
    value = f"[{node.value}]" if node.value else ""
    return f"{node.op.value}{value}({', '.join(map(spelt, node.args))})"


def tree(body: str) -> str:
    """The tree of a body, on one line."""
    return spelt(parse_body(body))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # glued commands
        (r"3\cdoty", r"3 \cdot y"),
        (r"\pir", r"\pi r"),
        (r"\lvertt\rvert", "|t|"),
        (r"4\quadz", "4 z"),
        # brackets
        (r"\lgroup a+b\rgroup c", "(a+b)c"),
        (r"\{a+1\}\{a-1\}", "(a+1)(a-1)"),
        (r"[a+1][a-1]", "(a+1)(a-1)"),
        (r"\ulcorner t\urcorner", r"\lceil t \rceil"),
        ("]2,7[ \\cup [8,9[", r"(2,7[ \cup [8,9)"),
        ("[2;7]", "[2,7]"),
        (r"\langle 4, 5\rangle", "(4,5)"),
        (r"\|w\|", "|w|"),
        # numbers
        ("7E3", r"7 \times 10^{3}"),
        ("1.25e-4", r"1.25 \cdot 10^{-4}"),
        ("4e-3", "4e - 3"),
        ("5e", "5 e"),
        (".25", "0.25"),
        ("8.", "8"),
        ("(31)_7", "31_{7}"),
        ("1C_16", r"1C_{16}"),
        ("4 2/3", r"4\frac{2}{3}"),
        (r"2.\overline{7}", r"\frac{25}{9}"),
        (r"0.\dot{4}", r"\frac49"),
        (r"\sqrt13", r"\sqrt{13}"),
        # functions
        (r"\operatorname{asin}(t)", r"\sin^{-1} t"),
        (r"\arcsinh t", r"\sinh^{-1}(t)"),
        (r"\operatorname{arcosh} t", r"\operatorname{acosh}{(t)}"),
        ("sin t", r"\sin{t}"),
        ("y lny", r"y\ln y"),
        (r"\cos\{a+b\}", r"\cos\left[a+b\right]"),
        (r"\lg y", r"\log_{10} y"),
        (r"\log_10 y", r"\log_{10}(y)"),
        (r"\tg y", r"\tan y"),
        (r"\gcd(8, 6)", r"\operatorname{gcd}\{8, 6\}"),
        (r"\floor(t)", r"\lfloor t \rfloor"),
        (r"\text{Re}(w)", r"\Re w"),
        (r"\exponentialE^{2}", "e^2"),
        (r"C_9^4", r"\binom{9}{4}"),
        (r"C^4_9", r"{9 \choose 4}"),
        (r"{}_9C_4", r"\binom94"),
        # names
        (r"y^2_3", r"y_{3}^{2}"),
        ("beta_{ok}", r"\beta _{ok}"),
        ("bar{y}_{12}", r"\overline{y}_{12}"),
        ("y1", "y_{1}"),
        (r"y^{\prime\prime}", "y''"),
        (r"\variable{t_{i,j}}", "t_{i,j}"),
        (r"\overrightarrow{PQ}", r"\vec{PQ}"),
        # calculus
        (r"\int t\,dt", r"\int (t dt)"),
        (r"\int \frac{dt}{t}", r"\int \frac{1}{t} dt"),
        (r"\int_0^1 t dt + 4", r"\int_{0}^{1} (t) dt + 4"),
        (r"\int^2_1 t dt", r"\int_{1}^{2} t\, dt"),
        (r"\sum_{j=1}^{5} j", r"\sum^5_{j = 1} j"),
        (r"\lim_{t \to 0} t", r"\lim_{t \rightarrow 0} t"),
        (r"\frac{d}{dt} [t]", r"\frac{d}{d t} t"),
        (r"\frac{dw}{dt}", "dw/dt"),
        # sets and statements
        (r"\{t | t < 4\}", r"\{t : t < 4\}"),
        (r"\{1,4\} - \{4\}", r"\{1,4\} \setminus \{4\}"),
        (r"\mathbb{N}^*", r"\mathbb{Z}_{>0}"),
        (r"t \in R", r"t \in \mathbb{R}"),
        ("t != 4", r"t \neq 4"),
        (r"\neg t = 4", r"t \ne 4"),
        ("t = 1 or t = 2", r"t=1 \lor t=2"),
        ("1, 5, and 6", "1, 5 and 6"),
        (r"t \equiv 3 \pmod{7}", r"t \equiv 3 (\mod 7)"),
        (r"(2,3) U (4,5)", r"(2,3) \cup (4,5)"),
        (r"(\{1\} \cup \{2\}) \cup \{3\}", r"\{1\} \cup \{2\} \cup \{3\}"),
        (r"t = 2m\pi \quad (m \in \mathbb{Z})", r"t = 2m\pi, m \in \mathbb{Z}"),
        (r"f: t \mapsto 2t", "f(t) = 2t"),
        (r"P(A \mid B) = 1", "P(A|B)=1"),
        # matrices
        (r"\begin{bmatrix}1\\2\end{bmatrix}^T", r"\begin{matrix}1&2\end{matrix}"),
        (r"|\begin{matrix}1&2\\3&4\end{matrix}|", r"\begin{vmatrix}1&2\\3&4\end{vmatrix}"),
        (r"\begin{cases}x=1\\y=2\end{cases}", r"\{\begin{array}{l}x=1\\y=2\end{array}"),
        # other
        (r"20^\circ 30'", r"(20 + \frac{30}{60})^{\circ}"),
        ("2 + 3I", "2 + 3i"),
    ],
)
def test_two_spellings_are_one_tree(first: str, second: str) -> None:
    assert tree(first) == tree(second)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("||t||u||", "abs(mul(abs(t), abs(u)))"),
        ("|t||u|", "mul(abs(t), abs(u))"),
        ("5!=120", "rel[=](fact(5), 120)"),
        ("-9 \\mod 4", "mod(neg(9), 4)"),
        ("2+9 \\mod 4", "add(2, mod(9, 4))"),
        ("6!!", "func[double-factorial](6)"),
        (r"\sin ab", "func[sin](mul(a, b))"),
        (r"\sin 2t \cos t", "mul(func[sin](mul(2, t)), func[cos](t))"),
        (r"\min(4,321,765)", "nary[min](4, 321, 765)"),
        ("f(t+1)", "call[f](add(t, 1))"),
        ("f'(2)", "call[f'](2)"),
        ("f^{-1}(t)", "call[f^-1](t)"),
        ("b(n)=3n", "rel[=](call[b](n), mul(3, n))"),
        ("b(c+d)", "mul(b, add(c, d))"),
        ("t(t+1)", "mul(t, add(t, 1))"),
        ("C_1^2", "pow(C_1, 2)"),
        (r"\overline{PQ}", r"\bar{PQ}"),
        (r"\overline{2+3i}", "func[conj](add(2, mul(3, i)))"),
        (r"\angle PQR = 40^\circ", r"rel[=](\angle PQR, deg(40))"),
        (r"\iint uv du dv", "integral(integral(mul(u, v), u), v)"),
        (r"\lim_{t \to 2^-} t", "limit[-](t, t, 2)"),
        (r"\frac{d^2 w}{dt^2}", "derivative[2](w, t)"),
        ("a=1, b=2 or a=2, b=1",
         "list[or](tuple(rel[=](a, 1), rel[=](b, 2)), tuple(rel[=](a, 2), rel[=](b, 1)))"),
        (r"t \equiv 1, 4 \pmod 5", "list(congruent(t, 1, 5), congruent(t, 4, 5))"),
        (r"\forall t > 0, t^3 > 0", "call[forall](rel[>](t, 0), rel[>](pow(t, 3), 0))"),
        (r"\mathbb{R}_{\ge 0}", "interval[[)](0, inf)"),
        ("2:3:4", "ratio(2, 3, 4)"),
        (r"5\frac{7}{2}", "mul(5, div(7, 2))"),
        ("an odd number", "an odd number"),
        ("No", "no"),
    ],
)  # fmt: skip
def test_tree(body: str, expected: str) -> None:
    assert tree(body) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("exit(3)", "unparsable"),
        ("print(2)+1", "unparsable"),
        ("3_000", "unparsable"),
        ("\x00", "unparsable"),
        ("(1,2", "unparsable"),
        ("2,,3", "unparsable"),
        ("1.2.3", "unparsable"),
        ("4-----4", "unparsable"),
        ("17_99", "unparsable"),
        (r"\frac{1}", "unparsable"),
        (r"\frobnicate{3}", "unsupported"),
        (r"\newcommand{x}{y}", "unparsable"),
        (r"\sum_{i<j} a", "unsupported"),
        (r"\oint f dz", "unsupported"),
        (r"a \otimes b", "unsupported"),
        (r"3\ldots", "unsupported"),
        ("0.123...", "unsupported"),
    ],
)
def test_refused(body: str, reason: str) -> None:
    with pytest.raises(UnreadableError) as refusal:
        parse_body(body)
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    "unit",
    ["(", "{", r"\{", "[", "|", r"\sqrt{", r"\frac{1}{", "2^", r"\sin ", r"1\frac{1", "C_{", "-",
     "1/", r"a \mod ", r"\int ", r"\sum_{k=1}^2 ", "f(", "x_{", "1A", r"\begin{matrix}", "!",
     r"\neg ", r"\forall x, ", r"\text{", r"\bar{", "1,", "x'", "||", r"\{x|", r"A \setminus "],
)  # fmt: skip
def test_repeated_text_is_settled_quickly(unit: str) -> None:
    start = time.process_time()
    for body in (unit * 4_000, unit * 4_000 + "1", "x" + unit * 4_000 + "x"):
        try:
            parse_body(body)
        except UnreadableError:
            continue
    assert time.process_time() - start < 2


def test_token_budget() -> None:
    with pytest.raises(UnreadableError) as refusal:
        parse_body("1," * MAX_TOKENS)
    assert refusal.value.reason == "too-large"


def test_nesting_below_the_budget_is_read() -> None:
    assert tree("(" * 30 + "7" + ")" * 30) == "7"
