"""What a training was given, what it left out, and how it went."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from train.config import DEFAULT_THRESHOLD, TrainConfig
from train.encoded_labels import EncodedLabels, EncodedTable
from train.metrics import agreement, best_threshold, brier, step_auc
from train.model import score_encoded

_SCORED_TOGETHER = 512
"""Solutions in memory at once."""


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """On the questions kept apart, over labelled steps.

    `loss` is the mean squared distance of scores from MC values, whatever was trained on;
    `auc` the probability that a step of true hard label outscores one of false (None where
    all are of one kind), `agreement` the share of steps where `score >= 0.5` equals the hard
    label. At `threshold` the two kinds of steps are told apart best (`best_threshold`).
    """

    num_solutions: int
    num_steps: int
    loss: float
    auc: float | None
    agreement: float
    threshold: float


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What was trained on, what was left out, and how it went.

    `num_lost_steps` end beyond the model's length; `num_unlabelled_steps` have no graded
    rollout; `num_skipped_solutions` had nothing else. `num_duplicate_steps` stand after the
    same question and steps in another solution, too. Of the steps trained on,
    `num_good_steps` have a true hard label, and `mean_target` is their mean soft label.
    `epoch_losses` are means over the updates of an epoch, `train_loss` is the last of them.
    `resumed_at` counts the updates that an earlier, killed run had done; the loss of the
    epoch that it broke off is a mean over what came after. `validation` is
    None where no question was kept apart.
    """

    num_problems: int
    num_solutions: int
    num_train_solutions: int
    num_skipped_solutions: int
    num_steps: int
    num_train_steps: int
    num_good_steps: int
    mean_target: float
    num_duplicate_steps: int
    num_lost_steps: int
    num_unlabelled_steps: int
    num_cut_tokens: int
    num_updates: int
    resumed_at: int
    seconds: float
    epoch_losses: tuple[float, ...]
    train_loss: float
    validation: ValidationReport | None
    config: dict[str, Any]


def make_report(
    labels: EncodedLabels,
    *,
    validation: ValidationReport | None,
    epoch_losses: Sequence[float],
    num_updates: int,
    resumed_at: int,
    seconds: float,
    config: TrainConfig,
) -> TrainReport:
    """The counts of `labels` beside what the training came to."""
    num_used = len(labels.train) + len(labels.validation)
    return TrainReport(
        num_problems=labels.num_problems,
        num_solutions=num_used + labels.num_skipped_solutions,
        num_train_solutions=len(labels.train),
        num_skipped_solutions=labels.num_skipped_solutions,
        num_steps=labels.num_steps,
        num_train_steps=labels.num_train_steps,
        num_good_steps=labels.num_good_steps,
        mean_target=labels.sum_of_targets / labels.num_train_steps,
        num_duplicate_steps=labels.num_duplicate_steps,
        num_lost_steps=labels.num_lost_steps,
        num_unlabelled_steps=labels.num_unlabelled_steps,
        num_cut_tokens=labels.num_cut_tokens,
        num_updates=num_updates,
        resumed_at=resumed_at,
        seconds=round(seconds, 1),
        epoch_losses=tuple(epoch_losses),
        train_loss=epoch_losses[-1],
        validation=validation,
        config=config.model_dump(mode="json"),
    )


def validate(model: Any, solutions: EncodedTable) -> ValidationReport | None:
    """Score the solutions kept apart; None where there are none."""
    if not solutions:
        return None
    scores: list[float] = []
    targets: list[float] = []
    hard_labels: list[bool] = []
    for start in range(0, len(solutions), _SCORED_TOGETHER):
        some = list(solutions[start : start + _SCORED_TOGETHER])
        all_scores = score_encoded(model, [solution.encoded for solution in some])
        for solution, solution_scores in zip(some, all_scores, strict=True):
            rows = zip(solution_scores, solution.targets, solution.hard_labels, strict=True)
            for score, target, hard_label in rows:
                if target is not None:
                    scores.append(score)
                    targets.append(target)
                    hard_labels.append(hard_label)
    threshold = best_threshold(scores, hard_labels)
    return ValidationReport(
        num_solutions=len(solutions),
        num_steps=len(scores),
        loss=brier(scores, targets),
        auc=step_auc(scores, hard_labels),
        agreement=agreement(scores, hard_labels),
        threshold=DEFAULT_THRESHOLD if threshold is None else threshold,
    )
