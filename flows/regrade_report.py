"""What a regrading changed: verdicts and labels, counted, with some examples of each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from grading.verdict import Grade
from pipeline.records import LabeledSolution, Prefix, Problem, Rollout, StepLabel

MAX_EXAMPLES = 20
"""Of flipped verdicts, and as many of flipped labels."""
MAX_TEXT = 200
"""Characters of an example's texts, of which the ends are kept."""


@dataclass(frozen=True, slots=True)
class VerdictFlip:
    """A rollout with another verdict. `step_index` is that of its prefix's last step, -1 for a
    solution; texts are shortened.
    """

    problem_id: str
    step_index: int
    gold_answer: str
    text: str
    old_answer: str
    new_answer: str
    old_verdict: str
    old_reason: str
    new_verdict: str
    new_reason: str


@dataclass(frozen=True, slots=True)
class LabelFlip:
    """A step with another hard label; None is a step without a graded rollout."""

    problem_id: str
    solution_id: str
    step_index: int
    step: str
    old_label: bool | None
    new_label: bool | None
    old_counts: str
    """Correct/graded."""
    new_counts: str


@dataclass(slots=True)
class RegradeReport:
    """Running counts. `verdict_flips` is by `old -> new`, as is `label_flips`.

    Labels are those of the run's config; only its own rollouts make them.
    """

    num_regraded: int = 0
    num_without_prefix: int = 0
    """Out of date and left as they are: no stored solution has their prefix."""
    verdict_flips: Counter[str] = field(default_factory=Counter[str])
    label_flips: Counter[str] = field(default_factory=Counter[str])
    num_first_errors_changed: int = 0
    verdict_examples: list[VerdictFlip] = field(default_factory=list[VerdictFlip])
    label_examples: list[LabelFlip] = field(default_factory=list[LabelFlip])
    seconds: float = 0.0

    def note_verdict(
        self, problem: Problem, prefix: Prefix, rollout: Rollout, grade: Grade
    ) -> None:
        """Count a rollout that was graded anew."""
        self.num_regraded += 1
        if grade.verdict is rollout.verdict:
            return
        self.verdict_flips[f"{rollout.verdict} -> {grade.verdict}"] += 1
        if len(self.verdict_examples) < MAX_EXAMPLES:
            self.verdict_examples.append(
                VerdictFlip(
                    problem_id=problem.problem_id,
                    step_index=prefix.num_steps - 1,
                    gold_answer=_end(problem.gold_answer),
                    text=_end(rollout.text),
                    old_answer=_end(rollout.final_answer),
                    new_answer=_end(grade.answer),
                    old_verdict=rollout.verdict.value,
                    old_reason=rollout.verdict_reason,
                    new_verdict=grade.verdict.value,
                    new_reason=grade.reason,
                )
            )

    def note_labels(
        self, old: Sequence[LabeledSolution], new: Sequence[LabeledSolution], *, threshold: float
    ) -> None:
        """Compare the labelled solutions of one problem, before and after."""
        for before, after in zip(old, new, strict=True):
            changed = before.first_error(threshold) != after.first_error(threshold)
            self.num_first_errors_changed += changed
            for step_index, labels in enumerate(zip(before.labels, after.labels, strict=True)):
                old_label, new_label = (_hard(label, threshold) for label in labels)
                if old_label is new_label:
                    continue
                self.label_flips[f"{_name(old_label)} -> {_name(new_label)}"] += 1
                if len(self.label_examples) < MAX_EXAMPLES:
                    self.label_examples.append(
                        LabelFlip(
                            problem_id=before.problem.problem_id,
                            solution_id=before.solution_id,
                            step_index=step_index,
                            step=_end(before.steps[step_index]),
                            old_label=old_label,
                            new_label=new_label,
                            old_counts=_counts(labels[0]),
                            new_counts=_counts(labels[1]),
                        )
                    )

    def summary(self) -> dict[str, Any]:
        """The counts alone, for the manifest."""
        return {
            "rollouts": self.num_regraded,
            "rollouts_without_prefix": self.num_without_prefix,
            "verdict_flips": dict(sorted(self.verdict_flips.items())),
            "label_flips": dict(sorted(self.label_flips.items())),
            "first_errors_changed": self.num_first_errors_changed,
        }

    def as_json(self) -> dict[str, Any]:
        """The counts, the examples and the seconds."""
        return {
            **self.summary(),
            "verdict_examples": [asdict(one) for one in self.verdict_examples],
            "label_examples": [asdict(one) for one in self.label_examples],
            "seconds": round(self.seconds, 3),
        }


def _hard(label: StepLabel, threshold: float) -> bool | None:
    return label.hard_label(threshold) if label.num_graded else None


def _name(label: bool | None) -> str:
    return "none" if label is None else str(label).lower()


def _counts(label: StepLabel) -> str:
    return f"{label.num_correct}/{label.num_graded}"


def _end(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"…{text[-MAX_TEXT:]}"
