r"""A box's value that the text around the box changes or goes on with.

`\boxed{5}x`, `\boxed{5} million`, `$\boxed{5}$ or $6$` and `at most $\boxed{5}$` say more than the
box does. What stands in the box's own formula is told by `extract_surroundings`.
"""

import re

from grading.extract_joins import Box

__all__ = ["with_continuation"]


def with_continuation(text: str, box: Box) -> str | None:
    """The content with the words that belong to it; None where there are none."""
    end = box.end or len(text)
    is_number = _NUMBER.fullmatch(box.content) is not None
    before = text[max(0, box.start - _REACH) : box.start]
    # Most texts hold no bound, and the pattern is slow.
    is_near = before.rstrip(" $\\([").endswith(("most", "least", "than", "up to"))
    if is_number and is_near and (bound := _BOUND.search(before)):
        return f"{bound['bound']} {box.content}"
    after = _AFTER.match(text, end, end + _REACH)
    if after is None:
        return None
    if (other := after["formula"] or after["number"]) is not None:
        return None if "box" in other else f"{box.content} or {other.strip('$').rstrip('.,')}"
    if not is_number:
        return None
    return box.content + (after["letter"] or f" {after['scale']}")


_REACH = 80
_NUMBER = re.compile(r"\\?\$?[-−]?[\d.,]+|\\[dt]?frac\{\d+\}\{\d+\}")
_BOUND = re.compile(
    r"(?:\A|\n|\banswer is|\banswer:)[\s*]{0,4}"
    r"(?P<bound>at most|at least|up to|(?:no )?(?:less|more|fewer|greater) than)\s*[$\\(\[]{0,3}\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"(?P<letter>[abcdefijknpqrtuvwxyzBGMPQRTXYZ](?![A-Za-z]))"
    r"|(?:[$*]{1,2}|\\\)|\\\])?(?:"
    r"\s?(?P<scale>(?:hundred|thousand|million|billion|trillion|dozen)s?)\b"
    r"|\s?,?\s?\(?or\s(?:maybe\s|perhaps\s)?"
    r"(?:(?P<formula>\$[^$\n]{1,60}\$)|(?P<number>[-−]?\d[\d.,/]*)))"
)
"""A letter behind a box that is no unit of measurement."""
