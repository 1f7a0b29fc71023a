r"""What stands around a box in its formula: signs that belong to it, operations on it.

`-\boxed{3}`, `\boxed{7}\pi` and `\boxed{12}_5` are the content and what touches it. Where a box
is an operand (`2 \cdot \boxed{5}`, `\sqrt{\boxed{5}}`, `x \ne \boxed{5}`) the answer is the
formula with the box's content in its place, or nothing where that cannot be read. A blank filled
in an equation of numbers (`3 + \boxed{5} = 8`) is the content.
"""

import re

from grading.extract_box_syntax import unboxed
from grading.extract_joins import Box
from grading.extract_reading import is_readable
from grading.extract_spans import formula_spans

__all__ = ["formula_around", "is_commented_out", "with_signs"]


def formula_around(text: str, box: Box) -> str | None:
    """The formula in which the box is an operand, "" where unreadable; None: it stands alone."""
    if _CHOICE.fullmatch(box.content) is not None:
        return None
    end = box.end or len(text)
    before = text[max(0, box.start - _REACH) : box.start].rstrip()
    after = text[end : end + _REACH].lstrip()
    is_free_before = before[-1:] in _STARTS and not before.endswith(_ESCAPED)
    is_listed = _LISTED_AFTER.match(after) or (after[:1] == ")" and _LISTED_BEFORE.search(before))
    is_free_after = after[:1] in _STOPS or after.startswith(("\\)", "\\]"))
    if is_free_before and is_free_after and not is_listed:
        return None
    before, after = _STYLE_BEFORE.sub("", before), _STYLE_AFTER.sub("", after)
    is_operand = _OPERATOR_BEFORE.search(before) or (
        _OPERATOR_AFTER.match(after) and after[0] not in "<>"
    )
    is_loose = _LOOSE_BEFORE.search(before) or _LOOSE_AFTER.match(after)
    if not is_operand and not is_listed and not is_loose:
        return None
    formula = _formula_of(text, box, end)
    if formula is None and not is_operand:
        return None
    if is_listed and not is_operand:
        return (_whole(formula) or None) if formula is not None else None
    return _whole(formula) if formula is not None else _line_of(text, box, end)


def is_commented_out(text: str, place: int) -> bool:
    """Whether a comment sign of TeX stands before `place` on its line."""
    start = text.rfind("\n", 0, place) + 1
    return text.find("%", start, place) >= 0 and _COMMENT.search(text[start:place]) is not None


def with_signs(text: str, box: Box, content: str) -> str:
    """The content with a minus before its box, a percent sign or a number's base after it."""
    if box.content != content or not content:
        return content
    if text[box.start - 1 : box.start] in ("-", "−") and _SIGN_BEFORE.search(
        text[max(0, box.start - 8) : box.start]
    ):
        content = _negated(content, text[: box.start - 1])
    factor = _FACTOR.match(text, box.end or 0)
    if factor is not None and _FORMULA_STOP.match(text, factor.end()):
        return content + factor[0] if _TERM.fullmatch(content) else f"({content}){factor[0]}"
    suffix = _SUFFIX.match(text, box.end or 0)
    if suffix is None:
        return content
    if suffix["base"] is not None:
        return content + suffix["base"] if content.isalnum() else content
    return content if "%" in content else content + "\\%"


_REACH = 60
_CHOICE = re.compile(r"(?:\\(?:text|math)\w*\s?\{\s*)?\(?\s?[A-J]\s?[.)]?\s*\}?[.)]?")
_WINDOW = 2_000
_STARTS = frozenset(("", "=", "$", "[", ":", ",", ".", "*"))
_ESCAPED = ("\\$", "\\[", "!=", "<=", ">=", "\\,", "\\:", "\\*")
_STOPS = frozenset(("", "$", ".", ",", ";", ":"))
_COMMENT = re.compile(r"(?:^|[^\d\s$)\\])\s+%\s|^%")
_STYLE = (
    r"\\[,;:! ]|~|\\(?:left|right|displaystyle|quad|qquad|[bB]igg?[lr]?)(?![A-Za-z])"
    r"|\\(?:color|text\w*|mbox|mathrm|hspace|label|tag)\s?\{[^{}]*\}|\s"
)
_STYLE_BEFORE = re.compile(
    rf"(?:{_STYLE}|\\(?:textcolor|colorbox|color)\s?\{{[^{{}}]*\}}\s?\{{)+\Z"
)
_STYLE_AFTER = re.compile(rf"\A(?:{_STYLE})+")
_RELATIONS = r"ne|neq|le|leq|leqslant|ge|geq|geqslant|lt|gt"
_FUNCTIONS = r"sqrt|d?frac|tfrac|binom|log|ln|sin|cos|tan|sum|prod"
_OPERATOR_BEFORE = re.compile(
    rf"\\(?:cdot|times|div|pm|mp|cup|cap|setminus|{_RELATIONS}|{_FUNCTIONS})\s?\(?\{{?\Z"
    r"|\\sqrt\s?\[[^\]]{0,10}\]\s?\{?\Z|[\^_]\s?\{?\Z|\}\s?\{\Z|[≠≤≥×÷·√]\Z"
    r"|(?:(?<![A-Za-z</])[A-Za-z]|[\d)}])\s*(?:[*/+<>]|[<>!]=)\Z"
)
_OPERATOR_AFTER = re.compile(
    rf"\\(?:cdot|times|div|pm|mp|cup|cap|setminus|{_RELATIONS})(?![A-Za-z])|\^|[≠≤≥×÷·]"
    r"|(?:[*/+<>]|[<>!]=)\s*(?:\d|[A-Za-z](?![A-Za-z>])|\\[a-zA-Z]|\()"
)
_LOOSE_BEFORE = re.compile(
    r"(?:(?<![A-Za-z])[A-Za-z]|[\d)}])\s*[-−]\Z|(?<![A-Za-z\\])(?:[a-z]|\d)\Z|[)|]\Z"
    r"|\\[dt]?frac\{[^{}]*\}\{[^{}]*\}\Z"
)
_LOOSE_AFTER = re.compile(
    r"[-−<>]=?\s*(?:\d|[A-Za-z](?![A-Za-z])|\\[a-zA-Z])|!(?!=)|\d|[A-Za-z](?![A-Za-z])"
    r"|\\(?:[dt]?frac|sqrt|pi|theta|alpha|beta|ln|log|sin|cos)(?![A-Za-z])"
)
"""Minus signs, letters, digits and bounds behind are operations only inside a formula."""
_LISTED_AFTER = re.compile(
    r"(?:\\[,;! ]|\s){0,3}[,:](?:\\[,;! ]|\s){0,3}[-−]?(?:\d[\d.]*|\\[dt]?frac\{\d+\}\{\d+\})"
    r"\s*(?:[,)\]$]|\\[)\]])"
)
_LISTED_BEFORE = re.compile(r"[(\[][^()\[\]$]{1,40},\s*\Z")
_UNIT_AFTER = re.compile(r"\s*[msghlLJNWVK]\s*[.,]?\s*\Z")
_ROW_END = re.compile(
    r"\\\\(?![A-Za-z])|\\(?:q?quad|implies|Rightarrow|Longrightarrow|to|text\w*\s?\{[^{}]*\})"
)
_SIGN_BEFORE = re.compile(r"(?:^|[=$(\[,:{&]|[A-Za-z]{2})\s*[-−]$")
_TERM = re.compile(r"[\w.,]+|\\\w+(?:\{[^{}]*\})*")
_FACTOR = re.compile(
    r"\s?(?:\\pi(?![A-Za-z])|\\sqrt\s?(?:\{[^{}]{1,20}\}|\d)|\^\s?(?:\{[^{}]{1,12}\}|\d|\\circ)"
    r"|\\(?:times|cdot)\s?10\s?\^\s?(?:\{-?\d{1,3}\}|\d))"
)
"""Constants and powers; a letter behind a box may be what the box is the coefficient of."""
_FORMULA_STOP = re.compile(r"\s*[.,;]?\s*(?:\$|\\\)|\\\]|\Z|\n)")
_SUFFIX = re.compile(
    r"(?P<base>_(?:\d{1,2}|\{\d{1,2}\}))"
    r"|[\s$]{0,3}(?:\\\)|\\\])?\s?(?P<percent>\\?%|(?:percent|pct|per cent)\b)(?!\s*\\boxed)"
)


def _formula_of(text: str, box: Box, end: int) -> tuple[str, str, str] | None:
    """What stands before the box, in it and behind it in its own row of its formula."""
    start = max(0, box.start - _WINDOW)
    blank = text.rfind("\n\n", start, box.start)
    start = blank + 2 if blank >= 0 else start
    for span in formula_spans(text[start : end + _WINDOW]):
        if start + span.start < box.start and end <= start + span.end:
            first = start + span.start + (1 if text[start + span.start] == "$" else 2)
            last = start + span.end - (1 if text[start + span.end - 1] == "$" else 2)
            before = text[first : box.start].lstrip("$")
            after = text[end : max(end, last)].rstrip("$")
            return _ROW_END.split(before)[-1], box.content, _ROW_END.split(after)[0]
    return None


def _whole(formula: tuple[str, str, str]) -> str | None:
    before, content, after = formula
    if _UNIT_AFTER.fullmatch(after) and not _OPERATOR_BEFORE.search(before.rstrip()):
        return None
    is_filled_in = "=" in after and "=" not in before
    if is_filled_in and not any(sign.isalpha() for sign in _COMMAND.sub("", before + after)):
        return None
    if not after.strip(" .,;") or "=" not in after:
        sides = _EQUALS.split(before)
        before = sides[-1]
    is_closed = _TERM.fullmatch(content) or _BRACKETED.fullmatch(content)
    inside = content if is_closed else f"({content})"
    gap = " " if _COMMAND_END.search(before) else ""
    whole = unboxed(f"{before}{gap}{inside}{after}").replace("&", " ").strip(" .,;\n")
    return whole if is_readable(whole) else ""


_BRACKETED = re.compile(r"[(\[][^()\[\]]*[)\]]|\\\{[^{}]*\\\}")
_COMMAND_END = re.compile(r"\\[A-Za-z]+\Z")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_EQUALS = re.compile(r"(?<![<>!\\])=")


def _line_of(text: str, box: Box, end: int) -> str:
    """The line of a box outside any formula, where it is one; else nothing."""
    start = text.rfind("\n", 0, box.start) + 1
    stop = text.find("\n", end)
    line = unboxed(text[start : stop if stop >= 0 else len(text)][:_WINDOW]).strip(" .")
    return line if is_readable(line) else ""


def _negated(content: str, before: str) -> str:
    """With the minus before its box; a dash before a negative number is no second minus."""
    if _TERM.fullmatch(content):
        return f"-{content}"
    is_second = content[:1] in ("-", "−") and _TERM.fullmatch(content[1:].strip())
    return content[1:].strip() if is_second and before.rstrip()[-1:] in ("=", "(") else content
