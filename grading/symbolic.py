"""What a worker does with a pair that the fast tier leaves open."""

from dataclasses import replace
from functools import partial

from grading.equivalence import symbolic_proportional, symbolic_scalars
from grading.grade import compare_with
from grading.structure import Comparison
from grading.tree import Node
from grading.verdict import Grade, Verdict


def compare_symbolically(gold: str, answer: str) -> Grade | None:
    """Grade with the symbolic tier; None where nothing could be proven.

    The reason of a correct answer is `symbolic`, or `numeric-identity` where an equality in it
    was tested at many points and not proven (`grading.equivalence`).
    """
    tested: list[Node] = []
    comparison = Comparison(
        scalars=partial(symbolic_scalars, tested=tested), proportional=symbolic_proportional
    )
    grade = compare_with(comparison, gold, answer)
    if grade is not None and grade.verdict is Verdict.CORRECT and tested:
        return replace(grade, reason="numeric-identity")
    return grade
