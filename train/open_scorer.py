"""Open the model that a command names as its step scorer. One place knows the kinds.

A PRM is a local folder or a model on the Hub. What it is stands in its `config.json`: our own
`stepmark` entry, or the architecture of Qwen2.5-Math-PRM. A Math-Shepherd PRM looks like any
Mistral, so it has to be named (`PrmKind`). No code that comes with a model is run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pipeline.errors import ConfigError, DataError, HubError
from pipeline.samplers.interrupts import interrupts_deferred
from train.model_folder import file_digest
from train.scorer import BATCH_TOKENS, PrmScorer
from train.served import PoolingClient, open_served

_QWEN_ARCHITECTURE = "Qwen2ForProcessRewardModel"
_WEIGHTS = ("*.safetensors", "*.bin")


class PrmKind(StrEnum):
    """What a model is, and so what it reads."""

    AUTO = "auto"
    """As its config says; never Math-Shepherd."""
    STEPMARK = "stepmark"
    """Trained by `stepmark train`."""
    QWEN_PRM = "qwen-prm"
    """Qwen2.5-Math-PRM and Qwen2.5-Math-7B-PRM800K: `<extra_0>` and two classes."""
    MATH_SHEPHERD = "math-shepherd"
    """A causal language model that says `+` or `-` at `ки`."""


class OpenedScorer(Protocol):
    """A `search.scoring.StepScorer` that also knows how it wants to be read."""

    @property
    def aggregation(self) -> str:
        """A name of `search.scoring.Aggregation`: how its step scores rank solutions."""
        ...

    @property
    def threshold(self) -> float:
        """From this score on a step counts as good."""
        ...

    def score(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[float, ...]]:
        """The scores of each (question, steps), in order: one a step, each in [0, 1]."""
        ...


@dataclass(frozen=True, slots=True)
class FoundPrm:
    """A model that is there. `commit` is the Hub's, None of a local folder; `kind` is not AUTO."""

    source: str
    kind: PrmKind
    commit: str | None

    def identity(self) -> str:
        """Names what decides the scores: the weights and how they are read. Reads local weights."""
        if self.commit is not None:
            name = f"{self.source}@{self.commit}"
        else:
            folder = Path(self.source)
            weights = sorted(file for form in _WEIGHTS for file in folder.glob(form))
            name = "/".join(file_digest(file) for file in [*weights, folder / "config.json"])
        return name if self.kind is PrmKind.STEPMARK else f"{self.kind}:{name}"


def find_prm(source: str | Path, *, kind: PrmKind = PrmKind.AUTO) -> FoundPrm:
    """What `source`, a folder or OWNER/NAME on the Hub, holds.

    Raises DataError for what is no PRM, or not of `kind`, and HubError where the Hub fails.
    """
    source = str(source)
    folder = Path(source).expanduser()
    if folder.exists():
        return FoundPrm(str(folder), _kind(source, _read(folder / "config.json"), kind), None)
    if not _is_hub_id(source):
        raise DataError(
            f"{source} is neither a folder, so it is not a PRM trained by `stepmark train`, nor "
            "OWNER/NAME of a model on the Hub"
        )
    config_path = _download(source, "config.json")
    return FoundPrm(source, _kind(source, _read(config_path), kind), config_path.parent.name)


def open_scorer(
    source: str | Path,
    *,
    kind: PrmKind = PrmKind.AUTO,
    server: str | None = None,
    api_key: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> OpenedScorer:
    """The scorer of the folder or Hub model `source`; its weights are those of the vLLM `server`
    where one is given. On CUDA where there is a device.

    Raises as `find_prm`, DataError for weights that cannot be used, ConfigError for a server of a
    foreign PRM, and EngineError where the server fails.
    """
    found = find_prm(source, kind=kind)
    if server is not None:
        if found.kind is not PrmKind.STEPMARK:
            raise ConfigError(
                f"a server ({server}) can only score with a PRM that `stepmark train` wrote, and "
                f"{source} is of the kind {found.kind}; leave the server out"
            )
        return open_served(_local_folder(found), PoolingClient(server, api_key=api_key))
    if found.kind is PrmKind.STEPMARK:
        return PrmScorer.load(_local_folder(found), batch_tokens=batch_tokens)
    return _open_foreign(found, batch_tokens)


def _open_foreign(found: FoundPrm, batch_tokens: int) -> PrmScorer:
    with interrupts_deferred():
        from train.foreign import load_math_shepherd, load_qwen_prm
        from train.model import default_device, score_encoded
    from train.step_tags import math_shepherd_encoder, qwen_prm_encoder

    # How the papers rank solutions: Qwen's by the product of the scores, Math-Shepherd's by the
    # least.
    is_qwen = found.kind is PrmKind.QWEN_PRM
    load, encoder, aggregation = (
        (load_qwen_prm, qwen_prm_encoder, "product")
        if is_qwen
        else (load_math_shepherd, math_shepherd_encoder, "min")
    )
    model, tokenizer, max_length = load(
        found.source, revision=found.commit, device=default_device()
    )
    return PrmScorer(
        encoder(tokenizer, max_length=max_length),
        partial(score_encoded, model, batch_tokens=batch_tokens),
        max_length=max_length,
        aggregation=aggregation,
    )


def _kind(source: str, config: Mapping[str, Any], asked: PrmKind) -> PrmKind:
    architectures = ", ".join(map(str, config.get("architectures") or [])) or "no architecture"
    if isinstance(config.get("stepmark"), dict):
        found = PrmKind.STEPMARK
    elif _QWEN_ARCHITECTURE in architectures:
        found = PrmKind.QWEN_PRM
    elif asked is PrmKind.MATH_SHEPHERD and "ForCausalLM" in architectures:
        found = asked
    else:
        raise DataError(
            f"{source} is not a PRM trained by `stepmark train`, nor a {_QWEN_ARCHITECTURE}: its "
            f"config.json names {architectures}. A Math-Shepherd PRM, a causal language model, has "
            f"to be named by --prm-kind {PrmKind.MATH_SHEPHERD}"
        )
    if asked not in (PrmKind.AUTO, found):
        raise DataError(f"{source} is a PRM of the kind {found}, not {asked}")
    return found


def _read(config_path: Path) -> dict[str, Any]:
    folder = config_path.parent
    if not config_path.is_file():
        raise DataError(
            f"{folder} is not a PRM trained by `stepmark train`, nor another: no config.json"
        )
    try:
        config = json.loads(config_path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{config_path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise DataError(f"{config_path} is no JSON object, as a model's config is")
    return config


def _is_hub_id(source: str) -> bool:
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(source)
    except HFValidationError:
        return False
    return source.count("/") == 1


def _local_folder(found: FoundPrm) -> Path:
    if found.commit is None:
        return Path(found.source)
    return _download(found.source, revision=found.commit)


def _download(source: str, file: str | None = None, *, revision: str | None = None) -> Path:
    """A file of the Hub model, or all of them; in the cache where it is there already."""
    import httpx2
    from huggingface_hub import hf_hub_download, snapshot_download

    try:
        if file is None:
            return Path(snapshot_download(source, revision=revision))
        return Path(hf_hub_download(source, file, revision=revision))
    except (httpx2.HTTPError, OSError, RuntimeError, ValueError) as error:
        raise HubError(
            f"{source} is no folder here, and as a model on the Hub it cannot be read "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}); "
            "correct the name, set HF_TOKEN for a private one, or download it first"
        ) from error
