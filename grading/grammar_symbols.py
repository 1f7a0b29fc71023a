r"""Symbols: letters and Greek names with subscripts, primes and accents; calls of functions;
combinations; names of figures such as `\angle ABC`.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from grading.grammar_brackets import choice
from grading.grammar_calculus import DIFFERENTIAL, slash_derivative
from grading.grammar_names import ACCENTS, FIGURES, GREEK, RELATIONS
from grading.tokens import TokenKind, UnreadableError
from grading.tree import Node, Op

if TYPE_CHECKING:
    from grading.expression import Parser


def symbol(parser: "Parser", name: str) -> Node:
    """A letter or Greek name with its primes and subscript, or a call of it."""
    following = parser.text
    if following not in _AFTER_NAME:
        if parser.kind is TokenKind.NUMBER and name not in "eid" and len(name) == 1:
            return Node(Op.SYM, value=f"{name}_{parser.advance()}")
        if name == "d" and (derived := _differential(parser)) is not None:
            return derived
        return _LETTER_NODES.get(name) or Node(Op.SYM, value=name)
    primes = ""
    while parser.text == "'":
        primes += parser.advance()
    full_name = name + primes
    if name in "CPA" and parser.text == "_" and not primes:
        return _counted(parser, name)
    if parser.text == "_":
        full_name += subscript(parser)
    while parser.text == "'":
        full_name += parser.advance()
    if parser.text == "(" and is_call(parser, name, has_primes=bool(primes)):
        return call(parser, full_name)
    return Node(Op.SYM, value=full_name)


def subscript(parser: "Parser") -> str:
    """`_` and the texts of its tokens; "" where it is empty."""
    parser.expect("_")
    if parser.text in ("}", ""):
        return ""
    if not parser.take("{"):
        return "_" + _plain_text(parser)
    parts: list[str] = []
    depth = 1
    while True:
        text = parser.advance()
        depth += (text == "{") - (text == "}")
        if depth == 0:
            break
        if text not in ("{", "}"):
            parts.append(text.lstrip('"'))
    return "_" + _in_order(parts) if parts else ""


def is_call(parser: "Parser", name: str, *, has_primes: bool) -> bool:
    """Whether the bracket that comes next holds arguments of this name."""
    if name in _ANY_CALL or (name == "P" and parser.ahead(2).text in _OF_EVENTS):
        return True
    length = _simple_arguments(parser)
    if not length:
        return False
    if has_primes or name in _SIMPLE_CALL:
        return True
    return length == 3 and parser.ahead(3).text == "=" and name not in ("e", "i", "\\pi")


def call(parser: "Parser", name: str) -> Node:
    """A call, its bracket included."""
    parser.advance()
    outer = parser.enter(is_set=True)
    items, _ = parser.items()
    if parser.text in ("|", "\\mid"):
        parser.advance()
        name += "|"
        items.extend(parser.items()[0])
    parser.expect(")")
    parser.leave(outer)
    return Node(Op.CALL, tuple(items), name)


def is_choice(letter: str, total: Node, taken: Node) -> bool:
    """Whether `C_total^taken` counts choices, rather than being a power of a constant."""
    if total.op is taken.op is Op.NUM:
        return (
            total.value.isdigit()
            and taken.value.isdigit()
            and (int(total.value[:9]) >= int(taken.value[:9]))
        )
    if letter == "C":
        return total.op is not Op.NUM and taken.op in (Op.NUM, Op.SYM, Op.ADD)
    return total.op is not Op.NUM and taken.op is Op.SYM


_AFTER_NAME = frozenset(("_", "'", "("))
_LETTER_NODES = {
    letter: Node(Op.SYM, value=letter)
    for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
}
_ANY_CALL = frozenset(("f",))
_SIMPLE_CALL = frozenset(("g", "h", "F", "G", "H", "P", "Q", "R", "T", "p", "q", "\\phi", "\\psi",
                          "\\varphi", "\\Gamma", "\\zeta", "\\sigma"))  # fmt: skip
_OF_EVENTS = RELATIONS.keys() | {"|", "\\cap", "\\cup"}
"""What follows the first letter in the probability of an event: `P(X = 2)`, `P(A|B)`."""
_MAX_FIGURE = 6
_TERM = re.compile(r"([+-]?)(\w+)")


def _in_order(parts: list[str]) -> str:
    """The subscript in one spelling: terms of a sum by name, numbers last."""
    if "+" not in parts or not all(part.isalnum() or part in ("+", "-") for part in parts):
        return "".join(parts)
    terms = sorted(_TERM.findall("".join(parts)), key=lambda term: (term[1].isdigit(), term[1]))
    return "".join((sign or "+") + term for sign, term in terms).removeprefix("+")


def _plain_text(parser: "Parser") -> str:
    if parser.kind is TokenKind.SIGN and parser.text not in ("+", "-", "*"):
        raise UnreadableError("unparsable")
    return parser.advance().lstrip('"')


def _differential(parser: "Parser") -> Node | None:
    is_variable = parser.kind is TokenKind.LETTER or parser.text in GREEK
    if not is_variable:
        return None
    if parser.differential == "":
        name = parser.advance()
        parser.differential = name + (subscript(parser) if parser.text == "_" else "")
        return DIFFERENTIAL
    return slash_derivative(parser)


def _counted(parser: "Parser", letter: str) -> Node:
    """`C_n^k`, `A_5^2`; else the letter with its subscript."""
    place = parser.mark()
    name = letter + subscript(parser)
    if parser.text != "^":
        if parser.text == "(" and is_call(parser, letter, has_primes=False):
            return call(parser, name)
        return Node(Op.SYM, value=name)
    after = parser.mark()
    parser.rewind(place)
    parser.advance()
    lower = parser.argument()
    if parser.text == "^":
        parser.advance()
        upper = parser.argument()
        if is_choice(letter, lower, upper):
            return choice(letter, lower, upper)
    parser.rewind(after)
    return Node(Op.SYM, value=name)


def _simple_arguments(parser: "Parser") -> int:
    """Tokens of `(x)`, `(2)`, `(x, y)`; 0 where something else stands there."""
    place = 1
    while True:
        token = parser.ahead(place)
        is_simple = token.kind in (TokenKind.LETTER, TokenKind.NUMBER) or token.text in GREEK
        if not is_simple:
            return 0
        closer = parser.ahead(place + 1).text
        if closer == ")":
            return place + 2
        if closer != ",":
            return 0
        place += 2


def _named(parser: "Parser", name: str) -> Node:
    return symbol(parser, name)


def _accented(parser: "Parser", command: str) -> Node:
    r"""`\bar{x}_2` is a name; a bar over an expression is the conjugate."""
    accent = ACCENTS[command]
    place = parser.mark()
    is_group = parser.take("{")
    letters = ""
    while is_group and (parser.kind is TokenKind.LETTER or parser.text.isdigit()):
        letters += parser.advance()
    if not is_group or (not letters and parser.text in GREEK):
        letters = parser.advance()
    if not is_group or (letters and parser.take("}")):
        return symbol(parser, f"\\{accent}{{{letters}}}")
    parser.rewind(place)
    inner = parser.argument()
    if inner.op is Op.SYM and inner.value[0] != "\\":
        return symbol(parser, f"\\{accent}{{{inner.value}}}")
    if accent != "bar":
        raise UnreadableError("unsupported")
    return Node(Op.FUNC, (inner,), "conj")


def _figure(parser: "Parser", command: str) -> Node:
    r"""`\angle ABC` is one name."""
    is_group = parser.take("{")
    letters = ""
    while parser.kind in (TokenKind.LETTER, TokenKind.NUMBER) and len(letters) < _MAX_FIGURE:
        letters += parser.advance()
    if is_group:
        parser.expect("}")
    if not letters:
        raise UnreadableError("unparsable")
    command = "\\angle" if command == "\\measuredangle" else command
    return Node(Op.SYM, value=f"{command} {letters}")


SYMBOL_HANDLERS: dict[str, Callable[["Parser", str], Node]] = {
    **dict.fromkeys(GREEK, _named),
    **dict.fromkeys(ACCENTS, _accented),
    **dict.fromkeys(FIGURES, _figure),
}
