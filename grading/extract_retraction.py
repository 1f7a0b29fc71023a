"""What a text takes back: answers that it negates, strikes out, calls wrong or corrects.

Before an answer: "not", "we can rule out", a subject that names an error ("the common wrong
answer is"). After it: "is wrong", "does not work", "? No", "wait, that's wrong", or another value
("no wait, it's 6"). Every scan looks at a bounded piece of text.
"""

import re

__all__ = ["correction", "denies", "is_called_wrong", "is_retracted", "names_error", "says_wrong"]


def is_retracted(text: str, start: int, end: int) -> bool:
    """Whether the answer at `text[start:end]` is struck out, negated or called wrong."""
    if is_called_wrong(text, end):
        return True
    before = text[max(0, start - _LOOK_BACK) : start]
    low = before.lower()
    near = low[-_NEAR:]
    # Most texts hold no hint, and the patterns are slow.
    if [hint for hint in _NEGATION_HINTS if hint in near] and _NEGATED_BEFORE.search(
        before, max(0, len(before) - _NEAR)
    ):
        return True
    if [hint for hint in _ERROR_HINTS if hint in low] and _ERROR_BEFORE.search(before):
        return True
    if before.rstrip(' \n$\\([*"').endswith(("{", ">")) and _STROKE_BEFORE.search(before):
        return True
    has_stroke = "~~" in text and text.count("~~", 0, start) % 2 == 1
    return has_stroke and text.find("~~", end) >= 0


def is_called_wrong(text: str, end: int) -> bool:
    """Whether the words that follow `text[:end]` say that what came last is wrong."""
    if len(text) - end < 4:
        return False
    return _WRONG_AFTER.match(text, end, end + _LOOK_AHEAD) is not None


def correction(text: str, end: int) -> str | None:
    """The value that replaces the answer before `text[end:]`: of "No wait, it's 6", the 6."""
    match = _CORRECTED.match(text, end, end + _LOOK_AHEAD)
    return None if match is None else match["value"].rstrip(".,")


def denies(sentence: str) -> bool:
    """Whether a sentence may deny a value that it names."""
    return _DENIAL.search(sentence) is not None


def says_wrong(sentence: str) -> bool:
    """Whether a sentence takes back what was said before it."""
    return _WRONG_AFTER.match(sentence) is not None


def names_error(before: str) -> bool:
    """Whether words before "answer" make it another's or a wrong one."""
    return _WRONG_KIND.search(before[-_LOOK_BACK:]) is not None


_LOOK_BACK, _LOOK_AHEAD = 110, 160
_NAME = r"(?:[A-Za-z]\s*=\s*)?"
_NEGATED_BEFORE = re.compile(
    r"(?:(?:\bnot|n['’]t|n['’]t be|\bcannot be|\bnever|\brather than|\binstead of"
    r"|\b(?:false|untrue|wrong|not true|not the case) that|\brul(?:e|ed|es|ing) out"
    r"|\b(?:any|every)thing but|\breject(?:s|ed|ing)?|\bdiscard(?:s|ed|ing)?"
    r"|\bexclud(?:e|es|ed|ing)|\beliminat(?:e|es|ed|ing))"
    r"\s+(?:equal to\s+|simply\s+|just\s+)?|\bcannot be\s+)"
    rf"[\s$\\(\[*\"}}]{{0,8}}{_NAME}[\s$\\(\[*\"]{{0,8}}[-−]?$",
    re.IGNORECASE,
)
_WRONG_WORD = r"(?:wrong|incorrect|mistaken|erroneous|false|invalid|bogus)"
_ERROR_BEFORE = re.compile(
    rf"(?:\b{_WRONG_WORD}\s+(?:answer|result|value|solution|guess|choice|option|conclusion)s?\b"
    r"|\b(?:(?:common|typical|frequent|easy|classic|usual)\s+(?:mistake|error|trap|slip)"
    r"|tempting (?:answer|guess)|naive (?:answer|guess))s?\b"
    r"(?:\s+(?:here|is|in this problem|to \w+(?: \w+){0,4}|of \w+(?: \w+){0,5}))?,?"
    r"|\b(?:mistakenly|wrongly|incorrectly|erroneously)\b)"
    r"(?:(?!\b(?:but|and|so|we|you|instead|however|correct|right|then|thus|actual|true|now)\b)"
    r"[^.;:,!?\n$\\]){0,40}[:\s$\\(\[*\"]{0,8}$",
    re.IGNORECASE,
)
_NEAR = 64
_NEGATION_HINTS = (
    "not", "'t", "’t", "never", "rather", "instead", "false", "true", "wrong", "rul", "thing but",
    "reject", "eliminat", "discard", "exclud",
)  # fmt: skip
_ERROR_HINTS = (
    "wrong", "incorrect", "mista", "erro", "false", "invalid", "bogus", "trap", "slip", "tempting",
    "naive",
)  # fmt: skip
"""What `_NEGATED_BEFORE` finds holds one of the first, `_ERROR_BEFORE` one of the others."""
_WRONG_KIND = re.compile(
    r"\b(?:wrong|incorrect|mistaken|erroneous|false|naive|tempting|invalid|previous|earlier|trial"
    r"|initial)\s+(?:final )?\Z",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\b(?:not|cannot|never|wrong|incorrect|impossible|mistake[ns]?|mistakenly|rather than"
    r"|instead of|too|false|untrue|rul(?:e|ed|es|ing) out|(?:any|every)thing but"
    r"|reject\w*|discard\w*|exclud\w+|eliminat\w+|error|trap|extraneous|invalid|fails?)\b|n['’]t\b",
    re.IGNORECASE,
)
_STROKE_BEFORE = re.compile(
    r"(?:\\(?:[bx]?cancel|sout|st)\s?\{|<(?:del|s|strike)>)[\s$\\(\[*\"]{0,8}$"
)
_WRONG = (
    r"(?:(?:clearly|obviously|definitely|probably|actually|also|still|therefore|thus)\s+)?"
    r"(?:wrong|incorrect|impossible|a mistake|mistaken|too (?:big|large|small|high|low)\b"
    r"|false\b|untrue\b|extraneous\b|invalid\b|rejected\b|discarded\b|excluded\b"
    r"|eliminated\b|ruled out\b|a trap\b"
    r"|the (?:common |usual )?(?:wrong|incorrect)\b|a (?:common )?(?:wrong|incorrect)\b"
    r"|not\s+(?:quite\s+)?(?:the\s+)?(?:right|correct|possible|answer|valid|it\b|true|final"
    r"|allowed|acceptable|an? (?:solution|answer)))"
)
_WORKS = r"(?:work|satisfy|hold\b|fit\b|check out|make sense|count\b|qualify|solve|suffice)"
_WRONG_AFTER = re.compile(
    r"[\s$\\)\]}*\"'”’]{0,10}\?\s*(?:no|nope|not (?:quite|really)|wrong|incorrect)\b"
    r"(?!\s+(?:doubt|other|more|less|problem|matter|need|one))"
    rf"|[\s$\\)\]}}*]{{0,8}}\((?:(?:this|which|it) (?:is|was) )?{_WRONG}"
    r"|[\s$\\)\]}.,;:!*\"'”—–~-]{0,16}(?:text\w{0,6}\s?\{\s*)?"
    r"(?:"
    rf"(?:is|was|are|would be|seems(?:\s+to\s+be)?|looks|must\s+be)\s+{_WRONG}"
    r"|(?:cannot|can['’]t|can not) be\s*(?:[.!]|\Z)"
    r"|(?:isn['’]t|wasn['’]t|cannot be|can['’]t be|can not be)\s+(?:the\s+)?"
    r"(?:right|correct|possible|answer|valid|it\b|true)"
    rf"|(?:(?:do|does|did|will|would|can|could)(?:\s+not|n['’]t)|cannot|can['’]t|won['’]t)\s+{_WORKS}"
    r"|(?:fails|(?:(?:but )?(?:which|this|that) )?contradicts"
    r"|(?:but )?(?:which|this|that) (?:violates|is a contradiction|is absurd))\b"
    r"|(?:leads to|gives|yields) a contradiction"
    r"|(?:but|no|oh|hmm+|wait|oops)[,.!…\s—–-]{1,6}(?:it|that|this)\s+"
    rf"(?:does(?:\s+not|n['’]t)|can(?:no|['’])t)\s+{_WORKS}"
    r"|(?:(?:but|no|oh|hmm+|wait|oops|sorry|actually|hold on|however)[,.!…\s—–-]{1,6}){0,4}"
    r"(?:(?:that|this|it|which|(?:the|my|this|that) answer)(?:['’]s|\s+is|\s+was|\s+seems"
    rf"|\s+looks|\s+must\s+be)\s+{_WRONG}"
    r"|(?:that|this|it)\s+(?:isn['’]t|cannot be|can['’]t be)\s+(?:right|correct|it\b|true|possible)"
    r"|i(?:\s+have|['’]ve)?\s+(?:made\s+an?\s+(?:\w+\s+)?(?:mistake|error)|forgot|misread"
    r"|miscalculated|miscounted)|(?:scratch|strike|ignore|disregard|forget)\s+(?:that|this)\b"
    r"|let me (?:redo|start over|recalculate|recompute|correct that|fix that))"
    r")",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"[\s$\\)\]}.,;:!*\"'”—–~-]{0,16}"
    r"(?:(?:no|oh|hmm+|wait|oops|sorry|actually|hold on|correction|scratch that|i mean(?:t)?"
    r"|or rather|rather|on second thought|my mistake)[,.:;!…\s—–-]{1,6}){1,4}"
    r"(?:(?:it|that|this|the (?:correct |right |real )?answer)"
    r"(?:['’]s| is| should be| must be| would be)\s+(?:actually |really |rather |just )?)?"
    r"(?P<value>(?:[$\\(]{0,3})[-−]?\$?(?:\d[\d,]*(?:\.\d+)?(?:/\d+)?|\\[dt]?frac\{\d+\}\{\d+\}))"
    r"[$\\)*\s]{0,5}(?:[.!,;](?!\d)|\n|\Z)",
    re.IGNORECASE,
)
