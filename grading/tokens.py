"""An answer's text → tokens of a closed set; anything else is refused.

No token ever reaches an evaluator as text: numbers are digit strings, names come from the
lists below.
"""

import re
from collections.abc import Container, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is without a command's backslash."""

    kind: TokenKind
    text: str


def tokenize(body: str) -> list[Token]:
    """Tokens of a cleaned answer, with one END at the end.

    Raises:
        UnreadableError: a character outside the set, or more than `MAX_TOKENS` tokens.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(body):
        match = _TOKEN.match(body, position)
        if match is None:
            raise UnreadableError("unparsable")
        position = match.end()
        kind = match.lastgroup
        if kind == "space":
            continue
        tokens.extend(_tokens_of(str(kind), match[0], next_text=body[position : position + 1]))
        if len(tokens) > MAX_TOKENS:
            raise UnreadableError("too-large")
    tokens.append(Token(TokenKind.END, ""))
    return tokens


class TokenCursor:
    """A place in a list of tokens, with bounded nesting: no text can exhaust the stack."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    @contextmanager
    def nested(self) -> Generator[None]:
        """One level of nesting.

        Raises:
            UnreadableError: `too-large`, deeper than `MAX_DEPTH`.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError("too-large")
        yield
        self._depth -= 1

    def peek(self) -> Token:
        """The next token; END stays."""
        return self._tokens[self._next]

    def previous(self) -> Token:
        """The token taken last."""
        return self._tokens[self._next - 1]

    def mark(self) -> int:
        """The place, for `rewind`."""
        return self._next

    def rewind(self, place: int) -> None:
        """Go back to a place that `mark` gave."""
        self._next = place

    def replace_next(self, token: Token) -> None:
        """Put the rest of a token that was taken in part."""
        self._tokens[self._next] = token

    def advance(self) -> Token:
        """Take the next token, whatever it is, but never END."""
        token = self.peek()
        if token.kind is TokenKind.END:
            raise UnreadableError("unparsable")
        self._next += 1
        return token

    def peek_sign(self, text: str) -> bool:
        """Whether the next token is this sign."""
        token = self.peek()
        return token.kind is TokenKind.SIGN and token.text == text

    def take_sign(self, text: str) -> bool:
        """Take this sign if it is next."""
        is_there = self.peek_sign(text)
        self._next += is_there
        return is_there

    def take_command(self, name: str) -> bool:
        """Take this command if it is next."""
        return self.take_any((name,))

    def take_any(self, names: Container[str]) -> bool:
        """Take one of these commands if it is next."""
        token = self.peek()
        is_there = token.kind is TokenKind.COMMAND and token.text in names
        self._next += is_there
        return is_there

    def expect_sign(self, text: str) -> None:
        """Take this sign or refuse the text."""
        if not self.take_sign(text):
            raise UnreadableError("unparsable")

    def expect_end(self) -> None:
        """Refuse the text unless all of it was taken."""
        if self.peek().kind is not TokenKind.END:
            raise UnreadableError("unparsable")


_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>\d+(?:\.\d+)?|\.\d+)"
    r"|(?P<word>\\text\{[^{}]*\})"
    r"|(?P<blackboard>\\mathbb\s?\{?\s?R\s?\}?)"
    r"|(?P<matrix>\\(?:begin|end)\s?\{[a-zA-Z]+\}(?:\{[lcr| ]*\})?)"
    r"|(?P<command>\\[A-Za-z]+)"
    r"|(?P<letters>[A-Za-z]+)"
    r"|(?P<sign>\\\\|\\[{}|&]|[-+*/^_=<>()\[\]{}|!,;:%&])"
)
_COMMAND_NAMES = "sqrt pi sin cos tan cot sec csc ln log exp alpha beta theta"
_PLAIN_NAMES = {
    **{name: name for name in _COMMAND_NAMES.split()},
    "infinity": "infty",
    "inf": "infty",
}


def _tokens_of(kind: str, text: str, *, next_text: str) -> list[Token]:
    if kind == "letters":
        return _letter_tokens(text, next_text=next_text)
    if kind == "number":
        return [Token(TokenKind.NUMBER, text)]
    if kind == "word":
        return [Token(TokenKind.WORD, text[6:-1])]
    if kind == "blackboard":
        return [Token(TokenKind.COMMAND, "reals")]
    if kind == "matrix":
        return [Token(TokenKind.COMMAND, text[1:].partition("}")[0].replace(" ", ""))]
    if kind == "command":
        return [Token(TokenKind.COMMAND, text[1:])]
    return [Token(TokenKind.SIGN, text)]


def _letter_tokens(text: str, *, next_text: str) -> list[Token]:
    """Single letters multiply; a longer run that is no known name is not mathematics.

    `exit(0)` must not be read as a product that is zero.
    """
    if text in _PLAIN_NAMES:
        return [Token(TokenKind.COMMAND, _PLAIN_NAMES[text])]
    if len(text) > 3 or (len(text) == 3 and next_text == "("):
        raise UnreadableError("unparsable")
    return [Token(TokenKind.LETTER, letter) for letter in text]
