"""What the labels that are published are like, added up table by table: counts, MC values,
intervals. For the quality gates and the card.

Shares of MC values and interval widths are of labels that rollouts made: the last step of a
solution takes the solution's own verdict, and is left out of them.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from grading.verdict import Verdict

MC_CLASSES = ("0", "0–¼", "¼–½", "½–¾", "¾–1", "1")
"""The classes of MC values; 0 and 1 are by themselves, an inner bound belongs to the lower."""
_BOUNDS = (0.0, 0.25, 0.5, 0.75)


@dataclass(slots=True)
class SplitFigures:
    """Of one split."""

    num_problems: int = 0
    num_solutions: int = 0
    num_labels: int = 0


@dataclass(slots=True)
class LabelFigures:
    """Of all labels. `mc_counts` are by `MC_CLASSES`; `rollouts_a_label` is by the number."""

    by_split: dict[str, SplitFigures] = field(default_factory=dict)
    num_correct_solutions: int = 0
    num_with_error: int = 0
    num_steps: int = 0
    num_labels: int = 0
    num_rollouts: int = 0
    num_reused: int = 0
    num_correct: int = 0
    num_undecided: int = 0
    num_truncated: int = 0
    rollouts_a_label: Counter[int] = field(default_factory=Counter)
    mc_counts: list[int] = field(default_factory=lambda: [0] * len(MC_CLASSES))
    total_width: float = 0.0

    @property
    def num_problems(self) -> int:
        """With at least one labelled solution."""
        return sum(split.num_problems for split in self.by_split.values())

    @property
    def num_solutions(self) -> int:
        """Rows."""
        return sum(split.num_solutions for split in self.by_split.values())

    @property
    def undecided_share(self) -> float:
        """Of all rollouts; 0 where there is none."""
        return self.num_undecided / self.num_rollouts if self.num_rollouts else 0.0

    @property
    def truncated_share(self) -> float:
        """Of all rollouts; 0 where there is none."""
        return self.num_truncated / self.num_rollouts if self.num_rollouts else 0.0

    @property
    def mean_width(self) -> float | None:
        """Of the 95 % intervals of labels that rollouts made; None where there is none."""
        num_made = sum(self.mc_counts)
        return self.total_width / num_made if num_made else None

    def add(self, split: str, table: pa.Table) -> None:
        """Count the rows of a table of the LABELS schema, which holds its problems whole."""
        of_split = self.by_split.setdefault(split, SplitFigures())
        of_split.num_problems += len(table.column("problem_id").unique())
        of_split.num_solutions += table.num_rows
        verdicts = table.column("verdict").to_pylist()
        self.num_correct_solutions += verdicts.count(Verdict.CORRECT.value)
        self.num_with_error += int(np.count_nonzero(table.column("first_error").to_numpy() >= 0))
        flat = {name: _flat(table, name) for name in _LISTS}
        correct, incorrect = flat["num_correct"], flat["num_incorrect"]
        graded = correct + incorrect
        num_labels = int(np.count_nonzero(graded))
        of_split.num_labels += num_labels
        self.num_labels += num_labels
        self.num_steps += len(graded)
        self.num_correct += int(correct.sum())
        self.num_rollouts += int(flat["num_rollouts"].sum())
        self.num_reused += int(flat["num_reused"].sum())
        self.num_undecided += int(flat["num_undecided"].sum())
        self.num_truncated += int(flat["num_truncated"].sum())
        is_made = (graded > 0) & ~_is_last(table)
        self._add_made(correct[is_made], graded[is_made])
        widths = flat["interval_high"] - flat["interval_low"]
        self.total_width += float(widths[is_made].sum())

    def _add_made(self, correct: np.ndarray, graded: np.ndarray) -> None:
        numbers, times = np.unique(graded, return_counts=True)
        self.rollouts_a_label.update(dict(zip(numbers.tolist(), times.tolist(), strict=True)))
        values = correct / graded
        classes = np.searchsorted(_BOUNDS, values, side="left") + (correct == graded)
        found = np.bincount(classes, minlength=len(MC_CLASSES))
        self.mc_counts = [n + int(m) for n, m in zip(self.mc_counts, found, strict=True)]


_LISTS = (
    "num_rollouts",
    "num_reused",
    "num_correct",
    "num_incorrect",
    "num_undecided",
    "num_truncated",
    "interval_low",
    "interval_high",
)


def _flat(table: pa.Table, name: str) -> np.ndarray:
    """The values of a list column, one after the other."""
    return table.column(name).combine_chunks().flatten().to_numpy(zero_copy_only=False)


def _is_last(table: pa.Table) -> np.ndarray:
    """For each step, whether it is its solution's last."""
    lengths = table.column("steps").combine_chunks().value_lengths().to_numpy()
    is_last = np.zeros(int(lengths.sum()), dtype=bool)
    is_last[np.cumsum(lengths) - 1] = True
    return is_last
