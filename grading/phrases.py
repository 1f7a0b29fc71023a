r"""Words around values: lead-ins, labels, conditions, choices, "and" and "or".

Each function takes and gives a body that `grading.latex` has unified. What limits a value
(`if x > 0`) or says what a letter runs over (`k \in \mathbb{Z}`) is set aside as a condition,
never lost; a label of one of several values stays as an equation `\text{label}=value`.
"""

import re
from itertools import pairwise

from grading.latex import FUNCTION_NAMES, is_balanced
from grading.modifiers import changes_name

__all__ = [
    "chosen_alike",
    "last_line",
    "limits_nothing",
    "read_labels",
    "read_list_words",
    "split_choice",
    "split_condition",
    "strip_lead_in",
]


def last_line(text: str) -> str:
    """The last line of a text whose earlier lines are prose; values on lines as a list.

    Else the whole text.
    """
    if "\n" not in text or "\\begin" in text:
        return text
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if 1 < len(lines) <= _MAX_ITEMS and all(map(_VALUE_LINE.fullmatch, lines)):
        return ", ".join(line.rstrip(",") for line in lines)
    if len(lines) < 2 or _LINE_WORD.search(lines[-1]) or not _LINE_WORD.search(lines[-2]):
        return text
    is_complete = all(lines[-1].count(sign) % 2 == 0 for sign in ("$", "\\]", "\\)"))
    return lines[-1] if is_complete and is_balanced(lines[-1]) else text


def strip_lead_in(body: str) -> str:
    """Drop "The answer is", "Thus", "We find that", "only", "is our answer"."""
    if (said := _IT_IS.match(body)) is not None:
        return said[1]
    if (lead := _LEAD_IN.match(body)) is not None and _SAYING.search(lead[0]) is not None:
        rest = body[lead.end() :].strip()
        if rest:
            body = rest
    if (thing := _THING.match(body)) is not None:
        body = body[thing.end() :]
    for pattern in (_TAIL, _ASIDE):
        if (tail := pattern.search(body)) is not None and tail.start() > 0:
            body = body[: tail.start()]
    return body


def split_choice(body: str) -> tuple[str, str]:
    """`(B) 12` and `Option B: 12` → (`12`, `B`); `Option B` → (`B`, `B`); else no choice."""
    if (alone := _CHOICE_ALONE.fullmatch(body)) is not None:
        letter = alone[1] or alone[2]
        return letter, letter
    if (valued := _CHOICE_AND_VALUE.match(body)) is not None:
        letter = valued[1] or valued[2] or valued[3]
        value = body[valued.end() :].strip()
        if _SAID_RIGHT.fullmatch(value) is not None:
            return letter, letter
        is_glued = value[:1].isalpha() and body[valued.end() - 1] == ")"
        if is_glued or _SAID_OF_CHOICE.match(value) is not None:
            return body, ""
        if value and _CHOICE_ITEM.search(value) is None and value[0] not in "+-*/^=<>(,:!_|":
            return value, letter
    return body, ""


def chosen_alike(gold: str, answer: str) -> bool:
    """Whether both name the same options: `ABD`, rising as in a key, and `D, A and B`."""
    for key, other in ((gold, answer), (answer, gold)):
        if _CHOSEN.fullmatch(key) is not None and all(a < b for a, b in pairwise(key)):
            return _LISTED.fullmatch(other) is not None and sorted(_LETTER.findall(other)) == [*key]
    return False


def split_condition(body: str) -> tuple[str, str]:
    r"""Set aside what is said of the letters: `2k\pi, k \in \mathbb{Z}` → (`2k\pi`, `integer`).

    The condition is in one spelling: a domain by its words, anything else without spaces.
    """
    if (leading := _FOR_ALL.match(body)) is not None:
        return body[leading.end() :].strip(), _spell_condition(leading[1])
    for pattern in (_WORDED, _DOMAIN, _BOUND):
        found = pattern.search(body)
        for _ in range(_MAX_STARTS):
            if found is None:
                break
            value, condition = body[: found.start()].rstrip(" ,;:"), body[found.start() :]
            if _is_complete(value) and _speaks_of(value, condition, pattern is _WORDED):
                return value, _spell_condition(condition)
            # `2\pi k, k \in Z`: the first letter may still be the value's.
            found = pattern.search(body, found.start() + 1)
    return body, ""


def limits_nothing(condition: str) -> bool:
    """Whether a condition, as `split_condition` spells it, only says what letters stand for.

    "For all x", "where k is an integer", "for positive integers n" do; "for even n" does not.
    """
    words = frozenset(condition.split())
    if words <= _WIDE_DOMAINS:
        return not words or not words <= {"positive", "nonnegative"}
    return condition not in _DOMAIN_WORDS and _LETTERS_ALONE.fullmatch(condition) is not None


def read_labels(body: str) -> str:
    r"""Labels before or after values.

    `Total: 7` → `7`; `Tom: 5, Ann: 6` → `\text{tom}=5, \text{ann}=6`;
    `5 \text{ cats}, 6 \text{ dogs}` likewise; `Row 1: 2, 3 and Row 2: 4` → `2, 3, 4`.
    """
    items = [item.strip() for item in _ITEM_END.split(body)]
    if len(items) > _MAX_ITEMS:
        return body
    if len(items) > 1 and all(items):
        counted = [_COUNTED.fullmatch(item) for item in items]
        if (named := _as_equations(counted, label=2, value=1)) is not None:
            return named
    labelled = [_LABEL.match(item) for item in items]
    labels = [_label_of(match) for match in labelled]
    if labels[0] is None:
        return body
    if labels.count(None) == len(labels) - 1 and labelled[0] is not None:
        return body[labelled[0].end() :].strip()
    values = [
        item[match.end() :].strip() if match is not None and label is not None else item
        for item, match, label in zip(items, labelled, labels, strict=True)
    ]
    if len(values) == 1 or None in labels or len(set(labels)) < len(labels):
        return ", ".join(values)
    return ", ".join(
        f"\\text{{{label}}}={value}" for label, value in zip(labels, values, strict=True)
    )


def read_list_words(body: str) -> str:
    r"""`and`, `or` between items: `\and`, `\lor` between relations, else a comma."""
    pieces, words, position = [""], [""], 0
    for match in _LIST_WORD.finditer(body):
        if (word := match[1] or match[2]) is not None:
            pieces[-1] = body[position : match.start()]
            position = match.end()
            words.append(word.casefold())
            pieces.append("")
    pieces[-1] = body[position:]
    joined = ""
    was_relation = False
    for word, piece in zip(words, pieces, strict=True):
        item = _BOTH.sub("", piece).strip(" ,")
        is_relation = _RELATION.search(item) is not None
        if not item:
            continue
        if joined:
            joined += f" {_JOINERS[word]} " if was_relation and is_relation else ", "
        joined += item
        was_relation = was_relation or is_relation
    return joined


_VALUE_LINE = re.compile(
    r"\$?(?:[A-Za-z]\s?=\s?)?[-+−]?(?:\d[\d.]{0,30}(?:/\d{1,30})?|\\[dt]?frac\{-?\d{1,30}\}\{\d{1,30}\}"
    r"|\([^()=\n]{1,60}\)),?\$?"
)
_LINE_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{3,}")

# -- lead-ins ------------------------------------------------------------------------------

_OPEN, _CLOSE = r"(?:\\text\s?\{\s*)?", r"\s*\}?"
_LEADS = """
    the final answer answers is are thus so therefore hence we find get have obtain that solution
    solutions result value sum total our finally it equals required correct only just simply which
    must be
"""
_LEAD_WORD = "(?:" + "|".join(sorted(_LEADS.split(), key=len, reverse=True)) + ")"
_LEAD_IN = re.compile(
    rf"(?:{_OPEN}{_LEAD_WORD}(?![A-Za-z'])[\s,:]*{_CLOSE}[\s,:]*)+", re.IGNORECASE
)
_SAYING = re.compile(
    r"\b(?:answers?|is|are|equals|thus|so|therefore|hence|find|get|have|obtain|finally|only|just"
    r"|simply|be)\b",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"[\s,]*(?:\\text\s?\{\s*)?\b(?:(?:which|that) )?(?:is|are) (?:the|our|my) "
    r"(?:final |correct |only )?"
    r"(?:answer|solution|result|value)s?\b\s*\}?$"
    r"|[\s,]*(?:\\text\s?\{\s*)?\bonly\b\s*\}?$",
    re.IGNORECASE,
)
_THINGS = """
    line point points function equation curve circle set interval pair number value year day page
    length area volume probability ratio sum answer approximately about roughly exactly
    approx approx.
"""
_THING = re.compile(
    rf"{_OPEN}(?:the )?(?!equation\s*\(?\d+\)?\s*\}}?\Z)"
    rf"(?:{'|'.join(_THINGS.split())})(?![A-Za-z]){_CLOSE}\s*"
    r"(?=[\d(\\$-]|[A-Za-z]\s?=)",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"(?:\s\(|\s?\\text\s?\{\s*\()(?!(?:mod|modulo|base|plus|minus|times"
    r"|sin|cos|tan|log|and|where|for|if|not|but|maybe|perhaps|possibly"
    r"|or|wrong|incorrect|false|rejected|extraneous|excluded|invalid|no|never|except|unless)"
    r"(?![A-Za-z]))[A-Za-z]{3}[^()]{0,200}\)\s*\}?$",
    re.IGNORECASE,
)
_IT_IS = re.compile(r".*\b[Ii]t(?:'s| is) ((?:[-+$¤£€¥]\s?)?\d.*)$", re.DOTALL)

# -- choices -------------------------------------------------------------------------------

_CHOICE_ALONE = re.compile(
    r"(?:(?:option|choice|answer)\s+)?(?:\(\s?([A-J])\s?\)|(?<=\s)([A-J]))[.):]?", re.IGNORECASE
)
_CHOICE_AND_VALUE = re.compile(
    r"(?:(?i:option|choice)\s+\(?([A-J])\)?\s*[:.)-]?|\(\s?([A-J])\s?\)\s*[:.]?|([A-J])[).:](?=\s))\s*"
)
_SAID_RIGHT = re.compile(
    r"(?:\\text\s?\{\s*)?is (?:the )?"
    r"(?:right|correct|true|(?:right |correct )?(?:answer|option|choice))"
    r"\s*\}?[.!]?",
    re.IGNORECASE,
)
_SAID_OF_CHOICE = re.compile(
    r"(?:\\text\s?\{\s*)?(?:is|are|was|isn't|and|or|not|but|nor|cannot|can't|fails?|does|doesn't|has"
    r"|would|could|might|seems|looks|if|unless|rather|instead|wrong|false|incorrect)(?![A-Za-z])",
    re.IGNORECASE,
)
_CHOICE_ITEM = re.compile(r"(?<![A-Za-z\\])\(?[A-J]\s?[:.)]|=")

_CHOSEN = re.compile(r"[A-H]{2,6}")
_LETTER = re.compile(r"[A-H]")
_LISTED = re.compile(r"\(?[A-H](?:\)?\s?(?:[,，、;&]|and|和)?\s?(?:and\s)?\(?[A-H]){1,5}\)?\.?")

# -- conditions ------------------------------------------------------------------------------

_STARTS = (
    r"where|for all|for any|for every|for each|for some|for|with|if|when|whenever|such that"
    r"|provided(?: that)?|as long as|given that|assuming"
)
_WORDED = re.compile(
    rf"\s*[,;]?\s*[(\[]?\s*(?:\\text\s?\{{\s*)?[(\[]?(?<![A-Za-z\\])(?:{_STARTS})(?![A-Za-z])"
    r"(?!\s+(?:a\s+)?remainder)",
    re.IGNORECASE,
)
_SETS = r"(?:\\mathbb\s?\{?[A-Z]\}?|[ZNRQ](?![A-Za-z]))"
_LETTERS = r"[A-Za-z](?:_\{?\w\}?)?(?:\s?,\s?[A-Za-z]){0,5}"
_DOMAIN = re.compile(
    rf"\s*(?:[,;]\s*\(?|\(|\s)\s*(?:\\forall\s*)?{_LETTERS}\s?\\in\s?{_SETS}"
    rf"(?:\s?[\^_]\s?\{{?[*+-]?\d?\}}?)?\s*\)?\s*$"
)
_BOUND = re.compile(
    r"\s*(?:[,;]\s*\(?|\()\s*[A-Za-z]\s?(?:\\ge|\\le|\\ne|>|<)\s?-?\d+(?:\.\d+)?\s*\)?\s*$"
)
_FOR_ALL = re.compile(r"\\forall\s*([^,:]{1,60})\s*[,:]\s*")
_BARE_OPERAND = r"(?:^|,|\\lor|\\land|<|>|\\le|\\ge|\\ne|=)\s*{}\s*(?:$|,|<|>|\\le|\\ge|\\ne|=)"
_MAX_STARTS = 3
_FILLER_NAMES = """
    where for all any every each some with is are be a an the arbitrary and such that given
    assuming provided if when whenever number numbers in constant constants fixed
"""
_FILLERS = frozenset(_FILLER_NAMES.split())
_DOMAINS = {
    "\\mathbbz": "integer", "\\mathbbn": "natural", "\\mathbbr": "real",
    "\\mathbbq": "rational",
}  # fmt: skip
_DOMAIN_NAMES = """
    integer positive nonnegative negative natural real rational complex nonzero whole even odd
    prime constant
"""
_DOMAIN_WORDS = frozenset(_DOMAIN_NAMES.split())
_WIDE_DOMAINS = frozenset(
    ("integer", "natural", "whole", "real", "complex", "constant", "positive", "nonnegative")
)
_LETTERS_ALONE = re.compile(r"\\(?:theta|alpha|phi)|(?:[a-z](?:_\w)?){1,3}")
_BRACES = re.compile(r"[{}\s]")
_CONDITION_TOKEN = re.compile(r"\\mathbb\s?\{?[a-z]\}?|\\[a-z]+|[a-z-]+|\S")
_DEFINED = re.compile(
    r"[\s{]{0,4}where[\s{}$]+[a-z][\s{}$]+(?:is|denotes|represents)\s+(?:the|in|measured)\s[a-z\s{}]+"
)
"""What a letter stands for limits nothing: "where t is the number of hours"."""
_SOME = re.compile(r"[^a-z]*for\s+some(?![a-z])")
_WORDS_IN_VALUE = re.compile(r"(?<![A-Za-z\\{])[A-Za-z]{3,}")


def _is_complete(value: str) -> bool:
    words = [word for word in _WORDS_IN_VALUE.findall(value) if word not in FUNCTION_NAMES]
    return bool(value) and is_balanced(value) and not words


def _speaks_of(value: str, condition: str, is_worded: bool) -> bool:
    """One condition, on letters of the value; a bare bound must not be an item of a list."""
    if is_worded:
        return len(re.findall(r"\b(?:if|when|otherwise)\b", condition)) < 2
    letter = re.search(r"[A-Za-z]", condition.replace("\\forall", ""))
    if letter is None or re.search(rf"(?<!\\){letter[0]}", value) is None:
        return False
    if re.match(rf"[A-Za-z]\(\s?{letter[0]}\s?\)\s?=", value) is not None:
        return True
    return re.search(_BARE_OPERAND.format(re.escape(letter[0])), value) is None


def _spell_condition(condition: str) -> str:
    folded = condition.replace("\\text", " ").casefold().strip(" ,;:()[]")
    if _DEFINED.fullmatch(folded) and _DOMAIN_WORDS.isdisjoint(re.findall(r"[a-z]+", folded)):
        return ""
    tokens: list[str] = _CONDITION_TOKEN.findall(folded)
    words: list[str] = [
        _DOMAINS.get(_BRACES.sub("", token), token.removesuffix("s"))
        for token, following in pairwise([*tokens, ""])
        if not _is_filler(token, following)
    ]
    if _SOME.match(folded) is not None and "constant" not in words:
        words = words if _DOMAIN_WORDS.intersection(words) else ["some", *words]
    named = sorted({word for word in words if word.replace("-", "") in _DOMAIN_WORDS})
    if named and all(word in named or len(word) == 1 for word in words):
        return " ".join(named)
    return "".join(words)


def _is_filler(word: str, following: str) -> bool:
    if word == "a":
        return following.isalpha()
    return word in _FILLERS or word in "{},;()$" or word in ("\\in", "\\forall")


# -- labels --------------------------------------------------------------------------------

_MAX_ITEMS = 200
_ITEM_END = re.compile(
    r"\s*(?:;|,(?!\d{3}(?!\d)))\s*(?:\\text\s?\{\s*)?(?:and|or)?(?![A-Za-z])\s*\}?\s*"
    r"|\s+(?:and|or)\s+|\\text\s?\{\s*(?:and|or)\s*\}",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?:\\text\s?\{)?\s*([A-Z]?[A-Za-z][A-Za-z' ]{1,40}?)(\s?\d{1,2})?\s*\}?\s*"
    r"([:=])(?!=)\s*\}?\s*"
)
_COUNTED = re.compile(r"([-+]?[\d.]+)\s*(?:\\text\s?\{\s*)?([A-Za-z][A-Za-z' -]{2,40}?)\s*\}?")


def _label_of(match: re.Match[str] | None) -> str | None:
    """The label, unless it may be mathematics: `AB=`, `sin x=`, `max=` of letters."""
    if match is None:
        return None
    words = match[1].split()
    is_plain = any(len(word) >= 3 and word[1:].islower() for word in words)
    if not is_plain or FUNCTION_NAMES.intersection(words) - {"max", "min"}:
        return None
    if changes_name(words):
        return None
    label = (match[1] + (match[2] or "")).casefold().split()
    return " ".join(word for word in label if word not in ("the", "answer", "final"))


def _as_equations(matches: list[re.Match[str] | None], *, label: int, value: int) -> str | None:
    pairs = [(match[label].casefold(), match[value]) for match in matches if match is not None]
    if len(pairs) != len(matches) or len({name for name, _ in pairs}) != len(pairs):
        return None
    return ", ".join(f"\\text{{{name}}}={number}" for name, number in pairs)


# -- and, or -------------------------------------------------------------------------------

_LIST_WORD = re.compile(
    r"\\text\s?\{[^{}]*\}"
    r"|,?\s*(?<![A-Za-z\\])(?:(and|or)(?![A-Za-z])|(?<=\d)(or)(?=[A-Z]))\s*",
    re.IGNORECASE,
)
_BOTH = re.compile(
    r"(?:\\text\s?\{\s*)?(?<![A-Za-z\\])(?:both|either)(?![A-Za-z])\s*\}?\s*", re.IGNORECASE
)
_JOINERS = {"and": "\\and", "or": "\\lor"}
_RELATION = re.compile(r"[=<>]|\\(?:le|ge|ne|in|equiv)(?![A-Za-z])")
