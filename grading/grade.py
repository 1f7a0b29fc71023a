"""Compose the tiers: cheap and exact here, symbolic in a worker (`grading.pool`).

Sound choices, said once: the gold answer decides what is expected. No answer is incorrect; an
answer that is broken or no mathematics and whose text differs from the gold answer's is
incorrect (`unparsable-answer`), since leaving it out would raise the ratios of prefixes that
produce rubbish; an answer in notation that the grammar does not know is undecided
(`unsupported`); so is anything over a budget, and anything against a gold answer that cannot
be read. Nothing here raises on bad mathematics.
"""

from fractions import Fraction

from grading.extract import embedded_answer
from grading.normalize import MAX_CHARS
from grading.numerals import plain_decimal
from grading.readings import (
    Reading,
    UnreadableError,
    long_numbers,
    point_spelling,
    read_gold,
    read_text,
)
from grading.rounding import declared_decimal
from grading.shapes import holds_word
from grading.structure import EXACT, Comparison
from grading.tree import COLLECTIONS, SEQUENCES, Node, Op, num_nodes
from grading.units import unit_ratio
from grading.verdict import Grade, Verdict
from grading.wording import same_wording

__all__ = ["compare_answers", "compare_with", "is_gradable_gold", "ungradable_reason"]

_CHOICES = frozenset("ABCDEFGHIJ")
_MAX_ITEM = 40
_MAX_PAIRS = 4_000_000
"""Nodes of one tree times nodes of the other: sets in sets are matched all with all."""


def is_gradable_gold(gold: str) -> bool:
    """Whether a gold answer can be compared with at all: not empty, not broken, not huge."""
    return ungradable_reason(gold) is None


def ungradable_reason(gold: str) -> str | None:
    """Why no answer could be compared with this gold answer; None where one can be.

    `empty`, `unparsable` (broken or no mathematics), `unsupported` (notation that this grader
    does not know) or `too-large`.
    """
    if not gold.strip():
        return "empty"
    try:
        read_gold(gold.strip())
    except UnreadableError as error:
        return error.reason
    return None


def compare_answers(gold: str, answer: str) -> Grade | None:
    """The fast tier: equal text, plain decimals, exact rationals, shapes of those.

    Returns None where only the symbolic tier can tell.
    """
    return compare_with(EXACT, gold, answer)


def compare_with(comparison: Comparison, gold: str, answer: str) -> Grade | None:
    """Grade with one tier; None where that tier leaves it open."""
    grade = _from_text(gold.strip(), answer.strip(), answer)
    if grade is not None:
        return grade
    try:
        gold_reading = read_gold(gold.strip())
    except UnreadableError:
        return Grade(Verdict.UNDECIDED, "unparsable-gold", answer)
    try:
        verdict, reason = _from_readings(comparison, gold_reading, answer.strip())
    except UnreadableError as error:
        return _unreadable(error, answer)
    except RecursionError:
        return Grade(Verdict.UNDECIDED, "too-large", answer)
    if verdict is Verdict.UNDECIDED and not reason:
        return None
    return Grade(verdict, reason or ("exact" if comparison is EXACT else "symbolic"), answer)


def _from_text(gold: str, answer: str, original: str) -> Grade | None:
    """What the texts alone decide."""
    if not answer:
        return Grade(Verdict.INCORRECT, "no-answer", "")
    if not gold:
        # No answer matches an empty gold answer; loaders refuse it.
        return Grade(Verdict.INCORRECT, "unparsable-gold", original)
    if gold == answer:
        return Grade(Verdict.CORRECT, "text", original)
    gold_decimal, answer_decimal = plain_decimal(gold), plain_decimal(answer)
    if gold_decimal is not None and answer_decimal is not None:
        if gold_decimal == answer_decimal:
            return Grade(Verdict.CORRECT, "numeric", original)
        if "." not in gold_decimal or "." not in answer_decimal or len(gold + answer) > MAX_CHARS:
            return Grade(Verdict.INCORRECT, "numeric", original)
    if len(answer) > MAX_CHARS or len(gold) > MAX_CHARS:
        return _from_long_texts(gold, answer, original)
    return None


def _from_long_texts(gold: str, answer: str, original: str) -> Grade | None:
    """Lists of numbers too long to parse; None leaves the rest to the reader's budget."""
    numbers = [long_numbers(text) for text in (gold, answer)]
    if numbers[0] is None and numbers[1] is None:
        return None
    counts = [_num_items(text) for text in (gold, answer)]
    if numbers[0] is not None and numbers[1] is not None:
        is_same = sorted(numbers[0]) == sorted(numbers[1])
        return Grade(Verdict.CORRECT if is_same else Verdict.INCORRECT, "numeric", original)
    if None in counts or counts[0] == counts[1]:
        return Grade(Verdict.UNDECIDED, "too-large", original)
    return Grade(Verdict.INCORRECT, "numeric", original)


def _num_items(text: str) -> int | None:
    """How many items the answer has, for a list of numbers or a text that can be read."""
    numbers = long_numbers(text)
    if numbers is not None:
        return len(numbers)
    try:
        tree = read_text(text).tree
    except UnreadableError:
        return None
    return len(tree.args) if tree.op in SEQUENCES else 1


def _from_readings(comparison: Comparison, gold: Reading, answer: str) -> tuple[Verdict, str]:
    """The verdict of the first pair of readings that agree, else of the first pair."""
    if gold.tree.op is Op.WORD:
        return _from_words(gold, answer)
    answer_reading = _read_answer(answer, gold)
    if gold.num_nodes * answer_reading.num_nodes > _MAX_PAIRS and not (
        _is_flat(gold.tree) and _is_flat(answer_reading.tree)
    ):
        raise UnreadableError("too-large")
    verdict, reason = _compare_readings(comparison, gold, answer_reading)
    if verdict is Verdict.CORRECT:
        return verdict, reason
    answer = answer_reading.text
    if answer_reading.tree.op is Op.LIST and "," in gold.text:
        as_list = read_text(gold.text, joins_thousands=False)
        verdict, _ = _compare_readings(comparison, as_list, answer_reading)
    gold_point, answer_point = point_spelling(gold.text, answer), point_spelling(answer, gold.text)
    if verdict is not Verdict.CORRECT and (gold_point or answer_point):
        first, second = read_text(gold_point or gold.text), read_text(answer_point or answer)
        verdict = comparison.compare(first.tree, second.tree)
    return verdict, reason


def _is_flat(tree: Node) -> bool:
    """A list of short items costs no more than sorting (`grading.matching`)."""
    return tree.op in SEQUENCES and all(num_nodes(item) <= _MAX_ITEM for item in tree.args)


def _from_words(gold: Reading, answer: str) -> tuple[Verdict, str]:
    is_mixed = False
    try:
        reading = read_text(answer)
        if reading.tree == gold.tree:
            return Verdict.CORRECT, "wording"
        if (verdict := _choices(gold, reading)) is not None:
            return verdict, "choice"
        is_mixed = reading.tree.op is not Op.WORD and holds_word(reading.tree)
    except UnreadableError:
        pass
    has_letters = any(sign.isalpha() for sign in answer)
    if not has_letters and not any(sign.isdigit() for sign in gold.text):
        return Verdict.INCORRECT, "wording"
    verdict = same_wording(gold.text, answer)
    # A formula beside the right words may contradict them.
    return Verdict.UNDECIDED if is_mixed and verdict is Verdict.CORRECT else verdict, "wording"


def _read_answer(answer: str, gold: Reading) -> Reading:
    """The whole answer, or what its sentence states where it is no expression as a whole."""
    joins_thousands = gold.tree.op is not Op.LIST
    try:
        reading = read_text(answer, joins_thousands=joins_thousands)
        if reading.tree.op is not Op.WORD:
            return reading
    except UnreadableError as error:
        reading, failure = None, error
    else:
        failure = None
    stated = embedded_answer(answer)
    if stated and stated != answer:
        try:
            return read_text(stated.strip(), joins_thousands=joins_thousands)
        except UnreadableError as error:
            failure = failure or error
    if reading is not None:
        return reading
    assert failure is not None
    raise failure


def _compare_readings(
    comparison: Comparison, gold: Reading, answer: Reading
) -> tuple[Verdict, str]:
    if (chosen := _choices(gold, answer)) is not None:
        return chosen, "choice"
    ratio = unit_ratio(gold.unit, answer.unit)
    if ratio is None:
        return Verdict.INCORRECT, "units"
    verdict, reason = _compare_values(comparison, gold, answer, ratio)
    has_two_conditions = gold.condition and answer.condition
    if verdict is Verdict.CORRECT and has_two_conditions and gold.condition != answer.condition:
        return Verdict.UNDECIDED, "condition"
    return verdict, reason


def _choices(gold: Reading, answer: Reading) -> Verdict | None:
    """Letters of options decide where both texts state one; None leaves it to the values."""
    if not gold.choice and not answer.choice:
        return None
    letters = [_letter_of(gold), _letter_of(answer)]
    if not all(letters):
        return None
    if letters[0] != letters[1]:
        return Verdict.INCORRECT
    says_value = [reading.choice and reading.tree != _named(reading) for reading in (gold, answer)]
    return None if all(says_value) else Verdict.CORRECT


def _letter_of(reading: Reading) -> str:
    tree = reading.tree
    is_letter = tree.op is Op.SYM and tree.value in _CHOICES
    return reading.choice or (tree.value if is_letter else "")


def _named(reading: Reading) -> Node:
    return Node(Op.SYM, value=reading.choice)


def _compare_values(
    comparison: Comparison, gold: Reading, answer: Reading, ratio: Fraction
) -> tuple[Verdict, str]:
    if ratio != 1:
        return comparison.compare(gold.tree, _times(ratio, answer.tree)), ""
    verdict = comparison.compare(gold.tree, answer.tree)
    if verdict is Verdict.INCORRECT and not gold.unit and answer.unit == "cent":
        # A bare gold with a part is an amount in dollars.
        hundredth = _times(Fraction(1, 100), answer.tree)
        if declared_decimal(gold.tree) is not None:
            return comparison.compare(gold.tree, hundredth), ""
    return verdict, ""


def _times(factor: Fraction, tree: Node) -> Node:
    """The tree with its value, or every value that it holds, multiplied."""
    if tree.op in COLLECTIONS:
        return Node(tree.op, tuple(_times(factor, arg) for arg in tree.args), tree.value)
    if tree.op is Op.REL:
        return Node(tree.op, (*tree.args[:-1], _times(factor, tree.args[-1])), tree.value)
    upper = Node(Op.MUL, (Node(Op.NUM, value=str(factor.numerator)), tree))
    return Node(Op.DIV, (upper, Node(Op.NUM, value=str(factor.denominator))))


def _unreadable(error: UnreadableError, answer: str) -> Grade:
    if error.reason == "unparsable":
        return Grade(Verdict.INCORRECT, "unparsable-answer", answer)
    return Grade(Verdict.UNDECIDED, error.reason, answer)
