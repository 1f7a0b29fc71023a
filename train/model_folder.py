"""A folder that is either whole or not there: written beside its place, then renamed.

A link to a folder is followed and stays.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from pipeline.errors import ConfigError, DataError


def is_prm_folder(path: Path) -> bool:
    """Whether `path` is a folder that `stepmark train` wrote."""
    config_path = path / "config.json"
    return config_path.is_file() and '"stepmark"' in config_path.read_text(encoding="utf-8")


PRM = "a PRM trained by stepmark"


def require_replaceable(
    path: Path, *, what: str = PRM, is_own: Callable[[Path], bool] = is_prm_folder
) -> None:
    """Raise ConfigError where a trained model must not be written to `path`: only a folder of
    its own kind, which `is_own` knows and `what` names, is replaced.
    """
    try:
        is_free = not path.exists() or is_own(path)
        is_free = is_free or (path.is_dir() and not any(path.iterdir()))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be looked into ({error}); name another output folder"
        ) from error
    if not is_free:
        raise ConfigError(
            f"{path} is there and is not {what}; it is not overwritten, name another output folder"
        )


@contextmanager
def replacing_folder(
    path: Path, *, what: str = PRM, is_own: Callable[[Path], bool] = is_prm_folder
) -> Generator[Path]:
    """A fresh folder to write into, which takes the place of `path` on leaving.

    After an exception `path` is as before. What a killed run left is removed first; a run
    killed between the two renames left the previous folder, which is put back. Raises
    ConfigError as `require_replaceable`, and DataError where the folder cannot be written.
    """
    require_replaceable(path, what=what, is_own=is_own)
    path = Path(os.path.realpath(path))
    partial, previous = (path.with_name(f".{path.name}.{end}") for end in ("partial", "previous"))
    with clear_errors(path):
        if previous.exists() and not path.exists():
            previous.rename(path)
        for leftover in (partial, previous):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
    try:
        yield partial
        with clear_errors(path):
            sync_folder(partial)
            if path.exists():
                path.rename(previous)
            partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(previous, ignore_errors=True)


@contextmanager
def clear_errors(path: Path) -> Generator[None]:
    """Turn a failure to write the model `path` into a DataError that says what to do."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise DataError(
            f"the trained model cannot be written to {path} ({reason}); free space or name a "
            "folder that you may write to, then train again: an earlier model there is as it was"
        ) from error


def file_digest(file: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Have the disk hold every file of the folder before its name says that it is whole."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
