"""Which part of a completion can hold its final answer.

Thinking blocks, tokens that end a turn, a next turn of a dialogue and a next problem that the
model made up are told from it. What the answer is, the other `extract_` modules tell. Every scan
is linear in the text.
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
_NEXT_TURN = re.compile(r"\n[ \t]{0,4}(?:\*\*|#{1,3} )?(?:User|Human|Assistant):")
_TURN = re.compile(r"\s*(?:\*\*|#{1,3} )?(User|Human|Assistant):")
_NEXT_PROBLEM_START = re.compile(r"\n[ \t]{0,4}(?:\*\*|#{1,3} )?[PQEIHU](?=[ruexns\d :])")


def answer_part(text: str) -> str:
    """The text without thinking blocks and without what follows the end of the turn.

    A thinking block that is not closed holds no answer: what follows its start is dropped.
    """
    if "<" in text or "◁" in text:
        text = _without_tags(text)
    if _NEXT_TURN.search(text) is not None:
        text = _first_turn(text)
    return text


def next_problem_start(text: str) -> int | None:
    """Where the text goes on with another problem after a first passage, None if nowhere."""
    if _NEXT_PROBLEM_START.search(text) is None:
        return None
    match = _NEXT_PROBLEM.search(text)
    return match.start() if match is not None and text[: match.start()].strip() else None


def _without_tags(text: str) -> str:
    if "think" in text or _FINAL_CHANNEL in text:
        text = _without_thinking(text)
    if _TURN_TOKEN.search(text) is not None:
        pieces = _TURN_TOKEN.split(text)
        text = next((piece for piece in pieces if piece.strip()), "")
    return text


def _first_turn(text: str) -> str:
    """The text up to another turn of a dialogue; a transcript from its question on is one turn."""
    start = 0
    if (first := _TURN.match(text)) is not None and first[1] != "Assistant":
        start = max(0, text.find("Assistant:"))
        start += len("Assistant:") if start else 0
    turn = _NEXT_TURN.search(text, start)
    if turn is None or not text[start : turn.start()].strip():
        return text
    return text[: turn.start()]


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
