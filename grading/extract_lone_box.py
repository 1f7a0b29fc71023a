r"""The content of a text's only box, at its end in a formula of its own: `.. is $\boxed{7}$.`

A shortcut and no rule of its own: it says what `extract_boxes` would say of such a text, in a
fraction of the time, and None of any other text.
"""

import re

from grading.extract_box_syntax import closing_brace
from grading.extract_retraction import is_retracted

_OPENER = "\\boxed{"
_MAX_AFTER = 16
_AFTER = "$.\n *"
_CONTENT = re.compile(r"\s*[\w\\(\[{-]")
_PLACEHOLDERS = ("answer", "your ", "final ", "the ", "_", "\\text{answer}", "\\dots", "\\ldots")


def lone_box(text: str) -> tuple[str, int] | None:
    """Content and end of the box; None where its surroundings may change what it says."""
    start = text.rfind(_OPENER)
    if start < 0:
        return None
    before = text[start - 2 : start].rstrip(" ")
    if before[-1:] not in ("$", "=") or before in ("\\$", "!=", "<=", ">="):
        return None
    if text[max(0, start - 10) : start].rstrip(" $").endswith(("most", "least", "than", "up to")):
        return None
    inside = start + len(_OPENER)
    end: int | None = text.find("}", inside)
    content = text[inside:end]
    if "{" in content or content[-1:] == "\\":
        end = closing_brace(text, inside, len(text))
        content = text[inside:end]
    if end is None or end < 0 or len(text) - end > _MAX_AFTER or text[end + 1 :].strip(_AFTER):
        return None
    content = content.strip()
    if not _CONTENT.match(content) or content.startswith(_PLACEHOLDERS):
        return None
    if text.find("box", 0, start) >= 0 or "box" in content or "%" in text:
        return None
    return None if is_retracted(text, start, end + 1) else (content, end + 1)
