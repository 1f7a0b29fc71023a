"""TRL's stepwise supervision: read and written.

`prompt: str`, `completions: list[str]` (our steps, without the white space between them, which
TRL's trainers put there), `labels: list[bool]` (hard) or `list[float]` (soft, MC values). TRL's
trainer casts labels with `int()`, so that a soft 0.7 becomes 0: soft ones are written by name
only.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from grading.extract import extract_answer
from pipeline.errors import ConfigError
from pipeline.records import LabeledSolution, StepLabel
from storage.formats.foreign import (
    BadRowError,
    ForeignSolution,
    Row,
    joined_steps,
    judged,
    list_in,
    shown,
    text_in,
    texts_in,
    verdict_of,
)
from storage.formats.labelled_part import labelled_part
from storage.formats.options import ExportOptions, ImportOptions, LabelKind

_WHOLE = 0.05
"""A share times the number of rollouts may be so far from a whole number: shares of 16 rollouts
printed with three digits still fit, those of another number soon do not."""


def schema(labels: LabelKind) -> pa.Schema:
    """The columns, by the kind of labels."""
    kind = pa.bool_() if labels is LabelKind.HARD else pa.float64()
    return pa.schema(
        [
            ("prompt", pa.string()),
            ("completions", pa.list_(pa.string())),
            ("labels", pa.list_(kind)),
        ]
    )


def read_row(row: Row, options: ImportOptions, _: Counter[str]) -> Iterator[ForeignSolution]:
    """The one labelled solution of a row; its verdict is what its last label says.

    Raises BadRowError, and ConfigError for soft labels where their number of rollouts is not
    told.
    """
    texts, values = texts_in(row, "completions"), list_in(row, "labels")
    if len(values) != len(texts):
        raise BadRowError(f"{len(texts)} completions, but {len(values)} labels")
    labels = tuple(_label(value, index, options) for index, value in enumerate(values))
    steps = joined_steps(texts, options.separator or "\n")
    yield ForeignSolution(
        question=text_in(row, "prompt").strip(),
        steps=steps,
        labels=labels,
        final_answer=extract_answer("".join(steps)).answer,
        verdict=verdict_of(labels[-1]),
    )


def _label(value: object, index: int, options: ImportOptions) -> StepLabel:
    if isinstance(value, bool):
        return judged(value)
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:  # NaN, too
        raise BadRowError(f"label {index} is {shown(value)}, not true, false or a share")
    if options.num_rollouts is None:
        if isinstance(value, int):
            return judged(bool(value))
        raise ConfigError(
            f"label {index} is {value}: the labels are soft; say with --num-rollouts N of how "
            "many rollouts they are the shares"
        )
    exact = value * options.num_rollouts
    num_correct = round(exact)
    if not math.isclose(exact, num_correct, rel_tol=0, abs_tol=_WHOLE):
        raise BadRowError(
            f"label {index} is {value}, which is no share of {options.num_rollouts} rollouts "
            f"({value} * {options.num_rollouts} = {exact:g}); give the right --num-rollouts"
        )
    num_incorrect = options.num_rollouts - num_correct
    return StepLabel(options.num_rollouts, 0, num_correct, num_incorrect, 0, 0)


def write_rows(
    solutions: Iterable[LabeledSolution], options: ExportOptions, counts: Counter[str]
) -> Iterator[Row]:
    """A row a solution; it ends before the first step without a label, and is left out where
    that is the first step. Both are counted.
    """
    for solution in solutions:
        part = labelled_part(solution, counts)
        if part:
            yield {
                "prompt": options.prompt(solution.problem.question),
                "completions": [step for step, _ in part],
                "labels": [
                    label.mc_value
                    if options.labels is LabelKind.SOFT
                    else label.hard_label(options.hard_threshold)
                    for _, label in part
                ],
            }
