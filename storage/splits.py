"""Which split a problem's labels are in, by its question alone.

Weighted rendezvous hashing (Schindelhauer & Schomaker 2005): each split draws a number from
the hash of its name and the question, weighted by its share, and the highest one gets the
problem. So the same question is never in two splits, whatever its id; more problems move
none of the others; and a changed share moves no more of them than it must.
"""

import hashlib
import math
from collections.abc import Mapping

_BITS = 53


def split_of_question(question: str, shares: Mapping[str, float]) -> str:
    """The split of `shares` (name: share above 0) that a question falls into.

    White space does not count. The order of `shares` does not either.
    """
    text = " ".join(question.split())
    return min(shares, key=lambda split: (_distance(split, text) / shares[split], split))


def _distance(split: str, text: str) -> float:
    """Exponentially distributed with mean 1, over the questions."""
    content = f"{split}\n{text}".encode("utf-8", "surrogatepass")
    number = int.from_bytes(hashlib.sha256(content).digest()[:8]) >> (64 - _BITS)
    return -math.log((number + 0.5) / 2**_BITS)
