"""What a training in progress keeps on disk: `.NAME.training` beside the model's folder.

In it are the encoded labels, a file a process, and with `train.save_steps` checkpoints.
`transformers.Trainer` writes those piece by piece, so one counts only once it has the file
`whole`, written last, after everything else in it is on disk. `run.json` says of which
training they are: config, encoded labels and number of processes. Another training begins
anew. The folder goes when the model is in its place, or nothing in it is worth keeping.
"""

import fcntl
import json
import logging
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from pipeline.config import FrozenConfig, stable_digest
from pipeline.errors import ConfigError, DataError
from train.model_folder import clear_errors, sync_folder

logger = logging.getLogger(__name__)

KEPT_CHECKPOINTS = 2
"""The newest may be cut short by a kill, so the one before stays until it is whole."""

_WHOLE = "whole"
_RUN = "run.json"


class DivergedError(DataError):
    """A training whose numbers are no longer finite: its checkpoints lead there again."""


class _TakenError(ConfigError):
    """Another training's folder: not to be cleared."""


def training_path(out_path: Path) -> Path:
    """The folder of a training whose model goes to `out_path`."""
    real = Path(os.path.realpath(out_path))
    return real.with_name(f".{real.name}.training")


def encoded_file(folder: Path, process_index: int) -> Path:
    """Where a process keeps its encoded labels. Each has its own: none waits for another,
    and bad labels end all of them with the same error.
    """
    return folder / f"encoded-{process_index}.arrow"


@contextmanager
def training_folder(out_path: Path, arguments: TrainingArguments) -> Generator[Path]:
    """The folder, made or found. On leaving, the main process removes it; after an error
    whole checkpoints stay, unless it is a DivergedError.

    Raises ConfigError where another training works in it.
    """
    folder = training_path(out_path)
    with clear_errors(out_path):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w") if arguments.should_save else nullcontext()
    try:
        with lock:
            if arguments.should_save:
                _take(lock, out_path)
            yield folder
            PartialState().wait_for_everyone()
            if arguments.should_save:
                _remove(folder, keep_checkpoints=False)
    except _TakenError:
        raise
    except BaseException as error:
        if arguments.should_save:
            is_lost = isinstance(error, DivergedError) or not _whole_checkpoints(folder)
            _remove(folder, keep_checkpoints=not is_lost)
        raise


def checkpoint_to_resume(
    folder: Path, config: FrozenConfig, arguments: TrainingArguments, *, labels_digest: str
) -> Path | None:
    """The newest whole checkpoint of this very training; None to begin anew.

    Checkpoints of another training are removed. For all processes at once.
    """
    run = {
        "training": stable_digest(config.model_dump(mode="json", exclude={"save_steps"})),
        "labels": labels_digest,
        "num_processes": arguments.world_size,
    }
    if arguments.should_save:
        if _stored_run(folder) != run:
            if _whole_checkpoints(folder):
                logger.warning("the checkpoints in %s are of another training: removed", folder)
            for checkpoint in folder.glob("checkpoint-*"):
                shutil.rmtree(checkpoint)
            (folder / _RUN).write_text(json.dumps(run), encoding="utf-8")
        for checkpoint in set(folder.glob("checkpoint-*")) - set(_whole_checkpoints(folder)):
            shutil.rmtree(checkpoint)
    PartialState().wait_for_everyone()
    return max(_whole_checkpoints(folder), key=_num_updates, default=None)


class MarkWhole(TrainerCallback):
    """Marks a checkpoint once all processes have written their part of it."""

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Called by the trainer after it has written one."""
        PartialState().wait_for_everyone()
        if args.should_save:
            folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            sync_folder(folder)
            (folder / _WHOLE).touch()
            sync_folder(folder)


def _take(lock: Any, out_path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _TakenError(
            f"another training is making {out_path}; wait for it, or name another output folder"
        ) from error


def _whole_checkpoints(folder: Path) -> list[Path]:
    return [marker.parent for marker in folder.glob(f"checkpoint-*/{_WHOLE}")]


def _num_updates(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _stored_run(folder: Path) -> object:
    try:
        return json.loads((folder / _RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none, or cut short: of no training that is known
        return None


def _remove(folder: Path, *, keep_checkpoints: bool) -> None:
    if keep_checkpoints:
        for file in folder.glob("encoded-*.arrow"):
            file.unlink(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
