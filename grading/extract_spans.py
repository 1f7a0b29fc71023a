r"""Formulas in running text: `$..$`, `$$..$$`, `\(..\)`, `\[..\]` and display environments.

An escaped dollar sign opens nothing. An inline formula holds no blank line and no line break
directly behind its opener; a dollar sign that is a currency sign is no formula. One pass,
linear in the text.
"""

import re
from dataclasses import dataclass

_DELIMITER = re.compile(
    r"\\[()\[\]]|\\\\|\\\$|\$\$?|\\(?P<edge>begin|end)\s?\{(?P<name>equation|align|gather|displaymath"
    r"|math|multline|eqnarray)\*?\}"
)
_CLOSER = {"\\(": "\\)", "\\[": "\\]", "$$": "$$", "$": "$"}
_MAX_INLINE, _MAX_DISPLAY = 600, 4_000
_PROSE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{3,}\s+[A-Za-z]{2,}(?![A-Za-z]*\()")
_DANGLING = re.compile(r"(?:[=+*/×÷]|\s[-x])\s*\Z")
_FORMULA_START = re.compile(r"[\\A-Za-z({|]|\s\\")
_TEXT = re.compile(r"\\(?:text|mathrm|textbf|mbox|operatorname)[a-z]{0,6}\s?\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Span:
    """A formula: `text[start:end]` with its delimiters, and what is inside them."""

    start: int
    end: int
    inside: str


def formula_spans(text: str) -> list[Span]:
    """The complete formulas of a text, in order, none inside another."""
    return read_formulas(text)[0]


def read_formulas(text: str) -> tuple[list[Span], bool]:
    """The complete formulas of a text, and whether it was cut off inside a formula."""
    if "$" not in text and "\\" not in text:
        return [], False
    spans, opener = _scan(text)
    return spans, _is_cut_off(text, opener)


def _scan(text: str) -> tuple[list[Span], re.Match[str] | None]:
    """The formulas, and the opener of one that is not closed."""
    spans: list[Span] = []
    opener: re.Match[str] | None = None
    for match in _DELIMITER.finditer(text):
        sign = match[0]
        if opener is None:
            opener = match if sign in _CLOSER or match["edge"] == "begin" else None
            continue
        if not _closes(opener, match):
            # An inline dollar sign that could not be closed was money: start afresh.
            if opener[0] == "$" and (sign in _CLOSER or match["edge"] == "begin"):
                opener = match
            continue
        inside = text[opener.end() : match.start()]
        is_money = sign == "$" and text[match.end() : match.end() + 1].isdigit()
        if not is_money and _is_formula(opener[0], inside):
            spans.append(Span(opener.start(), match.end(), inside))
            opener = None
        else:
            opener = match if sign == "$" else None
    return spans, opener


def _is_cut_off(text: str, opener: re.Match[str] | None) -> bool:
    for start, end in (("\\[", "\\]"), ("\\(", "\\)"), ("\\begin{", "\\end{")):
        if _last(text, start) > _last(text, end):
            return True
    if opener is None or opener[0] != "$":
        return opener is not None and opener[0] == "$$"
    if opener.start() > 0 and text[opener.start() - 1].isdigit():
        return False  # money
    rest = text[opener.end() :]
    is_line = "\n" not in rest and _FORMULA_START.match(rest) is not None
    return is_line and _PROSE.search(rest) is None


def _last(text: str, sign: str) -> int:
    place = text.rfind(sign)
    while place > 0 and text[place - 1] == "\\":
        place = text.rfind(sign, 0, place)
    return place


def _closes(opener: re.Match[str], match: re.Match[str]) -> bool:
    if opener["edge"] is not None:
        return match["edge"] == "end" and match["name"] == opener["name"]
    return _CLOSER[opener[0]] == match[0]


def _is_formula(opener: str, inside: str) -> bool:
    if not inside.strip():
        return False
    if opener not in ("$", "\\("):
        return len(inside) <= _MAX_DISPLAY
    if len(inside) > _MAX_INLINE or "\n\n" in inside or inside.lstrip(" \t")[:1] == "\n":
        return False
    if opener != "$":
        return True
    return not _DANGLING.search(inside) and _PROSE.search(_TEXT.sub(" ", inside)) is None
