"""An answer as models write it → one spelling for the parser.

Covers Unicode signs, LaTeX spacing and delimiters, currency signs, digit grouping, words
between list items, percent and degree words, number words such as million, and trailing
units. It never drops letters that may be variables: one bare letter is no unit.

Everything here is linear in the text; callers bound the length first (`MAX_CHARS`).
"""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

MAX_CHARS = 20_000
"""Longer answers are compared as strings and plain decimals only."""


@dataclass(frozen=True, slots=True)
class CleanAnswer:
    """`body` is what the parser reads; `unit` a known trailing unit, "" where none."""

    body: str
    unit: str


def clean_answer(text: str) -> CleanAnswer:
    """Spell an answer of at most `MAX_CHARS` characters uniformly and set its unit aside."""
    body = _unify_latex(_unify_unicode(text))
    body = _TEXT_COMMAND.sub(_rewrite_text, body)
    body = _strip_ends(body)
    if (lead := _LEAD_IN.match(body)) is not None:
        body = body[lead.end() :]
    body = _approximation_dropped(body)
    body, unit = _split_unit(body)
    if not _PURE_TEXT.fullmatch(body) or _LETTER_LIST.fullmatch(body):
        body = _LIST_WORD.sub(",", body)
    return CleanAnswer(_strip_ends(_unify_number(body)), unit)


def join_thousands(body: str) -> str:
    """Remove the commas of an answer that is one number with well-formed grouping."""
    return body.replace(",", "") if _GROUPED_BY_COMMA.fullmatch(body) else body


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


_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_GREEK_NAMES = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho
    - sigma tau upsilon phi chi psi omega
"""
_SIGNS: dict[int, str] = {
    **{ord(sign): "-" for sign in "−–—‐‑‒"},
    **{ord(sign): "" for sign in "\u200b\u200c\u200d\u2060\ufeff\u00ad"},
    **{
        code: f"\\{name} "
        for code, name in enumerate(_GREEK_NAMES.split(), start=ord("α"))
        if name != "-"
    },
    **str.maketrans(
        {
            "×": "\\times ", "⋅": "\\cdot ", "·": "\\cdot ", "∙": "\\cdot ", "÷": "/", "⁄": "/",
            "√": "\\sqrt ", "∞": "\\infty ", "≤": "\\le ", "≥": "\\ge ", "⩽": "\\le ",
            "⩾": "\\ge ", "≠": "\\ne ", "±": "\\pm ", "∓": "\\mp ", "∪": "\\cup ",
            "∈": "\\in ", "≈": "\\approx ", "°": "^\\circ ", "ℝ": "\\mathbb{R}", "、": ",",
            "∅": "\\emptyset ", "…": "\\ldots ", "£": "", "€": "", "¥": "", "₹": "", "：": ":",
            "∛": "\\sqrt[3]", "。": ".", "“": '"', "”": '"', "‘": "'", "’": "'",
        }
    ),
}  # fmt: skip
_SUPERSCRIPT_RUN = re.compile("[" + "".join(_SUPERSCRIPTS) + "]+")
_SUBSCRIPT_RUN = re.compile("[" + "".join(_SUBSCRIPTS) + "]+")
_VULGAR = re.compile("[¼-¾⅐-⅞]")

_LATEX_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:m?left|m?right|[bB]igg?[lrm]?|displaystyle|limits|mathstrut)(?![A-Za-z])", ""),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\dbinom(?![A-Za-z])|\\tbinom(?![A-Za-z])", r"\\binom"),
        (r"\\(?:leqslant|leqq|leq)(?![A-Za-z])", r"\\le "),
        (r"\\(?:geqslant|geqq|geq)(?![A-Za-z])", r"\\ge "),
        (r"\\neq(?![A-Za-z])", r"\\ne "),
        (r"\\(?:lvert|rvert|vert)(?![A-Za-z])", "|"),
        (r"\\(?:lbrace)(?![A-Za-z])", r"\\{"),
        (r"\\(?:rbrace)(?![A-Za-z])", r"\\}"),
        (r"\\degree(?![A-Za-z])|\^\s?\{\s?\\circ\s?\}", r"^\\circ "),
        (r"(?<=\d)(?:\{,\}|,\s{0,2}\\!)\s{0,2}(?=\d{3}(?!\d))", ""),
        (r"(?<=\d)\\[,;: ](?=\d{3}(?!\d))", " "),
        (r"(?<!\\)(?:\\[,;:! ]|~|\\quad(?![A-Za-z])|\\qquad(?![A-Za-z]))", " "),
        (r"\\%", "%"),
        (r"\\\\\s?\[\d+(?:pt|em|ex|mm|cm)\]", r"\\\\"),
        (r"\\?\$|(?<!\\)\\[()\[\]]", " "),
        (r"\*\*", "^"),
    )
)  # fmt: skip
_BOLD = re.compile(r"\*\*(.*?)\*\*\.?", re.DOTALL)

_TEXT_COMMAND = re.compile(
    r"\\(?:text|textbf|textit|textrm|textnormal|mbox|hbox|mathrm|mathbf|mathit|mathsf|operatorname"
    r")\s{0,3}\{([^{}]*)\}"
)
_FUNCTIONS = "sin cos tan cot sec csc ln log exp arcsin arccos arctan"
_FUNCTION_NAMES = frozenset(_FUNCTIONS.split())
_NUMBER_WORDS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_CONDITIONS = "if when where for is are not odd even with such unless mod"
_CONDITION_WORDS = frozenset(_CONDITIONS.split())
_PERCENT_WORDS = frozenset(("percent", "percents", "percentage", "pct"))

_LEAD_IN = re.compile(r"\\text\{[^{}]*\b(?:answer|is|are|equals)\b\s*:?\s*\}\s*")
_APPROXIMATELY = re.compile(r"\\approx(?![A-Za-z])|\\simeq(?![A-Za-z])")
_PURE_TEXT = re.compile(r"[A-Za-z][A-Za-z \-']*")
_LETTER_LIST = re.compile(r"\s*[A-Za-z](?:\s+(?:and|or)\s+[A-Za-z])+\s*")
_LIST_WORD = re.compile(r",?\s?(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")

_UNITS = """
    cm mm km dm nm inch inches in. ft foot feet yd yard yards mile miles mi meter meters metre
    metres centimeter centimeters kilometer kilometers millimeter millimeters kg mg gram grams lb
    lbs pound pounds oz ounce ounces ton tons liter liters litre litres ml gallon gallons cup cups
    second seconds sec secs minute minutes min mins hour hours hr hrs day days week weeks month
    months year years mph kph dollar dollars cent cents usd rupees euros unit units radians rad am
    pm square cubic sq people apples eggs students ways times
"""
_KNOWN_UNITS = frozenset(_UNITS.split())
_UNIT_SPELLINGS = {
    "inches": "inch", "in.": "inch", "ft": "foot", "feet": "foot", "yards": "yard", "yd": "yard",
    "mi": "mile", "meter": "m", "meters": "m", "metre": "m", "metres": "m", "centimeter": "cm",
    "centimeters": "cm", "kilometer": "km", "kilometers": "km", "millimeter": "mm",
    "millimeters": "mm", "lbs": "pound", "lb": "pound", "oz": "ounce", "hr": "hour", "hrs": "hour",
    "min": "minute", "mins": "minute", "sec": "second", "secs": "second", "s": "second",
    "h": "hour", "l": "liter", "litre": "liter", "litres": "liter", "kph": "km/hour",
    "mph": "mile/hour", "g": "gram", "usd": "dollar",
}  # fmt: skip
_SHORT_UNITS = frozenset("mgshl")
_TRAILING_TEXT = re.compile(
    r"^(.*\S)\s*\\text\{([^{}]*)\}\s*(\^\s?\{?\s?[23]\s?\}?)?\s*$", re.DOTALL
)
_TRAILING_WORDS = re.compile(
    r"^(.*?[\d})%])(\s*)([A-Za-z][A-Za-z. ]*(?:/ ?[A-Za-z]+)?)\s*(\^\s?\{?\s?[23]\s?\}?)?\s*$",
    re.DOTALL,
)
_NUMBER = re.compile(r"\s*[-+]?\s*(?:\d[\d, ]*)?(?:\.\d+)?(?:/\d+)?\s*")

_GROUPED_BY_SPACE = re.compile(r"[-+]?\d{1,3}(?: \d{3})+(?:\.\d+)?%?")
_GROUPED_BY_COMMA = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?%?")
_DECIMAL = re.compile(r"(?P<sign>[-+]?)(?P<whole>\d*)(?:\.(?P<part>\d+))?(?<=\d)")
_MIXED = re.compile(r"([-+]?\s?\d+)\s+(\d+)\s?/\s?(\d+)")
_SCIENTIFIC = re.compile(r"([-+]?\d+(?:\.\d+)?)[eE]([-+]?\d{1,6})")
_REPEATING = re.compile(r"(\d{0,50})\.(\d{0,50})\\(?:overline|bar)\s?\{(\d{1,50})\}")


def _unify_unicode(text: str) -> str:
    text = _SUPERSCRIPT_RUN.sub(
        lambda run: "^{" + "".join(_SUPERSCRIPTS[sign] for sign in run[0]) + "}", text
    )
    text = _SUBSCRIPT_RUN.sub(
        lambda run: "_{" + "".join(_SUBSCRIPTS[sign] for sign in run[0]) + "}", text
    )
    text = _VULGAR.sub(_vulgar_fraction, text).translate(_SIGNS)
    return unicodedata.normalize("NFKC", text).translate(_SIGNS)


def _vulgar_fraction(match: re.Match[str]) -> str:
    value = Fraction(unicodedata.numeric(match[0])).limit_denominator(10)
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def _unify_latex(text: str) -> str:
    if (bold := _BOLD.fullmatch(text.strip())) is not None:
        text = bold[1]
    for pattern, replacement in _LATEX_REWRITES:
        text = pattern.sub(replacement, text)
    return re.sub(r"\s+", " ", text)


def _rewrite_text(match: re.Match[str]) -> str:
    content = match[1].strip(" ,.;")
    word = content.casefold()
    if word in ("and", "or"):
        return f" {word} "
    if word in _PERCENT_WORDS:
        return "%"
    if word in ("degree", "degrees"):
        return "^\\circ "
    if word in _NUMBER_WORDS:
        return f"\\times 10^{{{_NUMBER_WORDS[word]}}}"
    if content in _FUNCTION_NAMES:
        return f"\\{content} "
    if len(content) == 1 or not re.search("[A-Za-z]", content):
        return match[1]
    if re.fullmatch(r"\([A-Z]\)", content):
        return content
    return f"\\text{{{content}}}"


def _strip_ends(text: str) -> str:
    previous = None
    while previous != text:
        previous = text
        text = text.strip().removesuffix("\\").rstrip(" .,;:").lstrip(" ,;:")
    return text


def _approximation_dropped(body: str) -> str:
    parts = _APPROXIMATELY.split(body, maxsplit=1)
    if len(parts) == 1:
        return body
    return "=".join(parts) if len(parts[0].strip()) <= 1 else parts[0]


def _split_unit(body: str) -> tuple[str, str]:
    if (trailing := _TRAILING_TEXT.match(body)) is not None:
        words = trailing[2].casefold().split()
        if words and not _CONDITION_WORDS.intersection(words):
            return trailing[1], _known_unit(" ".join(words), trailing[3])
        return body, ""
    match = _TRAILING_WORDS.match(body)
    if match is None or _ends_in_command(match[1]):
        return body, ""
    rest, gap, phrase, power = match[1], match[2], match[3].strip().casefold(), match[4]
    if phrase in _PERCENT_WORDS:
        return rest + "%", ""
    if phrase in ("degree", "degrees"):
        return rest + "^\\circ ", ""
    if phrase in _NUMBER_WORDS:
        return rest + f"\\times 10^{{{_NUMBER_WORDS[phrase]}}}", ""
    words = re.split(r"[ /]+", phrase)
    if words[0] in _KNOWN_UNITS or (len(words) > 1 and "/" in phrase and words[0] in _SHORT_UNITS):
        return rest, _known_unit(phrase, power)
    is_counted_thing = gap and _NUMBER.fullmatch(rest) and len(words[0]) >= 3 and not power
    if (
        is_counted_thing
        and not _CONDITION_WORDS.intersection(words)
        and words[0] not in ("and", "or")
    ):
        return rest, ""
    return body, ""


def _ends_in_command(text: str) -> bool:
    return re.search(r"\\[A-Za-z]*$", text) is not None


def _known_unit(phrase: str, power: str | None) -> str:
    if phrase in _SHORT_UNITS or any(word in _KNOWN_UNITS for word in re.split(r"[ /]+", phrase)):
        parts = [_UNIT_SPELLINGS.get(part, part.removesuffix("s")) for part in phrase.split("/")]
        return "/".join(parts) + re.sub(r"[^23]", "", power or "")
    return ""


def _unify_number(body: str) -> str:
    body = body.strip()
    if _GROUPED_BY_SPACE.fullmatch(body):
        return body.replace(" ", "")
    if (mixed := _MIXED.fullmatch(body)) is not None:
        return f"{mixed[1]}\\frac{{{mixed[2]}}}{{{mixed[3]}}}"
    if (scientific := _SCIENTIFIC.fullmatch(body)) is not None:
        return f"{scientific[1]}\\times 10^{{{scientific[2]}}}"
    return _REPEATING.sub(_repeating_fraction, body)


def _repeating_fraction(match: re.Match[str]) -> str:
    whole, fixed, cycle = match[1], match[2], match[3]
    numerator = int((whole + fixed + cycle) or "0") - int((whole + fixed) or "0")
    denominator = (10 ** len(cycle) - 1) * 10 ** len(fixed)
    return f"(\\frac{{{numerator}}}{{{denominator}}})"
