r"""Tokens → tree: the closed grammar of answers that can be compared.

Covers numbers, letters, sums, products, powers, roots, fractions, mixed numbers, factorials,
binomials, logarithms, elementary functions, lists, tuples, sets, intervals, unions,
relations, ratios, matrices, `\pm`, percents, degrees, numbers in another base, and plain
words. Sums, integrals, limits, derivatives and determinants are `unsupported`.
"""

import re
from collections.abc import Callable

from grading.tokens import Token, TokenCursor, TokenKind, UnreadableError, tokenize
from grading.tree import Node, Op


def parse_body(body: str) -> Node:
    """Parse a cleaned answer.

    Raises:
        UnreadableError: with reason `unparsable`, `unsupported` or `too-large`.
    """
    if _WORDS.fullmatch(body) and _LONG_WORD.search(body):
        return Node(Op.WORD, value=" ".join(body.casefold().split()))
    parser = _Parser(tokenize(body))
    node = parser.sequence()
    parser.expect_end()
    return node


_WORDS = re.compile(r"[A-Za-z][A-Za-z \-']*")
_LONG_WORD = re.compile(r"[A-Za-z]{3}|^(?:no|No|NO)$")

_RELATIONS = {"=": "=", "<": "<", ">": ">", "le": "<=", "ge": ">=", "ne": "!=", "in": "in",
              "lt": "<", "gt": ">"}  # fmt: skip
_FUNCTION_NAMES = "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln exp"
_GREEK_NAMES = """
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi
    pi rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi
    Omega ell
"""
_MATRIX_NAMES = "pmatrix bmatrix matrix array vmatrix Bmatrix smallmatrix"
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
_GREEK = frozenset(_GREEK_NAMES.split())
_MATRIX_KINDS = frozenset(_MATRIX_NAMES.split())
_ELLIPSES = frozenset(("ldots", "dots", "cdots"))
_TIMES = frozenset(("times", "cdot", "ast"))
_CLOSERS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
_MAX_SIGNS = 3
"""More signs in a row are a slip of the model, not a number."""


class _Parser(TokenCursor):
    """Recursive descent; one method a precedence level, loosest first."""

    # -- levels -----------------------------------------------------------------

    def sequence(self) -> Node:
        items = [self._relation()]
        while self.take_sign(",") or self.take_sign(";"):
            items.append(self._relation())
        return items[0] if len(items) == 1 else Node(Op.LIST, tuple(items))

    def _relation(self) -> Node:
        operands = [self._union()]
        operators: list[str] = []
        while (operator := _RELATIONS.get(self.peek().text)) and self.peek().kind in (
            TokenKind.SIGN,
            TokenKind.COMMAND,
        ):
            self.advance()
            operators.append(self._or_equal(operator))
            operands.append(self._union())
        if not operators:
            return operands[0]
        return Node(Op.REL, tuple(operands), " ".join(operators))

    def _or_equal(self, operator: str) -> str:
        if operator in "<>" and self.take_sign("="):
            return operator + "="
        return operator

    def _union(self) -> Node:
        parts = [self._ratio()]
        while self.take_command("cup"):
            parts.append(self._ratio())
        return parts[0] if len(parts) == 1 else Node(Op.UNION, tuple(parts))

    def _ratio(self) -> Node:
        parts = [self._over()]
        while self.take_sign(":"):
            parts.append(self._over())
        return parts[0] if len(parts) == 1 else Node(Op.RATIO, tuple(parts))

    def _over(self) -> Node:
        upper = self._sum()
        if self.take_command("over"):
            return Node(Op.DIV, (upper, self._sum()))
        return upper

    def _sum(self) -> Node:
        terms = [self._signed()]
        while (sign := self._sum_sign()) is not None:
            term = self._signed()
            terms.append(_with_sign(sign, term))
        return terms[0] if len(terms) == 1 else Node(Op.ADD, tuple(terms))

    def _sum_sign(self) -> str | None:
        for sign in ("+", "-"):
            if self.take_sign(sign):
                return sign
        for command in ("pm", "mp"):
            if self.take_command(command):
                return command
        return None

    def _signed(self) -> Node:
        signs: list[str] = []
        while (sign := self._sum_sign()) is not None:
            signs.append(sign)
            if len(signs) > _MAX_SIGNS:
                raise UnreadableError("unparsable")
        node = self._product()
        for sign in reversed(signs):
            node = _with_sign(sign, node)
        return node

    def _product(self) -> Node:
        factors = [self._power()]
        while True:
            if self.take_sign("*") or self.take_any(_TIMES):
                factors.append(self._factor_after_operator())
            elif self.take_sign("/") or self.take_command("div"):
                left = _product_of(factors)
                factors = [Node(Op.DIV, (left, self._factor_after_operator()))]
            elif self._starts_implicit_factor():
                factors.append(self._power())
            else:
                return _product_of(factors)

    def _factor_after_operator(self) -> Node:
        if self.take_sign("-"):
            return Node(Op.NEG, (self._power(),))
        return self._power()

    def _starts_implicit_factor(self) -> bool:
        token = self.peek()
        if token.kind is TokenKind.NUMBER:
            return self.previous().text in (")", "}", "!")
        if token.kind is TokenKind.LETTER:
            return True
        if token.kind is TokenKind.COMMAND:
            return token.text in _ATOM_COMMANDS
        return token.kind is TokenKind.SIGN and token.text in ("(", "{")

    def _power(self) -> Node:
        base = self._postfixed(self._atom())
        while self.take_sign("^"):
            if self.take_command("circ"):
                base = self._postfixed(Node(Op.DEG, (base,)))
            else:
                return self._postfixed(Node(Op.POW, (base, self._exponent())))
        return base

    def _exponent(self) -> Node:
        with self.nested():
            if self.take_sign("-"):
                return Node(Op.NEG, (self._exponent(),))
            self.take_sign("+")
            exponent = self._postfixed(self._atom())
            if self.take_sign("^"):
                return Node(Op.POW, (exponent, self._exponent()))
            return exponent

    def _postfixed(self, node: Node) -> Node:
        for _ in range(_MAX_SIGNS):
            if self.take_sign("!"):
                node = Node(Op.FACT, (node,))
            elif self.take_sign("%"):
                node = Node(Op.PCT, (node,))
            else:
                break
        return node

    # -- atoms ------------------------------------------------------------------

    def _atom(self) -> Node:
        with self.nested():
            token = self.advance()
            if token.kind is TokenKind.NUMBER:
                return self._number(token.text)
            if token.kind is TokenKind.LETTER:
                return Node(Op.SYM, value=token.text + self._subscript())
            if token.kind is TokenKind.WORD:
                return Node(Op.WORD, value=" ".join(token.text.casefold().split()))
            if token.kind is TokenKind.COMMAND:
                return self._command(token.text)
            if token.text in _CLOSERS:
                return self._bracketed(token.text)
            if token.text == "|":
                inner = self._sum()
                self.expect_sign("|")
                return Node(Op.ABS, (inner,))
            raise UnreadableError("unparsable")

    def _number(self, digits: str) -> Node:
        if self.peek_sign("_"):
            base = self._subscript().removeprefix("_")
            if not re.fullmatch(r"[2-9]|[12]\d|3[0-6]", base) or "." in digits:
                raise UnreadableError("unparsable")
            return Node(Op.BASED, value=f"{digits.lstrip('0') or '0'}_{base}")
        number = Node(Op.NUM, value=digits)
        return self._mixed(number) if "." not in digits else number

    def _mixed(self, whole: Node) -> Node:
        r"""`2\frac{1}{2}` is two and a half; an improper fraction after a number multiplies."""
        if self.peek().text != "frac" or self.peek().kind is not TokenKind.COMMAND:
            return whole
        start = self.mark()
        self.advance()
        fraction = self._command("frac")
        upper, lower = fraction.args
        is_proper = (
            upper.op is lower.op is Op.NUM
            and upper.value.isdigit()
            and lower.value.isdigit()
            and (len(upper.value), upper.value) < (len(lower.value), lower.value)
        )
        if is_proper:
            return Node(Op.ADD, (whole, fraction))
        self.rewind(start)
        return whole

    def _subscript(self) -> str:
        if not self.take_sign("_"):
            return ""
        if not self.take_sign("{"):
            return "_" + self._advance_plain()
        text = ""
        while not self.take_sign("}"):
            text += self._advance_plain()
        return "_" + text

    def _advance_plain(self) -> str:
        token = self.advance()
        if token.kind is TokenKind.SIGN and token.text not in "+-,":
            raise UnreadableError("unparsable")
        return token.text

    def _bracketed(self, opener: str) -> Node:
        inner = self.sequence()
        closer = self.advance().text
        items = inner.args if inner.op is Op.LIST else (inner,)
        if opener in ("{", "\\{"):
            if closer != _CLOSERS[opener]:
                raise UnreadableError("unparsable")
            is_set = opener == "\\{" or inner.op is Op.LIST
            return Node(Op.SET, items) if is_set else inner
        if closer not in (")", "]"):
            raise UnreadableError("unparsable")
        if len(items) == 1:
            if closer != _CLOSERS[opener]:
                raise UnreadableError("unparsable")
            return inner
        if opener == "(" and closer == ")":
            return Node(Op.TUPLE, items)
        if len(items) != 2:
            if closer != _CLOSERS[opener]:
                raise UnreadableError("unparsable")
            return Node(Op.LIST, items)
        return Node(Op.INTERVAL, items, opener + closer)

    def _command(self, name: str) -> Node:
        if name in _FUNCTIONS or name == "log":
            return self._function(name)
        if name in _GREEK:
            return Node(Op.SYM, value="\\" + name + self._subscript())
        if name in _ELLIPSES:
            return Node(Op.ELLIPSIS)
        if name.startswith("begin{"):
            return self._matrix(name[6:])
        handler = _COMMANDS.get(name)
        if handler is None:
            raise UnreadableError("unsupported")
        return handler(self)

    def fraction(self) -> Node:
        return Node(Op.DIV, (self._argument(), self._argument()))

    def binomial(self) -> Node:
        return Node(Op.BINOM, (self._argument(), self._argument()))

    def root(self) -> Node:
        index = Node(Op.NUM, value="2")
        if self.take_sign("["):
            index = self._sum()
            self.expect_sign("]")
        return Node(Op.ROOT, (self._atom(), index))

    def _argument(self) -> Node:
        """A brace group, or one token; TeX takes one *digit* of a number."""
        token = self.peek()
        if token.kind is TokenKind.NUMBER and len(token.text) > 1:
            if not token.text.isdigit():
                raise UnreadableError("unparsable")
            self.replace_next(Token(TokenKind.NUMBER, token.text[1:]))
            return Node(Op.NUM, value=token.text[0])
        return self._atom()

    def _function(self, name: str) -> Node:
        base: Node | None = None
        if name == "log" and self.take_sign("_"):
            base = self._argument()
        exponent = self._exponent() if self.take_sign("^") else None
        argument = self._function_argument()
        node = (
            Node(Op.LOG, (argument, base))
            if base is not None
            else Node(Op.FUNC, (argument,), "ln" if name == "log" else name)
        )
        if exponent is None:
            return node
        is_inverse = exponent == Node(Op.NEG, (Node(Op.NUM, value="1"),))
        if is_inverse and name in ("sin", "cos", "tan"):
            return Node(Op.FUNC, (argument,), "arc" + name)
        return Node(Op.POW, (node, exponent))

    def _function_argument(self) -> Node:
        """A bracket group, or the factors up to the next bracket, function or operator."""
        if self.peek().text in ("(", "{", "[", "|"):
            return self._atom()
        factors = [self._factor_after_operator()]
        while self._starts_implicit_factor() and self.peek().text not in _ARGUMENT_ENDS:
            factors.append(self._power())
        return _product_of(factors)

    def _matrix(self, kind: str) -> Node:
        if kind not in _MATRIX_KINDS:
            raise UnreadableError("unsupported")
        rows: list[list[Node]] = [[self.sequence()]]
        while not self.take_command(f"end{{{kind}"):
            if self.take_sign("&"):
                rows[-1].append(self.sequence())
            elif not self.take_sign("\\\\"):
                raise UnreadableError("unparsable")
            elif not self.peek().text.startswith("end{"):
                rows.append([self.sequence()])
        if len({len(row) for row in rows}) != 1:
            raise UnreadableError("unparsable")
        cells = tuple(cell for row in rows for cell in row)
        return Node(Op.MATRIX, cells, f"{len(rows)},{len(rows[0])}")


def _with_sign(sign: str, node: Node) -> Node:
    if sign == "+":
        return node
    if sign == "-":
        return Node(Op.NEG, (node,))
    return Node(Op.PM, (node,), "+" if sign == "pm" else "-")


def _product_of(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Node(Op.MUL, tuple(factors))


def _real_line(_: _Parser) -> Node:
    infinity = Node(Op.INF)
    return Node(Op.INTERVAL, (Node(Op.NEG, (infinity,)), infinity), "()")


_COMMANDS: dict[str, Callable[[_Parser], Node]] = {
    "frac": _Parser.fraction,
    "binom": _Parser.binomial,
    "sqrt": _Parser.root,
    "infty": lambda _: Node(Op.INF),
    "reals": _real_line,
    "emptyset": lambda _: Node(Op.SET),
    "varnothing": lambda _: Node(Op.SET),
}
_ATOM_COMMANDS = (
    _FUNCTIONS | _GREEK | _COMMANDS.keys() | {"log"} | {f"begin{{{kind}" for kind in _MATRIX_KINDS}
)
_ARGUMENT_ENDS = _FUNCTIONS | {"log", "(", "{", "["}
