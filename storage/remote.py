"""Datasets in an object store: addresses such as `s3://bucket/prefix`, by fsspec.

A remote dataset's path is a `UPath` (universal_pathlib), which does all that the readers ask of
`Path`; only here and in `storage.remote_lock` is there a difference. What a store cannot do:
rename, so a file is made in a local folder and put under its name in one request, which a
reader sees whole or not at all; and hold a process's logs, so they go to a local folder
(`local_state`). Every put of a new name can be refused where the name is taken.
"""

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pipeline.errors import ConfigError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*):/{1,2}(?!/)(.+)", re.DOTALL)
_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory"})
"""Those whose put replaces an object whole. S3 is the one that is tested."""
_S3 = frozenset({"s3", "s3a"})
_OPTIONS: dict[str, Any] = {"use_listings_cache": False}
"""Listings change under us: other hosts write, too."""
_S3_OPTIONS: dict[str, Any] = {"default_block_size": 8 * 2**20}
"""Bytes read ahead of each open file, of which there can be dozens; s3fs's own is 50 MiB."""
_TRANSPORT_MODULES = ("botocore.", "aiobotocore.", "aiohttp.")


def remote_path(location: str | Path) -> Path | None:
    """The path of a remote address; None for a local one.

    A `Path` that has lost one of two slashes is understood. Raises ConfigError for an address
    that no dataset can have, or where the libraries for it are not installed.
    """
    found = _ADDRESS.fullmatch(str(location))
    if found is None:
        return None
    protocol, rest = found.groups()
    if protocol not in _STORES:
        raise ConfigError(
            f"{location} is no place for a dataset: give a local folder such as out/gsm8k, or a "
            f"prefix of an object store ({', '.join(sorted(_STORES))})"
        )
    address = f"{protocol}://{rest.rstrip('/')}"
    try:
        from upath import UPath

        path = UPath(address, **_OPTIONS, **(_S3_OPTIONS if protocol in _S3 else {}))
        _ = path.fs
    except ImportError as error:
        raise ConfigError(
            f"{address} needs libraries that are not installed ({error}); for S3 run "
            "`pip install -c constraints.txt .[s3]`"
        ) from error
    return cast("Path", path)


def local_path(location: str | Path) -> Path:
    """The path of what can be in a local folder only. Raises ConfigError for an address."""
    if _ADDRESS.fullmatch(str(location)):
        address = str(location).replace(":/", "://", 1).replace(":///", "://")
        raise ConfigError(f"{address} is not a local folder; give one such as out/prm")
    return Path(location).expanduser()


def is_remote(path: Path) -> bool:
    """Whether `path` is in an object store."""
    return not isinstance(cast("object", path), Path)


def file_system(path: Path) -> Any:
    """The fsspec file system of a remote path."""
    return cast("Any", path).fs


def key_of(path: Path) -> str:
    """The name of a remote path within its file system."""
    return str(cast("Any", path).path)


def for_pyarrow(path: Path) -> tuple[str | Path, Any]:
    """The `source` and the `filesystem` by which pyarrow opens a file, local or remote."""
    return (key_of(path), file_system(path)) if is_remote(path) else (path, None)


def local_state(path: Path) -> Path:
    """A local folder for what belongs to a dataset and cannot be in a store.

    That is the dataset's own folder where it is local, else one under the user's cache, by
    the address: another host has its own.
    """
    if not is_remote(path):
        return path
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    folder = cache / "stepmark" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put_whole(path: Path, write: Callable[[Path], object], *, is_new: bool) -> None:
    """Have `write` fill a local file, then put it at `path`.

    Raises FileExistsError where the name is taken and `is_new`.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        write(made)
        _put(made, path, is_new=is_new)


def put_folder(folder: Path, target: Path, *, last: str) -> None:
    """Put the files of a local folder under `target`, the one named `last` at the end.

    So `target` is whole if `last` is there.
    """
    files = sorted(folder.iterdir(), key=lambda file: (file.name == last, file.name))
    for file in files:
        _put(file, target / file.name, is_new=False)


def remove_folder(folder: Path, *, first: str) -> None:
    """Remove all under `folder`, the file named `first` at the beginning."""
    (folder / first).unlink(missing_ok=True)
    file_system(folder).rm(key_of(folder), recursive=True)


def is_transport_error(error: Exception) -> bool:
    """Whether the store's client raises it for a network or a login."""
    return type(error).__module__.startswith(_TRANSPORT_MODULES)


@contextmanager
def transport_errors() -> Generator[None, None, None]:
    """Turns what the store's client raises for a network or a login into an OSError."""
    try:
        yield
    except Exception as error:
        if is_transport_error(error):
            raise OSError(str(error)) from error
        raise


def _put(file: Path, path: Path, *, is_new: bool) -> None:
    mode = "create" if is_new else "overwrite"
    with transport_errors():
        try:
            file_system(path).put_file(str(file), key_of(path), mode=mode)
        except FileExistsError as error:
            # the client tries again where an answer was lost: then what is there is ours
            if path.read_bytes() != file.read_bytes():
                taken = errno.EEXIST
                raise FileExistsError(taken, os.strerror(taken), str(path)) from error
