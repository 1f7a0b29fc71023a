"""What an unmarked text states at its end: a formula, an expression, a number.

Only the last line that says something is read, and in it the last sentence. A text that stops
in the middle of a sentence or a formula, or says that it does not know, states nothing.
Numbers inside words ("H2O", "AZ3K"), labels ("step 3") and cut-off calculations do not count.
"""

import re
from collections.abc import Iterator
from itertools import islice

from grading.extract_emphasis import bold_phrase, bold_value, without_bullets
from grading.extract_plain_number import NUMBER, last_number
from grading.extract_reading import is_readable
from grading.extract_restatement import restated
from grading.extract_retraction import denies, is_retracted, says_wrong
from grading.extract_spans import Span, formula_spans, read_formulas

_TAIL = 4_000
_MAX_RUN = 400
_CLOSING_LINE = re.compile(
    r"[\s*_#>\-–—=`~]*(?:i hope|hope (?:this|that|it)|let me know|this (?:completes|concludes)"
    r"|note\b|please|q\.?e\.?d|thank|end\b|done\b|\Z)",
    re.IGNORECASE,
)
_NO_IDEA = re.compile(
    r"\b(?:(?:i|we) (?:don['’]?t|do not|can(?:no|['’])t|am not|['’]m not) (?:really )?(?:know|sure"
    r"|solve|determine|find)|not sure|no idea|unable to|cannot be (?:determined|solved|found)"
    r"|not enough information|impossible to (?:say|know|determine))",
    re.IGNORECASE,
)
_NO_ENDS = """
    to the a an of and is are so that we then need with for by in which now can must let has have
    will from if since because but or as at on into equal equals gives minus plus divided i it this
    there where when more than he she they using also their our first next
"""
_OPEN_WORDS = frozenset(_NO_ENDS.split())
_MAX_LOOSE_WORDS, _MAX_CLAUSE_WORDS = 14, 3
_CLAUSE_START = re.compile(r"[,;]|\b(?:and|so|then|but|now|we|next|which|where)\b")
_SENTENCE_BREAK = re.compile(
    r"(?:(?<=[^\W\d_]{2})|(?<=[\d)\]}$%°*\"”!?]))[.!?]+[\"”)*_]*\s+(?=\S)|[。！？]"
)
_WORD = re.compile(r"[^\W\d_]+")
_MAX_LINES = 3
_ONWARD = re.compile(
    r"\b(?:let(?:['’]s| me| us)|now|next|needs? to|have to|must|should|consider|will|try|first|then"
    r"|step|want|recall|using|wait|hmm)\b",
    re.IGNORECASE,
)

_SUPPOSED = re.compile(
    r"\A\W*(?:suppose|assume)\b"
    r"|\A\W*(?:but |and )?(?:if|had) .{0,80}\b(?:were|had been|been)\b"
    r"|\bcontradict(?:s|ion)\b|\babsurd\b",
    re.IGNORECASE,
)
"""A sentence on what is not so."""
_OPTION = re.compile(r"\b(?:option|choice)\s+\(?(?P<letter>[A-J])\)?\W*\Z")
_ANNOTATION = re.compile(r"<<[^<>\n]{0,400}>>")
_COPULA = re.compile(
    r"(?:\b(?:is|are|be|becomes|equals|get|gets|gives?|have|obtain|find|that|yields|to|as|it['’]s|est|es"
    r"|ist)\b|[:=≈])",
    re.IGNORECASE,
)
_SYMBOLS = re.compile(r"[\\^_{}+*/=<>≤≥≠()\[\]|]")
_FORMULA_LINK = re.compile(
    r"\s*(?:[,，、]\s*(?P<word>and|or|)|(?P<only>and|or|et|ou|und|oder|y|o|e|и|или|和|或))\s*"
)
_OR = frozenset(("or", "ou", "oder", "o", "или", "或"))
_CONDITION = re.compile(r"\b(?:since|if|when|for|as|with|because|where|given|from|let)\b", re.I)
_NO_SOLUTION = re.compile(
    r"\bno (?:real |integer |such |positive |valid )?(?:solutions?|roots?|numbers?)\b"
    r"|\binfinitely many(?: solutions)?\b|\bundefined\b|\bdoes not exist\b",
    re.IGNORECASE,
)
_LONE_NAME = re.compile(r"\s*\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:\([a-z]\))?\s*")
_LEAD_IN = re.compile(
    r"^(?:[\s,*_$]|\b(?:therefore|thus|so|hence|then|and|we|get|have|obtain|find|choose|choice|option"
    r"|that|this|gives|means|finally|the|value|clearly|conclude)\b)+",
    re.IGNORECASE,
)


def statement_answer(text: str, *, allows_words: bool = False) -> str | None:
    """The last formula, expression or number that the text's end states.

    "" where the text was cut off. `allows_words`: a few words may be the answer, as in
    "therefore Thursday" before "is the answer".
    """
    tail = without_bullets(_without_check(text[-_TAIL:].rstrip()))
    spans, is_cut_off = read_formulas(tail)
    if is_cut_off or tail.rfind("<<") > tail.rfind(">>"):
        return ""
    is_last, rest = True, ""
    for line in islice(_lines_from_end(tail, spans), _MAX_LINES):
        if _NO_IDEA.search(line):
            return ""
        sentences = _sentences(_LIST_MARK.sub("", line))
        for index, sentence in list(enumerate(sentences))[::-1][:3]:
            if _OFFER.match(sentence) or _is_aside(sentence, sentences[:index]):
                continue
            if is_last and not allows_words and (words := bold_phrase(sentence)) is not None:
                return words
            if is_last and not allows_words and _is_unfinished(sentence):
                return ""
            is_last, rest = False, rest or sentence
            if sentence.endswith("?") or _SUPPOSED.search(sentence) is not None:
                continue
            if says_wrong(sentence):
                return ""
            answer = _stated(sentence)
            answer = _worded(sentence) if answer is None else answer
            if answer is not None:
                return answer
            if allows_words or _ONWARD.search(sentence):
                return _words(sentence) if allows_words else ""
    return _words(rest) if allows_words else None


def whole_answer(text: str) -> str | None:
    """A completion that is nothing but an answer: one short line without a verb."""
    answer = text.strip()
    if (bold := _BOLD.fullmatch(answer)) is not None:
        answer = (bold[1] or bold[2] or bold[3]).strip()
    if not answer or len(answer) > _MAX_RUN or "\n" in answer:
        return None
    if (chain := _CHAIN.match(answer)) is not None and is_readable(chain["last"]):
        return chain["last"].strip()
    spans = formula_spans(answer)
    if len(spans) == 1 and spans[0].end - spans[0].start == len(answer):
        return answer
    if (yes_no := _YES_NO.match(answer)) is not None:
        return yes_no[1]
    words = _COMMAND.sub(" ", _outside(answer, spans))
    if _VERB.search(words) is not None or _UNFINISHED_END.search(answer):
        return None
    if spans and not _ANSWER_WORD.search(words):
        num_words = len(_WORD.findall(words))
        is_phrase = num_words <= 3 and not _COMMA.search(words)
        if 0 < num_words <= 5 and (is_phrase or spans[0].start == 0):
            return answer
    if (label := _LABEL.match(answer)) is not None and is_readable(answer[label.end() :]):
        return answer[label.end() :]
    return answer if is_readable(answer) else None


_VERB = re.compile(
    r"\b(?:is|are|was|were|we|has|have|had|find|found|gives?|gets?|got|makes?|made|need|needs|that"
    r"|thus|therefore|hence|so|it|which|because|there|they|he|she|you|the|not|let|then|now|my|choose|select|pick)\b",
    re.IGNORECASE,
)
_BOLD = re.compile(r"(?:\*\*([^*]+)\*\*|__([^_]+)__|\*([^*\s][^*]*)\*)\.?")
_CHAIN = re.compile(r"[A-Za-z]{3,}[A-Za-z ]*=[^=]+(?:=[^=]+)*=(?P<last>[^=]+)\Z")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_COMMA = re.compile(r"[,，、:：]")
_YES_NO = re.compile(r"(yes|no)\s*[,;:—–-]", re.IGNORECASE)
_LABEL = re.compile(r"(?:\w+ ){0,2}[^\W\d_]{3,}: ")
_ANSWER_WORD = re.compile(r"answer|solution|result|matrix|:", re.IGNORECASE)
_UNFINISHED_END = re.compile(r"(?:[-+*/=(,×÷^{<]|\\\w+\s?\{?)\s*\Z")


def _lines_from_end(tail: str, spans: list[Span]) -> Iterator[str]:
    """The lines that say something, from the last; a display formula may span lines."""
    stop, left = len(tail), len(spans) - 1
    while stop > 0:
        start = tail.rfind("\n", 0, stop) + 1
        while left >= 0 and spans[left].start >= start:
            left -= 1
        if left >= 0 and spans[left].end > start:
            start = tail.rfind("\n", 0, spans[left].start) + 1
        line = tail[start:stop].strip()
        if line and not _CLOSING_LINE.match(line):
            yield line
        stop = start - 1


def _sentences(line: str) -> list[str]:
    return [piece for piece in _SENTENCE_BREAK.split(line) if piece.strip()]


_LIST_MARK = re.compile(r"\A\**\d{1,2}[.)]\s+(?=\**[A-Z][a-z])")
_SIGNS = re.compile(r"[\d$\\]")


def _is_unfinished(sentence: str) -> bool:
    """No full stop, and its end is neither a number, a formula nor a few words behind one."""
    text = sentence.rstrip(' *_"”)`')
    if not text:
        return True
    if text[-1] in ".!?。！？":
        return text.endswith(("...", "…")) and not text[:-3].rstrip()[-1:].isdigit()
    if text[-1] in "+=*/,(×÷^{<:-−–—" and not text.endswith(("\\)", "\\]")):
        return True
    if not text[-1].isalpha():
        return False
    words = _WORD.findall(text[-200:])
    if not _SIGNS.search(text) or (words and words[-1].casefold() in _OPEN_WORDS):
        return True
    after = re.split(r"[\d$]|\\[)\]]", text)[-1]
    num_words = len(_WORD.findall(after))
    has_clause = _CLAUSE_START.search(after) is not None
    return num_words > (_MAX_CLAUSE_WORDS if has_clause else _MAX_LOOSE_WORDS)


def _stated(sentence: str) -> str | None:
    """The sentence's last value; "" where it denies all that it names."""
    if "<<" in sentence:
        sentence = _ANNOTATION.sub("", sentence)
    if denies(sentence):
        sentence = sentence.replace("**", "")
        return _not_denied(sentence, formula_spans(sentence))
    if (bold := bold_value(sentence)) is not None:
        sentence = bold
    sentence = sentence.replace("**", "")
    if bold is None and " or " in sentence:
        sentence = _without_restatement(sentence)
    return _last_value(sentence, formula_spans(sentence))


def _is_aside(sentence: str, earlier: list[str]) -> bool:
    """Whether a sentence without bold only follows the line's bold value."""
    if not earlier or "**" in sentence or "**" not in earlier[-1] or _ASIDE_NOT.search(sentence):
        return False
    is_denial = denies(sentence) or denies(earlier[-1]) or says_wrong(sentence)
    return not is_denial and bold_value(earlier[-1]) is not None


_ASIDE_NOT = re.compile(
    r"\b(?:so|thus|therefore|hence|finally|altogether|in total|total|answer|but|however|now|then"
    r"|next|wait|actually)\b|=",
    re.IGNORECASE,
)


def _without_check(tail: str) -> str:
    """The text before a passage at its end that only checks the answer."""
    check: re.Match[str] | None = None
    for match in _CHECK.finditer(tail):
        check = match
    if check is None or not tail[: check.start()].strip() or _CONCLUSION.search(tail, check.end()):
        return tail
    return tail[: check.start()].rstrip()


_CHECK = re.compile(
    r"\n[ \t*_#>]{0,8}(?:(?:check|verification|verify|verifying|sanity check|double[- ]check)"
    r"(?: (?:the|our|my|this) (?:answer|result|solution))?[ *_]{0,4}(?:[:.]|\n)"
    r"|(?:let['’]s|let us|we can|to) (?:verify|check|double[- ]check)"
    r"(?:(?: (?:the|our|my|this) (?:answer|result|solution))?[ *_]{0,3}[:.,]))",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"\b(?:(?:therefore|thus|hence|so)\b(?!,? (?:it|that|this|the (?:answer|solution|result)|our|my"
    r"|all|everything)(?: \w+)? (?:is|are|works?|checks?|holds?|fits?|satisf\w+)\b)"
    r"|(?:conclusion|conclude|finally|in total|wrong|incorrect|mistake|not)\b)|n['’]t\b",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\W*(?:(?:please )?let me know|i hope|hope (?:this|that|it)|feel free|would you like"
    r"|do you want|if you (?:have|need|want|would like|['’]d like)"
    r" (?:any|more|another|me|further|help|to know)|thanks?\b)",
    re.IGNORECASE,
)


def _without_restatement(sentence: str) -> str:
    """Of "needs 90 minutes, or 1.5 hours", what stands before the second spelling."""
    first = _RESTATED_OR.split(sentence, maxsplit=1)[0]
    place = _last_place(first, formula_spans(first))
    if place is None:
        return sentence
    start = place[0] - (sentence[place[0] - 1 : place[0]] in ("$", "£", "€"))
    return sentence if restated(sentence[start:].rstrip(" .*")) is None else first


_RESTATED_OR = re.compile(r",?\s\(?or\s")


def _not_denied(sentence: str, spans: list[Span]) -> str | None:
    """What stands before the values at the sentence's end that it calls wrong."""
    stop, place = len(sentence), None
    for _ in range(_MAX_DENIED):
        place = _last_place(sentence[:stop], spans)
        if place is None or not is_retracted(sentence, *place):
            break
        stop = place[0]
    if stop == len(sentence):
        return _last_value(sentence, spans)
    left = [span for span in spans if span.end <= stop]
    return "" if place is None else _last_value(sentence[:stop], left)


_MAX_DENIED = 8


def _last_place(sentence: str, spans: list[Span]) -> tuple[int, int] | None:
    """Where the last number or formula stands."""
    places = [(span.start, span.end) for span in spans if span.end <= len(sentence)]
    places.extend(match.span("number") for match in NUMBER.finditer(sentence))
    return max(places, key=lambda place: place[1], default=None)


def _last_value(sentence: str, spans: list[Span]) -> str | None:
    number = last_number(sentence, spans)
    for span in reversed(spans):
        inside = span.inside.strip().rstrip(".,;")
        if number is not None and number[0] > span.start:
            break
        if not _LONE_NAME.fullmatch(inside):
            return _listed_before(sentence, spans[: spans.index(span)], span) + inside
    expression = _expression(sentence, spans)
    if expression is not None:
        return expression
    return None if number is None else number[1]


def _worded(sentence: str) -> str | None:
    if (option := _OPTION.search(sentence)) is not None:
        return option["letter"]
    match = _NO_SOLUTION.search(sentence)
    return None if match is None else match[0]


def _listed_before(sentence: str, spans: list[Span], last: Span) -> str:
    """The formulas that one list ends with `last`, and its separators."""
    listed, right = "", last
    for span in reversed(spans):
        between = sentence[span.end : right.start]
        link = _FORMULA_LINK.fullmatch(between)
        if link is None:
            break
        word = link["word"] or link["only"]
        if not word and not listed and _CONDITION.search(sentence):
            break
        separator = " or " if word in _OR else ", "
        listed = span.inside.strip().rstrip(",;.") + separator + listed
        right = span
    return listed


def _expression(sentence: str, spans: list[Span]) -> str | None:
    """A plain-text expression behind the sentence's last "is", "=", "get" or colon."""
    if spans and spans[-1].end > len(sentence) - 3:
        return None
    last: re.Match[str] | None = None
    for match in _COPULA.finditer(sentence):
        last = match
    if last is None or len(sentence) - last.end() > 160:
        return None
    rest = sentence[last.end() :].strip(' .*_,;!"”')
    if not rest or not any(sign.isdigit() for sign in rest) or not _SYMBOLS.search(rest):
        return None
    return rest if is_readable(rest) and not _VERB.search(rest) else None


def _words(sentence: str) -> str | None:
    rest = _LEAD_IN.sub("", sentence).strip(" *_,.;")
    return rest if rest and len(rest.split()) <= 4 else None


def _outside(text: str, spans: list[Span]) -> str:
    pieces: list[str] = []
    place = 0
    for span in spans:
        pieces.append(text[place : span.start])
        place = span.end
    return " ".join((*pieces, text[place:]))
