"""Answers in words: one spelling for what is said often, and a careful comparison.

A sentence equals another when the content words are the same. A short gold phrase is matched by
a longer answer only where all the other words are fillers ("the answer is"); a gold sentence is
matched by a short answer that it opens with or ends by stating. Whatever negates, offers a
choice, adds a word or names the opposite is left UNDECIDED: this module never guesses CORRECT.
"""

import re

from grading.characters import unify_characters
from grading.verdict import Verdict

__all__ = ["canonical_phrase", "is_prose", "same_wording"]


def same_wording(gold: str, answer: str) -> Verdict:
    r"""Whether two texts say the same; formulas and `\\text{…}` commands may stand inside.

    CORRECT for equal content words, for a list of the same items, for a gold phrase of one or
    two content words among fillers, and for such an answer that a gold sentence opens with or
    ends by stating. INCORRECT for two short phrases or lists that differ, and for texts with
    hardly a word in common. Else UNDECIDED.
    """
    gold_words, answer_words = _words(unify_characters(gold)), _words(unify_characters(answer))
    if not gold_words or not answer_words:
        return Verdict.UNDECIDED if gold_words == answer_words else Verdict.INCORRECT
    if len(gold_words) > _MAX_WORDS or len(answer_words) > _MAX_WORDS:
        return Verdict.CORRECT if gold_words == answer_words else Verdict.UNDECIDED
    if _content(gold_words) == _content(answer_words) and _polarity(gold_words) == _polarity(
        answer_words
    ):
        return Verdict.CORRECT
    if (verdict := _yes_or_no(gold_words, answer_words)) is not None:
        return verdict
    if _are_opposed(_content(gold_words), _content(answer_words)):
        return Verdict.INCORRECT
    if (verdict := _lists(_items(gold_words), _items(answer_words))) is not None:
        return verdict
    short, long = sorted((gold_words, answer_words), key=lambda words: len(_content(words)))
    if len(_content(short)) <= _MAX_SHORT:
        verdict = _short_in_long(short, long)
        if verdict is not Verdict.CORRECT or _says_no_more(short, long):
            return verdict
        is_sentence = short is answer_words and _is_sentence(_content(short), long)
        return verdict if is_sentence else Verdict.UNDECIDED
    return _two_sentences(short, long)


def is_prose(body: str) -> bool:
    """Whether a text reads as words, not as a formula: two of them, and two fifths of all."""
    if body.startswith("\\text{") and body.find("}") == len(body) - 1:
        return False
    if "\\text" in body:
        body = _LABEL.sub(" ", body).replace("\\text", " ")
    words = _MATH_COMMAND.sub(" ", body).split()
    plain = sum(_PLAIN_WORD.fullmatch(word) is not None for word in words)
    return plain >= 2 and plain * 5 >= len(words) * 2


def canonical_phrase(body: str) -> str | None:
    """The formula that a set phrase stands for: "no solution", "all real numbers"; else None."""
    phrase = _NOT_WORD.sub(" ", body.replace("\\text", " ")).casefold()
    phrase = " ".join(phrase.split()).strip(" .'")
    if not phrase or len(phrase) > _MAX_PHRASE:
        return None
    if _NO_SOLUTION.fullmatch(phrase):
        return "\\emptyset"
    if (numbers := _ALL_NUMBERS.fullmatch(phrase)) is not None:
        return _number_set(numbers)
    return _PHRASES.get(phrase)


_MAX_PHRASE = 80
_MAX_WORDS = 400
_MAX_SHORT = 2
_MAX_SHORT_IN_COMMON = 3
_COMMAND = re.compile(r"\\(?:text|mathrm|textbf|textit|mbox|mathbf|operatorname)\s?(?=\{)")
_MATH_COMMAND = re.compile(r"\\(?:begin|end)\s?\{[a-zA-Z]+\*?\}|\\[A-Za-z]+")
_LABEL = re.compile(r"\\text\{[^{}]*\}=")
_PLAIN_WORD = re.compile(r"[{(\"']?[A-Za-z][a-z]{2,}(?:'[a-z])?(?:-[a-z]+)?[})\"',.;:!?]{0,3}")
_PUNCTUATION = frozenset("{}$\\.\"'!?()*_")
_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+(?:\.\d+)?|[,;&]|[^\sa-z0-9,;&]")
_NOT_WORD = re.compile(r"[^A-Za-z0-9'/.-]+")

_STOP_NAMES = """
    a an the is are be was were will would can it its they this that these those there of to in on
    at by for with as has have had any all every each must should only so then thus hence
    therefore answer final i we you your our please yes
"""
_STOP_WORDS = frozenset(_STOP_NAMES.split()) - {"yes"}
_NEGATION_NAMES = """
    not no never neither nor none nobody nothing cannot can't isn't aren't doesn't don't won't
    without except unless false incorrect wrong impossible fails fail loses lose lost loser lacks
    unlike instead hardly barely rather before after than but
"""
_NEGATIONS = frozenset(_NEGATION_NAMES.split())
_OFFERS = frozenset(("or", "either", "and", "both", "versus", "vs"))
_OPPOSITES = tuple(
    frozenset(pair.split())
    for pair in (
        "odd even", "yes no", "true false", "increasing decreasing", "left right",
        "maximum minimum", "max min", "converges diverges", "convergent divergent",
        "positive negative zero", "greater less equal", "acute obtuse right", "rational irrational",
        "bounded unbounded", "open closed", "first second", "linear quadratic cubic",
        "inside outside", "parallel perpendicular", "concave convex", "possible impossible",
        "upward downward", "up down", "clockwise counterclockwise", "before after",
    )
)  # fmt: skip
_STATED = frozenset(("is", "are", "be", "was", "were", ":", "="))
_SEPARATORS = frozenset((",", ";", "and", "&"))
_FILLER_NAMES = """
    clearly obviously indeed certainly definitely surely exactly simply just get got find found
    obtain conclude conclusion result solution correct choose choice chosen 's is's it's that's
    he's she's
"""
_NO_FILLER_NAMES = "to by from in on at with for all any every each should would can of"
_FILLERS = frozenset(_FILLER_NAMES.split()) | _STOP_WORDS.difference(_NO_FILLER_NAMES.split())
_BEARER_NAMES = "function number integer sequence series graph value f g h n x it angle line set"
_BEARERS = frozenset(_BEARER_NAMES.split())
"""What may bear a property: "the function f is odd"."""
_VERB_NAMES = "is are was were will would has have can gets wins receives finishes does did"
_VERBS = frozenset(_VERB_NAMES.split())
_CONTRAST_NAMES = """
    but however except unless sometimes only although though if depends maybe perhaps or
"""
_CONTRASTS = frozenset(_CONTRAST_NAMES.split())

_KINDS = r"(?:real|integer|integral|positive|rational|natural|such|possible|valid|common|whole)"
_THINGS = r"(?:solutions?|roots?|values?|numbers?|integers?|pairs?|triples?|intersections?|zeros?)"
_NO_SOLUTION = re.compile(
    rf"(?:(?:there (?:is|are|exists?)|it has|has|the equation has) )?no "
    rf"(?:(?:{_KINDS} )*(?:numbers?|integers?)|(?:(?:real|such|possible|valid|common) )*{_THINGS})"
    rf"(?: exists?)?|(?:the )?(?:empty set|null set)|(?:there (?:is|are) )?none exists?"
)
_ALL_NUMBERS = re.compile(
    r"(?:x is |x can be |x \\in )?(?:the set of )?(?:all|any|every)(?: of)?(?: the)? "
    r"(real|integer|rational|complex|natural|positive integer|negative integer|positive real"
    r"|nonzero real|non-zero real|nonnegative integer)"
    r"s?(?: numbers?)?(?: x)?(?: (?:except|other than|but)(?: for)?(?: x)? (-?\d+(?:/\d+)?))?"
)
_NUMBER_SETS = {
    "real": "\\mathbb{R}",
    "integer": "\\mathbb{Z}",
    "rational": "\\mathbb{Q}",
    "complex": "\\mathbb{C}",
    "natural": "\\mathbb{N}",
    "positive integer": "\\mathbb{Z}^+",
    "positive real": "(0, \\infty)",
    "nonzero real": "\\mathbb{R} \\setminus \\{0\\}",
    "non-zero real": "\\mathbb{R} \\setminus \\{0\\}",
}
_PHRASES = {
    **dict.fromkeys(("dne", "does not exist", "doesn't exist", "the limit does not exist"),
                    "\\text{does not exist}"),
    **dict.fromkeys(("infinity", "positive infinity", "plus infinity"), "\\infty"),
    **dict.fromkeys(("negative infinity", "minus infinity"), "-\\infty"),
    **dict.fromkeys(("infinitely many", "infinitely many solutions", "infinite",
                     "infinite solutions", "there are infinitely many solutions",
                     "an infinite number", "infinite number of solutions"),
                    "\\text{infinitely many}"),
    **dict.fromkeys(("undefined", "not defined", "is undefined"), "\\text{undefined}"),
    "n/a": "\\text{not applicable}",
}  # fmt: skip


def _number_set(match: re.Match[str]) -> str | None:
    numbers = _NUMBER_SETS.get(match[1])
    if numbers is None or match[2] is None:
        return numbers
    return f"{numbers} \\setminus \\{{{match[2]}\\}}"


def _words(text: str) -> list[str]:
    folded = _COMMAND.sub(" ", text).casefold()
    return [word for word in _TOKEN.findall(folded) if word not in _PUNCTUATION]


def _content(words: list[str]) -> list[str]:
    return [
        _singular(word)
        for word in words
        if word not in _STOP_WORDS and (word.isalnum() or "'" in word)
    ]


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _polarity(words: list[str]) -> list[str]:
    """The words that turn a meaning round, and signs, in order."""
    return [word for word in words if word in _NEGATIONS or not (word.isalnum() or word in ",;")]


def _items(words: list[str]) -> frozenset[tuple[str, ...]]:
    items: list[tuple[str, ...]] = []
    item: list[str] = []
    for word in [*words, ","]:
        if word in _SEPARATORS:
            if item:
                items.append(tuple(_content(item)))
            item = []
        else:
            item.append(word)
    return frozenset(items)


def _lists(gold: frozenset[tuple[str, ...]], answer: frozenset[tuple[str, ...]]) -> Verdict | None:
    """Lists of the same items are equal, of single words that differ are not; else None."""
    if len(gold) > 1 and gold == answer:
        return Verdict.CORRECT
    is_names = all(len(item) == 1 and item[0].isalpha() for item in gold | answer)
    is_list = len(answer) > 1 or len(gold) > 1
    has_filler = any(word in _FILLERS or word in _POLES for item in answer for word in item)
    return Verdict.INCORRECT if is_list and is_names and not has_filler else None


_POLES = {"yes": 1, "no": -1, "true": 1, "false": -1}


def _yes_or_no(gold: list[str], answer: list[str]) -> Verdict | None:
    """Both open with yes or no (true, false): that word decides, unless more is said."""
    first, second = _POLES.get(gold[0], 0), _POLES.get(answer[0], 0)
    is_plain = all(len(words) == 1 or words[1] in (",", ";") for words in (gold, answer))
    if not first or not second or not is_plain:
        return None
    if first != second:
        return Verdict.INCORRECT
    rest = {*gold[1:], *answer[1:]}
    if any(_POLES.get(word, first) != first for word in rest):
        return Verdict.INCORRECT if len(rest) <= _MAX_SHORT else Verdict.UNDECIDED
    is_doubted = bool(_CONTRASTS & rest) or (first > 0 and _is_negated(list(rest)))
    return Verdict.UNDECIDED if is_doubted else Verdict.CORRECT


def _says_no_more(short: list[str], long: list[str]) -> bool:
    """Whether the longer text adds nothing but fillers, or what bears a property."""
    phrase = set(_content(short))
    fillers = _FILLERS
    if any(phrase <= pair for pair in _OPPOSITES):
        fillers = fillers | _BEARERS
    rest = [word for word in long if word not in short and _singular(word) not in phrase]
    return all(word in fillers or word in _STATED or word in ",;" for word in rest)


def _is_sentence(phrase: list[str], words: list[str]) -> bool:
    """Whether the words tell something of the phrase, rather than name another thing."""
    if any(set(phrase) <= pair for pair in _OPPOSITES):
        return True
    return not {"to", ",", ";", "-", "/"}.intersection(words) and not _VERBS.isdisjoint(words)


def _short_in_long(short: list[str], long: list[str]) -> Verdict:
    phrase, sentence = _content(short), _content(long)
    if not phrase:
        return Verdict.UNDECIDED
    if len(phrase) == len(sentence) == 1:
        is_both_negative = _is_negated(short) and _is_negated(long)
        return Verdict.UNDECIDED if is_both_negative else Verdict.INCORRECT
    if not set(phrase) <= set(sentence):
        if set(phrase) & set(sentence) or _is_negated(long):
            is_other = len(sentence) <= _MAX_SHORT_IN_COMMON and len(phrase) == 1
            return Verdict.INCORRECT if is_other and not _is_negated(long) else Verdict.UNDECIDED
        return Verdict.INCORRECT
    if (
        _is_negated(long)
        or _is_negated(short)
        or _OFFERS & set(long)
        or _names_opposite(phrase, sentence)
    ):
        is_opposed = _is_negated(long) != _is_negated(short) and len(sentence) <= len(phrase) + 1
        return Verdict.INCORRECT if is_opposed else Verdict.UNDECIDED
    opens = sentence[: len(phrase)] == phrase and _opens_literally(short, long)
    if opens or (sentence[-len(phrase) :] == phrase and _is_stated_last(long, len(short))):
        has_numbers = any(word.isdigit() for word in sentence[len(phrase) :])
        return Verdict.UNDECIDED if opens and has_numbers else Verdict.CORRECT
    return Verdict.UNDECIDED


def _opens_literally(short: list[str], long: list[str]) -> bool:
    """Without taking a plural, or a verb that looks like one, for the word."""
    first, second = (
        next((word for word in words if word not in _STOP_WORDS and word.isalnum()), "")
        for words in (short, long)
    )
    return first == second


def _is_stated_last(words: list[str], num_last: int) -> bool:
    before = words[-num_last - 2 : -num_last] if num_last < len(words) else []
    return bool(_STATED.intersection(before))


def _is_negated(words: list[str]) -> bool:
    return not _NEGATIONS.isdisjoint(words)


def _names_opposite(phrase: list[str], sentence: list[str]) -> bool:
    return any(
        pair.intersection(phrase) and pair.intersection(sentence).difference(phrase)
        for pair in _OPPOSITES
    )


def _are_opposed(first: list[str], second: list[str]) -> bool:
    """The same words but for a number, or for a word and its opposite."""
    if len(first) != len(second):
        return False
    changed = [(left, right) for left, right in zip(first, second, strict=True) if left != right]
    return bool(changed) and all(
        (left.isdigit() and right.isdigit()) or any({left, right} <= pair for pair in _OPPOSITES)
        for left, right in changed
    )


def _two_sentences(short: list[str], long: list[str]) -> Verdict:
    """Different sentences: numbers that differ or few shared words make them different."""
    first, second = _content(short), _content(long)
    first_numbers = sorted(word for word in first if word.isdigit())
    second_numbers = sorted(word for word in second if word.isdigit())
    if first_numbers != second_numbers and len(first_numbers) == len(second_numbers):
        return Verdict.INCORRECT
    num_shared = len(set(first) & set(second))
    return Verdict.INCORRECT if num_shared * 3 < len(set(first)) else Verdict.UNDECIDED
