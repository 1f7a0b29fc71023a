"""The exact truth of demo steps: for evaluation only, labels never see it.

A step is true when it states the next line of the reference solution: the same expression
and value, and the same owner where the step names one. Written in another order of operands
a sum or product is still true. After a false step nothing is true: every line builds on the
one before.
"""

import re
from collections.abc import Sequence

from pipeline.demo.problems import DemoProblem, demo_problem
from pipeline.demo.student import reference_lines

_LINE = re.compile(r"\s*(?:(\w+) has )?(\d{1,6})([*/+-])(\d{1,6})=(\d{1,6})(?: \w+)?\.")
_PROBLEM_ID = re.compile(r"demo-(\w+)-(\d+)")


def demo_problem_of(problem_id: str) -> DemoProblem:
    """The demo problem of an id such as `demo-train-000017`. Raises ValueError for others."""
    match = _PROBLEM_ID.fullmatch(problem_id)
    if match is None:
        raise ValueError(f"{problem_id!r} is not the id of a demo problem")
    return demo_problem(match[1], int(match[2]))


def step_truths(problem: DemoProblem, steps: Sequence[str]) -> tuple[bool, ...]:
    """For each step, whether the solution is still right after it; as long as `steps`."""
    reference = reference_lines(problem)
    truths: list[bool] = []
    is_right = True
    for step_index, step in enumerate(steps):
        line = _LINE.match(step)
        if line is None or step_index >= len(reference):
            is_right = False
        else:
            wanted = reference[step_index]
            is_right = (
                is_right
                and line[1] in {None, wanted.owner}
                and int(line[5]) == wanted.value
                and _canonical(f"{line[2]}{line[3]}{line[4]}") == _canonical(wanted.expression)
            )
        truths.append(is_right)
    return tuple(truths)


def _canonical(expression: str) -> str:
    for operator in "+*":
        left, found, right = expression.partition(operator)
        if found:
            return operator.join(sorted((left, right)))
    return expression
