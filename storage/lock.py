"""The lock of a dataset folder: one process works on it at a time.

The lock is the kernel's (`flock`), so it goes with the process that held it.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import DataError, DatasetLockedError
from storage.dataset import FOLDERS
from storage.files import remove_temporary


@contextmanager
def dataset_lock(path: Path) -> Generator[None, None, None]:
    """Hold the dataset `path` for this process alone.

    Temporary files of killed runs are removed. Raises DatasetLockedError, naming the
    holder, where another live process has it, and DataError where `path` is no folder
    that can be written and locked.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        stream = (path / ".lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{path} cannot be used as a dataset folder: {error.strerror}; give --out a folder "
            "that you may write to"
        ) from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            raise DatasetLockedError(
                f"the dataset {path} is in use by process {stream.read().strip() or 'unknown'}; "
                "wait for that run to end or stop it, then run this command again"
            ) from error
        except OSError as error:
            raise DataError(
                f"{path} cannot be locked ({error.strerror}); choose a folder on a file system "
                "with locks"
            ) from error
        stream.truncate(0)
        stream.write(f"{os.getpid()} on {os.uname().nodename}")
        stream.flush()
        for folder in (path, *(path / name for name in FOLDERS)):
            remove_temporary(folder)
        yield
