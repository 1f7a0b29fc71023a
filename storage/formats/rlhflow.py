"""RLHFlow (`RLHFlow/Mistral-PRM-Data`, `RLHFlow/Deepseek-PRM-Data`): written.

`conversations: list[{role: user|assistant, content}]`: the first user turn is the problem, a
space and step 1, each later user turn one step, each assistant turn `+` or `-`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from pipeline.records import LabeledSolution
from storage.formats.foreign import Row
from storage.formats.labelled_part import labelled_part
from storage.formats.options import ExportOptions

_TURN = pa.struct([("role", pa.string()), ("content", pa.string())])

SCHEMA = pa.schema([("conversations", pa.list_(_TURN))])


def write_rows(
    solutions: Iterable[LabeledSolution], options: ExportOptions, counts: Counter[str]
) -> Iterator[Row]:
    """A row a solution; it ends before the first step without a label, and is left out where
    that is the first step. Both are counted.
    """
    for solution in solutions:
        turns: list[dict[str, str]] = []
        for step, label in labelled_part(solution, counts):
            content = step if turns else f"{solution.problem.question} {step}"
            sign = "+" if label.hard_label(options.hard_threshold) else "-"
            turns += [
                {"role": "user", "content": content},
                {"role": "assistant", "content": sign},
            ]
        if turns:
            yield {"conversations": turns}
