r"""Math-Shepherd (`peiyi9979/Math-Shepherd`, arXiv 2312.08935): read and written.

`input` is the question and `" Step 1: … ки\nStep 2: … ки"`; `label` is the same text with each
tag `ки` replaced by `+` or `-`; `task` is `GSM8K` or `MATH`. One space stands before a tag, a
line break after it, and the last step ends `The answer is: X`.

The mathematics itself holds `+` and `-`, so `label` is read along `input`, at the tags. A `ки`
that `label` leaves as it is belongs to the text. The question has no separator of its own: it
ends at the first ` Step 1: `, also where a text repeats that later. The format has no gold
answer. Published rows are hard labels of rollouts whose number is not told.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from pipeline.errors import ConfigError
from pipeline.records import LabeledSolution
from storage.formats.foreign import (
    BadRowError,
    ForeignSolution,
    Row,
    judged,
    shown,
    text_in,
    verdict_of,
)
from storage.formats.options import ExportOptions, ImportOptions

SCHEMA = pa.schema([("input", pa.string()), ("label", pa.string()), ("task", pa.string())])

_TAG = "ки"
_START = " Step 1: "
_ANSWER = "The answer is: "
_NUMBERED = re.compile(r"Step \d+: ")
_AFTER_TAG = re.compile(r"[ \t\r]*(\n|$)")


def read_row(row: Row, _: ImportOptions, __: Counter[str]) -> Iterator[ForeignSolution]:
    """The one labelled solution of a row. Raises BadRowError."""
    text, labels, task = (text_in(row, name) for name in ("input", "label", "task"))
    start = text.find(_START)
    if start < 0:
        raise BadRowError(f"'input' has no {_START!r}: the question's end cannot be told")
    if not text[:start].strip():
        raise BadRowError("'input' has no question")
    if labels[:start] != text[:start]:
        raise BadRowError("'label' begins with another question than 'input'")
    pieces, signs = _aligned(text[start:], labels[start:])
    steps = [piece.rstrip() for piece in pieces]
    steps[0] = steps[0].lstrip()
    for index, step in enumerate(steps):
        if not step.strip():
            raise BadRowError(f"step {index} is empty")
    step_labels = tuple(judged(sign == "+") for sign in signs)
    yield ForeignSolution(
        question=text[:start].strip(),
        steps=tuple(steps),
        labels=step_labels,
        final_answer=steps[-1].rpartition(_ANSWER)[2].strip() if _ANSWER in steps[-1] else "",
        verdict=verdict_of(step_labels[-1]),
        source=task,
    )


def _aligned(text: str, labels: str) -> tuple[list[str], list[str]]:
    """The text before each tag, and the sign that `labels` has in the tag's place."""
    pieces: list[str] = []
    signs: list[str] = []
    begin = at = 0  # of the piece and of the next search, in `text`
    offset = 0  # how far `labels` lags behind: a sign is shorter than the tag
    while (tag := text.find(_TAG, at)) >= 0:
        place, end = tag - offset, tag + len(_TAG)
        if not labels.startswith(text[at:tag], at - offset):
            raise BadRowError(f"'label' parts from 'input' near {shown(text[at:tag][:40])}")
        if labels.startswith(_TAG, place):
            at = end
            continue
        sign = labels[place : place + 1]
        if (
            sign not in {"+", "-"}
            or not text[tag - 1 : tag].isspace()
            or not _AFTER_TAG.match(text, end)
        ):
            raise BadRowError(
                f"the {_TAG} number {len(pieces)} (from 0) has {shown(sign)} in 'label' and "
                f"{shown(text[max(tag - 10, 0) : end + 10])} around it: no step's end"
            )
        pieces.append(text[begin:tag])
        signs.append(sign)
        begin = at = end
        offset += len(_TAG) - 1
    if not pieces or text[begin:].strip() or labels[at - offset :] != text[at:]:
        raise BadRowError(f"after the last tag stands {shown(text[begin:][:40])}, or there is none")
    return pieces, signs


def write_rows(
    solutions: Iterable[LabeledSolution], options: ExportOptions, counts: Counter[str]
) -> Iterator[Row]:
    """A row a solution. Left out and counted: one with a step that has no label, without a final
    answer, or whose text would be misread (a tag in it, ` Step 1: ` in the question).

    Raises ConfigError where the task cannot be told.
    """
    for solution in solutions:
        question, steps = solution.problem.question.strip(), _numbered(solution)
        why = _unwritable(solution, question, steps)
        if why is not None:
            counts[f"solutions dropped: {why}"] += 1
            continue
        counts["solutions kept"] += 1
        hard = [label.hard_label(options.hard_threshold) for label in solution.labels]
        signs = ["+" if is_right else "-" for is_right in hard]
        yield {
            "input": f"{question} " + "\n".join(f"{step} {_TAG}" for step in steps),
            "label": f"{question} "
            + "\n".join(f"{step} {sign}" for step, sign in zip(steps, signs, strict=True)),
            "task": options.task or _task(solution),
        }


def _unwritable(solution: LabeledSolution, question: str, steps: list[str]) -> str | None:
    if not all(label.num_graded for label in solution.labels):
        return "a step has no label"
    if not solution.final_answer.strip():
        return "no final answer"
    if _TAG in question or any(_TAG in step for step in steps):
        return f"the text holds the tag {_TAG}"
    if _START in f"{question} ":
        return f"the question holds {_START!r}"
    return None


def _numbered(solution: LabeledSolution) -> list[str]:
    """The steps as the format has them: numbered, the last with the answer in its words."""
    steps = [step.strip() for step in solution.steps]
    answer = " ".join(solution.final_answer.split())
    body, _, line = steps[-1].rpartition("\n")
    if line.startswith("####"):
        steps[-1] = body.rstrip()
    if not re.search(r"The answer is: [^\n]+$", steps[-1]):
        steps[-1] = f"{steps[-1]} {_ANSWER}{answer}".lstrip()
    if not steps[0].startswith(_START.lstrip()):
        steps[0] = f"{_START.lstrip()}{steps[0]}"
    return [
        step if _NUMBERED.match(step) else f"Step {number}: {step}"
        for number, step in enumerate(steps, start=1)
    ]


def _task(solution: LabeledSolution) -> str:
    source = solution.problem.source.upper()
    for task in ("GSM8K", "MATH"):
        if task in source:
            return task
    raise ConfigError(
        f"the source {solution.problem.source!r} of problem {solution.problem.problem_id!r} is "
        "neither GSM8K nor MATH; say which with --task"
    )
