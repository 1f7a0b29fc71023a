r"""Units and currencies: what an answer's number counts, set aside in one spelling.

A unit is written `km`, `cm^2`, `km*h^-1`, `dollar`. Units of one dimension convert by exact
ratios. One bare letter is a unit only inside a text command or a quotient of units, since it
may be a variable (`2t`). Words for counted things (apples, ways) are no units: they are
dropped after a plain number.
"""

import re
from fractions import Fraction
from functools import lru_cache

from grading.modifiers import changes_number, is_ordinal_of
from grading.numerals import (
    MULTIPLES,
    NUMBER_POWERS,
    NUMBER_WORDS,
    number_of_words,
    ordinal_value,
)

__all__ = [
    "CURRENCY_SIGNS",
    "read_compound_quantity",
    "split_currency",
    "split_unit",
    "unit_ratio",
]

CURRENCY_SIGNS = "¤£€¥₹₽₩"
"""`¤` stands for a dollar sign that is not a mathematics delimiter."""


def unit_ratio(gold_unit: str, answer_unit: str) -> Fraction | None:
    """The factor that turns a number of answer units into gold units, exactly.

    1 where the units are the same or one side has none; None where the dimensions differ.
    """
    if gold_unit == answer_unit or not gold_unit or not answer_unit:
        return Fraction(1)
    if {gold_unit, answer_unit} == {"pound", "pound-sterling"}:
        return Fraction(1)
    gold, answer = _measure(gold_unit), _measure(answer_unit)
    if gold is None or answer is None or gold[0] != answer[0]:
        return None
    return answer[1] / gold[1]


def split_currency(body: str) -> tuple[str, str]:
    """Take the currency signs out of a body; the unit is "" where they are of two kinds."""
    if (code := _CURRENCY_CODE.match(body)) is not None:
        return body[code.end() :], _SPELLED[code[1].casefold()]
    found = {sign for sign in CURRENCY_SIGNS if sign in body}
    if not found:
        return body, ""
    body = " ".join(_CURRENCY.sub(" ", body).split())
    return body, _CURRENCIES[found.pop()] if len(found) == 1 else ""


def read_compound_quantity(body: str) -> tuple[str, str] | None:
    r"""`2 hours 30 minutes` → (`\frac{5}{2}`, `hour`); None where it is no such quantity."""
    parts = _COMPOUND_QUANTITY.fullmatch(body)
    if parts is None and body.count("\\text") > 1:
        # The joining word may stand in a text command: `2 \text{ hours and } 30 \text{ minutes}`.
        parts = _COMPOUND_QUANTITY.fullmatch(" ".join(_TEXT.sub(r" \1 ", body).split()))
    if parts is None:
        return None
    units = [_SPELLED.get(parts[index].casefold(), "") for index in (2, 4)]
    ratio = unit_ratio(units[0], units[1]) if all(units) else None
    if ratio is None or units[0] == units[1]:
        return None
    count = Fraction(parts[3]) if parts[3][0].isdigit() else number_of_words(parts[3])
    if count is None:
        return None
    total = Fraction(parts[1]) + count * ratio
    return f"\\frac{{{total.numerator}}}{{{total.denominator}}}", units[0]


def split_unit(body: str) -> tuple[str, str]:
    r"""Set a trailing unit aside: `35 \text{cm}` → (`35`, `cm`).

    Percent and degree words turn into signs, `million` and the like into powers of ten.
    """
    if ("," in body or ";" in body) and _ITEM_UNIT.search(body) is not None:
        bare, unit = _units_of_items(body)
        rest, last = split_unit(bare) if unit else (bare, "")
        return (rest, unit) if last in ("", unit) else (body, "")
    if body[-1:].isdigit() and "^" not in body and "\\text" not in body:
        return body, ""
    multiple = _MULTIPLE_OF_THINGS.search(body)
    if multiple is not None and _NUMBER.fullmatch(body[: multiple.start()]):
        number, things = body[: multiple.start()], body[multiple.end() :]
        factor = MULTIPLES[multiple[2].casefold()]
        body = f"{number}\\times {factor} {multiple[1] or ''}{things}"
    patterns = (_QUOTIENT_IN_TEXT, _FRACTION_OF_TEXTS) if body.count("\\text") > 1 else ()
    for pattern in patterns:
        if (match := pattern.match(body)) is not None:
            unit = _unit_of(f"{match[2]}/{match[3]}", match[4] or "", is_text=True)
            if unit:
                return match[1].rstrip(), unit
    if "\\text" in body and (trailing := _TRAILING_TEXT.match(body)) is not None:
        return _after_text(body, trailing)
    if (temperature := _TEMPERATURE.match(body)) is not None:
        return temperature[1].rstrip(), f"degree-{temperature[2].casefold()}"
    if (trailing := _TRAILING_WORDS.match(body)) is None:
        return body, ""
    return _after_number(body, trailing)


_Dimension = tuple[tuple[str, int], ...]

_NAMES: dict[str, tuple[str, str, str]] = {
    # canonical name: dimension, exact factor, spellings
    "m": ("length", "1", "meter meters metre metres m"),
    "cm": ("length", "1/100", "centimeter centimeters centimetre centimetres cm cms"),
    "mm": ("length", "1/1000", "millimeter millimeters millimetre millimetres mm"),
    "dm": ("length", "1/10", "decimeter decimeters decimetre decimetres dm"),
    "km": ("length", "1000", "kilometer kilometers kilometre kilometres km kms"),
    "nm": ("length", "1/1000000000", "nanometer nanometers nm"),
    "micrometer": ("length", "1/1000000", "micrometer micrometers micron microns"),
    "inch": ("length", "127/5000", "inch inches in. in"),
    "foot": ("length", "381/1250", "foot feet ft ft."),
    "yard": ("length", "1143/1250", "yard yards yd yd. yds"),
    "mile": ("length", "201168/125", "mile miles mi"),
    "kg": ("mass", "1000", "kilogram kilograms kilogramme kg kgs"),
    "gram": ("mass", "1", "gram grams gramme grammes g gm"),
    "mg": ("mass", "1/1000", "milligram milligrams mg"),
    "tonne": ("mass", "1000000", "tonne tonnes"),
    "ton": ("weight", "2000", "ton tons"),
    "pound": ("weight", "1", "pound pounds lb lbs lb. lbs."),
    "ounce": ("weight", "1/16", "ounce ounces oz oz."),
    "second": ("time", "1", "second seconds sec secs sec. s"),
    "millisecond": ("time", "1/1000", "millisecond milliseconds ms"),
    "minute": ("time", "60", "minute minutes min mins min."),
    "hour": ("time", "3600", "hour hours hr hrs hr. h"),
    "day": ("time", "86400", "day days"),
    "week": ("time", "604800", "week weeks"),
    "month": ("months", "1", "month months"),
    "year": ("months", "12", "year years yr yrs"),
    "liter": ("volume", "1", "liter liters litre litres l"),
    "ml": ("volume", "1/1000", "milliliter milliliters millilitre millilitres ml"),
    "gallon": ("gallons", "1", "gallon gallons gal"),
    "quart": ("gallons", "1/4", "quart quarts"),
    "pint": ("gallons", "1/8", "pint pints"),
    "cup": ("gallons", "1/16", "cup cups"),
    "dollar": ("dollar", "1", "dollar dollars usd bucks"),
    "cent": ("dollar", "1/100", "cent cents"),
    "pound-sterling": ("sterling", "1", "gbp quid"),
    "penny": ("sterling", "1/100", "pence"),
    "euro": ("euro", "1", "euro euros eur"),
    "yuan": ("yuan", "1", "yuan rmb cny yen jpy"),
    "jiao": ("yuan", "1/10", "jiao"),
    "rupee": ("rupee", "1", "rupee rupees rs rs. inr"),
    "paisa": ("rupee", "1/100", "paise paisa"),
    "ruble": ("ruble", "1", "ruble rubles rouble roubles rub"),
    "won": ("won", "1", "krw"),
    "radian": ("angle", "1", "radian radians rad rads"),
    "unit": ("unit", "1", "unit units u."),
    "newton": ("force", "1", "newton newtons n"),
    "kn": ("force", "1000", "kilonewton kilonewtons kn"),
    "joule": ("energy", "1", "joule joules j"),
    "kj": ("energy", "1000", "kilojoule kilojoules kj"),
    "kwh": ("energy", "3600000", "kilowatt-hour kilowatt-hours kwh"),
    "watt": ("power", "1", "watt watts w"),
    "kw": ("power", "1000", "kilowatt kilowatts kw"),
    "volt": ("voltage", "1", "volt volts v"),
    "ampere": ("current", "1", "ampere amperes amp amps"),
    "hertz": ("frequency", "1", "hertz hz"),
    "pascal": ("pressure", "1", "pascal pascals pa"),
    "kpa": ("pressure", "1000", "kilopascal kilopascals kpa"),
    "mpa": ("pressure", "1000000", "megapascal megapascals mpa"),
    "kelvin": ("kelvin", "1", "kelvin kelvins k"),
    "mole": ("mole", "1", "mole moles mol"),
    "am": ("clock", "1", "am a.m. a.m"),
    "pm": ("clock-pm", "1", "pm p.m. p.m"),
}
_SPELLED = {spelling: name for name, (_, _, all_) in _NAMES.items() for spelling in all_.split()}
_COMPOUND = {"mph": "mile/hour", "kph": "km/hour", "kmph": "km/hour", "kmh": "km/hour",
             "sqft": "foot^2", "cc": "cm^3", "acres": "acre", "acre": "acre",
             "hectares": "hectare", "hectare": "hectare", "ha": "hectare",
             **{f"{degree} {scale}": f"degree-{scale[0]}" for degree in ("degree", "degrees")
                for scale in ("celsius", "fahrenheit", "c", "f")}}  # fmt: skip
_CURRENCIES = {"¤": "dollar", "£": "pound-sterling", "€": "euro", "¥": "yuan", "₹": "rupee",
               "₽": "ruble", "₩": "won"}  # fmt: skip
_CURRENCY_CODE = re.compile(r"(usd|eur|gbp|inr|rs|rmb|cny|jpy)\.?\s?(?=[-+]?[\d.])", re.IGNORECASE)
_CURRENCY = re.compile(rf"\s?[{CURRENCY_SIGNS}]\s?")
_SHORT = frozenset(spelling for spelling in _SPELLED if len(spelling) == 1)
_AMBIGUOUS_PLAIN = _SHORT | {"in", "u."}

_DOMAINS = frozenset(("whole", "integer", "integers", "real", "numbers", "number"))
"""Words that say what a letter before them is; a plain number counts them."""
_REASONS = frozenset(("because", "since", "altogether"))
_PERCENT_WORDS = frozenset(("percent", "percents", "percentage", "pct", "per cent"))
_DEGREE_WORDS = frozenset(("degree", "degrees", "deg"))
_SQUARE = {"square": "2", "sq": "2", "sq.": "2", "cubic": "3", "cu": "3", "cu.": "3"}

_POWER = r"(\^\s?\{?\s?(?:-\s?[123]|[23])\s?\}?)?"
_TRAILING_TEXT = re.compile(r"^(.*\S)\s*\\text\s?\{([^{}]*)\}\s*" + _POWER + r"\s*$", re.DOTALL)
_QUOTIENT_IN_TEXT = re.compile(
    r"^(.*?\S)\s*\\text\s?\{([^{}]*)\}\s*/\s*\\text\s?\{([^{}]*)\}\s*" + _POWER + r"\s*$",
    re.DOTALL,
)
_FRACTION_OF_TEXTS = re.compile(
    r"^(.*?\S)\s*\\frac\s?\{\s*\\text\s?\{([^{}]*)\}\s*\}\s*\{\s*\\text\s?\{([^{}]*)\}\s*"
    + _POWER
    + r"\s*\}\s*$",
    re.DOTALL,
)
_TEMPERATURE = re.compile(r"^(.*\d)\s*\^\s?\\circ\s*(?:\\text\s?\{)?([CF])\}?$", re.DOTALL)
_TRAILING_WORDS = re.compile(
    r"^(.*?(?:[\d})%!]|\\pi(?=\s)))(\s*)([A-Za-z][A-Za-z. ]*(?:/ ?[A-Za-z]+)?)\s*"
    + _POWER
    + r"\s*$",
    re.DOTALL,
)
_NUMBER = re.compile(r"(?:[\d\s.,^{}()+*/!-]|\\(?:times|cdot|frac|sqrt|pi|binom)(?![A-Za-z]))+")
_MULTIPLE_OF_THINGS = re.compile(
    rf"(?<=\d)\s*(\\text\s?\{{\s*)?(?<![A-Za-z])({'|'.join(MULTIPLES)})\s+(?:of\s+)?(?=[A-Za-z])",
    re.IGNORECASE,
)
_GROUPED_DECIMAL = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NUMERIC = re.compile(r"\d|\\pi|\\sqrt|\\infty")
_ENDS_IN_COMMAND = re.compile(r"\\(?!pi$)[A-Za-z]*$")
_UNIT_PIECE = re.compile(r"\s*([A-Za-z]+\.?)\s*(?:\^\s?\{?\s?(-?\d)\s?\}?)?")
_ITEM_UNIT = re.compile(
    r"(?<=[\d})])\s?(?:\\text\s?\{\s?([A-Za-z]{2,12})\s?\}|(?<=\s)([A-Za-z]{2,12}))(?=\s?[,;)\]}])"
)
_SPOKEN = "(?:" + "|".join(sorted(NUMBER_WORDS)) + ")"
_COUNT = rf"\d{{1,20}}(?:\.\d{{1,20}})?|{_SPOKEN}(?:[ -]{_SPOKEN})?"
_TEXT = re.compile(r"\\text\s?\{([^{}]*)\}")
_UNIT_WORD = r"(?:\\text\s?\{\s?)?([A-Za-z]{2,12})\s?\}?"
_COMPOUND_QUANTITY = re.compile(
    rf"(\d{{1,20}})\s?{_UNIT_WORD}\s?,?\s?(?:and\s)?\s?({_COUNT})\s?{_UNIT_WORD}",
    re.IGNORECASE,
)
_NOT_POWER = re.compile(r"[^-\d]")


def _units_of_items(body: str) -> tuple[str, str]:
    r"""`5 \text{cm}, 6 \text{cm}` → (`5, 6`, `cm`); items of several units are left alone."""
    words = [match[1] or match[2] for match in _ITEM_UNIT.finditer(body)]
    units = {_SPELLED.get(word.casefold(), "") for word in words}
    if len(units) != 1 or "" in units:
        return body, ""
    return _ITEM_UNIT.sub("", body), units.pop()


def _after_text(body: str, trailing: re.Match[str]) -> tuple[str, str]:
    rest, content = trailing[1].rstrip(" ,"), trailing[2].strip(" ,.;")
    phrase = content.casefold()
    if (sign := _sign_of_word(phrase)) is not None:
        return rest + sign, ""
    if ordinal_value("0" + phrase) is not None and rest[-1:].isdigit():
        return rest, ""
    unit = _unit_of(phrase, trailing[3] or "", is_text=True)
    if unit:
        return rest, unit
    words = phrase.replace("(", " ").replace(")", " ").split()
    if words[:2] == ["of", "the"] and all(len(word) > 1 for word in words):
        words = words[2:]
    is_counted = words and not changes_number(words) and not trailing[3]
    if not _NUMBER.fullmatch(rest) and not _DOMAINS.isdisjoint(words):
        is_counted = False
    if is_counted and _NUMERIC.search(rest) and min(map(len, words[:1])) > 1:
        return rest, ""
    return body, ""


def _after_number(body: str, trailing: re.Match[str]) -> tuple[str, str]:
    rest, gap, phrase, power = trailing[1], trailing[2], trailing[3].strip(), trailing[4] or ""
    if _ENDS_IN_COMMAND.search(rest) is not None:
        return body, ""
    folded = phrase.casefold()
    if (sign := _sign_of_word(folded)) is not None:
        return rest + sign, ""
    words = folded.split()
    if ordinal_value(rest[-1] + words[0]) is not None and not gap:
        return (body, "") if is_ordinal_of(words[1:]) else (rest, "")
    is_measured = _GROUPED_DECIMAL.fullmatch(rest) is not None
    is_inches = folded == "in" and bool(gap)
    if unit := _unit_of(folded, power, is_text=is_measured or is_inches):
        return rest, unit
    is_counted = gap and _NUMBER.fullmatch(rest) and len(words[0]) >= 3 and not power
    if not is_counted or any(len(word) == 1 for word in words):
        return body, ""
    is_thing = not changes_number(words) and number_of_words(words[0]) is None
    return (rest, "") if is_thing or words[0] in _REASONS else (body, "")


def _sign_of_word(phrase: str) -> str | None:
    if phrase in _PERCENT_WORDS:
        return "%"
    if phrase in _DEGREE_WORDS:
        return "^\\circ "
    if phrase == "dozen":
        return "\\times 12"
    if phrase in NUMBER_POWERS:
        return f"\\times 10^{{{NUMBER_POWERS[phrase]}}}"
    return None


# -- one spelling -------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _unit_of(phrase: str, power: str, *, is_text: bool) -> str:
    """The canonical unit of a phrase such as `km/h`, `square feet`, `m s^{-1}`; else ""."""
    phrase = phrase.strip().casefold().replace(" per ", "/").replace("\\cdot", " ")
    if phrase.startswith("per "):
        phrase = "unit/" + phrase[4:]
    if len(phrase) > 60:
        return ""
    upper, _, lower = phrase.partition("/")
    factors: dict[str, int] = {}
    if not _collect(upper, factors, 1) or (lower and not _collect(lower, factors, -1)):
        return ""
    if power:
        last = list(factors)[-1]
        factors[last] *= int(_NOT_POWER.sub("", power))
    is_bare = len(factors) == 1 and not lower and phrase in _AMBIGUOUS_PLAIN
    if is_bare and not is_text:
        return ""
    return _spell(factors)


def _collect(phrase: str, factors: dict[str, int], sign: int) -> bool:
    """Add the units of a product to `factors`; whether every word is known."""
    if phrase.strip() in _COMPOUND:
        for name, exponent in _factors_of(_COMPOUND[phrase.strip()]).items():
            factors[name] = factors.get(name, 0) + sign * exponent
        return True
    if (name := _SPELLED.get(phrase.strip())) is not None:
        factors[name] = factors.get(name, 0) + sign
        return True
    position, exponent = 0, 1
    while position < len(phrase.rstrip()):
        piece = _UNIT_PIECE.match(phrase, position)
        if piece is None:
            return False
        position = piece.end()
        word = piece[1]
        if word in _SQUARE:
            exponent = int(_SQUARE[word])
            continue
        if word == "squared" and factors:
            factors[list(factors)[-1]] *= 2
            continue
        name = _SPELLED.get(word) or _SPELLED.get(word.rstrip("."))
        if name is None:
            return False
        factors[name] = factors.get(name, 0) + sign * exponent * int(piece[2] or 1)
        exponent = 1
    return bool(factors)


def _factors_of(unit: str) -> dict[str, int]:
    """`km*hour^-1` and `km/hour` as exponents by name."""
    factors: dict[str, int] = {}
    sign = 1
    for part in re.split(r"([*/])", unit):
        if part in ("*", "/"):
            sign = 1 if part == "*" else -1
            continue
        name, _, exponent = part.partition("^")
        factors[name] = factors.get(name, 0) + sign * int(exponent or 1)
    return factors


def _spell(factors: dict[str, int]) -> str:
    kept = [(name, exponent) for name, exponent in sorted(factors.items()) if exponent]
    if len(kept) > 1:
        kept = [item for item in kept if item[0] != "unit"]
    return "*".join(name if exponent == 1 else f"{name}^{exponent}" for name, exponent in kept)


def _measure(unit: str) -> tuple[_Dimension, Fraction] | None:
    """Dimension and size in base units; a volume in litres is a cube of length."""
    dimension: dict[str, int] = {}
    size = Fraction(1)
    for name, exponent in _factors_of(unit).items():
        if name not in _NAMES:
            return None
        kind, factor, _ = _NAMES[name]
        scale = Fraction(factor)
        if kind == "volume":
            kind, scale, exponent_of_kind = "length", scale / 1000, 3 * exponent
        else:
            exponent_of_kind = exponent
        dimension[kind] = dimension.get(kind, 0) + exponent_of_kind
        size *= scale**exponent
    return tuple(sorted(dimension.items())), size
