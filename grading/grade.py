"""Compose the tiers: cheap and exact here, symbolic in a worker (`grading.pool`).

Sound choices, said once: no answer is incorrect; an answer that is broken or no mathematics
and whose text differs from the gold answer's is incorrect (`unparsable-answer`), since
leaving it out would raise the ratios of prefixes that produce rubbish; an answer in notation
that the grammar does not know is undecided (`unsupported`); so is anything over a budget, and
anything against a gold answer that cannot be read. Nothing here raises on bad mathematics.
"""

from functools import lru_cache

from grading.expression import parse_body
from grading.normalize import MAX_CHARS, clean_answer, join_thousands, plain_decimal
from grading.structure import EXACT, Comparison
from grading.tokens import UnreadableError
from grading.tree import Node, Op, num_nodes
from grading.verdict import Grade, Verdict

__all__ = ["compare_answers", "compare_with", "is_gradable_gold"]

_MAX_PAIRS = 4_000_000
"""Nodes of one tree times nodes of the other: sets in sets are matched all with all."""


def is_gradable_gold(gold: str) -> bool:
    """Whether a gold answer can be compared with at all: not empty, not broken, not huge."""
    if not gold.strip() or len(gold) > MAX_CHARS:
        return False
    try:
        _read(gold, True)
    except UnreadableError:
        return False
    return True


def compare_answers(gold: str, answer: str) -> Grade | None:
    """The fast tier: equal text, plain decimals, exact rationals, shapes of those.

    Returns None where only the symbolic tier can tell.
    """
    return compare_with(EXACT, gold, answer)


def compare_with(comparison: Comparison, gold: str, answer: str) -> Grade | None:
    """Grade with one tier; None where that tier leaves it open."""
    gold_text, answer_text = gold.strip(), answer.strip()
    if not answer_text:
        return Grade(Verdict.INCORRECT, "no-answer", "")
    if not gold_text:
        return Grade(Verdict.UNDECIDED, "unparsable-gold", answer)
    if gold_text == answer_text:
        return Grade(Verdict.CORRECT, "text", answer)
    gold_decimal, answer_decimal = plain_decimal(gold_text), plain_decimal(answer_text)
    if gold_decimal is not None and answer_decimal is not None:
        verdict = Verdict.CORRECT if gold_decimal == answer_decimal else Verdict.INCORRECT
        return Grade(verdict, "numeric", answer)
    if len(gold_text) > MAX_CHARS or len(answer_text) > MAX_CHARS:
        return Grade(Verdict.UNDECIDED, "too-large", answer)
    return _compare_trees(comparison, gold, answer)


def _compare_trees(comparison: Comparison, gold: str, answer: str) -> Grade | None:
    try:
        gold_tree, gold_unit = _read(gold, True)
    except UnreadableError:
        return Grade(Verdict.UNDECIDED, "unparsable-gold", answer)
    try:
        answer_tree, answer_unit = _read(answer, gold_tree.op is not Op.LIST)
        if gold_unit and answer_unit and gold_unit != answer_unit:
            return Grade(Verdict.UNDECIDED, "units", answer)
        if num_nodes(gold_tree) * num_nodes(answer_tree) > _MAX_PAIRS:
            return Grade(Verdict.UNDECIDED, "too-large", answer)
        verdict = comparison.compare(gold_tree, answer_tree)
        if verdict is not Verdict.CORRECT and answer_tree.op is Op.LIST and "," in gold:
            gold_list, _ = _read(gold, False)
            verdict = comparison.compare(gold_list, answer_tree)
    except UnreadableError as error:
        return _unreadable(error, answer)
    except RecursionError:
        return Grade(Verdict.UNDECIDED, "too-large", answer)
    if verdict is Verdict.UNDECIDED:
        return None
    return Grade(verdict, "exact" if comparison is EXACT else "symbolic", answer)


def _unreadable(error: UnreadableError, answer: str) -> Grade:
    if error.reason == "unparsable":
        return Grade(Verdict.INCORRECT, "unparsable-answer", answer)
    return Grade(Verdict.UNDECIDED, error.reason, answer)


@lru_cache(maxsize=4096)
def _read(text: str, thousands: bool) -> tuple[Node, str]:
    """Tree and unit. `thousands`: whether `1,234` is one number rather than a list of two."""
    clean = clean_answer(text)
    body = join_thousands(clean.body) if thousands else clean.body
    return parse_body(body), clean.unit
