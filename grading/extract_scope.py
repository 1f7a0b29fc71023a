"""Which part of a completion can hold its final answer, and what the model took back there.

Thinking blocks, tokens that end a turn, a next problem that the model made up, and phrases
such as "wait, that's wrong" behind an answer, "not" before it, or a stroke through it. What
the answer is, the other `extract_` modules tell. Every scan is linear in the text.
"""

import re

_FINAL_CHANNEL = "<|channel|>final<|message|>"
_THINK_ENDS = ("</think>", "</thinking>", "◁/think▷")
_THINK_STARTS = ("<think>", "<thinking>", "◁think▷")
_TURN_TOKEN = re.compile(
    r"<\|?(?:im_start|im_end|endoftext|end_of_text|eot_id|end|return|eos|end_of_turn|/s"
    r"|start_header_id)\|?>"
    r"|</s>"
)
_NEXT_PROBLEM = re.compile(
    r"\n[ \t]{0,4}(?:\*\*|#{1,3} )?(?:Problem|Question|Exercise|Instruction|Human|User|Q)"
    r"[ \t]?\d{0,3}(?:\*\*)?:"
)
_NEXT_PROBLEM_START = re.compile(r"\n[ \t]{0,4}(?:\*\*|#{1,3} )?[PQEIHU](?=[ruexn\d :])")

_LOOK_BACK, _LOOK_AHEAD = 48, 160
_NEGATED_BEFORE = re.compile(
    r"(?:\bnot|n['’]t|n['’]t be|\bcannot be|\bnever|\brather than|\binstead of)"
    r"\s+(?:equal to\s+|simply\s+|just\s+)?[\s$\\(\[*\"]{0,8}$",
    re.IGNORECASE,
)
_NEGATION_ENDS = ("ot", "OT", "'t", "’t", "ever", "than", "of", "be", "to", "simply", "just")
_DENIAL = re.compile(
    r"\b(?:not|cannot|never|wrong|incorrect|impossible|mistaken?|rather than|instead of|too)\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
_STROKE_BEFORE = re.compile(
    r"(?:\\(?:[bx]?cancel|sout|st)\s?\{|<(?:del|s|strike)>)[\s$\\(\[*\"]{0,8}$"
)
_WRONG = (
    r"(?:(?:clearly|obviously|definitely|probably|actually|also|still)\s+)?"
    r"(?:wrong|incorrect|impossible|a mistake|mistaken|too (?:big|large|small|high|low)\b"
    r"|not\s+(?:quite\s+)?(?:the\s+)?(?:right|correct|possible|answer|valid|it\b|true|final))"
)
_WRONG_AFTER = re.compile(
    r"[\s$\\)\]}.,;:!*\"'”—–~-]{0,16}"
    r"(?:"
    rf"(?:is|was|are|would be|seems(?:\s+to\s+be)?|looks|must\s+be)\s+{_WRONG}"
    r"|(?:isn['’]t|wasn['’]t|cannot be|can['’]t be|can not be)\s+(?:the\s+)?"
    r"(?:right|correct|possible|answer|valid|it\b|true)"
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


def answer_part(text: str) -> str:
    """The text without thinking blocks and without what follows the end of the turn.

    A thinking block that is not closed holds no answer: what follows its start is dropped.
    """
    if "think" in text or _FINAL_CHANNEL in text:
        text = _without_thinking(text)
    if "<|" in text or "</s>" in text or "<e" in text:
        pieces = _TURN_TOKEN.split(text)
        text = next((piece for piece in pieces if piece.strip()), "")
    return text


def next_problem_start(text: str) -> int | None:
    """Where the text goes on with another problem after a first passage, None if nowhere."""
    if _NEXT_PROBLEM_START.search(text) is None:
        return None
    match = _NEXT_PROBLEM.search(text)
    return match.start() if match is not None and text[: match.start()].strip() else None


def is_retracted(text: str, start: int, end: int) -> bool:
    """Whether the answer at `text[start:end]` is struck out, negated or called wrong."""
    if is_called_wrong(text, end):
        return True
    before = text[max(0, start - _LOOK_BACK) : start]
    words = before.rstrip(' \n$\\([*"')
    if words.endswith(_NEGATION_ENDS) and _NEGATED_BEFORE.search(before):
        return True
    if words.endswith(("{", ">")) and _STROKE_BEFORE.search(before):
        return True
    has_stroke = "~~" in text and text.count("~~", 0, start) % 2 == 1
    return has_stroke and text.find("~~", end) >= 0


def is_called_wrong(text: str, end: int) -> bool:
    """Whether the words that follow `text[:end]` say that what came last is wrong."""
    if len(text) - end < 8:
        return False
    return _WRONG_AFTER.match(text, end, end + _LOOK_AHEAD) is not None


def denies(sentence: str) -> bool:
    """Whether a sentence may deny a value that it names."""
    return _DENIAL.search(sentence) is not None


def says_wrong(sentence: str) -> bool:
    """Whether a sentence takes back what was said before it."""
    return _WRONG_AFTER.match(sentence) is not None


def _without_thinking(text: str) -> str:
    final = text.rfind(_FINAL_CHANNEL)
    if final >= 0:
        return text[final + len(_FINAL_CHANNEL) :]
    for tag in _THINK_ENDS:
        end = text.rfind(tag)
        if end >= 0:
            text = text[end + len(tag) :]
    for tag in _THINK_STARTS:
        start = text.find(tag)
        if start >= 0:
            text = text[:start]
    return text
