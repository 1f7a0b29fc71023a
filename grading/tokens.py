"""An answer's text → tokens of a closed set; anything else is refused.

No token ever reaches an evaluator as text: numbers are digit strings, names come from the
lists of `grading.grammar_names`.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from grading.grammar_names import (
    ALIASES,
    BEFORE_BRACE,
    BEFORE_BRACKET,
    BLANKS,
    COMMANDS,
    GREEK,
    LONGEST_COMMAND,
    PLAIN_WORDS,
    PROGRAM_COMMANDS,
)

MAX_TOKENS = 20_000
MAX_DEPTH = 40


class UnreadableError(ValueError):
    """The text is outside the grammar. `reason` goes into the grade.

    `unparsable`: broken or no mathematics; `unsupported`: plausible notation that this
    grader does not know; `too-large`: over a budget.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TokenKind(StrEnum):
    """`COMMAND` is a LaTeX name, `WORD` the inside of a text command, `SIGN` the rest."""

    NUMBER = "number"
    LETTER = "letter"
    COMMAND = "command"
    WORD = "word"
    SIGN = "sign"
    END = "end"


class Token(NamedTuple):
    """`text` keeps a command's backslash and starts with a quote for a word: unique by kind."""

    kind: TokenKind
    text: str


def tokenize(body: str) -> list[Token]:
    """Tokens of a cleaned answer, with one END at the end.

    Raises:
        UnreadableError: a character outside the set, or more than `MAX_TOKENS` tokens.
    """
    tokens: list[Token] = []
    for match in _TOKEN.finditer(body):
        kind = match.lastgroup
        text = match[kind] if kind else ""
        known = _KNOWN_TOKENS.get(text)
        if known is not None:
            tokens.append(known)
        elif kind == "number":
            tokens.extend(_number_tokens(text))
        elif kind == "letters":
            tokens.extend(_letter_tokens(text, tokens, body, match.end()))
        else:
            tokens.extend(_other_tokens(str(kind), text, tokens, body, match.end()))
        if len(tokens) > MAX_TOKENS:
            raise UnreadableError("too-large")
    tokens.append(_END)
    return tokens


def is_mathematical(word: str) -> bool:
    """Whether a run of letters is a letter or a name that the grammar knows."""
    return len(word) == 1 or word in PLAIN_WORDS or _GLUED_FUNCTION.fullmatch(word) is not None


class TokenCursor:
    """A place in a list of tokens; `kind` and `text` are the next token's."""

    __slots__ = ("_next", "_tokens", "kind", "text")

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.rewind(0)

    def mark(self) -> int:
        """The place, for `rewind`."""
        return self._next

    def rewind(self, place: int) -> None:
        """Go to a place that `mark` gave."""
        self._next = place
        self.kind, self.text = self._tokens[place]

    def advance(self) -> str:
        """Take the next token, whatever it is, but never END; its text."""
        text = self.text
        if self.kind is TokenKind.END:
            raise UnreadableError("unparsable")
        self._next += 1
        self.kind, self.text = self._tokens[self._next]
        return text

    def take(self, text: str) -> bool:
        """Take the token of this text if it is next."""
        if self.text != text:
            return False
        self._next += 1
        self.kind, self.text = self._tokens[self._next]
        return True

    def expect(self, text: str) -> None:
        """Take this token or refuse the text."""
        if not self.take(text):
            raise UnreadableError("unparsable")

    def ahead(self, distance: int) -> Token:
        """The token so many places after the next one; END beyond the end."""
        place = self._next + distance
        return self._tokens[place] if place < len(self._tokens) else _END

    def previous(self) -> Token:
        """The token taken last; END at the start."""
        return self._tokens[self._next - 1]

    def take_digit(self) -> str:
        """Take the first digit of a number of several, as TeX does for a bare argument."""
        digits = self.text
        self.text = digits[1:]
        return digits[0]

    def expect_end(self) -> None:
        """Refuse the text unless all of it was taken."""
        if self.kind is TokenKind.END:
            return
        is_notation = self.kind is TokenKind.COMMAND and self.text not in _READ_BY_ALL
        raise UnreadableError("unsupported" if is_notation else "unparsable")


_END = Token(TokenKind.END, "")
_READ_BY_ALL = GREEK | {"\\frac", "\\sqrt", "\\infty", "\\rangle", "\\rfloor", "\\rceil"}
"""Commands that are never left over because the grammar lacks them."""
_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<based>(?:\d{1,64}[A-F][0-9A-F]{0,64}|[A-F]\d[0-9A-F]{0,64})"
    r"(?=\s?_\s?(?:\{\s?1[1-6]\s?\}|1[1-6](?!\d)))"
    r"|[A-F]{2,64}(?=\s?_\s?(?:\{\s?16\s?\}|16(?!\d))))"
    r"|(?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][-+]?\d{1,9}(?![\d.A-Za-z^]))?)"
    r"|(?P<letters>[A-Za-z]+)"
    r"|(?P<word>\\(?:text(?:rm|bf|it|normal)?|mbox|mathrm|operatorname\*?)\s?\{[^{}]*\})"
    r"|(?P<blackboard>\\(?:mathbb|Bbb)\s?(?:\{\s?[RNZQC]\s?\}|[RNZQC](?![A-Za-z])))"
    r"|(?P<environment>\\(?:begin|end)\s?\{\s?[a-zA-Z]+\*?\s?\}(?:\s?\{[lcr| ]*\})?)"
    r"|(?P<command>\\[A-Za-z]+)"
    r"|(?P<ellipsis>\.{2,})"
    r"|(?P<sign>\\\\|\\[{}|&%,;:!> ]|<=|>=|==|(?<![\d)!])!=|\*\*|[-+*/^_=<>()\[\]{}|!,;:%&'′~°])"
    r"|(?P<bad>\S))"
)
_GLUED_FUNCTION = re.compile(r"([a-z]?)(sin|cos|tan|cot|sec|csc|ln|log|exp)([xyzabn]?)")
_DIFFERENTIALS = re.compile(r"[a-zA-Z]{0,3}(?:d[a-z]){1,3}")
_MAX_SUBSCRIPT = 20
_KNOWN_TOKENS: dict[str, Token] = {
    **{sign: Token(TokenKind.SIGN, sign) for sign in "-+*/^_=<>()[]{}|!,;:%&'°"},
    **{sign: Token(TokenKind.SIGN, sign)
       for sign in ("\\\\", "\\{", "\\}", "\\&", "<=", ">=", "==", "!=")},
    **{letter: Token(TokenKind.LETTER, letter)
       for letter in "ABCDEFGHIJKLMNOPQRSTVWXYZabcdefghijklmnopqrstuvwxyz"},
    **{name: Token(TokenKind.COMMAND, name) for name in COMMANDS - ALIASES.keys() - BLANKS},
    **{word: Token(TokenKind.COMMAND, name) for word, name in PLAIN_WORDS.items()},
    "\\%": Token(TokenKind.SIGN, "%"),
}  # fmt: skip
_KNOWN_TOKENS.update({name: _KNOWN_TOKENS[target] for name, target in ALIASES.items()
                      if target in _KNOWN_TOKENS})  # fmt: skip
_KNOWN_TOKENS.update({name: Token(TokenKind.COMMAND, target) for name, target in ALIASES.items()
                      if target not in _KNOWN_TOKENS})  # fmt: skip
"""Tokens of fixed texts, aliases resolved."""


def _number_tokens(text: str) -> list[Token]:
    """`2e-3` may be 2e less 3: only a mantissa of 1 or with a point makes it a power of ten."""
    mantissa, mark, exponent = text.replace("E", "e").partition("e")
    is_short = mark and "E" not in text and len(exponent) == 2 and exponent[0] in "+-"
    if is_short and mantissa != "1" and "." not in mantissa:
        parts = (mantissa, "e", *exponent)
        return [_KNOWN_TOKENS.get(part) or Token(TokenKind.NUMBER, part) for part in parts]
    return [Token(TokenKind.NUMBER, text)]


def _other_tokens(
    kind: str, text: str, before: list[Token], body: str, position: int
) -> list[Token]:
    if text in BLANKS:
        return []
    if kind == "command":
        return _command_tokens(text, before, body, position)
    if kind == "word":
        return _word_tokens(text)
    if kind == "blackboard":
        return [Token(TokenKind.COMMAND, "\\mathbb " + text.rstrip(" }")[-1])]
    if kind == "environment":
        return [Token(TokenKind.COMMAND, text.partition("}")[0].replace(" ", ""))]
    if kind == "ellipsis":
        return [_KNOWN_TOKENS["\\ldots"]]
    if kind == "based":
        return [Token(TokenKind.NUMBER, text)]
    raise UnreadableError("unparsable")


def _command_tokens(name: str, before: list[Token], body: str, position: int) -> list[Token]:
    r"""An unknown name is its longest known beginning and letters: `\cdotx`."""
    if name in PROGRAM_COMMANDS:
        raise UnreadableError("unparsable")
    for length in range(min(len(name) - 1, LONGEST_COMMAND), 2, -1):
        if name[:length] in COMMANDS:
            rest = name[length:]
            if len(rest) > 3 and rest not in PLAIN_WORDS:
                break
            first = _KNOWN_TOKENS.get(name[:length])
            start = [first] if first else []
            known = _KNOWN_TOKENS.get(rest)
            letters = [known] if known else _letter_tokens(rest, before, body, position)
            return start + letters
    raise UnreadableError("unsupported")


def _word_tokens(text: str) -> list[Token]:
    content = text.partition("{")[2][:-1].strip()
    if len(content) == 1 and content.isalpha() and content.isascii():
        return [_KNOWN_TOKENS.get(content, Token(TokenKind.LETTER, content))]
    name = PLAIN_WORDS.get(content) or (
        "\\" + content if "\\" + content in COMMANDS and "operatorname" in text else ""
    )
    if name:
        return [_KNOWN_TOKENS[name]]
    return [Token(TokenKind.WORD, '"' + content)]


def _letter_tokens(text: str, before: list[Token], body: str, position: int) -> list[Token]:
    """Single letters multiply; a longer run that is no known name is not mathematics.

    `exit(0)` must not be read as a product that is zero.
    """
    next_sign = body[position : position + 1]
    if text == "U":
        return [_union_or_letter(before, body, position)]
    name = (
        (BEFORE_BRACE.get(text) if next_sign == "{" else None)
        or (BEFORE_BRACKET.get(text) if next_sign == "(" else None)
        or ("\\in" if text == "in" and _SET_FOLLOWS.match(body, position) else None)
    )
    if name is not None:
        return [_KNOWN_TOKENS[name]]
    if (glued := _GLUED_FUNCTION.fullmatch(text)) is not None:
        parts = (glued[1], "\\" + glued[2], glued[3])
        return [_KNOWN_TOKENS[part] for part in parts if part]
    is_long = len(text) > 3 or (len(text) == 3 and next_sign == "(")
    if is_long and not _is_letter_run(text, before):
        raise UnreadableError("unparsable")
    return [_KNOWN_TOKENS.get(letter, Token(TokenKind.LETTER, letter)) for letter in text]


_SET_FOLLOWS = re.compile(r"\s+[\[({\\]")
_BRACKET_FOLLOWS = re.compile(r"\s*[\[({\\]")
_CLOSING = frozenset((")", "]", "}", "\\}"))


def _union_or_letter(before: list[Token], body: str, position: int) -> Token:
    if before and before[-1].text in _CLOSING and _BRACKET_FOLLOWS.match(body, position):
        return _KNOWN_TOKENS["\\cup"]
    return Token(TokenKind.LETTER, "U")


def _is_letter_run(text: str, before: list[Token]) -> bool:
    """Where long runs are letters: subscripts, names of figures, differentials."""
    if len(text) > _MAX_SUBSCRIPT or not before:
        return False
    if before[-1].text in ("\\angle", "\\triangle"):
        return len(text) <= 3
    if before[-1].text == "{" and len(before) > 1:
        opener = before[-2].text
        return opener == "_" or (text.isupper() and len(text) <= 6)
    is_integral = any(token.text in ("\\int", "\\iint", "\\iiint") for token in before[:20])
    return is_integral and _DIFFERENTIALS.fullmatch(text) is not None
