"""Pairs of siblings in the prefix tree: the same question, the same steps before, one step from
which the answer is often reached and one from which it is not (Step-DPO, arXiv 2406.18629).

Both steps are as they were generated. Written as Step-DPO
(`xinlai/Math-Step-DPO-10K`: `dataset, prompt, initial_reason_steps, chosen, rejected,
full_chosen, full_rejected, answer`, all texts) and as TRL's preferences (`prompt, chosen,
rejected`). No text has an end-of-sequence token: trainers add theirs.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from grading.verdict import Verdict
from pipeline.records import LabeledSolution, StepLabel
from storage.formats.foreign import UNLABELLED, Row
from storage.formats.options import ExportOptions

STEP_DPO_SCHEMA = pa.schema(
    [
        (name, pa.string())
        for name in (
            "dataset",
            "prompt",
            "initial_reason_steps",
            "chosen",
            "rejected",
            "full_chosen",
            "full_rejected",
            "answer",
        )
    ]
)
PREFERENCE_SCHEMA = pa.schema([(name, pa.string()) for name in ("prompt", "chosen", "rejected")])


@dataclass(slots=True)
class _Node:
    """A step after the steps that lead to it. `examples` has a solution through it of each
    verdict, the first one.
    """

    label: StepLabel = UNLABELLED
    examples: dict[Verdict, LabeledSolution] = field(default_factory=dict[Verdict, LabeledSolution])
    children: "dict[str, _Node]" = field(default_factory=dict[str, "_Node"])

    def example(self, preferred: Verdict) -> LabeledSolution:
        """A solution through the node that ends with that verdict, else the first of another."""
        return self.examples.get(preferred) or next(iter(self.examples.values()))


_Siblings = tuple[tuple[str, _Node], tuple[str, _Node]]

_ROUNDING = 1e-9  # 0.7 - 0.2 is a little less than 0.5


@dataclass(frozen=True, slots=True)
class StepPair:
    """Two solutions that share their first `num_shared` steps; the next one makes the pair."""

    chosen: LabeledSolution
    rejected: LabeledSolution
    num_shared: int

    @property
    def shared(self) -> str:
        """The text of the shared steps."""
        return "".join(self.chosen.steps[: self.num_shared])


def write_step_dpo(
    solutions: Iterable[LabeledSolution], options: ExportOptions, counts: Counter[str]
) -> Iterator[Row]:
    """A row a pair. `initial_reason_steps` + `full_chosen` is a solution's text, and
    `full_chosen` begins with `chosen`; so for `rejected`.
    """
    for pair in sibling_pairs(solutions, options, counts):
        problem, at = pair.chosen.problem, pair.num_shared
        yield {
            "dataset": problem.source,
            "prompt": options.prompt(problem.question),
            "initial_reason_steps": pair.shared,
            "chosen": pair.chosen.steps[at],
            "rejected": pair.rejected.steps[at],
            "full_chosen": "".join(pair.chosen.steps[at:]),
            "full_rejected": "".join(pair.rejected.steps[at:]),
            "answer": problem.gold_answer,
        }


def write_preferences(
    solutions: Iterable[LabeledSolution], options: ExportOptions, counts: Counter[str]
) -> Iterator[Row]:
    """A row a pair; the shared steps end the prompt."""
    for pair in sibling_pairs(solutions, options, counts):
        yield {
            "prompt": options.prompt(pair.chosen.problem.question) + pair.shared,
            "chosen": pair.chosen.steps[pair.num_shared],
            "rejected": pair.rejected.steps[pair.num_shared],
        }


def sibling_pairs(
    solutions: Iterable[LabeledSolution], options: ExportOptions, counts: Counter[str]
) -> Iterator[StepPair]:
    """The widest pairs of each prefix, at most `pairs_per_prefix`; one problem in memory at a
    time, so solutions of a problem are to stand together.

    Where margins are equal, more graded rollouts go first, then the order of the texts: the same
    labels always give the same pairs.
    """
    for _, group in itertools.groupby(solutions, lambda solution: solution.problem.problem_id):
        for node, num_shared in _nodes(_tree(group, counts)):
            if len(node.children) > 1:
                yield from _pairs(node, num_shared, options, counts)


def _tree(solutions: Iterable[LabeledSolution], counts: Counter[str]) -> _Node:
    root = _Node()
    for solution in solutions:
        counts["solutions"] += 1
        node = root
        for step, label in zip(solution.steps, solution.labels, strict=True):
            node = node.children.setdefault(step, _Node())
            node.examples.setdefault(solution.verdict, solution)
            # a step that ends one solution and not another has the label of its rollouts
            if label.num_graded > node.label.num_graded:
                node.label = label
    return root


def _nodes(root: _Node) -> Iterator[tuple[_Node, int]]:
    """Every node with the number of steps that lead to it, parents first."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in reversed(node.children.values()))


def _pairs(
    node: _Node, num_shared: int, options: ExportOptions, counts: Counter[str]
) -> Iterator[StepPair]:
    counts["prefixes with siblings"] += 1
    graded = [
        (step, child)
        for step, child in node.children.items()
        if child.label.num_graded >= options.min_graded
    ]
    counts["steps dropped: too few graded rollouts"] += len(node.children) - len(graded)
    highs = [one for one in graded if one[1].label.mc_value >= options.high]
    lows = [one for one in graded if one[1].label.mc_value <= options.low]
    counts["steps dropped: neither high nor low"] += len(graded) - len(highs) - len(lows)
    candidates = _wide_enough(itertools.product(highs, lows), options.margin, counts)
    kept = heapq.nsmallest(options.pairs_per_prefix, candidates, key=_rank)
    counts["pairs kept"] += len(kept)
    counts["pairs dropped: wider ones at the same prefix"] -= len(kept)
    counts["prefixes dropped: no pair"] += not kept
    for (_, chosen), (_, rejected) in kept:
        yield StepPair(
            chosen.example(Verdict.CORRECT), rejected.example(Verdict.INCORRECT), num_shared
        )


def _wide_enough(
    pairs: Iterable[_Siblings], margin: float, counts: Counter[str]
) -> Iterator[_Siblings]:
    for pair in pairs:
        is_wide = _margin(pair) >= margin - _ROUNDING
        counts[f"pairs dropped: {'wider ones at the same prefix' if is_wide else 'margin'}"] += 1
        if is_wide:
            yield pair


def _margin(pair: _Siblings) -> float:
    (_, high), (_, low) = pair
    return high.label.mc_value - low.label.mc_value


def _rank(pair: _Siblings) -> tuple[float, int, str, str]:
    (chosen, high), (rejected, low) = pair
    return (-_margin(pair), -min(high.label.num_graded, low.label.num_graded), chosen, rejected)
