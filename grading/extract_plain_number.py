r"""The plain number that a sentence states: its last, or the result of its calculation.

A number inside a word ("H2O"), of a label ("step 3") and one part of a list do not count. A
number that the sentence only mentions behind its own value ("45 minutes to finish the 3
chapters") is told from what it states by `extract_competing`.
"""

import re

from grading.extract_competing import stated_number_of
from grading.extract_spans import Span
from grading.modifiers import phrase_after, phrase_before

__all__ = ["LABEL_BEFORE", "NUMBER", "last_number"]


def last_number(sentence: str, spans: list[Span]) -> tuple[int, str] | None:
    """Place and text of the plain number that the sentence ends with or calculates.

    The result of a calculation counts rather than a number of what merely follows it, as in
    "20 + 30 = 50 miles in 7 hours". "" where the numbers leave open which is stated, None for a
    label's number and for one part of a list.
    """
    numbers: list[re.Match[str]] = []
    result: re.Match[str] | None = None
    span_index = 0
    for match in NUMBER.finditer(sentence):
        while span_index < len(spans) and spans[span_index].end <= match.start():
            span_index += 1
        if span_index < len(spans) and spans[span_index].start < match.end():
            continue
        if _is_glued(sentence, match):
            continue
        numbers.append(match)
        ahead = sentence[max(0, match.start() - 4) : match.start()].rstrip(" \\$")
        if ahead.endswith(("=", "≈")):
            result = match
    if not numbers or numbers[-1].end() - numbers[-1].start() > _MAX_RUN:
        return None
    last = numbers[-1]
    before = sentence[max(0, last.start() - 48) : last.start()]
    if LABEL_BEFORE.search(before):
        return None
    if result is not None and not _NEW_CLAUSE.search(sentence, result.end(), last.start()):
        return result.start(), _with_context(sentence, result)
    if len(numbers) > 1:
        labels = (sentence[max(0, match.start() - 16) : match.start()] for match in numbers)
        pairs = zip(numbers, labels, strict=True)
        numbers = [match for match, label in pairs if not LABEL_BEFORE.search(label)]
    chosen = last if result is not None else stated_number_of(sentence, numbers)
    if chosen is None:
        return last.start(), ""
    if chosen is last and _PART_BEFORE.search(before):
        return None
    last = chosen
    return last.start(), _with_context(sentence, last)


_MAX_RUN = 400
NUMBER = re.compile(
    r"(?P<sign>[-−]?)[$£€¥]?"
    r"(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:[.,]\d+)*|\.\d+)"
    r"(?P<rest>(?:[eE][-+]?\d{1,3}(?![\w.])|\s?/\s?\d+(?![\d.]*/)|:\d+(?::\d+)?)?(?:\s?\\?%)?)"
)
_TUPLE = re.compile(r"[(\[]\s*[-−]?[\w./\\]+(?:\s*,\s*[-−]?[\w./\\]+){1,7}\s*[)\]]\W*\Z")
_RELATION_BEFORE = re.compile(
    r"(?P<name>[A-Za-z](?:_?\d)?|\|[a-z]\|)\s*(?:<=|>=|!=|==|<|>|≤|≥|≠|∈)\s*\Z"
)
_LARGER_UNIT_BEFORE = re.compile(r"\d+\s?[°'′’]\s?\Z")
"""Feet before inches, degrees before minutes."""
_LIST_BEFORE = re.compile(
    r"(?P<first>(?<![\w.,/])[A-Za-z]\s*=\s*)?(?:(?<![\w.,$-])[-−]?[$£€]?\d[\d./]*,\s+){0,12}"
    r"[-−]?[$£€]?(?<![\w.])\d[\d.,/]*\s*(?:,|and|or|,\s*and|,\s*or)"
    r"(?:\s+(?:maybe|perhaps|possibly))?\s+(?P<name>[A-Za-z]\s*=\s*)?\Z"
)
LABEL_BEFORE = re.compile(
    r"\b(?:step|case|part|equation|eq|figure|fig|chapter|section|problem|question|example|method"
    r"|option|line|table|theorem|lemma|exercise|approach)s?\.?\s*[#(]?\Z",
    re.IGNORECASE,
)
_PART_BEFORE = re.compile(
    r"[\w)]\s*[*×÷+·]\s*\Z|\d\s*[-−/]\s*\Z|\d\s*[-−]\s*[$£€]\Z"
    r"|(?<![\w.])[$£€]?\d[\d.,]*(?:\s+[A-Za-z]+){1,2},?\s+(?:and|or)\s+[$£€]?\Z"
)
_SIGN_IN_WORDS = re.compile(
    r"\b(?:is|are|get|gives?|be|equals|of|to|=)\s+(?:minus|negative)\s+\Z", re.IGNORECASE
)
_NEW_CLAUSE = re.compile(
    r"[,;:.]|\b(?:so|thus|therefore|is|are|was|has|have|(?<!to )(?:gives?|makes?)|leaving|leaves"
    r"|means|left|total)\b|[-+*/×÷=≈]"
)


def _is_glued(sentence: str, match: re.Match[str]) -> bool:
    before = sentence[max(0, match.start() - 1) : match.start()]
    after = sentence[match.end() : match.end() + 3]
    if before == "_" or (before.isalpha() and before < "\u0e00"):
        return True
    # A unit may touch a number ("9m²", "3pm"); a word of letters and digits may not.
    return after[:1].isalpha() and after[1:2].isalpha() and after[2:3].isdigit()


def _with_context(sentence: str, match: re.Match[str]) -> str:
    start = match.start()
    number = match["number"].rstrip(".,") + match["rest"]
    before = sentence[max(0, start - 80) : start]
    is_negative = bool(match["sign"]) and _is_sign(sentence[:start])
    sign = "-" if is_negative or _SIGN_IN_WORDS.search(before) else ""
    first, stop = phrase_before(before), phrase_after(sentence, match.end())
    if first is not None or stop is not None:
        first = len(before) if first is None else first
        return f"{before[first:]}{sign}{number}{sentence[match.end() : stop or match.end()]}"
    if (larger := _LARGER_UNIT_BEFORE.search(before)) is not None:
        return f"{larger[0]}{number}"
    relation = _RELATION_BEFORE.search(before)
    if relation is not None:
        return f"{before[relation.start() :]}{sign}{number}"
    listed = _LIST_BEFORE.search(before)
    if listed is not None and (listed["first"] or not listed["name"]):
        return f"{listed[0].lstrip()}{sign}{number}"
    opened = before.rfind("("), before.rfind("[")
    if max(opened) >= 0:
        candidate = sentence[start - len(before) + max(opened) :].rstrip(" .*")
        if _TUPLE.fullmatch(candidate):
            return candidate
    return sign + number


def _is_sign(before: str) -> bool:
    previous = before.rstrip("$£€")[-1:]
    return not (previous.isalnum() or previous in (")", "]", "}"))
