"""Train a PRM, or an ORM, on a folder of label files.

`transformers.Trainer` does the loop; ours are the ragged step positions, the loss, and
the counts. A step's weight in an update is the same whichever batch it falls into, also
under gradient accumulation and on several devices.
"""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from torch import Tensor
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_callback import PrinterCallback

from train.batches import Collator, SolutionSampler, require_packable
from train.card import model_card
from train.config import TrainConfig
from train.encoded_labels import EncodedLabels, encode_labels
from train.lora import merged, with_adapters
from train.loss import IGNORED, StepTargets, step_logits, step_losses
from train.model import default_device, load_base, quiet_transformers, score_encoded
from train.model_folder import clear_errors, file_digest, replacing_folder, require_replaceable
from train.report import TrainReport, make_report, validate
from train.training_folder import (
    KEPT_CHECKPOINTS,
    DivergedError,
    MarkWhole,
    checkpoint_to_resume,
    encoded_file,
    training_folder,
    training_path,
)

logger = logging.getLogger(__name__)

REPORT_NAME = "train_report.json"

OnProgress = Callable[[int, int], None]
"""Called after every update with the number of updates done, and of all."""


def train_prm(
    labels_path: Path,
    out_path: Path,
    config: TrainConfig,
    *,
    step_method: str | None = None,
    on_progress: OnProgress | None = None,
) -> TrainReport:
    """Train on the label files in `labels_path`; write model, tokenizer, card and report to
    `out_path`. `step_method` is how the texts were split into steps, for the model's config.

    `out_path` is replaced at the end, whole or not at all. A training that was killed goes on
    from its last checkpoint (`config.save_steps`). Under a launcher of several processes,
    each calls this, and the first one writes. Raises ConfigError where `out_path` is
    something other than an earlier PRM or the base model cannot be used, and DataError for
    labels that cannot be, for a training that diverged and for a place that cannot be
    written.
    """
    started = time.monotonic()
    require_replaceable(out_path)
    set_seed(config.seed)
    model, tokenizer = load_base(config, step_method=step_method)
    arguments = _arguments(config, training_path(out_path))
    with training_folder(out_path, arguments) as folder, quiet_transformers():
        file = encoded_file(folder, arguments.process_index)
        labels = _encoded(labels_path, out_path, file, model, tokenizer, config)
        if config.packing:
            torch.nn.Module.to(model, default_device())
            require_packable(model, labels.train, name=config.base_model)
        trainer = _trainer(model, labels, config, arguments, on_progress)
        checkpoint = checkpoint_to_resume(
            folder, config, arguments, labels_digest=file_digest(file)
        )
        with clear_errors(out_path):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        resumed_at = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
        report = _finish(trainer, labels, config, resumed_at, started)
        if arguments.should_save:
            _write(out_path, trainer.model, tokenizer, report)
    logger.info(
        "trained on %d steps of %d solutions (%d lost, %d unlabelled), last epoch's loss %.4f",
        report.num_train_steps,
        report.num_train_solutions,
        report.num_lost_steps,
        report.num_unlabelled_steps,
        report.train_loss,
    )
    return report


def is_main_process() -> bool:
    """Whether this is the only process of a training, or the first under a launcher."""
    return bool(PartialState().is_main_process)


class PrmTrainer(Trainer):
    """`transformers.Trainer` with the loss of `train.loss` on batches of `train.batches`.

    `train_dataset` is an `EncodedTable`.
    """

    def __init__(self, *, config: TrainConfig, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._config = config
        # Makes the trainer count the labelled steps of all batches of one update and hand
        # the count to compute_loss, also for architectures whose forward takes no extras.
        self.model_accepts_loss_kwargs = True

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The mean loss over the labelled steps of the whole update.

        Raises DataError where it is no finite number.
        """
        outputs = model(**{key: inputs[key] for key in _MODEL_INPUTS if key in inputs})
        total, num_labelled = self._loss(outputs.logits, inputs)
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

    def _loss(self, logits_BT1: Tensor, inputs: dict[str, Tensor]) -> tuple[Tensor, int]:
        """The weighted sum over labelled steps, and the number of those."""
        is_labelled_N = inputs["labels"] != IGNORED
        logits_N = step_logits(logits_BT1, inputs["rows_N"], inputs["columns_N"])[is_labelled_N]
        names = ("labels", "hard_N", "correct_N", "graded_N")
        targets = StepTargets(*(inputs[name][is_labelled_N] for name in names))
        losses_N = step_losses(
            self._config.loss, logits_N, targets, concentration=self._config.concentration
        )
        return (losses_N * inputs["weights_N"][is_labelled_N]).sum(), losses_N.numel()

    def _get_train_sampler(self, train_dataset: Any = None) -> SolutionSampler:
        table: Any = self.train_dataset if train_dataset is None else train_dataset
        # Padded: little padding, and a batch too large for the device fails at once, longest
        # first. Packed: any solutions fill rows.
        group = self.args.train_batch_size * self.args.gradient_accumulation_steps
        return SolutionSampler(
            table.lengths.tolist(),
            group_size=None if self._config.packing else group,
            seed=self._config.seed,
            epoch=lambda: int(self.state.epoch or 0),
        )


_MODEL_INPUTS = ("input_ids", "attention_mask", "position_ids", "solution_lengths")


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


def _encoded(
    labels_path: Path,
    out_path: Path,
    file: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: TrainConfig,
) -> EncodedLabels:
    with clear_errors(out_path):
        return encode_labels(
            labels_path,
            file,
            tokenizer=tokenizer,
            config=config,
            max_length=model.config.stepmark["max_length"],
        )


def _arguments(config: TrainConfig, folder: Path) -> TrainingArguments:
    has_device = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.gradient_accumulation,
        gradient_checkpointing=config.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=config.warmup_ratio,
        weight_decay=config.weight_decay,
        bf16=config.bf16,
        seed=config.seed,
        use_cpu=not has_device,
        dataloader_pin_memory=has_device,
        remove_unused_columns=False,
        save_strategy="steps" if config.save_steps else "no",
        save_steps=config.save_steps or 500,
        save_total_limit=KEPT_CHECKPOINTS,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,  # compute_loss refuses such a loss
        report_to="none",
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
    )


def _trainer(
    model: PreTrainedModel,
    labels: EncodedLabels,
    config: TrainConfig,
    arguments: TrainingArguments,
    on_progress: OnProgress | None,
) -> PrmTrainer:
    callbacks: list[TrainerCallback] = [MarkWhole()]
    if on_progress is not None and arguments.should_save:
        callbacks.append(_Progress(on_progress))
    trainer = PrmTrainer(
        config=config,
        model=with_adapters(model, config.lora),
        args=arguments,
        train_dataset=labels.train,
        data_collator=Collator(
            packing=config.packing,
            weight=config.weight,
            mean_weight=labels.sum_of_weights / labels.num_train_steps,
        ),
        callbacks=callbacks,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _finish(
    trainer: PrmTrainer,
    labels: EncodedLabels,
    config: TrainConfig,
    resumed_at: int,
    started: float,
) -> TrainReport:
    """Make the plain model of what was trained, and score with it."""
    trainer.model = model = merged(trainer.model)
    if config.packing:
        model.set_attn_implementation("sdpa")
    report = make_report(
        labels,
        validation=validate(model, labels.validation),
        epoch_losses=[entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        num_updates=trainer.state.global_step,
        resumed_at=resumed_at,
        seconds=time.monotonic() - started,
        config=config,
    )
    # The last update comes after the last loss: look at what it made, too.
    figures = [*report.epoch_losses, *score_encoded(model, [labels.train[0].encoded])[0]]
    if report.validation is not None:
        figures.append(report.validation.loss)
        model.config.stepmark["threshold"] = report.validation.threshold
    is_finite = all(bool(torch.isfinite(weights).all()) for weights in model.parameters())
    if not (is_finite and all(map(math.isfinite, figures))):
        raise _diverged(report.num_updates, learning_rate=config.learning_rate)
    return report


def _write(
    out_path: Path, model: Any, tokenizer: PreTrainedTokenizerBase, report: TrainReport
) -> None:
    with replacing_folder(out_path) as folder, clear_errors(out_path):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        text = json.dumps(asdict(report), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / REPORT_NAME).write_text(text + "\n", encoding="utf-8")
        card = model_card(report, model.config.stepmark)
        (folder / "README.md").write_text(card, encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)  # safetensors makes its files the owner's alone


def _diverged(num_updates: int, *, learning_rate: float) -> DivergedError:
    if num_updates == 0:
        return DivergedError(
            "the base model gives outputs that are not finite numbers before any training; its "
            "weights are damaged: name another train.base_model"
        )
    return DivergedError(
        f"training diverged: after {num_updates} updates the model's outputs are not finite "
        f"numbers; lower train.learning_rate (it is {learning_rate:g}). Nothing was saved"
    )
