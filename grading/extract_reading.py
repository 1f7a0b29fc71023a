"""Whether a piece of text is an answer that the grammar can read.

Words with a number among them ("Tom left 3 hours ago") are prose and no worded answer.
"""

from grading.expression import parse_body
from grading.normalize import clean_answer, join_thousands
from grading.tokens import UnreadableError
from grading.tree import Op

_MAX_CHARS = 600


def is_readable(text: str) -> bool:
    """Whether all of a text is an expression of the grammar, or a word of it."""
    if len(text) > _MAX_CHARS:
        return False
    try:
        body = clean_answer(text).body
        node = parse_body(join_thousands(body))
    except (UnreadableError, RecursionError):
        return False
    is_prose = node.op is Op.WORD and any(sign.isdigit() for sign in text)
    return bool(body) and not is_prose
