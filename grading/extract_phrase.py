"""The answer at the beginning of a phrase: of what follows "the answer is", `####` or a tag.

A formula, a list of formulas, a number with its unit, a few words; explanations behind it
are cut off. `leading_answer` returns None where the phrase is prose that states no answer
at its beginning.
"""

import re

from grading.extract_plain_number import LABEL_BEFORE
from grading.extract_reading import is_readable
from grading.extract_restatement import restated
from grading.extract_spans import Span, formula_spans
from grading.modifiers import phrase_after, phrase_before

MAX_PHRASE = 600
_NUMBER = r"[-+−]?\s?\\?[$£€¥]?\s?(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
_PLAIN = re.compile(r"[-+−]?\\?[$£€]?\d[\d,]*(?:\.\d+)?(?=\s*\.?\s*(?:$|\n))")
_FILLER = re.compile(
    r"(?:[\s*_`\"'“”‘’:：>-]|\\\"|->|→|</?(?:b|strong|em|i|u|code|mark|p)>|\b(?:therefore|thus|simply"
    r"|about|approximately|around|exactly|just|only|hence|clearly|indeed|roughly|given by|equal to"
    r"|as follows|found to be|still|now"
    r"|(?:option|choice)(?=\s+\(?[A-Z]\)?(?:\W|$))|donc|alors|environ|por tanto"
    r"|por lo tanto|entonces|aproximadamente|also|daher|quindi|portanto|that)\b[,:]?)*",
    re.IGNORECASE,
)
_MINUS_FIRST = re.compile(r"[-−]\s?[\d.$\\a-zA-Z(]")
_SIGN_IN_WORDS = re.compile(r"\A(?:minus|negative)\s+(?=[\d.])", re.IGNORECASE)
_NEGATED = re.compile(
    r"(?:not|n['’]t|neither|never|pas|nicht|kein|no es|não é|non è|не|不是|ではない)(?![A-Za-z])",
    re.IGNORECASE,
)
_BUT = re.compile(r",?\s*\b(?:but|but rather|rather|sondern|mais|sino|mas|ma|а)\b\s+(?:rather\s+)?")
_REMARK = re.compile(
    r"(?:correct|right|wrong|incorrect|reasonable|verified|confirmed|obtained|found|as\s)(?![a-z])",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"(?:let|let['’]s|first|we|to|since|if|given|suppose|start|in order|step|there (?:are|is)|each"
    r"|he|she|they|because|consider|note|from|using|by|when|assume|denote|i|you)(?![A-Za-z'])",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:at least|at most|(?:no )?(?:more|less|greater|fewer) than|between|over|under|up to|above"
    r"|below|either)(?![a-z])",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"(?:correct|wrong|right|incorrect|reasonable|valid|as\s|in\s+the\s|obtained|found|verified"
    r"|confirmed|clear|obvious|yet|what\b|which\b|to\s+(?!be\b)|going|based|supposed|expected"
    r"|consistent|unique|well|asked|required|i don|unknown|unclear)",
    re.IGNORECASE,
)
_OPEN_END = re.compile(r"[\w)}\]]\s*[-+*/=×÷^({\[<,]\s*\Z")
_SENTENCE_END = re.compile(
    r"(?<!i\.e)(?<!e\.g)(?<!approx)[.!?](?=\s|$|[\"'”’)\]]*(?:\s|$)|\*|\\n)|[。！？]|\n|</|<\||<(?=[a-z]+>)|\\n(?![a-z])"
)
_NOT_PART = re.compile(r"(?<=[\d}$)%])(?:,\s+|,?\s+(?:and|but)\s+|\s*\(\s*)not\b")
_CLAUSE = re.compile(
    r",\s*(?=[a-z]{2,})(?!and\b|or\b)"
    r"|[,，]\s*(?=[\u4e00-\u9fff])"
    r"|\s+(?:because|since|so|which|as|for|when|where|by|per|in total|i hope|after|from|if|porque"
    r"|car|weil|denn|perché)\b|\s+\((?=[A-Za-z])",
    re.IGNORECASE,
)
_LEADING_NUMBER = re.compile(rf"{_NUMBER}(?:\s?/\s?\d+)?(?:\s?\\?%)?")
_LEADING_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_CJK_ENDS = re.compile(
    r"\s*(?:です|でした|である|だ|になります|となります|입니다|이다|이에요|예요|了|है)\s*$"
)
_FORMULA_LINK = re.compile(
    r"[\s\"*\\]*(?:,|;|，|、)?[\s\"*\\]*(?:and|or|et|ou|und|oder|y|o|e|или|и|和|或)?[\s\"*\\]*"
)
_OPEN_FORMULA = re.compile(r"\$\$|\\[(\[]|\\begin|\$\s?[\\A-Za-z({|]")
_PERCENT_AFTER = re.compile(r"\s*(?:\\?%|(?:percent|pct|per cent)\b)")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+|\d+),(\d{1,2}|\d{4,})(?![\d,.]\d|\d)")
_GLUED_FORMULAS = re.compile(r"(?<=[\w}])\$\$(?=[\\\w])")
_MAX_WORDS = 6


def leading_answer(
    phrase: str, *, has_decimal_comma: bool = False, is_heading: bool = False
) -> str | None:
    """The answer at the phrase's beginning; "" where the phrase was cut off in a formula.

    `has_decimal_comma`: the phrase is in a language that writes 2,5 for five halves.
    `is_heading`: what stands before may as well be the heading of a whole solution.
    """
    plain = None if has_decimal_comma else _PLAIN.match(phrase)
    if plain is not None:
        return plain[0]
    phrase = _SIGN_IN_WORDS.sub("-", _without_filler(phrase), count=1)
    if not phrase or (_NEGATED.match(phrase) and (phrase := _what_else(phrase)) == ""):
        return None
    if phrase[0] == "$" and "$$" in phrase and phrase[1] != "$":
        phrase = _GLUED_FORMULAS.sub("$ $", phrase)
    if phrase[0] in "$\\" and (formulas := _leading_formulas(phrase)) is not None:
        return formulas
    end = _SENTENCE_END.search(phrase)
    sentence = (phrase[: end.start()] if end else phrase).replace("**", "").replace("`", "")
    sentence = _CJK_ENDS.sub("", sentence.strip(" *_\"'”’.…"))
    if is_heading and end is not None and phrase[end.end() :].strip() and _PREAMBLE.match(sentence):
        return None
    if has_decimal_comma:
        sentence = _DECIMAL_COMMA.sub(lambda m: m[1].replace(".", "") + "." + m[2], sentence)
    if end is None and _OPEN_END.search(sentence):
        return ""
    return _answer_of(sentence)


def _without_filler(phrase: str) -> str:
    """Behind quotes, bold marks and adverbs; a minus stays."""
    phrase = phrase[:MAX_PHRASE]
    match = _FILLER.match(phrase)
    end = match.end() if match is not None else 0
    while end > 0 and _MINUS_FIRST.match(phrase, end - 1):
        end -= 1
    if end > 0 and phrase[end - 1] == "\\":
        end -= 1
    return phrase[end:].rstrip()


def _what_else(phrase: str) -> str:
    """Of "not 6 but 7", the 7."""
    end = _SENTENCE_END.search(phrase)
    sentence = phrase[: end.start()] if end else phrase
    but = _BUT.search(sentence)
    return sentence[but.end() :] if but is not None else ""


def _leading_formulas(phrase: str) -> str | None:
    """The formula at the beginning, with those that it lists after it."""
    spans = formula_spans(phrase)
    if not spans or spans[0].start != 0:
        if not spans and _OPEN_FORMULA.match(phrase):
            return ""
        return None
    parts = [spans[0].inside.strip()]
    previous: Span = spans[0]
    for span in spans[1:]:
        between = phrase[previous.end : span.start]
        if not between.strip() and len(parts) == 1 and _is_factor(parts[0], span.inside):
            return f"{parts[0]} {span.inside.strip()}"
        if not between.strip() or len(between) > 16 or not _FORMULA_LINK.fullmatch(between):
            break
        parts.append(" or " if " or " in between else ", ")
        parts.append(span.inside.strip().rstrip(",;"))
        previous = span
    answer = "".join(parts)
    if len(parts) == 1 and "%" not in answer and _PERCENT_AFTER.match(phrase, previous.end):
        answer += "\\%"
    return answer


def _is_factor(number: str, formula: str) -> bool:
    """Whether a formula directly behind a number goes on with it: `$5$ $x$`."""
    return _WHOLE.fullmatch(number) is not None and _FACTOR.match(formula) is not None


_WHOLE = re.compile(r"-?\d[\d.,]*")
_FACTOR = re.compile(
    r"\s*(?:\\(?:[dt]?frac|pi|sqrt|times|cdot|[lc]?dots)(?![a-z])|[-+*/^]|[a-z]\s*\Z)"
)


def _answer_of(sentence: str) -> str | None:
    if not sentence or _REMARK.match(sentence):
        return None
    if _BOUND.match(sentence):
        return sentence
    if _REFERENCE.match(sentence):
        return None
    sentence = _NOT_PART.split(sentence, maxsplit=1)[0]
    clause = _CLAUSE.search(sentence)
    short = sentence[: clause.start()].strip(" ,") if clause else sentence
    number = _LEADING_NUMBER.match(sentence)
    if number is not None and (stop := phrase_after(sentence, number.end())) is not None:
        return sentence[:stop]
    if number is not None and _GOES_ON_AFTER.match(sentence, number.end()):
        return sentence
    if " or " in sentence and (first := restated(sentence)) is not None:
        return first
    has_choice = number is not None and _goes_on(sentence, number.end())
    if number is not None and not has_choice and _MONEY_AFTER.match(sentence, number.end()):
        return number[0].strip()
    for candidate in (sentence, short) if clause else (sentence,):
        if candidate and not _is_prose(candidate) and is_readable(candidate):
            return candidate
    if number is not None and not has_choice:
        return number[0].strip(" ,")
    return _stated_in(sentence) or _words_of(sentence, short)


def _stated_in(sentence: str) -> str | None:
    """Of "the largest $n$ is 34", the 34; else the only formula or the only number."""
    last: re.Match[str] | None = None
    for match in _COPULA.finditer(sentence):
        last = match
    if last is not None:
        rest = sentence[last.end() :].strip()
        if rest[:1] in ("$", "\\") and (formulas := _leading_formulas(rest)):
            return formulas
        number = _LEADING_NUMBER.match(rest)
        if number is not None and (stop := phrase_after(rest, number.end())) is not None:
            return rest[:stop]
        if number is not None and not _goes_on(rest, number.end()):
            return rest if not _is_prose(rest) and is_readable(rest) else number[0].strip(" ,")
    inner = [span for span in formula_spans(sentence) if not _NAME.fullmatch(span.inside)]
    if len(inner) == 1:
        return inner[0].inside.strip()
    if inner or _SET_WORDS.search(sentence):
        return None
    numbers = list(_LEADING_NUMBER.finditer(sentence))
    if len(numbers) != 1:
        return None
    return _with_operation(sentence, numbers[0])


def _with_operation(sentence: str, number: re.Match[str]) -> str | None:
    """The sentence's only number, with the words that make another one of it."""
    place = number.end() - len(number[0].lstrip())
    if LABEL_BEFORE.search(sentence[:place]) or _ONE_OF.search(sentence[:place]):
        return None
    start = phrase_before(sentence[:place])
    stop = phrase_after(sentence, number.end())
    if start is None and stop is None:
        is_ordinal = _ORDINAL_END.match(sentence, number.end()) is not None
        return None if is_ordinal else number[0].strip(" ,")
    start = place if start is None else start
    return sentence[start : number.end() if stop is None else stop].strip(" ,")


def _words_of(sentence: str, short: str) -> str | None:
    if _NO_ANSWER.match(sentence):
        return None
    is_long = len(short.split()) > _MAX_WORDS or _LEADING_CJK.search(short[_MAX_CJK:])
    return None if is_long else short or None


_MAX_CJK = 24
_GOES_ON_AFTER = re.compile(
    r"\s?[°'’′]\s?\d|\s+(?:less|more|fewer|greater|smaller|larger) than\s+"
    r"(?:[a-zA-Z]\b|(?:the|an?)\s)"
)
"""Feet and inches, minutes of an angle, an unknown that a difference is counted from."""
_ONE_OF = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|some|any|each|none|either|part|out) of"
    r"(?: the| these| those)?\s+\Z",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"(?:as (?:in|given in|shown in|stated in) )?(?:the )?(?:equation|theorem|lemma|step|section"
    r"|figure|proposition|example|table|exercise|problem)\s*[#(]?\d[\d.]*\W*\Z",
    re.IGNORECASE,
)
_ORDINAL_END = re.compile(r"(?:st|nd|rd|th)\b")
_NAME = re.compile(r"\s*\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:\([a-z]\))?\s*")
_COPULA = re.compile(
    r"\b(?:is|are|was|equals|becomes|be|est|es|ist|lautet)\b\s*(?:therefore\b|about\b|:)?|="
)
_SET_WORDS = re.compile(
    r"\b(?:all|every|any|each|real|integers?|numbers?|except|greater|less|more|fewer|divisible|odd|even"
    r"|or|not|between|multiples?|than)\b",
    re.IGNORECASE,
)
_MONEY_AFTER = re.compile(r"\s?\\?[$€£¥]")
_VERB = re.compile(
    r"\b(?:is|are|was|were|we|has|have|find|found|gives?|gets?|that|thus|therefore|hence|it|it's"
    r"|which|answer|solution|because|there|they|he|she)\b",
    re.IGNORECASE,
)
_OR_NUMBER = re.compile(
    r",?\s*but\s+(?:\w+\s+){0,4}[-$]?\d|\s*(?:times|plus|minus|multiplied|divided)\b"
    r"|\s*(?:\\?%|[a-zA-Z°]{1,12})?\s*(?:,|or|and|to|and/or)\s+(?:\w+\s+)?[-$]?\d"
)


def _is_prose(text: str) -> bool:
    return _VERB.search(text) is not None


def _goes_on(sentence: str, end: int) -> bool:
    """Whether the answer is a list or a choice of which the number is only the first."""
    return _OR_NUMBER.match(sentence, end) is not None
