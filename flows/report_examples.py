"""Which solutions and rollouts a report shows: the first few of each kind, whatever the size.

The same dataset gives the same examples; a problem gives at most one of each kind.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from grading.verdict import Verdict
from labeling.noise import Revival
from pipeline.records import LabeledSolution, Rollout

NUM_EXAMPLES = 3
MAX_REASONS = 12
"""Reasons of undecided verdicts of which rollouts are shown."""
_MAX_TEXT = 4000


class ExampleKind(StrEnum):
    """What a labelled solution is an example of."""

    BEST = "best"
    WORST = "worst"
    UNCERTAIN = "uncertain"
    UNDECIDED = "undecided"
    REVIVED = "revived"


_Rank = tuple[float, ...]


@dataclass(slots=True)
class Examples:
    """The examples so far. `rollouts` are undecided ones, by reason."""

    solutions: dict[ExampleKind, list[tuple[_Rank, LabeledSolution]]] = field(
        default_factory=lambda: {kind: [] for kind in ExampleKind}
    )
    rollouts: dict[str, list[Rollout]] = field(default_factory=dict[str, list[Rollout]])

    def tell(self, solution: LabeledSolution, revived: Sequence[Revival]) -> None:
        """Keep the solution where it is among the first of a kind."""
        for kind, rank in _ranks(solution, revived):
            kept = self.solutions[kind]
            problem_id = solution.problem.problem_id
            same = [one for one in kept if one[1].problem.problem_id == problem_id]
            if same and _order(same[0]) <= _order((rank, solution)):
                continue
            kept[:] = sorted([*(one for one in kept if one not in same), (rank, solution)],
                             key=_order)[:NUM_EXAMPLES]  # fmt: skip

    def tell_rollout(self, rollout: Rollout) -> None:
        """Keep an undecided rollout where its reason has few examples yet."""
        if rollout.verdict is not Verdict.UNDECIDED:
            return
        kept = self.rollouts.get(rollout.verdict_reason)
        if kept is None and len(self.rollouts) < MAX_REASONS:
            kept = self.rollouts.setdefault(rollout.verdict_reason, [])
        if kept is not None and len(kept) < NUM_EXAMPLES:
            kept.append(rollout)

    def shown(self, kind: ExampleKind) -> list[LabeledSolution]:
        """The solutions of a kind, the clearest example first."""
        return [solution for _, solution in self.solutions[kind]]


def shortened(text: str, *, limit: int = _MAX_TEXT) -> str:
    """The beginning and the end of a text that is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    kept = limit // 2
    return f"{text[:kept]} … [{len(text) - 2 * kept:,} characters left out] … {text[-kept:]}"


def _order(one: tuple[_Rank, LabeledSolution]) -> tuple[_Rank, str]:
    return (one[0], one[1].solution_id)


def _ranks(
    solution: LabeledSolution, revived: Sequence[Revival]
) -> Iterable[tuple[ExampleKind, _Rank]]:
    """The kinds that the solution is of; the lowest rank is shown first."""
    inner = solution.labels[:-1]
    values = [label.mc_value for label in inner if label.num_graded]
    fewest = min((label.num_graded for label in inner), default=0)
    num_undecided = sum(label.num_undecided for label in solution.labels)
    if values and solution.verdict is Verdict.CORRECT:
        yield ExampleKind.BEST, (-min(values), -fewest, -len(values))
    if values and solution.verdict is Verdict.INCORRECT:
        yield ExampleKind.WORST, (sum(values) / len(values), -fewest, -len(values))
    if inner:
        widths = [label.interval[1] - label.interval[0] for label in inner]
        yield ExampleKind.UNCERTAIN, (-sum(widths) / len(widths), -len(widths))
    if num_undecided:
        yield ExampleKind.UNDECIDED, (-num_undecided,)
    if revived:
        yield ExampleKind.REVIVED, (min(one.chance for one in revived), -len(revived))
