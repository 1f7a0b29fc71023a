"""Text → tree and unit: how a gold answer and an answer are read, and when they cannot be.

A text may have more than one reading: a number grouped by commas or a list, a decimal comma.
The caller tries them in order. Reading is cached: the rollouts of one problem share its gold
answer and few answers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from grading.expression import parse_body
from grading.extract import gold_answer
from grading.extract_restatement import restated
from grading.naming import with_plain_unit_vectors
from grading.nesting import has_balanced_braces, is_broken, without_idle_nesting
from grading.normalize import MAX_CHARS, clean_answer
from grading.numerals import decimal_comma, join_thousands, plain_decimal
from grading.relations import bounded_name, says_region
from grading.restated import value_after_unread
from grading.tokens import UnreadableError
from grading.tree import Node, Op, num_nodes
from grading.wording import is_prose

__all__ = ["Reading", "UnreadableError", "long_numbers", "point_spelling", "read_gold", "read_text"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says: its tree, its unit ("" where none), the tree's size, the text read.

    `condition` and `choice` are those of `grading.normalize.CleanAnswer`.
    """

    tree: Node
    unit: str
    num_nodes: int
    text: str
    condition: str = ""
    choice: str = ""


def read_text(text: str, *, joins_thousands: bool = True) -> Reading:
    """Read an answer. `joins_thousands`: whether `1,234` is one number, not a list of two.

    Raises:
        UnreadableError: `unparsable`, `unsupported` or `too-large`.
    """
    read = _read_cached if len(text) <= _MAX_CACHED_CHARS else _read
    return read(text, joins_thousands)


def _read(text: str, joins_thousands: bool) -> Reading:
    if len(text) > MAX_CHARS:
        text = _shortened(text)
    if "or" in text:
        text = restated(text) or text
    clean = clean_answer(text)
    body = join_thousands(clean.body) if joins_thousands else clean.body
    try:
        tree = parse_body(body)
    except UnreadableError as error:
        if error.reason != "too-large":
            raise
        tree = _parse_again(body)
    if "\\hat" in body or "\\vec" in body:
        tree = with_plain_unit_vectors(tree)
    condition = clean.condition
    joined = _joined(tree, condition) if condition and tree.op is Op.REL else None
    if joined is not None:
        tree, condition = joined, ""
    return Reading(tree, clean.unit, num_nodes(tree), text, condition, clean.choice)


def _joined(statement: Node, condition: str) -> Node | None:
    """`x > 0` on the condition `x != 1`: both together say what x can be."""
    try:
        other = parse_body(condition)
    except UnreadableError:
        return None
    if other.op is not Op.REL or not (says_region(statement) and says_region(other)):
        return None
    name = bounded_name(statement)
    if name is None or name != bounded_name(other):
        return None
    return Node(Op.LIST, (statement, other), "and")


def read_gold(text: str) -> Reading:
    """Read a gold answer: bare, or a worked solution that ends in one, or a sentence.

    Raises:
        UnreadableError: `unparsable`, `unsupported` or `too-large`.
    """
    read = _read_gold_cached if len(text) <= _MAX_CACHED_GOLD_CHARS else _read_gold
    return read(text)


def _read_gold(text: str) -> Reading:
    failure: UnreadableError | None = None
    words: Reading | None = None
    for spelling in _gold_spellings(text):
        try:
            reading = read_text(spelling)
        except UnreadableError as error:
            failure = failure or error
            continue
        if reading.tree.op is not Op.WORD or not _SOLUTION.search(spelling):
            return reading
        words = words or reading
    if words is not None:
        return words
    failure = failure or UnreadableError("unparsable")
    if (value := value_after_unread(text)) is not None:
        return read_text(value)
    if failure.reason != "too-large" and (is_prose(text) or _says_in_words(text)):
        return Reading(Node(Op.WORD, value=text), "", 1, text)
    *_, name, value = ("", "", *text.split("="))
    if failure.reason == "unsupported" and name:
        # Of a chain of equations in unknown notation the last one counts.
        return read_text(f"{name}={value}")
    raise failure


def _says_in_words(text: str) -> bool:
    r"""Whether a text that is no formula has a word beside it: `n \text{ is odd}`."""
    return _TEXT_WORD.search(text) is not None and has_balanced_braces(text)


def _gold_spellings(text: str) -> Iterator[str]:
    """The text, and the answer of a worked solution."""
    yield text
    answer = gold_answer(text).strip()
    if answer and answer != text:
        yield answer


_MAX_CACHED_CHARS = 300
_MAX_CACHED_GOLD_CHARS = 4_000
"""Trees are some hundred times as large as their text, and answers may be hostile."""
_read_cached = lru_cache(maxsize=4096)(_read)
_read_gold_cached = lru_cache(maxsize=512)(_read_gold)


def point_spelling(text: str, other: str) -> str | None:
    """A decimal comma's spelling with a point, where the other text is a decimal with one."""
    spelling = decimal_comma(text)
    if spelling is None and "," in text and len(text) <= MAX_CHARS:
        spelling = decimal_comma(clean_answer(text).body)
    is_decimal = spelling is not None and "." in other and plain_decimal(other) is not None
    return spelling if is_decimal else None


def long_numbers(text: str) -> list[str] | None:
    """The canonical decimals of a text that is nothing but a list of two or more of them."""
    if not _NUMBER_LIST.fullmatch(text):
        return None
    numbers = [plain_decimal(item.strip()) for item in _SEPARATOR.split(text)]
    known = [number for number in numbers if number is not None]
    return known if len(known) == len(numbers) > 1 else None


_SOLUTION = re.compile(r"\\f?box|\\framebox|\$[^$]*\$.{100}", re.DOTALL)
"""A sentence with a box, or with a formula well before its end, is a worked solution."""
_TEXT_WORD = re.compile(r"\\(?:text|textbf|mbox|mathrm)\s?\{[^{}]*[A-Za-z]{3}")
_NUMBER_LIST = re.compile(r"[-+\d., ;\n]+")
_SEPARATOR = re.compile("[,;]")
_MAX_BRACED = 10 * MAX_CHARS


def _shortened(text: str) -> str:
    """A text that is too long only for its doubled braces, without them."""
    if not has_balanced_braces(text):
        raise UnreadableError("unparsable")
    slim = without_idle_nesting(text) if len(text) <= _MAX_BRACED else text
    if len(slim) > MAX_CHARS:
        raise UnreadableError("too-large")
    return slim


def _parse_again(body: str) -> Node:
    """What is too deep may be broken, or deep in nesting that says nothing."""
    if is_broken(body):
        raise UnreadableError("unparsable")
    slim = without_idle_nesting(body)
    if slim == body:
        raise UnreadableError("too-large")
    return parse_body(slim)
