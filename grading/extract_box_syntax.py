r"""How boxes are written: their openers, the brace that closes one, a formula without them."""

import re

__all__ = ["BRACE", "OPENER", "closing_brace", "unboxed"]

OPENER = re.compile(
    r"(?P<slashes>\\*)(?:begin)?(?:boxed|b?box|fbox|framebox)(?:\[[^\]\n]{0,60}\]){0,2}\s{0,4}"
    r"(?:(?P<brace>\\{0,2}\{)"
    r"|(?P<bare>[-+]?\$?\d[\d,./]*%?|[A-Za-z](?![A-Za-z])|\([^()\n]{1,200}\)))"
)
BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_ESCAPED_BRACE = re.compile(r"\\[{}]")
_MAX_INSIDE = 40


def closing_brace(text: str, start: int, stop: int, *, is_escaped: bool = False) -> int | None:
    """The place of the brace that closes the one before `start`; None where there is none."""
    depth = 1
    for match in (_ESCAPED_BRACE if is_escaped else BRACE).finditer(text, start, stop):
        sign = match[0][-1] if is_escaped else match[0]
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return None


def unboxed(content: str) -> str:
    """A formula with the contents of its boxes in their places."""
    for _ in range(_MAX_INSIDE):
        match = OPENER.search(content)
        if match is None or match["brace"] is None:
            break
        end = closing_brace(content, match.end(), len(content))
        if end is None:
            break
        content = content[: match.start()] + content[match.end() : end] + content[end + 1 :]
    return content.strip()
