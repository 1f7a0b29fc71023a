r"""What a sentence sets in bold: `So Tom has **12 marbles** left of 30`, `Hence f is **even**.`

A bold value is what a sentence states, wherever it stands; two different ones say nothing. Labels
(`**Total:**`), step numbers and values that a calculation goes on from are no bold values.
"""

import re
from dataclasses import dataclass

from grading.modifiers import phrase_after, phrase_before

__all__ = ["bold_phrase", "bold_value", "without_bullets"]


def bold_value(sentence: str) -> str | None:
    """The only bold piece of a sentence that holds a number or a formula."""
    if "**" not in sentence and "__" not in sentence and "bf" not in sentence:
        return None
    values = [bold for bold in _bolds(sentence) if _is_value(sentence, bold)]
    if not values or len({bold.text for bold in values}) > 1:
        return None
    bold = values[0]
    before, after = sentence[: bold.start], sentence[bold.end :]
    if _OPERATION_BEFORE.search(before[-8:]) or _OPERATION_AFTER.match(after):
        return None
    if phrase_before(before) is not None or phrase_after(sentence, bold.end) is not None:
        return None
    return bold.text.rpartition(": ")[2]


def bold_phrase(sentence: str) -> str | None:
    """The words without a number that are all of a sentence or end it, as what it says."""
    if "**" not in sentence and "__" not in sentence:
        return None
    bolds = _bolds(sentence)
    if len(bolds) != 1:
        return None
    bold = bolds[0]
    words = bold.text.strip(" .!")
    if sentence[bold.end :].strip(" .!") or not words or len(words.split()) > _MAX_WORDS:
        return None
    if _NUMBERED.search(words) or words.endswith(":") or _NO_ANSWER.match(words):
        return None
    before = sentence[: bold.start].strip(" #>-")
    return words if not before or _SAYING.search(before) else None


def without_bullets(text: str) -> str:
    """A text without the bullets at its end that only explain a bold value before them."""
    lines = text.rsplit("\n", _MAX_BULLETS)
    num_left = len(lines)
    while num_left > 1 and _BULLET.match(lines[num_left - 1]):
        num_left -= 1
    if num_left == len(lines):
        return text
    head = lines[num_left - 1].rstrip()
    if head.endswith(":") and bold_value(head) is not None:
        return "\n".join((*lines[: num_left - 1], head[:-1] + "."))
    return text


@dataclass(frozen=True, slots=True)
class _Bold:
    start: int
    end: int
    text: str


_MAX_WORDS, _MAX_BULLETS = 6, 40
_BOLD = re.compile(
    r"\*\*(?!\s)(?P<stars>[^*\n]{1,200})\*\*|(?<!\w)__(?!\s)(?P<lines>[^_\n]{1,200})__(?!\w)"
    r"|\$\\(?:mathbf|textbf|boldsymbol|bm)\s?\{(?P<formula>[^{}\n]{1,100})\}\$"
)
_NUMBERED = re.compile(r"\d|\\[a-z]|\$")
_LABEL = re.compile(
    r"(?:step|case|part|equation|figure|section|problem|question|example|method|option|approach|day"
    r"|way|note)s?\s+\d+\W*\Z|\d{1,2}[.)](?:\s|\Z)",
    re.IGNORECASE,
)
_OPERATION_BEFORE = re.compile(r"[-−+*/×÷^]\s*\$?\Z")
_OPERATION_AFTER = re.compile(r"\s*(?:[-−+/×÷=^≈<>]|\\(?:times|cdot|div))\s*[\d$\\(*]|\s*:")
_SAYING = re.compile(
    r"\b(?:is|are|was|were|be|equals|means|becomes|says|called|named|choose|pick)(?:\s+(?:an?|the))?\Z"
    r"|\A\W*(?:therefore|thus|hence|so)\b",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"(?:done|not|no longer|correct|wrong|right|incorrect|valid|verified|only|proved|proven|q\.?e"
    r"\.?d|conclusion|verification|check|summary|solution|answer|final answer|explanation"
    r"|note|step)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-•+]|\*(?!\*)|\d{1,2}[.)])\s|\s*\Z")


def _bolds(sentence: str) -> list[_Bold]:
    return [
        _Bold(match.start(), match.end(), match["stars"] or match["lines"] or match["formula"])
        for match in _BOLD.finditer(sentence)
    ]


def _is_value(sentence: str, bold: _Bold) -> bool:
    text = bold.text.rstrip()
    is_label = text.endswith(":") or sentence[bold.end : bold.end + 1] == ":"
    return not is_label and _NUMBERED.search(text) is not None and _LABEL.match(text) is None
