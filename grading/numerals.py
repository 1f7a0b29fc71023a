r"""Ways to write one number → the spelling that the grammar reads.

Covers grouping by commas, spaces and apostrophes (western and Indian, only where
well-formed), decimal commas, E notation, `5.`, repeating decimals, mixed numbers, number
words and ordinals. Ill-formed grouping (`1,23,4`) is left alone: it is no number.
"""

import re
from fractions import Fraction

__all__ = [
    "FRACTION_NAMES",
    "MULTIPLES",
    "NUMBER_POWERS",
    "NUMBER_WORDS",
    "based_digits",
    "decimal_comma",
    "join_thousands",
    "mixed_number",
    "number_of_words",
    "ordinal_value",
    "plain_decimal",
    "ratio_in_words",
    "time_in_words",
    "unify_number",
]


def join_thousands(body: str) -> str:
    """Remove the commas of an answer that is one number with well-formed grouping."""
    return body.replace(",", "") if _GROUPED_BY_COMMA.fullmatch(body) else body


def decimal_comma(text: str) -> str | None:
    """The decimal with a point, where the text may be one with a comma; else None.

    `1000,99` and `0,111` may; `2,5` (one digit), `1, 25` (a space) and `1,234` (grouping)
    may not. Whether it is one depends on the other answer: it must be a single decimal
    number, and one with a point unless grouping is impossible here.
    """
    match = _DECIMAL_COMMA.fullmatch(text.strip())
    if match is None or _GROUPED_BY_COMMA.fullmatch(text.strip()):
        return None
    return f"{match[1]}.{match[2]}"


def plain_decimal(text: str) -> str | None:
    """The canonical spelling of a plain decimal, of any length; None for anything else.

    `+007.50` → `7.5`, `-0.0` → `0`.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    whole = match["whole"].lstrip("0") or "0"
    part = (match["part"] or "").rstrip("0")
    if whole == "0" and not part:
        return "0"
    sign = "-" if match["sign"] == "-" else ""
    return f"{sign}{whole}.{part}" if part else sign + whole


def unify_number(body: str) -> str:
    """Rewrite the numbers of a body; a body that is one number gets the closest look."""
    if _GROUPED_BY_SPACE.fullmatch(body) or _GROUPED_BY_APOSTROPHE.fullmatch(body):
        return body.replace(" ", "").replace("'", "")
    if "/" in body and (mixed := mixed_number(body)) is not None:
        return mixed
    if "e" in body or "E" in body:
        if (scientific := _SCIENTIFIC.fullmatch(body)) is not None:
            return f"{scientific[1].rstrip('.')}\\times 10^{{{int(scientific[2])}}}"
        body = _SCIENTIFIC_INSIDE.sub(r"(\1\\times 10^{\2})", body)
    if "." in body:
        body = _repeating_read(body)
        body = _BARE_POINT.sub("", body)
    return body


def mixed_number(body: str) -> str | None:
    """`1 3/4` and `1 and 3/4` as whole and fraction, `3 out of 8` as a fraction; else None."""
    if (mixed := _MIXED.fullmatch(body)) is not None and int(mixed[2]) < int(mixed[3]):
        return f"{mixed[1]}\\frac{{{mixed[2]}}}{{{mixed[3]}}}"
    if (parts := _OUT_OF.fullmatch(body)) is not None:
        return f"\\frac{{{parts[1]}}}{{{parts[2]}}}"
    return None


def based_digits(body: str) -> str | None:
    """`315 base 7`, `315 in base seven` as `315_{7}`; else None."""
    match = _IN_BASE.fullmatch(body)
    if match is None:
        return None
    base = match[2] if match[2].isdigit() else str(_SMALL.get(match[2].casefold(), ""))
    return f"{match[1]}_{{{base}}}" if base else None


def ratio_in_words(body: str) -> str | None:
    """`3 to 4` as `3:4`; None for anything else."""
    match = _TO.fullmatch(body)
    return None if match is None else f"{match[1]}:{match[2]}"


def time_in_words(body: str) -> tuple[str, str] | None:
    """`noon` and `7 o'clock` as clock time and meridiem ("" where none); else None."""
    if (clock := _O_CLOCK.fullmatch(body)) is not None:
        return f"{clock[1]}:00", ""
    return _NOONS.get(body.casefold())


def number_of_words(phrase: str) -> Fraction | None:
    """The number that English words spell: `twenty-one`, `two thirds`, `a dozen`; else None."""
    words = phrase.casefold().replace("-", " ").split()
    if not words or len(words) > _MAX_WORDS or not _VOCABULARY.issuperset(words):
        return None
    if words in (["a"], ["an"]):
        return None
    sign = 1
    if words[0] in ("minus", "negative"):
        sign, words = -1, words[1:]
    value = _mixed_of_words(words)
    return None if value is None else sign * value


def ordinal_value(word: str) -> int | None:
    """`15th`, `15^{th}`, `third` → the integer; None for anything else."""
    match = _ORDINAL.fullmatch(word)
    if match is not None:
        return int(match[1])
    return _ORDINAL_WORDS.get(word.casefold())


NUMBER_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
"""Words that may follow digits, with their power of ten."""

_MAX_WORDS = 16
_WESTERN = r"[1-9]\d{0,2}(?:,\d{3})+"
_INDIAN = r"[1-9]\d?(?:,\d{2})+,\d{3}"
_GROUPED_BY_COMMA = re.compile(rf"[-+]?\s?(?:{_WESTERN}|{_INDIAN})(?:\.\d+)?%?")
_GROUPED_BY_SPACE = re.compile(r"[-+]?\s?\d{1,3}(?: \d{3})+(?:\.\d+)?%?")
_GROUPED_BY_APOSTROPHE = re.compile(r"[-+]?\s?\d{1,3}(?:'\d{3})+(?:\.\d+)?%?")
_DECIMAL_COMMA = re.compile(r"([-+]?\d{1,400}),(\d{2,400})")
_DECIMAL = re.compile(r"(?P<sign>[-+]?)(?P<whole>\d*)(?:\.(?P<part>\d+))?(?<=\d)", re.ASCII)
_MIXED = re.compile(r"([-+]?\s?\d{1,50})\s+(?:and\s+)?(\d{1,50})\s?/\s?(\d{1,50})")
_IN_BASE = re.compile(
    r"(\d{1,64}|[0-9A-F]{1,64}(?=.*1[1-6]))\s?(?:\\text\s?\{)?\s?\(?\s?(?:in )?base[ -]?"
    r"(\d{1,2}|[a-z]{3,8})\s?\)?\s?\}?",
    re.IGNORECASE,
)
_TO = re.compile(r"(\d{1,50}(?:\.\d+)?)\s?(?:\\text\s?\{)?\s?to\s?\}?\s?(\d{1,50}(?:\.\d+)?)")
_O_CLOCK = re.compile(r"(\d{1,2}) ?o['’]clock", re.IGNORECASE)
_NOONS = {"noon": ("12:00", "pm"), "12 noon": ("12:00", "pm"), "midday": ("12:00", "pm"),
          "midnight": ("12:00", "am"), "12 midnight": ("12:00", "am")}  # fmt: skip
_OUT_OF = re.compile(r"(\d{1,50}) out of (\d{1,50})")
_SCIENTIFIC = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+))[eE]([-+]?\d{1,6})")
_SCIENTIFIC_INSIDE = re.compile(
    r"(?<![A-Za-z\d.\\}])((?:\d+(?:\.\d*)?|\.\d+))E([-+]?\d{1,6})(?![A-Za-z\d.])"
)
_BARE_POINT = re.compile(r"(?<=\d)\.(?=\s*(?:[,;)\]}+*/^=<>-]|\\%|%|\\|$))")
_OVERLINED = re.compile(
    r"(\d{0,50})\.(\d{0,50})\\(?:overline|bar|dot|overset\{\.\})\s?(?:\{\s?(\d{1,50})\s?\}|(\d))"
    r"(?:(\d{0,50})\\dot\s?(?:\{(\d)\}|(\d)))?"
)
_BRACKETED = re.compile(r"([-+]?\s?)(\d{0,50})\.(\d{0,50})\((\d{1,50})\)")
_TRAILING_DOTS = re.compile(r"(\d{0,50})\.(\d{2,60})\s?(?:\.{3,}|\\[lc]?dots(?![A-Za-z]))")
_ORDINAL = re.compile(r"(\d{1,30})\s?\^?\s?\{?\s?(?:\\text\s?\{)?(?:st|nd|rd|th)\}{0,2}")


def _repeating_read(body: str) -> str:
    if "\\" in body:
        body = _OVERLINED.sub(_overlined_fraction, body)
    if "(" in body and (match := _BRACKETED.fullmatch(body)) is not None:
        return match[1] + _repeating_fraction(match[2], match[3], match[4])
    if "..." in body or "dots" in body:
        body = _TRAILING_DOTS.sub(_dotted_decimal, body)
    return body


def _overlined_fraction(match: re.Match[str]) -> str:
    cycle = match[3] or match[4]
    last = match[6] or match[7]
    if last is not None:
        cycle += match[5] + last
    return _repeating_fraction(match[1], match[2], cycle)


def _repeating_fraction(whole: str, fixed: str, cycle: str) -> str:
    numerator = int((whole + fixed + cycle) or "0") - int((whole + fixed) or "0")
    denominator = (10 ** len(cycle) - 1) * 10 ** len(fixed)
    return f"(\\frac{{{numerator}}}{{{denominator}}})"


def _dotted_decimal(match: re.Match[str]) -> str:
    """`0.333…` repeats; `3.14159…` is a decimal that was cut off."""
    digits = match[2]
    for length in range(1, len(digits) // 2 + 1):
        cycle = digits[-length:]
        repeats = 3 if length == 1 else 2
        if len(digits) >= repeats * length and digits.endswith(cycle * repeats):
            fixed = digits
            while fixed.endswith(cycle):
                fixed = fixed[:-length]
            return _repeating_fraction(match[1], fixed, cycle)
    return f"{match[1]}.{digits}"


# -- words ------------------------------------------------------------------------------

_SMALL_NAMES = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
"""
_TENS_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINAL_NAMES = """
    first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
    fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
"""
_SMALL = {name: value for value, name in enumerate(_SMALL_NAMES.split())}
_TENS = {name: 10 * value for value, name in enumerate(_TENS_NAMES.split(), start=2)}
_ORDINAL_WORDS = {name: value for value, name in enumerate(_ORDINAL_NAMES.split(), start=1)}
_DENOMINATORS = {
    "half": 2, "halves": 2, "quarter": 4, "quarters": 4, "third": 3, "thirds": 3,
    **{name: value for name, value in _ORDINAL_WORDS.items() if value > 3},
    **{name + "s": value for name, value in _ORDINAL_WORDS.items() if value > 3},
}  # fmt: skip
_SCALES = {name: 10**power for name, power in NUMBER_POWERS.items()}
_VOCABULARY = frozenset(
    (*_SMALL, *_TENS, *_DENOMINATORS, *_SCALES, "and", "a", "an", "dozen", "minus", "negative")
)
NUMBER_WORDS = frozenset((*_SMALL, *_TENS))
"""Cardinals from zero to ninety."""
FRACTION_NAMES = {
    "halves": 2, "thirds": 3,
    **{name + "s": value for name, value in _ORDINAL_WORDS.items() if value > 3},
    "hundredths": 100, "thousandths": 1000, "millionths": 10**6,
}  # fmt: skip
"""Plural parts with their denominators; quarters are coins as well."""
MULTIPLES = {
    **{name: f"10^{{{power}}}" for word, power in NUMBER_POWERS.items()
       for name in (word, word + "s")},
    "tens": "10", "dozen": "12", "dozens": "12", "lakh": "10^{5}", "lakhs": "10^{5}",
    "crore": "10^{7}", "crores": "10^{7}",
}  # fmt: skip
"""Words that multiply the number before them, with what they multiply it by."""


def _mixed_of_words(words: list[str]) -> Fraction | None:
    if words and words[-1] in _DENOMINATORS:
        return _fraction_of_words(words)
    if words and words[-1] == "dozen":
        count = 1 if words[:-1] in ([], ["a"]) else _integer_of_words(words[:-1])
        return None if count is None else Fraction(12 * count)
    value = _integer_of_words(words)
    return None if value is None else Fraction(value)


def _fraction_of_words(words: list[str]) -> Fraction | None:
    """`half`, `one third`, `two and three quarters`, `five and a half`."""
    denominator = _DENOMINATORS[words[-1]]
    if words == ["half"]:
        return Fraction(1, 2)
    whole = 0
    counted = words[:-1]
    if "and" in counted:
        split = len(counted) - 1 - counted[::-1].index("and")
        read = _integer_of_words(counted[:split])
        if read is None:
            return None
        whole, counted = read, counted[split + 1 :]
    count = 1 if counted in (["a"], ["an"]) else _integer_of_words(counted)
    if count is None or not 0 < count < 100:
        return None
    return whole + Fraction(count, denominator)


def _integer_of_words(words: list[str]) -> int | None:
    if words and words[0] in ("a", "an"):
        words = ["one", *words[1:]]
    if not words or words[0] == "and" or words[-1] == "and":
        return None
    total, group, previous = 0, 0, ""
    for word in words:
        if word in _SMALL or word in _TENS:
            if not _may_follow(word, previous):
                return None
            group += _SMALL.get(word, 0) + _TENS.get(word, 0)
        elif word == "hundred" and 0 < group < 20:
            group *= 100
        elif word in _SCALES and word != "hundred" and group and not 0 < total < _SCALES[word]:
            total, group = total + group * _SCALES[word], 0
        elif word != "and":
            return None
        previous = word
    return total + group


def _may_follow(word: str, previous: str) -> bool:
    """`twenty one` and `hundred five`, but not `ten one` or `twenty ten`."""
    if previous in _TENS:
        return 0 < _SMALL.get(word, 0) < 10
    return previous not in _SMALL
