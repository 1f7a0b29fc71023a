"""The final answer of a completion: where models say it, in order of trust.

Rules, by profile (a closed `<think>` block is removed first, an open one is no answer):
`auto` box, `<answer>` tag, `####`, "the answer is", a text that is
nothing but an answer, last number; `math` the same without
`####` headings; `gsm8k` `####`, box, tag, "the answer is", `A:` line, then
the same.
The last marker of a kind wins. A box or formula that is not closed at the end of the text
was cut off and holds no answer; of a truncated text only explicit markers count.
Every scan is linear in the text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from grading.config import GradingProfile
from grading.expression import parse_body
from grading.grade import compare_answers
from grading.normalize import clean_answer, join_thousands
from grading.tokens import UnreadableError
from grading.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Extraction:
    """`answer` is "" where there is none; `rule` names the rule that decided."""

    answer: str
    rule: str


def extract_answer(
    text: str, *, profile: GradingProfile = GradingProfile.AUTO, is_truncated: bool = False
) -> Extraction:
    """Find the final answer; never raises. `is_truncated`: cut off at the token limit."""
    body = _without_thinking(text)
    for name, rule in _RULES[profile]:
        if is_truncated and name in _UNMARKED:
            break
        answer = rule(body)
        if answer is not None:
            return Extraction(answer.strip(), name)
    return Extraction("", "none")


_BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s?\{")
_BOX_JOIN = re.compile(
    r"[\s$.\\)\]]*(?:,|，|、|,?\s*\\?(?:and|or|\bor\b))[\s$\\(\[]*(?:and|or)?[\s$\\(\[]*"
)
_MAX_JOIN = 24
_MAX_BOXES = 32
_HASHES = re.compile(r"####[ \t:]*([^\n#]{0,400})")
_HEADING = re.compile(
    r"\s*\**\s*(?:step|case|part|solution|method|question|\d+[.)]\s)", re.IGNORECASE
)
_TAG_END, _TAG_START = "</answer>", "<answer>"
_MARKER = re.compile(
    r"(?:\banswer\b|答案|答え|réponse|respuesta|antwort|resposta|risposta|ответ)"
    r"(?P<link>[\s*_]{0,8}(?:is|are|:|：|=|是|为|為|は|est|es|ist|\n)"
    r"(?:[\s*_:：]|\b(?:donc|therefore|thus|simply|about|approximately|exactly|just|only)\b){0,8})",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"not\b|n't\b|neither\b", re.IGNORECASE)
_MAX_PHRASE = 300
_A_LINE = re.compile(r"(?:^|\n)[ \t]*A:[ \t]*([^\n]{1,300})")
_MATH_SPAN = re.compile(
    r"\$\$([^$]{1,2000})\$\$|\$([^$\n]{1,500})\$|\\\((.{1,500}?)\\\)|\\\[(.{1,2000}?)\\\]",
    re.DOTALL,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$|\*)|[。！]|\n|<")
_CLAUSE = re.compile(
    r",\s*(?=[a-z]{2,})(?!and\b|or\b)"
    r"|\s+(?:because|since|so|which|as|for|when|where|by|per|in total|i hope)\b",
    re.IGNORECASE,
)
_LEADING_NUMBER = re.compile(
    r"[-+−]?\s?[$£€]?\s?\d[\d,]*(?:\.\d+)?(?:\s?/\s?\d+)?(?:\s?\\?%)?"
)  # fmt: skip
_NUMBER_RUN = re.compile(r"\d[\d,.]*")
_TAIL = 4_000
_MAX_RUN = 400


def _without_thinking(text: str) -> str:
    end = text.rfind("</think>")
    if end >= 0:
        text = text[end + len("</think>") :]
    start = text.find("<think>")
    return text if start < 0 else text[:start]


# -- boxes ------------------------------------------------------------------------------


def _boxed(text: str) -> str | None:
    """The last box, with the boxes that stand before it joined by commas or "and".

    Only the last box decides: where it is not closed the text was cut off there.
    """
    starts = [match.span() for match in _BOX.finditer(text)]
    if not starts:
        return None
    last = _closing_brace(text, starts[-1][1], len(text))
    if last is None:
        return ""
    contents = [text[starts[-1][1] : last].strip()]
    right = starts[-1][0]
    for start, inside in reversed(starts[-_MAX_BOXES:-1]):
        end = _closing_brace(text, inside, right)
        if end is None or not _is_join(text[end + 1 : right]):
            break
        contents.append(text[inside:end].strip())
        right = start
    return ", ".join(_without_repeats(contents[::-1]))


def _without_repeats(answers: list[str]) -> list[str]:
    """Two spellings of one value in neighbouring boxes are one answer."""
    kept: list[str] = []
    for answer in reversed(answers):
        grades = [compare_answers(other, answer) for other in kept]
        if not any(grade is not None and grade.verdict is Verdict.CORRECT for grade in grades):
            kept.insert(0, answer)
    return kept


def _closing_brace(text: str, start: int, stop: int) -> int | None:
    depth = 1
    for match in _BRACE.finditer(text, start, stop):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return None


_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def _is_join(between: str) -> bool:
    return len(between) <= _MAX_JOIN and _BOX_JOIN.fullmatch(between) is not None


# -- markers ----------------------------------------------------------------------------


def _tagged(text: str) -> str | None:
    end = text.rfind(_TAG_END)
    start = text.rfind(_TAG_START, 0, end) if end >= 0 else -1
    return text[start + len(_TAG_START) : end] if start >= 0 else None


def _hashes(text: str) -> str | None:
    answer = None
    for match in _HASHES.finditer(text):
        line = match[1].strip().strip("*").strip()
        if line and not _HEADING.match(line):
            answer = line
    return None if answer is None else _phrase_answer(answer)


def _answer_is(text: str) -> str | None:
    last = None
    for match in _MARKER.finditer(text):
        last = match
    if last is None:
        return None
    phrase = text[last.end() : last.end() + _MAX_PHRASE].strip().lstrip("*_:： ")
    if not phrase or _NEGATED.match(phrase):
        return None
    return _phrase_answer(phrase)


def _answer_line(text: str) -> str | None:
    lines = _A_LINE.findall(text)
    return _phrase_answer(lines[-1].strip()) if lines else None


def _phrase_answer(phrase: str) -> str | None:
    """The answer at the beginning of what follows a marker."""
    span = _MATH_SPAN.match(phrase)
    if span is not None:
        return next(group for group in span.groups() if group is not None)
    if phrase.startswith(("$$", "\\(", "\\[")):
        return ""
    end = _SENTENCE_END.search(phrase)
    sentence = (phrase[: end.start()] if end else phrase).replace("**", "").strip(" *_")
    clause = _CLAUSE.search(sentence)
    candidates = [sentence, sentence[: clause.start()]] if clause else [sentence]
    for candidate in candidates:
        if _is_readable(candidate):
            return candidate
    number = _LEADING_NUMBER.match(sentence)
    if number is not None:
        return number[0].rstrip(",")
    numbers = _LEADING_NUMBER.findall(sentence)
    return numbers[0].strip(" ,") if len(numbers) == 1 else candidates[-1] or None


def _is_readable(candidate: str) -> bool:
    clean = clean_answer(candidate)
    try:
        parse_body(join_thousands(clean.body))
    except UnreadableError:
        return False
    return bool(clean.body)


# -- the last number --------------------------------------------------------------------


def _whole_text(text: str) -> str | None:
    """A completion that is nothing but an answer."""
    answer = text.strip()
    is_short = len(answer) <= _MAX_PHRASE and "\n" not in answer
    return answer if is_short and _is_readable(answer) else None


def _last_number(text: str) -> str | None:
    """The last number of the text's end, or the formula that holds it."""
    tail = text[-_TAIL:]
    if _ends_inside_formula(tail):
        return None
    runs = list(_NUMBER_RUN.finditer(tail))
    if not runs:
        return None
    start, end = runs[-1].span()
    if end - start > _MAX_RUN:
        return None
    for span in _MATH_SPAN.finditer(tail):
        if span.start() <= start < span.end():
            inside = next(group for group in span.groups() if group is not None)
            return inside.rpartition("=")[2]
    number = tail[start:end].rstrip(".,")
    return _sign_before(tail, start) + number + ("%" if tail[end : end + 1] == "%" else "")


def _sign_before(text: str, start: int) -> str:
    """A minus that touches the number and does not follow an operand."""
    before = text[:start].rstrip("$£€")
    if before[-1:] not in ("-", "−"):
        return ""
    previous = before[-2:-1]
    return "" if previous.isalnum() or previous in (")", "]", "}") else "-"


def _ends_inside_formula(tail: str) -> bool:
    return any(
        tail.rfind(opener) > tail.rfind(closer)
        for opener, closer in (("\\[", "\\]"), ("\\(", "\\)"))
    )


_UNMARKED = ("whole-text", "last-number")
_Rule = tuple[str, Callable[[str], str | None]]
_AUTO: tuple[_Rule, ...] = (
    ("boxed", _boxed),
    ("answer-tag", _tagged),
    ("hashes", _hashes),
    ("answer-is", _answer_is),
    ("whole-text", _whole_text),
    ("last-number", _last_number),
)
_RULES: dict[GradingProfile, tuple[_Rule, ...]] = {
    GradingProfile.AUTO: _AUTO,
    GradingProfile.MATH: tuple(rule for rule in _AUTO if rule[0] != "hashes"),
    GradingProfile.GSM8K: (
        ("hashes", _hashes),
        ("boxed", _boxed),
        ("answer-tag", _tagged),
        ("answer-is", _answer_is),
        ("answer-line", _answer_line),
        ("whole-text", _whole_text),
        ("last-number", _last_number),
    ),
}
