r"""An answer as models write it → one spelling for the parser, with what stands around it.

The steps, each in its own module: characters (`grading.characters`), LaTeX without
presentation (`grading.latex`), words around values (`grading.phrases`), units
(`grading.units`), spellings of numbers (`grading.numerals`), set phrases and prose
(`grading.wording`). No step drops letters that may be variables.

What the grammar reads: `\lor` and `\and` join relations, commas join plain values; a
labelled value is `\text{label}=value`; prose is one `\text{…}`. Every step is linear in the
text; callers bound the length first (`MAX_CHARS`).
"""

import re
from dataclasses import dataclass

from grading.arithmetic_words import phrase_value
from grading.characters import unify_characters
from grading.latex import FUNCTION_NAMES, UNIT_LETTERS, is_balanced, unify_latex
from grading.modifiers import changes_number, is_ordinal_of
from grading.numerals import (
    NUMBER_POWERS,
    based_digits,
    decimal_comma,
    join_thousands,
    mixed_number,
    number_of_words,
    ordinal_value,
    plain_decimal,
    ratio_in_words,
    time_in_words,
    unify_number,
)
from grading.phrases import (
    last_line,
    read_labels,
    read_list_words,
    split_choice,
    split_condition,
    strip_lead_in,
)
from grading.units import read_compound_quantity, split_currency, split_unit
from grading.wording import canonical_phrase, is_prose

__all__ = [
    "MAX_CHARS",
    "CleanAnswer",
    "clean_answer",
    "decimal_comma",
    "join_thousands",
    "plain_decimal",
]

MAX_CHARS = 20_000
"""Longer answers are compared as strings and plain decimals only."""


@dataclass(frozen=True, slots=True)
class CleanAnswer:
    """What an answer says. Every field but `body` is "" where the text has none.

    `body`: what the parser reads. `unit`: a known trailing unit in its one spelling, for
    `grading.units.unit_ratio`. `condition`: what is said of the letters, in one spelling; two
    different conditions do not contradict each other where one is missing. `choice`: the
    letter of a multiple-choice option; `body` is then the value beside it, or the letter.
    """

    body: str
    unit: str = ""
    condition: str = ""
    choice: str = ""


def clean_answer(text: str) -> CleanAnswer:
    """Spell an answer of at most `MAX_CHARS` characters uniformly and set its extras aside."""
    text = text.strip(" \n")
    if _PLAIN_NUMBER.fullmatch(text) is not None:
        return CleanAnswer(text)
    if text[-1:] in _CLOSERS:
        text = _without_closers(text)
    if not text.isascii() and (choice := _CHINESE_CHOICE.fullmatch(text)) is not None:
        return CleanAnswer(choice[1], choice=choice[1] if len(choice[1]) == 1 else "")
    body = unify_latex(unify_characters(_mark_dollars(last_line(text))))
    if "\\text" in body:
        body = _TEXT.sub(_rewrite_text, _mathematics_in_text(body))
    if body[-1:] in ("}", ")"):
        body = _without_outer_brackets(body)
    if (turned := _NUMBER_AFTER_PI.fullmatch(body)) is not None:
        body = turned[1] + "\\pi"
    if "^" in body:
        body = _RAISED_ORDINAL.sub(r"\1", body)
    if " & " in body and "\\begin" not in body:
        body = body.replace(" & ", " and ")
    if "..." in body:
        body = _GOES_ON.sub(r"\1\\ldots ", body)
    body = _strip_ends(body)
    if _LETTERS_RUN.search(body) is None:
        return _clean_formula(body)
    if "\n" in text and _BROKEN_INLINE.search(text) is not None:
        return CleanAnswer(body)
    return _clean_worded(body)


_QUOTES = {'"': '"', "'": "'", "`": "`", "”": "“", "’": "‘"}
"""Closing quotes with what opens them."""
_CLOSERS = frozenset((*_QUOTES, *"∎■□✓✔✅.D*"))
_PROVEN = re.compile(r"(?<=\S)[\s.,;]{0,8}(?:[∎■□✓✔✅]|(?<![A-Za-z])(?:Q\.E\.D\.?|QED\.?))\Z")
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]+)?")
_CHINESE_CHOICE = re.compile(
    r"(?:故|应|应该|因此|所以)?(?:选|选择|选项|答案|答案是|答案为|正确选项是|正确答案是)\s?[:：为是]?\s?"
    r"[(（]?([A-H]{1,6})[)）]?\s?[.。]?"
)
_LETTERS_RUN = re.compile(
    r"(?<![A-Za-z\\{])[A-Za-z]{2,}|(?<![A-Za-z\\])[A-J][.:)]|\\text|\\in(?![A-Za-z])|\\forall"
)
_BROKEN_INLINE = re.compile(r"[A-Za-z:]\s?(?:(?<!\$)\$(?!\$)|\\\()\s*\n")
"""An inline formula does not span lines, so none is taken out of a sentence like that."""
_ONLY_TEXT = re.compile(r"\\text\s?\{([A-Za-z0-9][A-Za-z0-9 ,.;:'\"!?-]*)\}")
_TEXT = re.compile(r"\\text\s?\{([^{}]*)\}")
_TEXT_AROUND = re.compile(r"\\text\s?\{(.*)\}", re.DOTALL)
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
_SIGN = re.compile(r"[\\,(\[=^_+]|\d\s?-|-\s?\d")
_ENDS_OPEN = re.compile(r"[-+=^_]\s*\Z")
_QUANTITY = re.compile(r"[-+]?\d[\d.,/]*\s*\\text\s?\{[^{}]*\}[\^{}\d\s]*")
_NUMBER_AFTER_PI = re.compile(r"\\pi\s+(\d{1,50}(?:\.\d{1,50})?)")
_DOLLAR_AMOUNT = re.compile(r"\\\$|(?<=\d)\s?\$(?!\$)|\$(?=\s?[-+]?[\d.])")
_AFTER_DOLLAR = re.compile(r"(¤)\s[A-Za-z.\s]+$")
_POINT_IN_BRACKET = re.compile(r"(?<![.\d])\.(?=\s*[\])}])")
_APPROXIMATELY = re.compile(r"\\approx(?![A-Za-z])")
_PURE_TEXT = re.compile(r"[A-Za-z][A-Za-z \-']*")
_RAISED_ORDINAL = re.compile(r"(?<=\d)\s?\^\s?\{\s?(?:\\text\s?\{\s?)?(st|nd|rd|th)\s?\}{1,2}")
_GOES_ON = re.compile(r"(\.\d{2,}\s?|,\s?)\.{3,}")
_LETTER_LIST = re.compile(r"\s*[A-Za-z](?:\s*,?\s+(?:and|or)\s+[A-Za-z]|\s*,\s*[A-Za-z])+\s*")
_ORDINAL_THING = re.compile(
    r"(?:the )?(\d{1,30}\s?\^?\s?\{?\s?(?:st|nd|rd|th)\s?\}?|[A-Za-z]{5,11})(?: [A-Za-z]+){0,2}",
    re.IGNORECASE,
)
_NOT_FOR_TEXT = re.compile(r"\\text(?![A-Za-z])|[{}\\]+")
_COMPARED = re.compile(r"[<>]|\\[gln]e(?![A-Za-z])")


def _clean_formula(body: str) -> CleanAnswer:
    """A body without words: only numbers, signs and single letters."""
    body, unit = split_currency(body)
    if "\\approx" in body:
        body = _approximation_dropped(body)
    condition = ""
    if ("," in body or "(" in body) and _COMPARED.search(body) is not None:
        body, condition = split_condition(body)
    if not unit:
        body, unit = split_unit(body)
    return CleanAnswer(_strip_ends(unify_number(body.strip())), unit, condition)


def _clean_worded(body: str) -> CleanAnswer:
    if (time := time_in_words(body)) is not None:
        return CleanAnswer(*time)
    if (words := _ONLY_TEXT.fullmatch(body)) is not None:
        body = _strip_ends(words[1])
    if (formula := canonical_phrase(body)) is not None:
        return CleanAnswer(formula)
    if _LETTER_LIST.fullmatch(body) is not None:
        return CleanAnswer(read_list_words(body))
    body = _strip_ends(strip_lead_in(body))
    body, choice = split_choice(body)
    if (formula := canonical_phrase(body)) is not None:
        return CleanAnswer(formula, choice=choice)
    body, condition = split_condition(body)
    body, currency = split_currency(body)
    body = _approximation_dropped(_strip_ends(_AFTER_DOLLAR.sub(r"\1", body)))
    spoken = _TEXT.sub(r" \1 ", body) if "\\text" in body else body
    if (number := phrase_value(spoken) or _number_in_words(body)) is not None:
        return CleanAnswer(number, currency, condition, choice)
    if _PURE_TEXT.fullmatch(body) is not None:
        return CleanAnswer(body, currency, condition, choice)
    for spell in (mixed_number, based_digits, ratio_in_words):
        if (number := spell(body)) is not None:
            return CleanAnswer(number, currency, condition, choice)
    if (quantity := read_compound_quantity(body)) is not None:
        return CleanAnswer(quantity[0], quantity[1], condition, choice)
    body = read_list_words(read_labels(body))
    body, unit = split_unit(body)
    body = _strip_ends(unify_number(_strip_ends(body)))
    if is_prose(body):
        body = f"\\text{{{' '.join(_NOT_FOR_TEXT.sub(' ', body).split())}}}"
    return CleanAnswer(body, unit or currency, condition, choice)


def _mark_dollars(text: str) -> str:
    """A dollar sign that means money becomes `¤`; delimiters of mathematics stay."""
    if "$" not in text:
        return text
    text = text.replace("US$", "¤")
    if "\\$" in text:
        text = text.replace("\\$", "¤")
    if text.count("$") == 1:
        text = _AFTER_DOLLAR.sub(r"\1", _DOLLAR_AMOUNT.sub("¤", text))
    return text


def _rewrite_text(match: re.Match[str]) -> str:
    content = match[1].strip(" ,.;:")
    word = content.casefold()
    if word in ("and", "or"):
        return f" {word} "
    if word in ("percent", "percentage", "pct"):
        return "%"
    if word in ("degree", "degrees"):
        return "^\\circ "
    if word in NUMBER_POWERS:
        return f"\\times 10^{{{NUMBER_POWERS[word]}}}"
    if content in FUNCTION_NAMES:
        return f"\\{content} "
    if word == "pi":
        return "\\pi "
    if len(content) > 2 and content[0] == "(" and content[-1] == ")" and len(content) == 3:
        return content
    if len(content) <= 1 or not any(sign.isalpha() for sign in content):
        return match[0] if _is_unit_letter(match, content) else match[1]
    return f"\\text{{{match[1].strip()}}}"


def _without_closers(text: str) -> str:
    """Without signs that end a proof, and without quotes or asterisks around all of it."""
    if text[-1] == "*" and text[0] == "*" and len(text) > 2 and "*" not in text[1:-1]:
        return text[1:-1].strip()
    text = text[:-16] + _PROVEN.sub("", text[-16:])
    opener = _QUOTES.get(text[-1:])
    if opener is None or text[0] != opener:
        return text
    inside = text.strip(opener + text[-1]).strip(" \n")
    return text if not inside or opener in inside or text[-1] in inside else inside


def _mathematics_in_text(body: str) -> str:
    r"""The inside of `\text{(-\sqrt{3}, 1)}`, which is no words."""
    inside = _TEXT_AROUND.fullmatch(body)
    if inside is not None and 0 <= inside[1].find("}") < inside[1].find("{"):
        return body
    if inside is None or not is_balanced(inside[1]) or _WORD.search(inside[1]) is not None:
        return body
    is_formula = _SIGN.search(inside[1]) is not None and _ENDS_OPEN.search(inside[1]) is None
    return inside[1].strip() if is_formula else body


def _without_outer_brackets(body: str) -> str:
    r"""`{58,500}` and `(5 \text{cents})` without what only holds them together."""
    inside = body[1:-1].strip()
    if body[0] == "{" and join_thousands(inside) != inside:
        return inside
    is_quantity = body[0] + body[-1] in ("()", "{}") and _QUANTITY.fullmatch(inside) is not None
    return inside if is_quantity and split_unit(inside)[1] else body


def _is_unit_letter(match: re.Match[str], content: str) -> bool:
    r"""`5 \text{m}` and `\frac{\text{m}}{\text{s}}`, but not the `e` of `2\text{e}`."""
    before = match.string[: match.start()].rstrip()[-1:]
    return content in UNIT_LETTERS and (before.isdigit() or before in ("}", ")", "{", "/"))


def _strip_ends(text: str) -> str:
    previous = None
    while previous != text:
        previous = text
        text = text.strip().removesuffix("\\").rstrip(" .,;:").lstrip(" ,;:")
    if text[:2] == "= ":
        text = text[2:].lstrip()
    if "." in text and text[-1:] in ")]}":
        text = _POINT_IN_BRACKET.sub("", text)
    if len(text) > 1 and text[-1] in "})]" and not is_balanced(text) and is_balanced(text[:-1]):
        text = text[:-1].rstrip()
    return text


def _approximation_dropped(body: str) -> str:
    r"""`\frac{1}{3} \approx 0.33` says a third; `x \approx 1.3` says 1.3."""
    parts = _APPROXIMATELY.split(body, maxsplit=1)
    if len(parts) == 1:
        return body
    return "=".join(parts) if len(parts[0].strip()) <= 1 else parts[0].strip()


def _number_in_words(body: str) -> str | None:
    """Digits for `five`, `five apples`, `15th day`, `third`; None where no number is spelled."""
    if _PURE_TEXT.fullmatch(body) is None:
        ordinal = _ORDINAL_THING.fullmatch(body)
        if ordinal is None or is_ordinal_of(body.casefold().split()):
            return None
        value = ordinal_value(ordinal[1])
        return None if value is None else str(value)
    words = body.casefold().split()
    for stop in (len(words), len(words) - 1):
        value = number_of_words(" ".join(words[:stop])) if stop > 0 else None
        if value is None or changes_number(words[stop:]):
            continue
        is_whole = value.denominator == 1
        return str(value) if is_whole else f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
    value = ordinal_value(words[0]) if len(words) == 1 else None
    return None if value is None else str(value)
