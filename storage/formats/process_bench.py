"""ProcessBench (`Qwen/ProcessBench`, arXiv 2412.06559): read, for evaluation.

`id str, generator str, problem str, steps list[str], final_answer_correct bool, label int`,
the 0-based first error, -1 for none. Steps before the first error are right, that one is
wrong, and of later ones nothing is known: they have no label.
"""

from collections import Counter
from collections.abc import Iterator

from grading.extract import extract_answer
from grading.verdict import Verdict
from storage.formats.foreign import (
    ForeignSolution,
    Row,
    flag_in,
    index_in,
    joined_steps,
    judged,
    text_in,
    texts_in,
)
from storage.formats.options import ImportOptions

_SEPARATOR = "\n\n"  # the steps are a response's paragraphs


def read_row(row: Row, _: ImportOptions, __: Counter[str]) -> Iterator[ForeignSolution]:
    """The one labelled solution of a row. Raises BadRowError."""
    texts = texts_in(row, "steps")
    first_error = index_in(row, "label", low=-1, high=len(texts))
    steps = joined_steps(texts, _SEPARATOR)
    known = len(texts) if first_error == -1 else first_error
    error = [] if first_error == -1 else [False]
    judgements = [*[True] * known, *error]
    is_right = flag_in(row, "final_answer_correct")
    yield ForeignSolution(
        question=text_in(row, "problem").strip(),
        steps=steps,
        labels=tuple(map(judged, [*judgements, *[None] * (len(texts) - len(judgements))])),
        final_answer=extract_answer("".join(steps)).answer,
        verdict=Verdict.CORRECT if is_right else Verdict.INCORRECT,
        generator=text_in(row, "generator"),
        name=text_in(row, "id"),
    )
