"""The beginning of a solution up to its first step without a label, for formats that need one
label a step.
"""

from collections import Counter

from pipeline.records import LabeledSolution, StepLabel


def labelled_part(solution: LabeledSolution, counts: Counter[str]) -> list[tuple[str, StepLabel]]:
    """The steps, without the white space around them, and their labels; counted as kept, kept in
    part, or dropped.
    """
    part: list[tuple[str, StepLabel]] = []
    for step, label in zip(solution.steps, solution.labels, strict=True):
        if label.num_graded == 0:
            break
        part.append((step.strip(), label))
    if not part:
        counts["solutions dropped: the first step has no label"] += 1
        return part
    counts["solutions kept"] += 1
    num_left_out = len(solution.steps) - len(part)
    if num_left_out:
        counts["solutions kept up to their first step without a label"] += 1
        counts["steps dropped: no label, or after a step without one"] += num_left_out
    return part
