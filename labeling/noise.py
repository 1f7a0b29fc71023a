"""How noisy a dataset's labels are: figures from the labels alone.

Told one labelled solution after the other, and kept as counts, so that memory does not grow
with the dataset: a label is its pair (correct, graded), and there are few different pairs.
The last step of a solution, which has the solution's own verdict and no rollouts, is left
out of all figures about rollouts. Flips by K need the rollouts: `labeling.flips`.

A *revived* step has no correct rollout, and a later step of the same solution has one. The
true value of a prefix that can be continued to a right answer is not 0, so its hard label
is wrong, unless the grader is: the rate of revived steps is a lower bound of the rate of
false "dead" labels (Math-Shepherd, arXiv 2312.08935, measures those against humans).
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import comb

from grading.verdict import Verdict
from pipeline.records import LabeledSolution, StepLabel, wilson_interval

MAX_POSITIONS = 20
"""Steps from this one on are counted together."""
CHANCE = 0.05
"""A revived step that is less likely than this is not explained by sampling noise."""
NUM_BINS = 10


@dataclass(frozen=True, slots=True)
class Revival:
    """A step without a correct rollout, and the first later one of its solution with one.

    `chance` is the probability that all correct rollouts of the two fall to the later step,
    were both of one value: Fisher's exact test, one-sided. Rollouts that both share through
    reuse make it a little too small.
    """

    step_index: int
    later_index: int
    chance: float


@dataclass(slots=True)
class PositionCounts:
    """Steps at one position: all graded, those of hard label false, the sum of MC values."""

    num_steps: int = 0
    num_dead: int = 0
    sum_mc_value: float = 0.0


@dataclass(slots=True)
class LabelNoise:
    """Counts over labelled solutions. `pairs` counts steps by (correct, graded)."""

    hard_threshold: float
    num_solutions: int = 0
    num_steps: int = 0
    solution_verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    first_errors: Counter[int] = field(default_factory=Counter[int])
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    graded: Counter[int] = field(default_factory=Counter[int])
    fresh: Counter[int] = field(default_factory=Counter[int])
    reused: Counter[int] = field(default_factory=Counter[int])
    positions: dict[int, PositionCounts] = field(default_factory=dict[int, PositionCounts])
    num_undecided_steps: int = 0
    num_revived_solutions: int = 0
    num_revived_by_end: int = 0
    revived: Counter[tuple[int, int, int, int]] = field(
        default_factory=Counter[tuple[int, int, int, int]]
    )

    def tell(self, solution: LabeledSolution) -> list[Revival]:
        """Count a solution; returns its revived steps."""
        self.num_solutions += 1
        self.num_steps += len(solution.steps)
        self.solution_verdicts[solution.verdict] += 1
        first_error = solution.first_error(self.hard_threshold)
        self.first_errors[min(first_error, MAX_POSITIONS)] += 1
        for step_index, label in enumerate(solution.labels[:-1]):
            self._tell_step(step_index, label)
        return self._tell_revivals(solution)

    def _tell_step(self, step_index: int, label: StepLabel) -> None:
        self.graded[label.num_graded] += 1
        self.fresh[label.num_rollouts - label.num_reused] += 1
        self.reused[label.num_reused] += 1
        self.num_undecided_steps += label.num_undecided > 0
        if not label.num_graded:
            return
        self.pairs[label.num_correct, label.num_graded] += 1
        counts = self.positions.setdefault(min(step_index, MAX_POSITIONS), PositionCounts())
        counts.num_steps += 1
        counts.num_dead += not label.hard_label(self.hard_threshold)
        counts.sum_mc_value += label.mc_value

    def _tell_revivals(self, solution: LabeledSolution) -> list[Revival]:
        found = revivals(solution)
        self.num_revived_solutions += bool(found)
        for one in found:
            dead, later = solution.labels[one.step_index], solution.labels[one.later_index]
            self.revived[0, dead.num_graded, later.num_correct, later.num_graded] += 1
            self.num_revived_by_end += one.later_index == len(solution.labels) - 1
        return found

    @property
    def num_labels(self) -> int:
        """Steps with a graded rollout of their own."""
        return self.pairs.total()

    def mc_values(self) -> dict[str, int]:
        """Steps by MC value: exactly 0, ten bins between (lower bound included), exactly 1."""
        bins = dict.fromkeys(["0", *(_bin_name(number) for number in range(NUM_BINS)), "1"], 0)
        for (correct, graded), count in self.pairs.items():
            if correct in (0, graded):
                bins["1" if correct else "0"] += count
            else:
                bins[_bin_name(correct * NUM_BINS // graded)] += count
        return bins

    def interval_widths(self) -> dict[str, int]:
        """Steps by the width of their 95 % interval, in ten bins."""
        bins = dict.fromkeys([_bin_name(number) for number in range(NUM_BINS)], 0)
        for (correct, graded), count in self.pairs.items():
            number = min(NUM_BINS - 1, int(interval_width(correct, graded) * NUM_BINS))
            bins[_bin_name(number)] += count
        return bins

    def num_wider_than(self, width: float) -> int:
        """Steps whose 95 % interval is wider."""
        return sum(count for pair, count in self.pairs.items() if interval_width(*pair) > width)

    def median_width(self) -> float:
        """The lower median of the intervals' widths; 1 where there is no label."""
        widths = sorted((interval_width(*pair), count) for pair, count in self.pairs.items())
        left = (self.num_labels + 1) // 2
        for width, count in widths:
            left -= count
            if left <= 0:
                return width
        return 1.0

    def num_revived(self, *, below: float = 2.0) -> int:
        """Revived steps of a chance below `below`; by default all."""
        return sum(count for key, count in self.revived.items() if chance_of(*key[1:]) < below)

    def num_dead(self) -> int:
        """Steps with graded rollouts of which none is correct."""
        return sum(count for (correct, _), count in self.pairs.items() if not correct)


def revivals(solution: LabeledSolution) -> list[Revival]:
    """The revived steps of a solution, in order. Its own verdict counts as the last step's."""
    found: list[Revival] = []
    later: int | None = None
    for step_index in range(len(solution.labels) - 1, -1, -1):
        label = solution.labels[step_index]
        if label.num_correct:
            later = step_index
        elif later is not None and label.num_graded:
            alive = solution.labels[later]
            chance = chance_of(label.num_graded, alive.num_correct, alive.num_graded)
            found.append(Revival(step_index, later, chance))
    return found[::-1]


@lru_cache(maxsize=65536)
def chance_of(num_dead: int, num_correct: int, num_graded: int) -> float:
    """That none of `num_dead` rollouts is correct, and `num_correct` of `num_graded` others
    are, given that many correct ones among all: Fisher's exact test, one-sided.
    """
    return comb(num_graded, num_correct) / comb(num_dead + num_graded, num_correct)


def interval_width(num_correct: int, num_graded: int) -> float:
    """Of the 95 % Wilson interval."""
    low, high = wilson_interval(num_correct, num_graded)
    return high - low


def _bin_name(number: int) -> str:
    edges = [f"{edge / NUM_BINS:.1f}" for edge in range(NUM_BINS + 1)]
    return [f"{low}–{high}" for low, high in pairwise(edges)][number]
