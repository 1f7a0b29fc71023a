"""Find a language model and name it: path or Hub id, revision, tokenizer, identity.

The identity goes into `sampling_digest`. For a local folder it is made from the files'
contents (small files whole, weights by size, head and tail, which a retrained or
requantised model cannot share); for a Hub id it is the name with its revision.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.config import ModelConfig
from pipeline.demo import MODEL_PATH
from pipeline.errors import ConfigError
from pipeline.samplers.interrupts import interrupts_deferred

_WHOLE_FILE_BYTES = 16 << 20
_EDGE_BYTES = 1 << 20
_MODEL_FILES = (".json", ".safetensors", ".gguf", ".txt", ".model", ".jinja", ".bin")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model is loaded from. `label` is the short name written in records."""

    location: str
    revision: str | None
    label: str
    identity: str


def resolve_model(model: ModelConfig) -> ModelSource:
    """The source of `model`. Raises ConfigError for a folder that holds no model."""
    location = str(MODEL_PATH) if model.name == "demo" else model.name
    path = Path(location).expanduser()
    if path.is_dir():
        _check_folder(path, model)
        label = "demo" if model.name == "demo" else path.resolve().name
        names = [model.gguf_file] if model.gguf_file else sorted(_model_files(path))
        stamps = tuple((name, (path / name).stat().st_mtime_ns) for name in names)
        return ModelSource(str(path), None, label, _folder_identity(path, stamps))
    if model.name.startswith((".", "/", "~")) or model.name.count("/") > 1:
        raise ConfigError(
            f"model.name = {model.name!r} is not a folder on this machine; give the folder of a "
            "saved model, a Hub id such as Qwen/Qwen2.5-Math-1.5B-Instruct, or 'demo'"
        )
    revision = model.revision or "main"
    return ModelSource(location, model.revision, model.name, f"{model.name}@{revision}")


def load_tokenizer(model: ModelConfig) -> Any:
    """The model's `transformers` tokenizer. Raises ConfigError where none can be loaded."""
    with interrupts_deferred():
        from transformers import AutoTokenizer

    source = resolve_model(model)
    extra = {"gguf_file": model.gguf_file} if model.gguf_file else {}
    try:
        return AutoTokenizer.from_pretrained(
            source.location,
            revision=source.revision,
            trust_remote_code=model.trust_remote_code,
            **extra,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no tokenizer for model.name = {model.name!r}: {first_line(error)}; check the name "
            "and, for a Hub model, the network or the local cache"
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; its type's name where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _check_folder(path: Path, model: ModelConfig) -> None:
    wanted = model.gguf_file or "config.json"
    if not (path / wanted).is_file():
        raise ConfigError(
            f"model.name = {model.name!r}: the folder {path} has no {wanted}; "
            "give the folder that save_pretrained wrote"
        )


@lru_cache(maxsize=16)
def _folder_identity(path: Path, stamps: tuple[tuple[str, int], ...]) -> str:
    """From the files' names and contents; `stamps` (name, time of change) only key the cache."""
    digest = hashlib.sha256()
    for name, _ in stamps:
        digest.update(name.encode())
        digest.update(_file_identity(path / name))
    return digest.hexdigest()[:16]


def _model_files(path: Path) -> list[str]:
    return [file.name for file in path.iterdir() if file.suffix in _MODEL_FILES and file.is_file()]


def _file_identity(file: Path) -> bytes:
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        if size <= _WHOLE_FILE_BYTES:
            digest.update(stream.read())
        else:
            digest.update(stream.read(_EDGE_BYTES))
            stream.seek(size - _EDGE_BYTES)
            digest.update(stream.read())
    return digest.digest()
