"""Train a PRM on a labelled dataset.

`transformers.Trainer` does the loop; ours are the ragged step positions, the loss, and
the counts. A step's weight in an update is the same whichever batch it falls into, also
under gradient accumulation.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_callback import PrinterCallback

from pipeline.errors import DataError
from train.config import TrainConfig
from train.labels import EncodedLabels, EncodedSolution, encode_labels
from train.loss import IGNORED, squared_error, step_logits
from train.metrics import agreement, brier, step_auc
from train.model import load_base, pad_ids, pad_steps, quiet_transformers, score_encoded
from train.model_folder import clear_errors, replacing_folder, require_replaceable

logger = logging.getLogger(__name__)

REPORT_NAME = "train_report.json"

OnProgress = Callable[[int, int], None]
"""Called after every update with the number of updates done, and of all."""


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """On the questions kept apart, over labelled steps.

    `loss` is the mean squared distance of scores from MC values, `auc` the probability
    that a step of true hard label outscores one of false (None where all are of one
    kind), `agreement` the share of steps where `score >= 0.5` equals the hard label.
    """

    num_solutions: int
    num_steps: int
    loss: float
    auc: float | None
    agreement: float


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What was trained on, what was left out, and how it went.

    `num_lost_steps` end beyond the model's length; `num_unlabelled_steps` have no graded
    rollout; `num_skipped_solutions` had nothing else. `epoch_losses` are means over the
    updates of an epoch, `train_loss` is the last of them. `validation` is None where no
    question was kept apart.
    """

    num_problems: int
    num_solutions: int
    num_train_solutions: int
    num_skipped_solutions: int
    num_steps: int
    num_train_steps: int
    num_lost_steps: int
    num_unlabelled_steps: int
    num_cut_tokens: int
    num_updates: int
    seconds: float
    epoch_losses: tuple[float, ...]
    train_loss: float
    validation: ValidationReport | None
    config: dict[str, Any]


def train_prm(
    dataset_path: Path,
    out_path: Path,
    config: TrainConfig,
    *,
    on_progress: OnProgress | None = None,
) -> TrainReport:
    """Train on `<dataset_path>/labels` and write model, tokenizer and report to `out_path`.

    `out_path` is replaced at the end, whole or not at all. Raises ConfigError where it is
    something other than an earlier PRM or the base model cannot be used, and DataError
    for labels that cannot be, for a training that diverged and for a place that cannot be
    written.
    """
    started = time.monotonic()
    require_replaceable(out_path)
    set_seed(config.seed)
    model, tokenizer = load_base(config)
    max_length = model.config.stepmark["max_length"]
    labels = encode_labels(dataset_path, tokenizer=tokenizer, config=config, max_length=max_length)
    with replacing_folder(out_path) as folder, quiet_transformers():
        trainer = _trainer(model, labels.train, config, folder, on_progress)
        trainer.train()
        report = _report(labels, trainer, config, time.monotonic() - started)
        _require_finite(model, report, labels.train[0])
        with clear_errors(out_path):
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            for file in folder.iterdir():
                file.chmod(0o644)  # safetensors makes its files the owner's alone
            text = json.dumps(asdict(report), indent=2, ensure_ascii=False, allow_nan=False)
            (folder / REPORT_NAME).write_text(text + "\n", encoding="utf-8")
    logger.info(
        "trained on %d steps of %d solutions (%d lost, %d unlabelled), last epoch's loss %.4f",
        report.num_train_steps,
        report.num_train_solutions,
        report.num_lost_steps,
        report.num_unlabelled_steps,
        report.train_loss,
    )
    return report


class PrmTrainer(Trainer):
    """`transformers.Trainer` with the loss of `train.loss` on batches of `collate`."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        # Makes the trainer count the labelled steps of all batches of one update and hand
        # the count to compute_loss, also for architectures whose forward takes no extras.
        self.model_accepts_loss_kwargs = True

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The mean squared error over the labelled steps of the whole update.

        Raises DataError where it is no finite number.
        """
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        logits_BS = step_logits(outputs.logits, inputs["step_positions"])
        total, num_labelled = squared_error(logits_BS, inputs["labels"])
        if not torch.isfinite(total):
            num_updates = self.state.global_step
            raise _diverged(num_updates, learning_rate=self.args.learning_rate)
        if num_items_in_batch is None:
            loss = total / max(num_labelled, 1)
        else:
            loss = total / torch.as_tensor(num_items_in_batch).sum()
            if self.args.average_tokens_across_devices:
                # the count is of all processes, and their gradients are averaged
                loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss


def collate(features: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """Right-padded ids and mask [B, T]; step positions and float targets [B, S]."""
    ids_BT, mask_BT = pad_ids([feature["input_ids"] for feature in features])
    return {
        "input_ids": ids_BT,
        "attention_mask": mask_BT,
        "step_positions": pad_steps([feature["step_positions"] for feature in features], 0),
        "labels": pad_steps([feature["labels"] for feature in features], IGNORED),
    }


def training_features(solutions: Sequence[EncodedSolution]) -> list[dict[str, Any]]:
    """The trainer's examples: ids, step positions, and targets with IGNORED for none."""
    return [
        {
            "input_ids": solution.encoded.input_ids,
            "step_positions": solution.encoded.step_positions,
            "labels": [IGNORED if target is None else target for target in solution.targets],
        }
        for solution in solutions
    ]


class _Progress(TrainerCallback):
    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        self._on_progress(state.global_step, state.max_steps)


def _trainer(
    model: PreTrainedModel,
    solutions: Sequence[EncodedSolution],
    config: TrainConfig,
    folder: Path,
    on_progress: OnProgress | None,
) -> PrmTrainer:
    has_device = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.gradient_accumulation,
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=config.warmup_ratio,
        weight_decay=config.weight_decay,
        bf16=config.bf16,
        seed=config.seed,
        use_cpu=not has_device,
        dataloader_pin_memory=has_device,
        # little padding, and a batch too large for the device fails at once: longest first
        train_sampling_strategy="group_by_length",
        remove_unused_columns=False,
        save_strategy="no",
        logging_strategy="epoch",
        logging_nan_inf_filter=False,  # compute_loss refuses such a loss
        report_to="none",
        disable_tqdm=True,
    )
    trainer = PrmTrainer(
        model=model,
        args=arguments,
        train_dataset=training_features(solutions),
        data_collator=collate,
        callbacks=[_Progress(on_progress)] if on_progress else None,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _report(
    labels: EncodedLabels, trainer: PrmTrainer, config: TrainConfig, seconds: float
) -> TrainReport:
    losses = tuple(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
    num_used = len(labels.train) + len(labels.validation)
    return TrainReport(
        num_problems=labels.num_problems,
        num_solutions=num_used + labels.num_skipped_solutions,
        num_train_solutions=len(labels.train),
        num_skipped_solutions=labels.num_skipped_solutions,
        num_steps=labels.num_steps,
        num_train_steps=sum(solution.num_targets for solution in labels.train),
        num_lost_steps=labels.num_lost_steps,
        num_unlabelled_steps=labels.num_unlabelled_steps,
        num_cut_tokens=labels.num_cut_tokens,
        num_updates=trainer.state.global_step,
        seconds=round(seconds, 1),
        epoch_losses=losses,
        train_loss=losses[-1],
        validation=_validate(trainer.model, labels.validation),
        config=config.model_dump(mode="json"),
    )


def _require_finite(model: Any, report: TrainReport, example: EncodedSolution) -> None:
    """The last update comes after the last loss: look at what it made, too."""
    figures = [*report.epoch_losses, *score_encoded(model, [example.encoded])[0]]
    if report.validation is not None:
        figures.append(report.validation.loss)
    is_finite = all(bool(torch.isfinite(weights).all()) for weights in model.parameters())
    if not (is_finite and all(map(math.isfinite, figures))):
        raise _diverged(report.num_updates, learning_rate=report.config["learning_rate"])


def _diverged(num_updates: int, *, learning_rate: float) -> DataError:
    if num_updates == 0:
        return DataError(
            "the base model gives outputs that are not finite numbers before any training; its "
            "weights are damaged: name another train.base_model"
        )
    return DataError(
        f"training diverged: after {num_updates} updates the model's outputs are not finite "
        f"numbers; lower train.learning_rate (it is {learning_rate:g}). Nothing was saved"
    )


def _validate(model: Any, solutions: Sequence[EncodedSolution]) -> ValidationReport | None:
    if not solutions:
        return None
    scores: list[float] = []
    targets: list[float] = []
    hard_labels: list[bool] = []
    all_scores = score_encoded(model, [solution.encoded for solution in solutions])
    for solution, solution_scores in zip(solutions, all_scores, strict=True):
        rows = zip(solution_scores, solution.targets, solution.hard_labels, strict=True)
        for score, target, hard_label in rows:
            if target is not None:
                scores.append(score)
                targets.append(target)
                hard_labels.append(hard_label)
    return ValidationReport(
        num_solutions=len(solutions),
        num_steps=len(scores),
        loss=brier(scores, targets),
        auc=step_auc(scores, hard_labels),
        agreement=agreement(scores, hard_labels),
    )
