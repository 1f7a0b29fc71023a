r"""Texts that nest deeper than the grammar goes: what can be told without parsing them.

Brackets that do not balance, and a command that lacks its argument, are broken at any depth.
Round brackets and braces that hold nothing but another pair of their kind are peeled off; so
are a limit repeated for the same letter and a chain of square roots, which becomes one root.
Every scan is linear in the text.
"""

import re
from itertools import pairwise

__all__ = ["has_balanced_braces", "is_broken", "without_idle_nesting"]


def has_balanced_braces(text: str) -> bool:
    """Whether every brace is closed, and none that was not opened; escaped ones do not count."""
    depth = 0
    for brace in _BRACE.finditer(text):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth < 0:
            return False
    return depth == 0


def is_broken(body: str) -> bool:
    """Whether the text can be no expression: unbalanced, or open at its end."""
    if (
        _CONTENT.search(body) is None
        or not has_balanced_braces(body)
        or _ENDS_OPEN.search(body) is not None
    ):
        return True
    return len(_OPENER.findall(body)) != len(_CLOSER.findall(body))


def without_idle_nesting(body: str) -> str:
    """The same expression with the nesting gone that says nothing; braces must balance."""
    body = _LIMITS.sub(r"\1", body)
    body = _without_doubled(body, "{", "}")
    body = _without_doubled(body, "(", ")")
    return _roots_joined(body)


_SIGN = re.compile(r"\\.|[{}()]", re.DOTALL)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_CONTENT = re.compile(r"[A-Za-z0-9]")
_OPENER = re.compile(r"(?<!\\)[(\[]")
_CLOSER = re.compile(r"(?<!\\)[)\]]")
_ENDS_OPEN = re.compile(r"(?:\\(?:frac|sqrt|binom|lim|sum|prod|int|cdot|times)|[-+*/^_=])\s*\Z")
_LIMITS = re.compile(r"(\\lim\s?_\s?\{[^{}]{1,60}\})(?:\s?\1)+")
_ROOTS = re.compile(r"(?:\\sqrt\s?\{\s?){2,}")


def _pairs(body: str, opener: str, closer: str) -> dict[int, int]:
    """Places of the opening signs with those of their closing ones."""
    pairs: dict[int, int] = {}
    open_places: list[int] = []
    for sign in _SIGN.finditer(body):
        if sign[0] == opener:
            open_places.append(sign.start())
        elif sign[0] == closer and open_places:
            pairs[open_places.pop()] = sign.start()
    return pairs


def _without_doubled(body: str, opener: str, closer: str) -> str:
    """`{{x}}` as `{x}`: both signs of the inner pair touch those of the outer one."""
    pairs = _pairs(body, opener, closer)
    dropped: set[int] = set()
    for start, end in pairs.items():
        if pairs.get(start + 1) == end - 1:
            dropped |= {start, end}
    return "".join(sign for place, sign in enumerate(body) if place not in dropped)


def _roots_joined(body: str) -> str:
    r"""`\sqrt{\sqrt{x}}` as `\sqrt[4]{x}`, where each root holds nothing but the next one."""
    chain = _ROOTS.search(body)
    if chain is None:
        return body
    pairs = _pairs(body, "{", "}")
    starts = [place for place in range(chain.start(), chain.end()) if body[place] == "{"]
    ends = [pairs[start] for start in starts]
    is_chain = all(not body[inner + 1 : outer].strip() for outer, inner in pairwise(ends))
    if not is_chain:
        return body
    inside = body[starts[-1] + 1 : ends[-1]]
    exponent = f"\\frac{{1}}{{2^{{{len(starts)}}}}}"
    return f"{body[: chain.start()]}({inside})^{{{exponent}}}{body[ends[0] + 1 :]}"
