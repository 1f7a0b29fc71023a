"""A plain number that the last line alone decides: `The answer is 72.` and `A: 72`.

Shortcuts and no rules of their own: each says what `extract_markers` and `extract_statement`
would say of such a text, in a fraction of the time, and None of any other text.
"""

import re

_NUMBER = r"(?P<number>-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)"
_ANNOUNCED = re.compile(
    r"(?:\n|\A)(?:(?:So|Thus|Hence|Therefore|Finally),? )?"
    rf"(?:(?:[Tt]he|[Oo]ur|[Mm]y) )?(?:[Ff]inal |correct )?[Aa]nswer(?: is|:) {_NUMBER}\.?\Z"
)
_STATED = re.compile(rf"\n(?P<label>A: )?{_NUMBER}\Z")


def announced_number(text: str) -> str | None:
    """The number of an "answer is" phrase that is all of the last line; of a complete text."""
    text = text.rstrip(" \n")
    match = _ANNOUNCED.match(text, max(0, text.rfind("\n")))
    return None if match is None else match["number"]


def labelled_number(text: str) -> str | None:
    """The number of a last line `A: 72`, of a complete text."""
    match = _stated(text)
    return None if match is None or match["label"] is None else match["number"]


def stated_number(text: str) -> str | None:
    """The number that is all of the last line of several, of a text without announcement."""
    match = _stated(text)
    return None if match is None else match["number"]


def _stated(text: str) -> re.Match[str] | None:
    """None also where a formula or an annotation may have begun before that line."""
    text = text.rstrip()
    match = _STATED.match(text, max(0, text.rfind("\n")))
    if match is None or "\\" in text or "$$" in text:
        return None
    return None if "<" in text and text.rfind("<<") > text.rfind(">>") else match
