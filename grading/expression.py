r"""Tokens → tree: the closed grammar of answers that can be compared.

Recursive descent, one method a precedence level; what starts with a command or a bracket is
read by the handlers of the `grammar_*` modules. Notation outside it is `unsupported`.
"""

import re

from grading.grammar_brackets import BRACKET_HANDLERS
from grading.grammar_calculus import CALCULUS_HANDLERS
from grading.grammar_functions import FUNCTION_HANDLERS
from grading.grammar_lists import SEPARATORS, listed
from grading.grammar_names import RELATIONS, TIMES
from grading.grammar_numbers import number
from grading.grammar_statements import (
    STATEMENT_HANDLERS,
    is_condition,
    mapping,
    relation_chain,
    residue,
)
from grading.grammar_suffixes import suffixed
from grading.grammar_sums import calculates_with_ratio, flattened, product_of, sum_of, with_sign
from grading.grammar_symbols import SYMBOL_HANDLERS, symbol
from grading.grammar_tables import table_handler
from grading.tokens import (
    MAX_DEPTH,
    Token,
    TokenCursor,
    TokenKind,
    UnreadableError,
    is_mathematical,
    tokenize,
)
from grading.tree import Node, Op


def parse_body(body: str) -> Node:
    """Parse a cleaned answer.

    Raises:
        UnreadableError: with reason `unparsable`, `unsupported` or `too-large`.
    """
    words = _WORDS.fullmatch(body) is not None and _LONG_WORD.search(body) is not None
    if words and not all(map(is_mathematical, body.split())):
        return _words(body)
    try:
        return _parse(body)
    except RecursionError:
        raise UnreadableError("too-large") from None
    except UnreadableError:
        if words:
            return _words(body)
        raise


_WORDS = re.compile(r"[A-Za-z][A-Za-z \-']*")
_LONG_WORD = re.compile(r"[A-Za-z]{3}|^(?:no|No|NO)$")
_MAX_SIGNS = 3
"""More signs in a row are a slip of the model, not a number."""
_MAX_LEFT_NESTING = 40
"""Divisions and remainders in a row make the tree as deep as brackets do."""


def _words(body: str) -> Node:
    return Node(Op.WORD, value=" ".join(body.casefold().split()))


def _parse(body: str) -> Node:
    tokens = tokenize(body)
    try:
        tree = _whole(Parser(tokens))
        return _with_colons_as_division(tree, tokens) if ":" in body else tree
    except UnreadableError as error:
        # Where bars stand side by side, `||x||y||`, the other reading of a bar may fit.
        if body.count("|") + body.count("vert") < 4 or error.reason == "too-large":
            raise
        parser = Parser(tokens)
        parser.is_bar_opening = True
        return _whole(parser)


def _with_colons_as_division(tree: Node, tokens: list[Token]) -> Node:
    """A ratio that is calculated with is a quotient, which binds as a product does."""
    if not any(calculates_with_ratio(item) for item in (tree, *tree.args)):
        return tree
    parser = Parser(tokens)
    parser.divides_by_colon = True
    try:
        return _whole(parser)
    except UnreadableError:
        return tree


def _whole(parser: "Parser") -> Node:
    node = parser.sequence()
    parser.expect_end()
    return node


class Parser(TokenCursor):
    """The levels, loosest first, and the state of the bracket that is being read."""

    __slots__ = (
        "bars",
        "depth",
        "differential",
        "divides_by_colon",
        "is_angle",
        "is_bar_opening",
        "is_set",
        "is_target",
        "left_nesting",
    )

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.depth = 0
        self.left_nesting = 0
        self.bars = 0
        self.is_set = False
        self.is_angle = False
        self.is_target = False
        self.is_bar_opening = False
        self.divides_by_colon = False
        self.differential: str | None = None

    # -- nesting ----------------------------------------------------------------

    def descend(self) -> None:
        """One level deeper; each `descend` that returns has its `depth -= 1`.

        Raises:
            UnreadableError: `too-large`, deeper than `MAX_DEPTH`.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableError("too-large")

    def enter(self, *, is_set: bool = False, is_angle: bool = False) -> tuple[int, bool, bool]:
        """Start a bracket; what `leave` takes back."""
        outer = (self.bars, self.is_set, self.is_angle)
        self.bars, self.is_set, self.is_angle = 0, is_set, is_angle
        return outer

    def leave(self, outer: tuple[int, bool, bool]) -> None:
        """End a bracket."""
        self.bars, self.is_set, self.is_angle = outer

    # -- levels -----------------------------------------------------------------

    def sequence(self) -> Node:
        """Items between separators, or the only item."""
        items, separators = self.items()
        return listed(items, separators) if separators else items[0]

    def items(self) -> tuple[list[Node], list[str]]:
        """Items and what stands between them."""
        items = [self.relation()]
        separators: list[str] = []
        while self.text in SEPARATORS or (self.text == "(" and is_condition(self)):
            separator = self.advance() if self.text != "(" else ","
            if separator in (",", ";") and self.text in _LIST_WORDS:
                separator = self.advance()
            separators.append(separator)
            items.append(self.relation())
        return items, separators

    def relation(self) -> Node:
        """A value, or a chain of relations."""
        handler = STATEMENT_HANDLERS.get(self.text)
        if handler is not None:
            return handler(self)
        left = self.union()
        if self.text in RELATIONS:
            return relation_chain(self, left)
        if self.text == "\\mapsto":
            return mapping(self, left)
        if self.text == "\\pmod" or (self.text == "(" and self.ahead(1).text == "\\mod"):
            return Node(Op.MOD, (left, residue(self)))
        return left

    def union(self) -> Node:
        """A value, or sets and ratios joined by the operators looser than signs."""
        node = self.sum()
        return self._joined(node) if self.text in _JOINERS else node

    def _joined(self, first: Node) -> Node:
        node = self._intersection(first)
        while self.text in ("\\cup", "\\setminus"):
            if self.advance() == "\\cup":
                node = flattened(Op.UNION, [node, self._intersection(self.sum())])
            else:
                self._count_left_nesting()
                node = Node(Op.SET_MINUS, (node, self._intersection(self.sum())))
        return node

    def _intersection(self, first: Node) -> Node:
        node = self._ratio(first)
        if self.text != "\\cap":
            return node
        parts = [node]
        while self.take("\\cap"):
            parts.append(self._ratio(self.sum()))
        return flattened(Op.INTERSECTION, parts)

    def _ratio(self, first: Node) -> Node:
        node = self._over(first)
        if self.text != ":" or self.is_set:
            return node
        parts = [node]
        while self.take(":"):
            parts.append(self._over(self.sum()))
        return Node(Op.RATIO, tuple(parts))

    def _over(self, upper: Node) -> Node:
        if self.take("\\over"):
            return Node(Op.DIV, (upper, self.sum()))
        if self.take("\\choose"):
            return Node(Op.BINOM, (upper, self.sum()))
        return upper

    def sum(self) -> Node:
        """Terms between signs; a set less a set is their difference."""
        term = self.signed()
        if self.text not in _SUM_SIGNS or self.differential:
            return term
        terms = [term]
        while self.text in _SUM_SIGNS and not self.differential:
            sign = self.advance()
            term = self.signed()
            if sign == "-" and len(terms) == 1 and terms[0].op in _SETS:
                self._count_left_nesting()
                terms = [Node(Op.SET_MINUS, (terms[0], term))]
            else:
                terms.append(with_sign(sign, term))
        return terms[0] if len(terms) == 1 else sum_of(terms)

    def signed(self) -> Node:
        """A product with its signs."""
        if self.text not in _SUM_SIGNS:
            return self.product()
        signs: list[str] = []
        while self.text in _SUM_SIGNS:
            signs.append(self.advance())
        if len(signs) > _MAX_SIGNS:
            raise UnreadableError("unparsable")
        node = self.product(is_negative=signs[-1] == "-")
        if signs[-1] == "-":
            signs.pop()
        for sign in reversed(signs):
            node = with_sign(sign, node)
        return node

    def product(self, *, is_negative: bool = False) -> Node:
        r"""Factors; `-7 \mod 5` is the remainder of -7."""
        factors = [self.power()]
        while True:
            text = self.text
            if text in TIMES and not self.differential:
                self.advance()
                factors.append(self.signed_factor())
            elif text == "/" or (text == ":" and self.divides_by_colon and not self.is_set):
                factors = [self._quotient(product_of(factors))]
            elif text == "\\mod":
                self.advance()
                self._count_left_nesting()
                left = product_of(factors)
                left = Node(Op.NEG, (left,)) if is_negative else left
                is_negative = False
                factors = [Node(Op.MOD, (left, self.signed_factor()))]
            elif not self.differential and self.starts_factor():
                factors.append(self.power())
            else:
                node = product_of(factors) if len(factors) > 1 else factors[0]
                return Node(Op.NEG, (node,)) if is_negative else node

    def _quotient(self, upper: Node) -> Node:
        self.advance()
        if upper.op is Op.DIV:
            self._count_left_nesting()
        with_differential = self.differential
        if with_differential:
            self.differential = None
        lower = self.signed_factor()
        if with_differential:
            self.differential = with_differential
        return Node(Op.DIV, (upper, lower))

    def signed_factor(self) -> Node:
        """A factor after an operator, which may have a minus sign."""
        if self.text == "-":
            self.advance()
            return Node(Op.NEG, (self.power(),))
        return self.power()

    def starts_factor(self) -> bool:
        """Whether the next token begins a factor without an operator."""
        kind, text = self.kind, self.text
        if kind is TokenKind.LETTER:
            return True
        if kind is TokenKind.NUMBER:
            return self.previous().text in _BEFORE_NUMBER
        if text in _STARTERS:
            return text != "(" or not (self.ahead(1).text == "\\mod" or is_condition(self))
        if text == "|":
            return self._starts_bars()
        return text == "[" and self._starts_operand(self.ahead(1))

    def _starts_bars(self) -> bool:
        if self.bars == 0:
            return not self.is_set and self._starts_operand(self.ahead(1))
        following = self.ahead(1)
        return self.is_bar_opening and following.text != "|" and self._starts_operand(following)

    def _starts_operand(self, token: Token) -> bool:
        return (
            token.kind in (TokenKind.LETTER, TokenKind.NUMBER)
            or token.text in _STARTERS
            or token.text in ("-", "[", "|")
        )

    def power(self) -> Node:
        """An atom with its exponents, factorials, percent and degree signs."""
        node = self.atom()
        return suffixed(self, node) if self.text in _SUFFIXES else node

    def exponent(self) -> Node:
        """What stands after `^`; powers in it bind to the right."""
        self.descend()
        if self.text == "-":
            self.advance()
            node = Node(Op.NEG, (self.exponent(),))
        else:
            self.take("+")
            if self.kind is TokenKind.NUMBER and self.ahead(1).text == "_":
                # The subscript is the base's: `x^2_1`.
                node = Node(Op.NUM, value=self.advance())
            else:
                node = self.atom()
            if self.text in ("!", "%"):
                node = suffixed(self, node)
            if self.take("^"):
                node = Node(Op.POW, (node, self.exponent()))
        self.depth -= 1
        return node

    def atom(self) -> Node:
        """A number, a symbol, a bracket, or what a command starts."""
        self.descend()
        kind, text = self.kind, self.advance()
        if kind is TokenKind.NUMBER:
            node = number(self, text)
        elif kind is TokenKind.LETTER:
            node = symbol(self, text)
        elif kind is TokenKind.WORD:
            node = Node(Op.WORD, value=" ".join(text[1:].casefold().split()))
        else:
            handler = _HANDLERS.get(text)
            if handler is None:
                handler = table_handler(text)
            node = handler(self, text)
        self.depth -= 1
        return node

    def argument(self) -> Node:
        """A brace group, or one token; TeX takes one *digit* of a number."""
        if self.kind is TokenKind.NUMBER:
            if not self.text.isdigit():
                raise UnreadableError("unparsable")
            is_digit = len(self.text) == 1
            return Node(Op.NUM, value=self.advance() if is_digit else self.take_digit())
        if self.kind is TokenKind.LETTER:
            return Node(Op.SYM, value=self.advance())
        return self.atom()

    def _count_left_nesting(self) -> None:
        self.left_nesting += 1
        if self.left_nesting > _MAX_LEFT_NESTING:
            raise UnreadableError("too-large")


_HANDLERS = {**SYMBOL_HANDLERS, **BRACKET_HANDLERS, **FUNCTION_HANDLERS, **CALCULUS_HANDLERS}
_NEVER_IMPLICIT = frozenset(("]", "<", "[", "|", "_", "^"))
_STARTERS = (_HANDLERS.keys() - _NEVER_IMPLICIT) | frozenset(
    f"\\begin{{{name}" for name in ("pmatrix", "bmatrix", "matrix", "array", "vmatrix")
)
_JOINERS = frozenset(("\\cup", "\\setminus", "\\cap", ":", "\\over", "\\choose"))
_LIST_WORDS = SEPARATORS - {",", ";"}
_SUM_SIGNS = frozenset(("+", "-", "\\pm", "\\mp"))
_SUFFIXES = frozenset(("^", "_", "!", "%", "°"))
_BEFORE_NUMBER = frozenset((")", "}", "!", "]", "|", "\\cdots", "\\ldots", "\\dots"))
_SETS = frozenset(
    (Op.SET, Op.SET_BUILDER, Op.SET_MINUS, Op.INTERVAL, Op.UNION, Op.INTERSECTION, Op.NUMBERS)
)  # fmt: skip
