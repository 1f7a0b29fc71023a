"""Answers that a text announces: `<answer>` tags, `####`, `A:` lines, "the answer is".

Marker phrases are known in some thirty languages, before their answer ("the answer is 4") and
behind it ("so 4 is the answer"). The last marker that states an answer counts; one that the
text takes back does not. Only the last `_TAIL` characters are searched for phrases.
"""

import re
from collections.abc import Callable, Iterator

from grading.extract_last_line import announced_number
from grading.extract_phrase import MAX_PHRASE, leading_answer
from grading.extract_restatement import restated
from grading.extract_retraction import correction, is_called_wrong, names_error
from grading.extract_statement import statement_answer

_HEADING = re.compile(
    r"(?:step|case|part|solution|method|question|problem|verification|check|conclusion|explanation"
    r"|note|(?:the )?(?:final )?answer\W*$|\d+[.)]\s)",
    re.IGNORECASE,
)
_HASH_LABEL = re.compile(r"(?:the )?(?:final )?answer\s*(?:is\s*:?|:)\s*", re.IGNORECASE)
_PLAIN_LINE = re.compile(r"\s*[-−]?\$?\d[\d,]*(?:\.\d+)?\s*\Z")
_FORMAL = re.compile(r"[\d\\]|^\W*[A-Za-z]\W*$")
_TAIL = 6_000
_MAX_TRIES = 64
_Read = Callable[[bool], str | None]


def tagged_answer(text: str) -> str | None:
    """What stands in the last closed `<answer>` tag, as it is there."""
    place = len(text)
    for _ in range(_MAX_TRIES):
        place = text.rfind("answer>", 0, place)
        if place < 0:
            return None
        for name in ("answer>", "final_answer>"):
            stop = place + len("answer>") - len(name) - len("</")
            if stop >= 0 and text.startswith(f"</{name}", stop):
                start = text.rfind(f"<{name}", 0, stop)
                return text[start + len(name) + 1 : stop].strip() if start >= 0 else None
    return None


def hash_answer(text: str, *, is_truncated: bool = False) -> str | None:
    """The answer behind the last `####` that is no Markdown heading.

    "" where a truncated text ends in that line: digits may be missing.
    """
    place = len(text)
    for _ in range(_MAX_TRIES):
        place = text.rfind("####", 0, place)
        if place < 0:
            return None
        stop = text.find("\n", place)
        line = text[place + 4 : stop if stop >= 0 else len(text)]
        while place > 0 and text[place - 1] == "#":
            place -= 1
        if stop < 0 and is_truncated:
            return ""
        if _PLAIN_LINE.match(line):
            return line.strip()
        line = line[:MAX_PHRASE].lstrip("# \t:").partition("####")[0].strip().strip("*").strip()
        if not line and stop < 0:
            return ""
        if line and not _is_heading(line, text[stop:] if stop >= 0 else ""):
            label = _HASH_LABEL.match(line)
            line = line[label.end() :] if label is not None else line
            answer = leading_answer(_FIRST_MINUS.sub("-", line, count=1)) or line
            found = line.find(answer)
            return answer if found < 0 else _with_hedge(line, found + len(answer), answer)
    return None


def announced_answer(text: str, *, is_truncated: bool = False) -> str | None:
    """The answer of the last marker phrase; "" where the text was cut off behind it.

    A phrase that runs into the end of a truncated text is no answer: digits may be missing.
    """
    tail = text[-_TAIL:]
    number = None if is_truncated else announced_number(tail)
    if number is not None:
        return number
    for read in _markers(tail):
        answer = read(is_truncated)
        if answer is not None:
            return answer
    return None


def line_answer(text: str) -> str | None:
    """The answer of the last line that begins with `A:`."""
    start = text.rfind("\nA:") + 1
    if start == 0 and not text.startswith("A:"):
        return None
    line = text[start + 2 : start + 2 + MAX_PHRASE].partition("\n")[0].strip()
    return (leading_answer(line) or line) if line else ""


def final_answer_after(text: str, place: int) -> str | None:
    """The answer of a "final answer" phrase or a correction behind `place`, which overrides."""
    if len(text) - place < 14:
        return None
    if "nswer" in text[place : place + _MAX_CORRECTION]:
        correction = _CORRECTION.search(text, place, place + _MAX_CORRECTION)
        if correction is not None and (answer := announced_answer(text[correction.start() :])):
            return answer if _FORMAL.search(answer) else None
    found = -1
    for spelling in ("inal answer", "inal Answer", "INAL ANSWER"):
        found = max(found, text.find(spelling, place))
    answer = announced_answer(text[found - 1 :]) if found >= 0 else None
    return answer if answer and _FORMAL.search(answer) else None


def _is_heading(line: str, after: str) -> bool:
    is_worded = " " in line and not any(sign.isdigit() or sign in "$\\" for sign in line)
    return _HEADING.match(line) is not None or (is_worded and bool(after.strip()))


# -- phrases ----------------------------------------------------------------------------

_POINT = """
    answer result solution correct\u00a0option correct\u00a0choice right\u00a0option
    jawaban hasilnya câu\u00a0trả\u00a0lời kết\u00a0quả đáp\u00a0án đáp\u00a0số
    答案 正解 最终结果 答え 解答 答 결과 정답 답 คำตอบ उत्तर الجواب الإجابة الاجابة پاسخ جواب תשובה
"""
_COMMA = """
    réponse reponse résultat resultat respuesta resultado solución solucion solução antwort ergebnis
    lösung risposta risultato soluzione resposta antwoord odpowiedź odpowiedz wynik cevap yanıt
    sonuç svar odpověď výsledek răspuns raspuns válasz vastaus ответ результат відповідь отговор
    απάντηση
"""
_COMMA_LABELS = frozenset(_COMMA.split())
_LABELS = tuple(
    label.replace("\u00a0", " ") for label in re.split(r"[ \n]+", f"{_POINT} {_COMMA}".strip())
)
_ASCII_LABELS = tuple(label for label in _LABELS if label.isascii())
_ASCII_PARTS = (
    "answer", "result", "solution", "t option", "t choice", "jawaban", "hasilnya", "reponse", "spu",
    "spo", "solucion", "antw", "ergebnis", "risultato", "soluzione", "odpowiedz", "wynik", "cevap",
    "svar", "vastaus",
)  # fmt: skip
"""Each label of `_ASCII_LABELS` holds one of them."""
_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_FIRST_SIGNS = {label: (_NON_ASCII.findall(label) or ("",))[0] for label in _LABELS}
_ENGLISH = frozenset(("answer", "result", "solution"))
_HEADING_LABELS = frozenset(
    ("solution", "lösung", "soluzione", "solución", "solucion", "solução", "解答")
)
_ENDING = r"(?:s|en|et|ul|ele|ı|em|ом|nya|は|은|는)?"
_DETAIL = (
    r"(?:\s+(?:to|for|of|in|de|du|der|des|della|do|da|del|à|a|auf|zur|für)\s[^.:=\n?!]{1,80}?"
    r"|\s+set|\s+finale?|\s+(?:therefore|then|thus|here))?"
)
_LINK = (
    r"[\s*_\"'”)\]}]{0,6}"
    r"(?:(?:is|are|was|will be|would be|should be|must be|becomes|equals|comes out (?:to be|as|to)"
    r"|est|sont|vaut|es|son|sería|ist|lautet|sind|beträgt|è|sono|é|são|to|jest|wynosi|là|adalah"
    r"|är|er|je|este|on|равен|равна|равно|будет|это|είναι|هو|هي|היא|คือ|है|dır)"
    r"(?=[\s:*$\\(\d\"“])"
    r"|：|:|=(?!=)|→|->|—|[–-](?=\s)|是|为|為|等于|は|은|는|이)"
)
_FORWARD = re.compile(
    rf"{_ENDING}(?:{_DETAIL}(?P<link>{_LINK})"
    r"|(?P<newline>[*_#:\s]{0,6}\n(?:(?:={3,80}|-{3,80})[ ]*\n)?)|(?P<bare>[은는は]))"
)
_BEFORE_BACKWARD = re.compile(
    r"\b(?:is|as|are|be)\s+(?:therefore\s+|thus\s+|then\s+)?(?:our|the|my|your)\s+"
    r"(?:(?:final|correct|desired|required|only|right|requested)\s+){0,2}\Z"
)
_AFTER_BACKWARD = re.compile(
    r"[a-z]{6,8}s?\b(?!\s*(?:is|are|was|:|=|to\s+be|of|set|in)\b)"
    r"(?=\s*(?:[.!,;*$]|$|to\b|because|since|and\b|for\b))"
)
_LINE_START = re.compile(r"[\s*_#>\d.)\-✅🎯]*(?:(?:the|our|my|final|correct)\s+)*\Z")
_HEDGE = re.compile(
    r"[\s$.,;*)(?]{0,6}(?:or|alternatively|(?<=\()(?:maybe|perhaps|possibly)|(?:but\s+)?it\s+(?:could|might|may)\s+(?:also\s+)?be)\b,?\s+"
    r"(?:maybe |perhaps |possibly |even |it is ){0,2}(?P<other>[-$]{0,2}\d[\d.,/]*)",
    re.IGNORECASE,
)
_MAX_RESTATED = 120
_STOP = re.compile(r"[.!?;](?:\s|\Z)|\n")
_BULLET = re.compile(r"\s{0,4}(?:[-•]|\*(?!\*)|\d{1,2}[.)])\s+")
_NAMED_LINE = re.compile(
    r"[\s$*]*(?P<value>(?P<name>[A-Za-z](?:_\{?\w\}?)?) ?= ?[^=\n$*]{1,60}?)[\s$*.,;]*"
)
_FENCE = re.compile(r"```[ \t]*[A-Za-z+#]{1,12}(?=[ \t]*\n)")
_FIRST_MINUS = re.compile(r"\A[-−]\s(?=\$?\d)")
_LOOSE_MINUS = re.compile(r"(?<=\A )[-−]\s(?=\d)")
_CORRECTION = re.compile(
    r"\b(?:wait|actually|correction|sorry|oops|on second thought)\b[^\n?]{0,40}?"
    r"\b(?:the|my) (?:(?:correct|right|real|true) )?answer (?:is|should be|must be|becomes)\b",
    re.IGNORECASE,
)
_MAX_CORRECTION = 2_000
_CHOSEN = re.compile(
    r"(?<!不)(?<!不能)(?<!不应)(?:(?<=正确)选项|(?<=正确的)选项|(?<=[故应])选项|选择?(?!项))"
    r"\s?(?:是|为)?\s?[:：]?\s?[(（]?(?P<letters>[A-H]{1,6})[)）]?(?![A-Za-z]|\s?(?:或|/|还是))"
)
_DENIED_CHOICE = re.compile(r"\s?(?:项|选项)?\s?(?:是|不|并不)?\s?(?:错|不对|不正确|不成立|不符)")
_QUESTION = re.compile(
    r"(?:what|which|that|this|it|here|such|how|there|below|following|not|n['’]t|never)\W*\Z",
    re.IGNORECASE,
)


def _markers(tail: str) -> Iterator[_Read]:
    """Readers of the tail's marker phrases, from the last to the first."""
    low = tail.lower()
    if len(low) != len(tail):
        low = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in tail)
    places: list[tuple[int, str]] = []
    for label in _labels_in(low):
        place = low.rfind(label)
        while place >= 0 and len(places) < _MAX_TRIES:
            places.append((place, label))
            place = low.rfind(label, 0, place)
    if "选" in low:
        places.extend((match.start(), "选") for match in _CHOSEN.finditer(tail))
    places.sort(reverse=True)
    for place, label in places:
        before = low[place - 1 : place]
        if before == "\\" or before == "_" or _is_letter(before):
            continue
        if label == "选":
            yield _choice_reader(tail, place)
            continue
        match = _FORWARD.match(low, place + len(label))
        if match is not None and names_error(low[max(0, place - 40) : place]):
            continue
        if match is not None and _is_announcement(low, place, label, match):
            yield _forward_reader(tail, place, label, match)
        elif label in _ENGLISH and _AFTER_BACKWARD.match(low, place):
            backward = _BEFORE_BACKWARD.search(low[max(0, place - 60) : place])
            if backward is not None:
                yield _backward_reader(tail, max(0, place - 60) + backward.start(), place)


def _labels_in(low: str) -> list[str]:
    """The labels that occur, in the order of `_LABELS`; few searches where there is none."""
    if low.isascii():
        parts = [part for part in _ASCII_PARTS if part in low]
        return [label for label in _ASCII_LABELS if label in low] if parts else []
    signs = {"", *_NON_ASCII.findall(low)}
    return [label for label, sign in _FIRST_SIGNS.items() if sign in signs and label in low]


def _is_letter(sign: str) -> bool:
    """A letter of a script that parts words by spaces."""
    return sign.isalpha() and sign < "\u0e00"


def _is_announcement(low: str, place: int, label: str, match: re.Match[str]) -> bool:
    """A label alone on its line, or with a link; a heading such as `Solution:` is none."""
    link = match["link"]
    if link is None or link.strip(" *_\"'”)]}") in (":", "："):
        if label in _HEADING_LABELS and match["bare"] is None:
            return False
        if match["newline"] is not None:
            line_start = low.rfind("\n", 0, place) + 1
            return _LINE_START.match(low[line_start:place]) is not None
    return True


def _forward_reader(tail: str, place: int, label: str, match: re.Match[str]) -> _Read:
    start, link = match.end(), match["link"]
    is_final = tail[max(0, place - 6) : place].lower() == "final "

    def read(is_truncated: bool) -> str | None:
        phrase = _FENCE.sub(_same_length, tail[start : start + MAX_PHRASE])
        if not phrase.strip(' \n*_:$"\\'):
            return ""
        answer = _bullets(phrase) or leading_answer(
            _LOOSE_MINUS.sub("-", phrase, count=1).strip(),
            has_decimal_comma=label in _COMMA_LABELS,
            is_heading=not is_final and (link is None or ":" in link),
        )
        if answer is None:
            return None
        found = phrase.find(answer)
        end = start + found + len(answer) if found >= 0 else len(tail)
        is_at_end = start + MAX_PHRASE >= len(tail)
        if is_truncated and is_at_end and not tail[end:].strip(" ,"):
            return ""
        if found >= 0 and is_called_wrong(tail, end):
            return None
        if found >= 0 and (corrected := correction(tail, end)) is not None:
            return corrected
        return _with_hedge(tail, end, answer)

    return read


def _same_length(fence: re.Match[str]) -> str:
    """A fence without the name of its language, in as many characters, so that places stay."""
    return "```".ljust(len(fence[0]))


def _with_hedge(text: str, end: int, answer: str) -> str:
    """The answer and another one that is offered behind it."""
    hedge = _HEDGE.match(text, end)
    if hedge is None:
        return answer
    stop = _STOP.search(text, hedge.end("other"), end + _MAX_RESTATED)
    again = text[end : stop.start() if stop is not None else end + _MAX_RESTATED]
    if restated(answer + again) is not None:
        return answer
    return f"{answer} or {hedge['other'].rstrip('.,')}"


def _choice_reader(tail: str, place: int) -> _Read:
    def read(is_truncated: bool) -> str | None:
        del is_truncated
        chosen = _CHOSEN.match(tail, place)
        if chosen is None or _DENIED_CHOICE.match(tail, chosen.end()):
            return None
        return chosen["letters"]

    return read


def _bullets(phrase: str) -> str | None:
    """The answers of a list of two or more bullets, or lines of values, at the beginning."""
    items: list[str] = []
    lines = phrase.lstrip(" *_:\n").split("\n")
    if (named := _named_lines(lines)) is not None:
        return named
    for line in lines:
        bullet = _BULLET.match(line)
        answer = None if bullet is None else leading_answer(line[bullet.end() :])
        if not answer:
            break
        items.append(answer)
    return ", ".join(items) if len(items) > 1 else None


def _named_lines(lines: list[str]) -> str | None:
    """`x = 1` and `y = 2` on two lines: values of different names."""
    values: dict[str, str] = {}
    for line in lines:
        named = _NAMED_LINE.fullmatch(line)
        if named is None or named["name"] in values:
            break
        values[named["name"]] = named["value"].strip()
    return ", ".join(values.values()) if len(values) > 1 else None


def _backward_reader(tail: str, end: int, label_place: int) -> _Read:
    def read(is_truncated: bool) -> str | None:
        del is_truncated
        before = tail[max(0, end - MAX_PHRASE) : end]
        after = label_place + len("solution")
        if _QUESTION.search(before) or is_called_wrong(tail, after):
            return None
        return statement_answer(before, allows_words=True)

    return read
