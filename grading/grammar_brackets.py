r"""Brackets: groups, tuples, sets, intervals (`]a,b[` too), bars, floors, number sets."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from grading.grammar_lists import listed
from grading.tokens import TokenKind, UnreadableError
from grading.tree import Node, Op

if TYPE_CHECKING:
    from grading.expression import Parser


def real_line() -> Node:
    """All real numbers."""
    infinity = Node(Op.INF)
    return Node(Op.INTERVAL, (Node(Op.NEG, (infinity,)), infinity), "()")


def bracketed(parser: "Parser", opener: str) -> Node:
    """A group, a tuple or an interval, after its opening bracket."""
    outer = parser.enter()
    items, separators = parser.items()
    closer = parser.advance()
    parser.leave(outer)
    if closer not in (")", "]", "["):
        raise UnreadableError("unparsable")
    is_matched = _MATCHING[opener] == closer
    is_pair = len(items) == 2 and separators[0] in (",", ";")
    if is_pair and not (opener == "(" and closer == ")"):
        left = "[" if opener == "[" else "("
        return Node(Op.INTERVAL, (items[0], items[1]), left + ("]" if closer == "]" else ")"))
    if not is_matched or opener == "]":
        raise UnreadableError("unparsable")
    if not separators:
        return items[0]
    if not set(separators) <= {",", ";"}:
        return listed(items, separators)
    return Node(Op.TUPLE if opener == "(" else Op.LIST, tuple(items))


def group(parser: "Parser", _: str) -> Node:
    """A TeX group, or a set whose backslashes were left out."""
    outer = parser.enter()
    if parser.take("}"):
        parser.leave(outer)
        return _before_scripts(parser)
    items, separators = parser.items()
    parser.expect("}")
    parser.leave(outer)
    if not separators:
        return items[0]
    if not set(separators) <= {",", ";"}:
        return listed(items, separators)
    return Node(Op.SET, tuple(items), "bare")


def brace_set(parser: "Parser", _: str) -> Node:
    """A set by its items or by a condition, after its opening brace."""
    if parser.take("\\}"):
        return Node(Op.SET)
    is_system = parser.text.startswith("\\begin{")
    outer = parser.enter(is_set=True)
    items, separators = parser.items()
    node: Node | None = None
    if parser.text in ("|", "\\mid", ":"):
        if separators:
            items = [listed(items, separators)]
        node = _built_set(parser, items[0])
    parser.leave(outer)
    if is_system and node is None and parser.text != "\\}" and len(items) == 1:
        return items[0]
    parser.expect("\\}")
    if node is not None:
        return node
    if not set(separators) <= {",", ";"}:
        return Node(Op.SET, (listed(items, separators),))
    return Node(Op.SET, tuple(items))


def _built_set(parser: "Parser", member: Node) -> Node:
    is_ratio = parser.advance() == ":"
    items, separators = parser.items()
    if is_ratio and len(items) == 1 and items[0].op not in _CONDITIONS:
        return Node(Op.SET, (Node(Op.RATIO, (member, items[0])),))
    if "\\lor" in separators:
        items = [listed(items, separators)]
    return Node(Op.SET_BUILDER, (member, *items))


def _before_scripts(parser: "Parser") -> Node:
    """`{}_nC_k`: an empty group only carries the script before a letter."""
    if parser.text not in ("_", "^"):
        raise UnreadableError("unparsable")
    return scripted_choice(parser, parser.advance())


def scripted_choice(parser: "Parser", _: str) -> Node:
    """`_nC_k`, `^nC_k`, after its first script sign."""
    upper = parser.argument()
    letter = parser.advance()
    if letter not in ("C", "P", "A") or not parser.take("_"):
        raise UnreadableError("unsupported")
    return choice(letter, upper, parser.argument())


def choice(letter: str, upper: Node, lower: Node) -> Node:
    """Combinations, or arrangements as a quotient of factorials."""
    if letter == "C":
        return Node(Op.BINOM, (upper, lower))
    rest = Node(Op.ADD, (upper, Node(Op.NEG, (lower,))))
    return Node(Op.DIV, (Node(Op.FACT, (upper,)), Node(Op.FACT, (rest,))))


def _vector(parser: "Parser", opener: str) -> Node:
    closer = ">" if opener == "<" else "\\rangle"
    outer = parser.enter(is_angle=opener == "<")
    items, separators = parser.items()
    parser.expect(closer)
    parser.leave(outer)
    if not separators or not set(separators) <= {",", ";"}:
        raise UnreadableError("unsupported")
    return Node(Op.TUPLE, tuple(items))


def _bars(parser: "Parser", _: str) -> Node:
    outer = (parser.bars, parser.is_set, parser.is_angle)
    parser.bars += 1
    inner = parser.sum()
    parser.expect("|")
    parser.leave(outer)
    if inner.op is Op.MATRIX:
        return Node(Op.FUNC, (inner,), "det")
    return Node(Op.ABS, (inner,))


def _rounded(parser: "Parser", opener: str) -> Node:
    name = "floor" if opener == "\\lfloor" else "ceil"
    outer = parser.enter()
    inner = parser.sum()
    parser.expect("\\rfloor" if name == "floor" else "\\rceil")
    parser.leave(outer)
    return Node(Op.FUNC, (inner,), name)


def _number_set(parser: "Parser", text: str) -> Node:
    mark = _set_mark(parser)
    letter = text[-1]
    if letter == "R":
        return _reals(mark)
    if letter == "N":
        letter, mark = ("Z", mark or "0") if mark else ("N", "")
        mark = "+" if mark == "*" else mark
    return Node(Op.NUMBERS, value=letter + mark)


def _set_mark(parser: "Parser") -> str:
    r"""`+`, `-`, `*` (nonzero) or `0` (not negative) after the letter of a number set."""
    place = parser.mark()
    marks = ""
    while parser.text in ("^", "_"):
        parser.advance()
        text = parser.advance()
        if text == "{":
            text = ""
            while parser.text in _MARK_TEXTS or parser.kind is TokenKind.NUMBER:
                text += _MARK_TEXTS.get(parser.text, parser.text)
                parser.advance()
            if not parser.take("}"):
                text = "?"
        mark = _MARKS.get(text)
        if mark is None:
            parser.rewind(place)
            return ""
        marks += mark
    return _MARK_PAIRS.get(marks, marks)


def _reals(mark: str) -> Node:
    zero, infinity = Node(Op.NUM, value="0"), Node(Op.INF)
    if mark == "*":
        return Node(Op.SET_MINUS, (real_line(), Node(Op.SET, (zero,))))
    if mark == "-":
        return Node(Op.INTERVAL, (Node(Op.NEG, (infinity,)), zero), "()")
    if mark in ("+", "0"):
        return Node(Op.INTERVAL, (zero, infinity), "[)" if mark == "0" else "()")
    return real_line()


_MATCHING = {"(": ")", "[": "]", "]": "["}
_CONDITIONS = frozenset((Op.REL, Op.CONGRUENT, Op.WORD, Op.CALL))
_MARK_TEXTS = {
    "+": "+", "-": "-", "*": "*", ">": ">", "\\gt": ">", "\\ge": ">=", "\\geq": ">=", ">=": ">=",
    "\\ne": "!=", "\\neq": "!=", "!=": "!=", "<": "<", "\\lt": "<", "\\setminus": "\\",
}  # fmt: skip
_MARKS = {"+": "+", "-": "-", "*": "*", "0": "0", "++": "+", ">0": "+", ">=0": "0", ">=1": "+",
          "<0": "-", "!=0": "*"}  # fmt: skip
_MARK_PAIRS = {"+*": "+", "*+": "+", "+0": "0", "0+": "0", "-*": "-", "*-": "-"}

BRACKET_HANDLERS: dict[str, Callable[["Parser", str], Node]] = {
    "(": bracketed,
    "[": bracketed,
    "]": bracketed,
    "{": group,
    "\\{": brace_set,
    "|": _bars,
    "<": _vector,
    "\\langle": _vector,
    "\\lfloor": _rounded,
    "\\lceil": _rounded,
    "_": scripted_choice,
    "^": scripted_choice,
    "\\emptyset": lambda _, __: Node(Op.SET),
    **{f"\\mathbb {letter}": _number_set for letter in "RNZQC"},
}
