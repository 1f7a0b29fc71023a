"""How often a label would be another one, had fewer rollouts been drawn: the K-curve.

For each distinct prefix, the verdicts are taken in the order in which the label counts them
(passes from ancestors, then the prefix' own rollouts by index), and the label after the
first k graded ones is compared with the label after all n. A prefix with n <= k rollouts
has the same label by definition.

Two shares are given, because they say different things. Of *all* prefixes: what a dataset
capped at k rollouts a step would have got wrong, measured by this one. Of the prefixes with
*more than k* rollouts: how often the rollouts after the k-th mattered; but a policy that
stops early draws them where the label was in doubt, so those prefixes are a selection.
"Wrong" is measured against the stored label, which has noise of its own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from grading.verdict import Verdict
from labeling.allocate import Allocator
from labeling.policies.config import AllocationConfig
from labeling.steps import StepConfig
from labeling.tree import PrefixTree, Tally, build_tree
from pipeline.records import Problem, Rollout

MAX_POWER = 10
SOFT_DECIMALS = 1
"""To which a soft label is rounded before it is compared."""


@dataclass(frozen=True, slots=True)
class FlipRow:
    """The labels after `k` graded rollouts beside the stored ones.

    Of `num_prefixes` with any graded rollout, `num_longer` have more than `k`; only those can
    flip. `num_hard_flips`: another hard label; `num_dead_flips` of them: no correct rollout
    among the first k, but one later. `num_soft_flips`: another rounded soft label.
    """

    k: int
    num_prefixes: int
    num_longer: int
    num_hard_flips: int
    num_dead_flips: int
    num_soft_flips: int


@dataclass(slots=True)
class FlipCurve:
    """Counts of flips at k = 1, 2, 4, …, kept while problems are told."""

    hard_threshold: float
    num_prefixes: int = 0
    longest: int = 0
    _longer: Counter[int] = field(default_factory=Counter[int])
    _hard: Counter[int] = field(default_factory=Counter[int])
    _dead: Counter[int] = field(default_factory=Counter[int])
    _soft: Counter[int] = field(default_factory=Counter[int])

    def tell(self, outcomes: Sequence[bool]) -> None:
        """Count a prefix by its graded rollouts in order: whether each is correct."""
        if not outcomes:
            return
        self.num_prefixes += 1
        self.longest = max(self.longest, len(outcomes))
        whole = self._labels(outcomes)
        for k in _powers(len(outcomes) - 1):
            hard, soft = self._labels(outcomes[:k])
            self._longer[k] += 1
            self._soft[k] += soft != whole[1]
            self._hard[k] += hard != whole[0]
            self._dead[k] += hard != whole[0] and not hard

    def rows(self) -> list[FlipRow]:
        """The curve, up to the first k that no prefix exceeds."""
        ks = [1 << power for power in range(MAX_POWER + 1)]
        return [
            FlipRow(
                k,
                self.num_prefixes,
                self._longer[k],
                self._hard[k],
                self._dead[k],
                self._soft[k],
            )
            for k in ks
            if self.num_prefixes and (k == 1 or k // 2 < self.longest)
        ]

    def _labels(self, outcomes: Sequence[bool]) -> tuple[bool, float]:
        value = sum(outcomes) / len(outcomes)
        return value > self.hard_threshold, round(value, SOFT_DECIMALS)


class _Recorded(Tally):
    """A tally that keeps the outcomes, in the order in which they are counted."""

    def __init__(self) -> None:
        Tally.__init__(self)
        self.outcomes: list[bool] = []

    def add(self, rollout: Rollout) -> None:
        Tally.add(self, rollout)
        if rollout.verdict is not Verdict.UNDECIDED:
            self.outcomes.append(rollout.verdict is Verdict.CORRECT)


def prefix_outcomes(
    problem: Problem,
    rollouts: Iterable[Rollout],
    *,
    steps: StepConfig,
    allocation: AllocationConfig,
    solutions: Sequence[Rollout] | None = None,
    counts_all: bool = False,
) -> Iterator[list[bool]]:
    """For each distinct prefix of the labelled solutions, whether each graded rollout that
    its label counts is correct, in the order of counting.

    The arguments are those of `labeling.estimate.label_problem`. Empty for a prefix that
    the policy leaves without a label.
    """
    tree = build_tree(
        problem,
        rollouts,
        method=steps.method,
        num_solutions=allocation.solutions_per_problem,
        solutions=solutions,
    )
    _record(tree)
    Allocator(tree, allocation, reuse_solutions=solutions is None).close(counts_all=counts_all)
    for node in tree.nodes.values():
        yield node.tally.outcomes if isinstance(node.tally, _Recorded) else []


def _record(tree: PrefixTree) -> None:
    for node in tree.nodes.values():
        node.tally = _Recorded()


def _powers(most: int) -> Iterator[int]:
    """1, 2, 4, … up to `most`."""
    for power in count():
        if 1 << power > most or power > MAX_POWER:
            return
        yield 1 << power
