r"""Short calculations in words → formulas: `half of 5`, `5 tenths`, `5 point two`, `5 doubled`.

Only whole phrases of numbers (digits or English words) and one operation. Anything longer is
left alone, since what its words refer to is not known.
"""

import re

from grading.numerals import FRACTION_NAMES, MULTIPLES, number_of_words

__all__ = ["phrase_value"]


def phrase_value(body: str) -> str | None:
    """The formula that a phrase of one operation spells; None for anything else."""
    if len(body) > _MAX_CHARS or _OPERATION.search(body) is None:
        return None
    folded = " ".join(body.casefold().removeprefix("the ").split())
    for pattern, template in _PATTERNS:
        match = pattern.fullmatch(folded)
        if match is None:
            continue
        numbers = [_number(group) for group in match.groups()]
        known = [number for number in numbers if number is not None]
        if len(known) == len(numbers):
            return template.format(*known)
    return _part_or_multiple(folded) or _with_point(folded)


_MAX_CHARS = 120
_N = r"([-+]?\d[\d,]*(?:\.\d+)?|[-+]?\.\d+|[a-z][a-z -]{1,60}?)"
_OPERATION = re.compile(
    r"\b(?:half|twice|double[ds]?|tripled?|halved|squared?|cubed?|root|reciprocal|plus|minus"
    r"|negative|times|multiplied|divided|over|increased|decreased|less|more|below|point"
    rf"|{'|'.join((*FRACTION_NAMES, *MULTIPLES))})\b",
    re.IGNORECASE,
)
_PATTERNS = tuple(
    (re.compile(pattern.replace("N", _N)), template)
    for pattern, template in (
        (r"(?:minus|negative) N", "-{0}"),
        (r"N (?:degrees? )?below zero", "-{0}"),
        (r"(?:one )?half(?: of)? N", "\\frac{{{0}}}{{2}}"),
        (r"N halved", "\\frac{{{0}}}{{2}}"),
        (r"(?:twice|double) N", "2\\times {0}"),
        (r"N doubled", "2\\times {0}"),
        (r"(?:thrice|triple) N", "3\\times {0}"),
        (r"N tripled", "3\\times {0}"),
        (r"N squared", "({0})^{{2}}"),
        (r"N cubed", "({0})^{{3}}"),
        (r"square of N", "({0})^{{2}}"),
        (r"cube of N", "({0})^{{3}}"),
        (r"(?:square )?root of N", "\\sqrt{{{0}}}"),
        (r"cube root of N", "\\sqrt[3]{{{0}}}"),
        (r"reciprocal of N", "\\frac{{1}}{{{0}}}"),
        (r"N (?:times|multiplied by) N", "{0}\\times {1}"),
        (r"N (?:divided by|over) N", "\\frac{{{0}}}{{{1}}}"),
        (r"N (?:plus|increased by) N", "{0}+{1}"),
        (r"N (?:minus|decreased by) N", "{0}-{1}"),
        (r"N less than N", "{1}-{0}"),
        (r"N more than N", "{0}+{1}"),
        (r"N and (?:a|one) half", "{0}+\\frac{{1}}{{2}}"),
        (r"N and (?:a|one) quarter", "{0}+\\frac{{1}}{{4}}"),
        (r"N and three quarters", "{0}+\\frac{{3}}{{4}}"),
    )
)
_SCALED = re.compile(rf"{_N} ({'|'.join((*FRACTION_NAMES, *MULTIPLES))})")
_POINT = re.compile(rf"{_N} point (?:([a-z ]{{3,60}})|(\d{{1,20}}))")
_DIGIT_NAMES = "zero one two three four five six seven eight nine"
_DIGITS = {name: str(value) for value, name in enumerate(_DIGIT_NAMES.split())} | {"oh": "0"}


def _number(text: str) -> str | None:
    """Digits for digits or for English words."""
    if text[-1].isdigit():
        return text.replace(",", "")
    value = number_of_words(text)
    if value is None:
        return None
    is_whole = value.denominator == 1
    return str(value) if is_whole else f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def _part_or_multiple(phrase: str) -> str | None:
    """`5 tenths`, `5 dozens`."""
    match = _SCALED.fullmatch(phrase)
    number = None if match is None else _number(match[1])
    if match is None or number is None:
        return None
    if match[2] in FRACTION_NAMES:
        return f"\\frac{{{number}}}{{{FRACTION_NAMES[match[2]]}}}"
    return f"{number}\\times {MULTIPLES[match[2]]}"


def _with_point(phrase: str) -> str | None:
    """`5 point two five`."""
    match = _POINT.fullmatch(phrase)
    whole = None if match is None else _number(match[1])
    if match is None or whole is None or not whole.lstrip("-").isdigit():
        return None
    if match[3]:
        return f"{whole}.{match[3]}"
    digits = [_DIGITS.get(word, "") for word in match[2].split()]
    return f"{whole}.{''.join(digits)}" if all(digits) else None
