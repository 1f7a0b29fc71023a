r"""Where equal values do not make equal answers: other labels, other things, two readings.

`\text{Area}=5` is no `\text{Perimeter}=5`, `3 \text{ dimes}` no `3 \text{ nickels}`; `5 mod 6`
names a class, `1/ab` may mean either of two quotients. What is found here is left undecided.
"""

import re

from grading.latex import FUNCTION_NAMES
from grading.numerals import NUMBER_POWERS, NUMBER_WORDS
from grading.tree import Node, Op

__all__ = ["is_class_of", "other_quotient", "say_other_things"]


def say_other_things(gold: str, answer: str) -> bool:
    """Whether both texts name what their value is, or what it counts, by other words."""
    patterns = (_COUNTED,) if any(map(_is_list, (gold, answer))) else (_LABEL, _COUNTED)
    for pattern in patterns:
        first, second = _words(pattern, gold), _words(pattern, answer)
        if first and second and first.isdisjoint(second):
            return True
    return False


def is_class_of(number: Node, residue: Node, text: str) -> bool:
    """Whether an answer says `5 mod 6`, in that word, where 5 is expected."""
    is_class = residue.op is Op.MOD and residue.args[0] == number
    return is_class and number.op is Op.NUM and "\\" not in text


def other_quotient(text: str) -> str | None:
    """`1/(ab)` for `1/ab`, which is read as the product `(1/a)b`; else None."""
    if "/" not in text or _PRODUCT_BELOW.search(text) is None:
        return None
    changed = _PRODUCT_BELOW.sub(_bracketed, text)
    return None if changed == text else changed


_LABEL = re.compile(
    r"[\s$*]{0,4}(?:\\(?:text|mathrm|textbf|mbox)\s?\{)?\s*([A-Za-z][A-Za-z' ]{2,40})\s*\}?\s*[:=]"
)
_COUNTED = re.compile(
    r"[\s$¤]{0,4}[-+]?\d[\d.,/]{0,40}(?:\s|\\[ ,;!]|~|\$){0,4}"
    r"(?:\\(?:text|mathrm|textbf|mbox)\s?\{)?\s*([A-Za-z][A-Za-z' -]{2,60})\}?[\s$.]{0,4}\Z"
)
_PRODUCT_BELOW = re.compile(r"(?<![a-z][a-z])(?<!<)/\s?([A-Za-z]{2,3})(?![A-Za-z(_])")
_EMPTY_NAMES = """
    the final answer result value of is are a an our my correct so thus hence therefore total sum
    all in altogether exactly only about approximately left remaining over per each times more
    percent percentage degree degrees dozen different distinct possible unique overall number
    option choice
"""
_EMPTY = frozenset(_EMPTY_NAMES.split()) | NUMBER_WORDS | NUMBER_POWERS.keys()
_MIN_LETTERS = 3


def _is_list(text: str) -> bool:
    """Whether there is more than one label."""
    return text.count("=") + text.count(":") > 1


def _words(pattern: re.Pattern[str], text: str) -> frozenset[str]:
    """The content words of what the pattern finds at the start; none for one that is a filler."""
    found = pattern.match(text)
    if found is None:
        return frozenset()
    words = [word.strip("'-").removesuffix("s") for word in found[1].casefold().split()]
    return frozenset(
        word
        for word in words
        if len(word) >= _MIN_LETTERS
        and word not in _EMPTY
        and word + "s" not in _EMPTY
        and word not in FUNCTION_NAMES
    )


def _bracketed(match: re.Match[str]) -> str:
    letters = match[1]
    if letters in FUNCTION_NAMES or letters[0] == "d":
        return match[0]
    return f"/({letters})"
