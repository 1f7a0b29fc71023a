r"""The final answer of a completion: where models say it, in order of trust.

Thinking blocks and made-up next problems are removed first; an open thinking block holds no
answer. Then, by profile:

`auto`: the last complete box that is not taken back, an `<answer>` tag, `####`, a last line
`A: 72`, a marker phrase ("the answer is", in many languages), a text that is nothing but an
answer, the formula or number that the last sentence states. `math`: the same without `####`,
which are headings there. `gsm8k`: `####`, box, tag, such a last line, phrase, any `A:` line,
then the same.

A "final answer" phrase behind the last box overrides it. A box, formula or sentence that is cut
off at the end holds no answer; of a text that was cut off at the token limit only explicit
markers count. Every scan is linear in the text. `gold_answer` and `embedded_answer` read a gold
answer that is a whole worked solution, and a bare answer that is a sentence.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from grading.config import GradingProfile
from grading.extract_boxes import boxed_answer
from grading.extract_last_line import labelled_number, stated_number
from grading.extract_markers import (
    announced_answer,
    final_answer_after,
    hash_answer,
    line_answer,
    tagged_answer,
)
from grading.extract_phrase import MAX_PHRASE, leading_answer
from grading.extract_reading import is_readable
from grading.extract_restatement import restated
from grading.extract_scope import answer_part, next_problem_start
from grading.extract_spans import formula_spans
from grading.extract_statement import statement_answer, whole_answer
from grading.modifiers import says_false


class Rule(StrEnum):
    """What an answer was found by."""

    BOXED = "boxed"
    TAG = "answer-tag"
    HASHES = "hashes"
    ANSWER_IS = "answer-is"
    ANSWER_LINE = "answer-line"
    WHOLE_TEXT = "whole-text"
    STATEMENT = "statement"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Extraction:
    """`answer` is "" where there is none; `rule` names the rule that decided."""

    answer: str
    rule: Rule


def extract_answer(
    text: str, *, profile: GradingProfile = GradingProfile.AUTO, is_truncated: bool = False
) -> Extraction:
    """Find the final answer; never raises. `is_truncated`: cut off at the token limit."""
    found = _extract(text, profile, is_truncated=is_truncated)
    first = restated(found.answer) if "or" in found.answer else None
    return found if first is None else Extraction(first, found.rule)


def _extract(text: str, profile: GradingProfile, *, is_truncated: bool) -> Extraction:
    body = answer_part(text)
    next_problem = next_problem_start(body)
    if next_problem is not None:
        found = _explicit(body[:next_problem], _EXPLICIT[profile], is_truncated=False)
        if found is not None:
            return found
    found = _explicit(body, _EXPLICIT[profile], is_truncated=is_truncated)
    if found is not None:
        return found
    if is_truncated:
        return _NO_ANSWER
    return _unmarked(body)


def gold_answer(text: str) -> str:
    """The answer of a gold text that is a worked solution; the text itself where none is found.

    Gold texts are trusted: an unclosed last box runs to the end, nothing is taken back.
    """
    text = _with_single_backslashes(text)
    box = boxed_answer(text, is_lenient=True)
    if box is not None and box.answer:
        return box.answer
    answer = announced_answer(text)
    if answer:
        return answer
    stripped = text.strip()
    spans = formula_spans(stripped)
    if len(spans) == 1:
        return spans[0].inside.strip()
    if not _WORDS.search(_TEXT_COMMAND.sub("", stripped)):
        return text
    return statement_answer(text) or text


def embedded_answer(text: str) -> str | None:
    """The answer in a bare answer that is a sentence around it; None where that is unsure.

    A box, an announced answer, a formula that the sentence ends with, a last line or a last
    number that it states. An inline formula with a line break behind its opener is none.
    """
    if len(text) > MAX_PHRASE * 4 or not text.strip():
        return None
    single = _with_single_backslashes(text)
    box = boxed_answer(single)
    if box is not None:
        return box.answer or None
    lines = single.strip().rsplit("\n", 1)
    if len(lines) == 2 and _WORDS.search(lines[0]) and _is_bare(lines[1]):
        return lines[1].strip()
    if _BROKEN_INLINE.search(single):
        return None
    answer = announced_answer(single)
    if answer:
        return answer
    label = _LABEL.match(single.strip())
    if label is not None and says_false(re.split(r"\W+", label[0].casefold())):
        return None
    spans = formula_spans(single)
    if spans and label is not None and not single[spans[-1].end :].strip(" .\n"):
        return spans[-1].inside.strip()
    if label is not None and (":" in label[0] or "：" in label[0]) and not spans:
        return leading_answer(single.strip()[label.end() :])
    if _STATING.search(single):
        return statement_answer(single) or None
    return single if single != text else None


_NO_ANSWER = Extraction("", Rule.NONE)
_WORDS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}\W+[A-Za-z]{2,}")
_TEXT_COMMAND = re.compile(r"\\[A-Za-z]+\s?(?:\{[A-Za-z ,.]*\})?")
_BROKEN_INLINE = re.compile(r"(?<![\\$])\$(?!\$)[ \t]*\n|(?<!\\)\\\([ \t]*\n")
_LABEL = re.compile(
    r"(?:(?:the |my |our )?(?:final |correct )?(?:answer|ans|solution|result|total|value)s?"
    r"|[^\W\d_]{3,}(?:\s+[^\W\d_]+){0,3}\s*[:：])[\s:：=]*(?=[$\\\d(-])",
    re.IGNORECASE,
)
_STATING = re.compile(
    r"\b(?:is|are|be|get|find|gives?|obtain|have|equals?|therefore|thus|so|hence|it['’]s"
    r"|(?<!such )that|est|ist|es)\b",
    re.IGNORECASE,
)
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z({\[!,;:)\]}])")
_SINGLE = re.compile(r"(?<!\\)\\(?:\\\\)*[A-Za-z]")


def _with_single_backslashes(text: str) -> str:
    """Undo the doubling of all backslashes by an escaped copy."""
    if "\\\\" not in text or _SINGLE.search(text) or not re.search(r"\\\\[A-Za-z]", text):
        return text
    return text.replace("\\\\", "\\")


def _is_bare(line: str) -> bool:
    return bool(line.strip()) and not _WORDS.search(line) and is_readable(line)


def _explicit(text: str, rules: tuple[Rule, ...], *, is_truncated: bool) -> Extraction | None:
    """What a marker of the profile says, in the profile's order."""
    for rule in rules:
        if rule is Rule.BOXED:
            box = boxed_answer(text, is_truncated=is_truncated) if "box" in text else None
            if box is None:
                continue
            if box.answer is None:
                return _after_retraction(text[box.end :], rules)
            later = final_answer_after(text, box.end)
            return Extraction(later, Rule.ANSWER_IS) if later else Extraction(box.answer, rule)
        if rule is Rule.ANSWER_IS and not is_truncated and (answer := labelled_number(text)):
            return Extraction(answer, Rule.ANSWER_LINE)
        answer = _marked(text, rule, is_truncated=is_truncated)
        if answer is not None:
            return Extraction(answer.strip(), rule) if answer else _NO_ANSWER
    return None


def _marked(text: str, rule: Rule, *, is_truncated: bool) -> str | None:
    if rule is Rule.HASHES:
        return hash_answer(text, is_truncated=is_truncated) if "####" in text else None
    if rule is Rule.ANSWER_LINE:
        return line_answer(text)
    if rule is Rule.ANSWER_IS:
        return announced_answer(text, is_truncated=is_truncated)
    content = tagged_answer(text) if "answer>" in text else None
    if content is None:
        return None
    box = boxed_answer(content)
    if box is not None and box.answer:
        return box.answer
    announced = announced_answer(content)
    if announced or (len(content) <= MAX_PHRASE and is_readable(content)):
        return announced or content
    return leading_answer(content) or content[:MAX_PHRASE]


def _after_retraction(text: str, rules: tuple[Rule, ...]) -> Extraction:
    """All boxes are empty or taken back: only what is said after them can count."""
    for rule in rules:
        if rule is not Rule.BOXED:
            answer = _marked(text, rule, is_truncated=False)
            if answer:
                return Extraction(answer, rule)
    return _NO_ANSWER


def _unmarked(text: str) -> Extraction:
    answer = stated_number(text)
    if answer is not None:
        return Extraction(answer, Rule.STATEMENT)
    answer = whole_answer(text)
    if answer is not None:
        return Extraction(answer, Rule.WHOLE_TEXT)
    answer = statement_answer(text)
    return Extraction(answer.strip(), Rule.STATEMENT) if answer else _NO_ANSWER


_AUTO = (Rule.BOXED, Rule.TAG, Rule.HASHES, Rule.ANSWER_IS)
_EXPLICIT: dict[GradingProfile, tuple[Rule, ...]] = {
    GradingProfile.AUTO: _AUTO,
    GradingProfile.MATH: (Rule.BOXED, Rule.TAG, Rule.ANSWER_IS),
    GradingProfile.GSM8K: (Rule.HASHES, Rule.BOXED, Rule.TAG, Rule.ANSWER_IS, Rule.ANSWER_LINE),
}
