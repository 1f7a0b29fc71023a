"""Compose the tiers: cheap and exact here, symbolic in a worker (`grading.pool`).

Sound choices, said once: the gold answer decides what is expected. No answer is incorrect; an
answer that is broken or no mathematics and whose text differs from the gold answer's is
incorrect (`unparsable-answer`), since leaving it out would raise the ratios of prefixes that
produce rubbish; an answer in notation that the grammar does not know is undecided
(`unsupported`); so is anything over a budget, and anything against a gold answer that cannot
be read. Nothing here raises on bad mathematics.
"""

import re
from dataclasses import replace

from grading.continuations import written_out
from grading.contradictions import is_class_of, other_quotient, say_other_things
from grading.effort import limited_to
from grading.extract import embedded_answer
from grading.normalize import MAX_CHARS
from grading.numerals import plain_decimal
from grading.phrases import chosen_alike, limits_nothing
from grading.quantities import comparable_values
from grading.readings import (
    Reading,
    UnreadableError,
    long_numbers,
    point_spelling,
    read_gold,
    read_text,
)
from grading.restated import value_after_unread
from grading.rounding import holds_decimal
from grading.shapes import holds_word, sign_outside
from grading.structure import EXACT, Comparison
from grading.tree import SEQUENCES, Node, Op, num_nodes
from grading.unit_vectors import components, names_unit_vectors
from grading.verdict import Grade, Verdict, all_of, any_of
from grading.wording import same_wording

__all__ = ["compare_answers", "compare_with", "is_gradable_gold", "ungradable_reason"]

_CHOICES = frozenset("ABCDEFGHIJ")
_FIGURE = re.compile(r"\\(?:measured)?(angle|triangle|square|odot|overline)(?![A-Za-z])")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_BRACKETED = re.compile(rf"\(({_GROUPED.pattern})\)|\{{({_GROUPED.pattern})\}}")
_SETTLED = frozenset(("condition", "label"))
_BRACKETED_LETTER = re.compile(r"\s*\(\s?[a-j]\s?\)\s*")
_MAX_ITEM = 40
_ENDLESSLY_MANY = re.compile(r"infinite(?:ly many)?|infinitely many", re.IGNORECASE)
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
        with limited_to(comparison.num_steps):
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
    if chosen_alike(gold.text, answer):
        return Verdict.CORRECT, "choice"
    if gold.tree.op is Op.WORD:
        return _from_words(gold, answer)
    answer_reading = _read_answer(_without_brackets(answer, gold.text), gold)
    if gold.num_nodes * answer_reading.num_nodes > _MAX_PAIRS and not (
        _is_flat(gold.tree) and _is_flat(answer_reading.tree)
    ):
        raise UnreadableError("too-large")
    verdict, reason = _compare_readings(comparison, gold, answer_reading)
    if _is_ambiguous(comparison, gold, answer_reading, verdict):
        return Verdict.UNDECIDED, "ambiguous"
    if verdict is Verdict.CORRECT or reason in _SETTLED:
        return verdict, reason
    answer = answer_reading.text
    is_list = answer_reading.tree.op is Op.LIST and ";" not in answer
    if is_list and "," in gold.text:
        as_list = read_text(gold.text, joins_thousands=False)
        verdict, _ = _compare_readings(comparison, as_list, answer_reading)
    gold_point, answer_point = point_spelling(gold.text, answer), point_spelling(answer, gold.text)
    if verdict is not Verdict.CORRECT and (gold_point or answer_point):
        first, second = read_text(gold_point or gold.text), read_text(answer_point or answer)
        verdict = comparison.compare(first.tree, second.tree)
    return verdict, reason


def _is_ambiguous(comparison: Comparison, gold: Reading, answer: Reading, verdict: Verdict) -> bool:
    """Whether `1/ab` on one side, read the other way, would change the verdict."""
    spellings = [other_quotient(reading.text) for reading in (gold, answer)]
    if gold.unit or answer.unit or spellings == [None, None]:
        return False
    readings = (gold, answer)
    try:
        trees = [
            reading.tree if spelling is None else read_text(spelling).tree
            for reading, spelling in zip(readings, spellings, strict=True)
        ]
    except UnreadableError:
        return False
    other = comparison.compare(trees[0], trees[1])
    return Verdict.UNDECIDED not in (verdict, other) and other is not verdict


def _without_brackets(answer: str, gold: str) -> str:
    """`(58,500)` or `{58,500}` as the number, where the gold answer is one, so grouped."""
    if "," not in gold or _GROUPED.fullmatch(gold) is None:
        return answer
    found = _BRACKETED.fullmatch(answer)
    return answer if found is None else found[1] or found[2]


def _is_flat(tree: Node) -> bool:
    """A list of short items costs no more than sorting (`grading.matching`)."""
    return tree.op in SEQUENCES and all(num_nodes(item) <= _MAX_ITEM for item in tree.args)


def _from_words(gold: Reading, answer: str) -> tuple[Verdict, str]:
    is_mixed = False
    figures = [set(_FIGURE.findall(text)) for text in (gold.text, answer)]
    if figures[0] and figures[1] and figures[0] != figures[1]:
        return Verdict.INCORRECT, "wording"
    try:
        reading = read_text(answer)
        if reading.tree == gold.tree:
            return Verdict.CORRECT, "wording"
        if (verdict := _choices(gold, reading)) is not None:
            return verdict, "choice"
        if reading.tree.op is Op.INF and _ENDLESSLY_MANY.search(gold.text) is not None:
            return Verdict.UNDECIDED, "wording"
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
    stated = value_after_unread(answer) or embedded_answer(answer)
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
    if gold.tree.op is Op.INF and _ENDLESSLY_MANY.search(answer.text) is not None:
        return Verdict.UNDECIDED, "wording"
    gold, answer = _by_components(gold, answer), _by_components(answer, gold)
    pairs, reason = comparable_values(gold, answer)
    if not pairs:
        return Verdict.INCORRECT, "units"
    has_dots = "dots" in gold.text or "dots" in answer.text
    conditions = frozenset((gold.condition, answer.condition)) - {""}
    verdicts: list[Verdict] = []
    for pair in pairs:
        lengths = written_out(*pair) if has_dots else []
        reason = "written-out" if lengths else reason
        verdict = all_of(comparison.compare(*trees, conditions) for trees in lengths or [pair])
        if verdict is Verdict.CORRECT:
            is_other = not (gold.unit or answer.unit) and say_other_things(gold.text, answer.text)
            if is_other or is_class_of(gold.tree, answer.tree, answer.text):
                return Verdict.UNDECIDED, "label"
            return _on_conditions(gold, answer, reason or _rule(comparison, *pair))
        verdicts.append(verdict)
    verdict = any_of(verdicts)
    return verdict, reason if verdict is Verdict.INCORRECT else ""


def _by_components(reading: Reading, other: Reading) -> Reading:
    r"""A vector `3\mathbf{i} - 2\mathbf{j}` as a tuple, where the other is one."""
    is_tuple = other.tree.op is Op.TUPLE and reading.tree.op in (Op.ADD, Op.MUL, Op.NEG)
    if not is_tuple or not names_unit_vectors(reading.text):
        return reading
    tree = components(reading.tree, len(other.tree.args))
    return reading if tree is None else replace(reading, tree=tree)


def _rule(comparison: Comparison, gold: Node, answer: Node) -> str:
    """Why two trees are equal, where it was more than their values: rounding, a dropped sign."""
    signs = [sign_outside(tree).op for tree in (gold, answer)]
    if signs[0] is not signs[1] and Op.PCT in signs:
        return "percent"
    is_rounded = comparison.rounds and (holds_decimal(gold) or holds_decimal(answer))
    if is_rounded and comparison.exactly.compare(gold, answer) is not Verdict.CORRECT:
        return "rounding"
    return ""


def _on_conditions(gold: Reading, answer: Reading, reason: str) -> tuple[Verdict, str]:
    """What holds on two different conditions, or of a residue on one, may not be equal."""
    if gold.condition and answer.condition and gold.condition != answer.condition:
        return Verdict.UNDECIDED, "condition"
    if answer.condition and not gold.condition and not limits_nothing(answer.condition):
        return Verdict.UNDECIDED, "condition"
    is_residue = Op.CONGRUENT in (gold.tree.op, answer.tree.op)
    if is_residue and (gold.condition or answer.condition) not in ("", "integer"):
        return Verdict.UNDECIDED, "condition"
    return Verdict.CORRECT, reason


def _choices(gold: Reading, answer: Reading) -> Verdict | None:
    """Letters of options decide where both texts state one; None leaves it to the values."""
    texts = (gold.text, answer.text)
    is_bracketed = any(_BRACKETED_LETTER.fullmatch(text) for text in texts)
    if not gold.choice and not answer.choice and not is_bracketed:
        return None
    letters = [_letter_of(gold, answer), _letter_of(answer, gold)]
    if not all(letters):
        return None
    if letters[0] != letters[1]:
        return Verdict.INCORRECT
    says_value = [reading.choice and reading.tree != _named(reading) for reading in (gold, answer)]
    return None if all(says_value) else Verdict.CORRECT


def _letter_of(reading: Reading, other: Reading) -> str:
    """The option's letter; `(b)` is one where the other side states an option."""
    tree = reading.tree
    if reading.choice or tree.op is not Op.SYM:
        return reading.choice
    is_bracketed = other.choice and "(" in reading.text
    is_bracketed = (is_bracketed or other.text.strip() in _CHOICES) and "(" in reading.text
    letter = tree.value.upper() if is_bracketed else tree.value
    return letter if letter in _CHOICES else ""


def _named(reading: Reading) -> Node:
    return Node(Op.SYM, value=reading.choice)


def _unreadable(error: UnreadableError, answer: str) -> Grade:
    if error.reason == "unparsable":
        return Grade(Verdict.INCORRECT, "unparsable-answer", answer)
    return Grade(Verdict.UNDECIDED, error.reason, answer)
