r"""Which of several plain numbers in a sentence is the one that it states.

Mostly the last. Not one that the sentence's end only refers back to ("45 minutes to finish the
3 chapters", "$250 in 5 hours"), nor the parts of a total given before them ("3 bolts: 2 blue and
1 white").
"""

import re
from fractions import Fraction

__all__ = ["stated_number_of"]


def stated_number_of(sentence: str, numbers: list[re.Match[str]]) -> re.Match[str] | None:
    """One of the matches, which are in order and at least one; None where none is sure.

    Each match has the groups `number` and `rest` of `grading.extract_plain_number.NUMBER`.
    """
    last = numbers[-1]
    if len(numbers) == 1:
        return last
    total = _total_before(sentence, numbers)
    if total is not None:
        return total
    start = max(0, last.start() - _LOOK_BACK)
    before = sentence[start : last.start()]
    if (aim := _REFERENCE.search(before)) is not None:
        earlier = [match for match in numbers if match.end() <= start + aim.start()]
        return earlier[0] if len(earlier) == 1 else None
    is_money = numbers[-2][0].lstrip("-−")[:1] in _CURRENCIES
    is_time = _SPAN_BEFORE.search(before) and _TIME_AFTER.match(sentence, last.end())
    if is_money and last[0][:1] not in _CURRENCIES:
        ahead = sentence[max(0, numbers[-2].start() - _LOOK_BACK) : numbers[-2].start()]
        if is_time or (_MENTION.search(before) and _PAYS_BEFORE.search(ahead)):
            return numbers[-2]
    if _ORDINAL.match(sentence, last.end()):
        return last
    return None if _MENTION.search(before) else last


_LOOK_BACK = 60
_CURRENCIES = ("$", "£", "€", "¥")
_REFERENCE = re.compile(
    r"\s(?:to\s+[a-z]+|for|in|over|with|of|after|from|by|among|during|within|on|at|using|across)\s+"
    r"(?:(?:the|these|those|his|her|their|its|all|both)\s+){1,2}(?:[a-z]+\s+)?\Z"
)
_MENTION = re.compile(
    r"\s(?:for|in|over|with|after|from|among|during|within|at|using|across|out of"
    r"|to\s+(?!(?:be|get|obtain|give|yield|equal|total)\b)[a-z]+)\s+(?:[a-z]+\s+)?\Z"
)
_PAYS_BEFORE = re.compile(
    r"\b(?:pa(?:ys?|id)|costs?|spends?|spent|earns?|earned|makes?|made|owes?|owed|saves?|saved)"
    r"\s+(?:(?:a total of|about|exactly|only)\s+)?\Z"
)
_SPAN_BEFORE = re.compile(r"\b(?:in|over|for|during|within|after)\s+\Z")
_TIME_AFTER = re.compile(r"\s(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)\b")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_TOTAL_ENDS = re.compile(r":\s|\s[–—-]\s|\(")
_MAX_PARTS, _MAX_DIGITS = 12, 18


def _total_before(sentence: str, numbers: list[re.Match[str]]) -> re.Match[str] | None:
    """The first number where the others, behind a colon, dash or bracket, add up to it."""
    first, *parts = numbers
    if not 2 <= len(parts) <= _MAX_PARTS:
        return None
    if _TOTAL_ENDS.search(sentence, first.end(), parts[0].start()) is None:
        return None
    values = [_value(match) for match in numbers]
    known = [value for value in values if value is not None]
    is_sum = len(known) == len(values) and known[0] == sum(known[1:])
    return first if is_sum else None


def _value(match: re.Match[str]) -> Fraction | None:
    digits = match["number"].rstrip(".,").replace(",", "")
    is_plain = not match["rest"].strip() and digits.count(".") <= 1 and len(digits) <= _MAX_DIGITS
    return Fraction(digits) if is_plain else None
