"""Words that change the number beside them, by kind.

After a number an ordinary noun names a counted thing (`5 apples`) and says nothing. A word of
these kinds says something else: a part or a multiple (`5 tenths`), an operation (`5 doubled`), a
sign, a comparison, a second number (`5 feet two`), or that the number is wrong. Before a number
or a name likewise (`half of 5`, `not x`). What such words make of a number is told by
`grading.arithmetic_words`; where that cannot, the phrase is words and no number.
"""

import re
from collections.abc import Sequence

from grading.numerals import FRACTION_NAMES, MULTIPLES, NUMBER_WORDS

__all__ = [
    "changes_name",
    "changes_number",
    "is_ordinal_of",
    "phrase_after",
    "phrase_before",
    "says_false",
]


def changes_number(words: Sequence[str]) -> bool:
    """Whether words after a number, in lower case, change what it says."""
    previous = ""
    if words and words[0] == "of":
        return True
    for word in words:
        if word in _CHANGING or (word in NUMBER_WORDS and previous not in _OF_EACH):
            return True
        previous = word
    return False


def changes_name(words: Sequence[str]) -> bool:
    """Whether words before `=` deny the statement, or make another value of its letter."""
    folded = [word.casefold() for word in words]
    if not _FALSE.isdisjoint(folded) or any(word.endswith("n't") for word in folded):
        return True
    is_letter = len(folded[-1]) == 1 and len(folded) > 1
    return is_letter and not _OPERATORS_BEFORE.isdisjoint(folded)


def is_ordinal_of(words: Sequence[str]) -> bool:
    """Whether an ordinal before these words picks a number of a sequence: the 5th prime."""
    return not _SEQUENCES.isdisjoint(words)


def says_false(words: Sequence[str]) -> bool:
    """Whether words, in lower case, deny something."""
    return not _FALSE.isdisjoint(words)


def phrase_before(before: str) -> int | None:
    """Where the words begin that end `before` and change the number behind it; else None."""
    match = _BEFORE.search(before[-_LOOK_BACK:])
    return None if match is None else max(0, len(before) - _LOOK_BACK) + match.start()


def phrase_after(text: str, place: int) -> int | None:
    """Where the words end that begin at `place` and change the number before it; else None."""
    match = _AFTER.match(text, place)
    return None if match is None else match.end()


_LOOK_BACK = 80
_OPERATORS = """
    plus over divided multiplied increased decreased reduced raised lowered squared cubed doubled
    tripled quadrupled halved factorial root remainder remainders modulo mod minus point below base
    prime squares
"""
_LIMITS = """
    or less fewer than least only but except between unless not odd even if when where for is are
    with such and to percent
"""
_FALSE_NAMES = """
    not never no cannot isn't aren't wasn't doesn't can't won't false wrong incorrect invalid
    excluded rejected discarded extraneous impossible untrue neither nor fails
"""
_FALSE = frozenset(_FALSE_NAMES.split())
_CHANGING = _FALSE.union(FRACTION_NAMES, MULTIPLES, _OPERATORS.split(), _LIMITS.split())
_OF_EACH = frozenset(("of", "in", "per", "each", "every", "from", "one"))
_BEFORE_NAMES = """
    half twice double triple thrice negative minus square cube root reciprocal inverse of
"""
_OPERATORS_BEFORE = frozenset(_BEFORE_NAMES.split())
_SEQUENCE_NAMES = """
    prime primes power root square cube fibonacci triangular even odd multiple composite perfect
    factor divisor catalan pentagonal
"""
_SEQUENCES = frozenset(_SEQUENCE_NAMES.split())
_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:(?:one )?half(?: of)?|a (?:third|quarter|fourth|fifth|tenth) of|twice|thrice"
    r"|double|triple|\w+ times|(?:the )?(?:(?:additive|multiplicative) inverse|reciprocal|negative"
    r"|opposite|(?:square |cube |fourth |\d+th )?root|square|cube|factorial|logarithm|log|double"
    r"|(?:absolute value|additive inverse))"
    r" of|\d[\d.,]*\s+(?:[a-z]+\s+)?(?:less|more|fewer|greater|smaller|larger|higher|lower) than"
    r"|\d[\d.,]*\s+(?:plus|minus|times|over|divided by|multiplied by|increased by|decreased by)"
    r"|anything (?:but|except)|everything (?:but|except)|(?:any|every) number (?:but|except))"
    r"\s+[$\\(]{0,3}\Z",
    re.IGNORECASE,
)
_CARDINALS = "|".join(sorted(NUMBER_WORDS))
_AFTER = re.compile(
    r"\s+(?:(?:hundred|thousand|million|billion|trillion)s?\b(?!-)"
    r"|(?:less|more|fewer|greater|smaller|larger) than\s+\$?\d[\d,]*(?:\.\d+)?"
    r"|times as (?:much|many|large|big|long|old|high|tall|fast|great|heavy) as\s+\$?\d[\d,.]*\d*"
    r"|(?:percent|pct) of\s+\$?\d[\d,]*|(?:with )?(?:a )?remainder(?: of)?\s+\d+|r\s?\d+\b"
    r"|(?:divided by|multiplied by|times|plus|minus|over|increased by|decreased by|to the power"
    r"(?: of)?)\s+"
    rf"(?:\d[\d,.]*\d|\d|{_CARDINALS})\b"
    r"|(?:feet|foot|ft|yards?|met(?:er|re)s?|hours?|minutes?|dollars?|pounds?|euros?|degrees?),?"
    rf"\s+(?:and\s+)?(?:{_CARDINALS})\b(?:[ -](?:{_CARDINALS})\b)?"
    r"(?:\s+(?:inch(?:es)?|minutes?|seconds?|cents?|pence|f(?:ee|oo)t|ounces?)\b)?"
    r"|(?:squared|cubed|doubled|tripled|quadrupled|halved|factorial)\b"
    rf"|(?:{'|'.join(FRACTION_NAMES)})\b"
    r"|(?:degrees? )?below zero\b|and (?:a|one) half\b|and (?:a|three|one) quarters?\b"
    r"|point \d+\b|point (?:zero|oh|one|two|three|four|five|six|seven|eight|nine)\b)",
    re.IGNORECASE,
)
