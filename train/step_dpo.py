"""Step-DPO (Lai et al., arXiv 2406.18629): a language model learns from pairs of steps.

TRL's `DPOTrainer` does the work. Ours is what it reads: it would encode texts itself and put
the end of the text after every step, where no solution stops. It gets token ids instead, and
they stay as they are. Needs the extra `dpo` (trl).
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from peft import TaskType
from transformers import PreTrainedModel, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer

from pipeline.config import stable_digest
from train.dpo_config import DpoConfig
from train.dpo_report import DpoReport, PairFigures, pair_figures, policy_card
from train.lora import adapter_config, merged
from train.model import quiet_transformers
from train.model_folder import clear_errors, replacing_folder, require_replaceable
from train.pairs import EncodedPair, PairSplit, split_pairs
from train.policy import (
    FORMAT_VERSION,
    POLICY,
    POLICY_KEY,
    base_tokenizer,
    is_policy_folder,
    load_base_policy,
    max_length,
)
from train.training_folder import (
    KEPT_CHECKPOINTS,
    DivergedError,
    MarkWhole,
    checkpoint_to_resume,
    training_folder,
    training_path,
)

REPORT_NAME = "dpo_report.json"

OnProgress = Callable[[int, int], None]
"""Called after every update with the number of updates done, and of all."""


def train_step_dpo(
    pairs: Sequence[EncodedPair],
    out_path: Path,
    config: DpoConfig,
    *,
    prompt: dict[str, object] | None = None,
    on_progress: OnProgress | None = None,
) -> DpoReport:
    """Train `config.base_model` on `pairs`; write model, tokenizer, card and report to
    `out_path`, whole or not at all. `prompt` describes the pairs' prompts, for the card.

    A training that was killed goes on from its last checkpoint (`config.save_steps`). Under a
    launcher of several processes each calls this, and the first one writes. Raises ConfigError
    where `out_path` is something else or the model cannot be used, and DataError for pairs that
    cannot be, for a training that diverged and for a place that cannot be written.
    """
    started = time.monotonic()
    require_replaceable(out_path, what=POLICY, is_own=is_policy_folder)
    model = load_base_policy(config)
    split = split_pairs(
        pairs, max_length=max_length(model, config), validation_share=config.validation_share
    )
    arguments = _arguments(config, training_path(out_path))
    with training_folder(out_path, arguments) as folder, quiet_transformers():
        settings = _settings(model)
        trainer = _trainer(model, split, config, arguments, on_progress)
        digest = stable_digest([asdict(pair) for pair in pairs])
        checkpoint = checkpoint_to_resume(folder, config, arguments, labels_digest=digest)
        with clear_errors(out_path):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        report = replace(
            _report(trainer, split, config),
            resumed_at=int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0,
            seconds=time.monotonic() - started,
        )
        if arguments.should_save:
            policy = merged(trainer.model)
            for owner, name, value in settings:
                setattr(owner, name, value)
            _write(out_path, policy, report, prompt or {})
    return report


def is_main_process() -> bool:
    """Whether this is the only process of a training, or the first under a launcher."""
    return bool(PartialState().is_main_process)


class StepDpoTrainer(DPOTrainer):
    """TRL's trainer on pairs of token ids: nothing is encoded and no end of text appended."""

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Checkpoints need none, and the model gets ours."""


def as_dataset(pairs: Sequence[EncodedPair]) -> Dataset:
    """The columns that TRL's collator reads."""
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    return Dataset.from_dict({name: [list(getattr(one, name)) for one in pairs] for name in names})


class _Progress(TrainerCallback):
    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self._on_progress(state.global_step, state.max_steps)


def _arguments(config: DpoConfig, folder: Path) -> DPOConfig:
    has_device = torch.cuda.is_available()
    losses = [config.loss.value, *(["sft"] if config.sft_weight else [])]
    return DPOConfig(
        output_dir=str(folder),
        beta=config.beta,
        loss_type=losses,
        loss_weights=[1.0, config.sft_weight] if config.sft_weight else None,
        max_length=None,  # longer pairs are dropped, and counted: a cut step is another one
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=1,  # TRL's figures are means over batches
        gradient_accumulation_steps=config.gradient_accumulation,
        gradient_checkpointing=config.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=config.warmup_ratio,
        weight_decay=config.weight_decay,
        bf16=config.bf16,
        seed=config.seed,
        use_cpu=not has_device,
        dataloader_pin_memory=has_device,
        save_strategy="steps" if config.save_steps else "no",
        save_steps=config.save_steps or 500,
        save_total_limit=KEPT_CHECKPOINTS,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
    )


def _trainer(
    model: PreTrainedModel,
    split: PairSplit,
    config: DpoConfig,
    arguments: DPOConfig,
    on_progress: OnProgress | None,
) -> StepDpoTrainer:
    callbacks: list[TrainerCallback] = [MarkWhole()]
    if on_progress is not None and arguments.should_save:
        callbacks.append(_Progress(on_progress))
    peft_config = None
    reference = None
    if config.lora is None:
        reference = load_base_policy(config)
    else:
        peft_config = adapter_config(model, config.lora, task=TaskType.CAUSAL_LM)
    trainer = StepDpoTrainer(
        model=model,
        ref_model=reference,
        args=arguments,
        train_dataset=as_dataset(split.train),
        eval_dataset=as_dataset(split.validation) if split.validation else None,
        processing_class=base_tokenizer(config),
        callbacks=callbacks,
        peft_config=peft_config,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _report(trainer: StepDpoTrainer, split: PairSplit, config: DpoConfig) -> DpoReport:
    """Measure the pairs kept apart. Raises DivergedError where a number is not finite."""
    history: list[dict[str, Any]] = trainer.state.log_history
    epochs = tuple(pair_figures(one, len(split.train)) for one in history if "loss" in one)
    validation = None
    if split.validation:
        validation = pair_figures(trainer.evaluate(), len(split.validation), prefix="eval_")
    _require_finite(trainer, [*epochs, *([validation] if validation else [])], config)
    return DpoReport(
        num_pairs=len(split.train) + len(split.validation) + len(split.too_long),
        num_questions=len({one.question for one in (*split.train, *split.validation)}),
        num_train_pairs=len(split.train),
        num_too_long=len(split.too_long),
        num_updates=trainer.state.global_step,
        resumed_at=0,
        seconds=0.0,
        epochs=epochs,
        validation=validation,
        config=config.model_dump(mode="json"),
    )


def _require_finite(trainer: Any, figures: Sequence[PairFigures], config: DpoConfig) -> None:
    is_finite = all(bool(torch.isfinite(one).all()) for one in trainer.model.parameters())
    if is_finite and all(map(math.isfinite, (one.loss for one in figures))):
        return
    raise DivergedError(
        f"training diverged: after {trainer.state.global_step} updates the model's numbers are not "
        f"finite; lower dpo.learning_rate (it is {config.learning_rate:g}). Nothing was saved"
    )


def _settings(model: Any) -> list[tuple[Any, str, Any]]:
    """What TRL (padding) and training (cache) change in the model's configs, as it is now."""
    found = [(model.config, name) for name in ("pad_token_id", "use_cache")]
    found += [(model.generation_config, "pad_token_id")]
    return [(owner, name, getattr(owner, name, None)) for owner, name in found]


def _write(
    out_path: Path, policy: PreTrainedModel, report: DpoReport, prompt: dict[str, object]
) -> None:
    config = DpoConfig.model_validate(report.config)
    extras = {
        "format_version": FORMAT_VERSION,
        "base_model": config.base_model,
        "revision": config.revision,
        "training_digest": config.digest(),
        "prompt": prompt,
    }
    setattr(policy.config, POLICY_KEY, extras)
    with (
        replacing_folder(out_path, what=POLICY, is_own=is_policy_folder) as folder,
        clear_errors(out_path),
    ):
        policy.save_pretrained(folder)
        base_tokenizer(config).save_pretrained(folder)  # TRL gave its own a padding token
        text = json.dumps(asdict(report), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / REPORT_NAME).write_text(text + "\n", encoding="utf-8")
        (folder / "README.md").write_text(policy_card(report, extras), encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)  # safetensors makes its files the owner's alone
