"""Configuration: frozen pydantic models in which an unknown key fails.

Each module owns a small config next to its reader; `flows.run_config` composes them.
What defines a label is digested (`digest`), where and how fast it ran is not.
"""

import hashlib
import json
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class FrozenConfig(BaseModel):
    """Base of all configs: immutable, unknown keys refused.

    Read from a file, values are not coerced either (`flows.run_config.check_config`).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )

    def digest(self) -> str:
        """The first 16 hex digits of the SHA-256 of the canonical JSON of all fields."""
        return stable_digest(self.model_dump(mode="json"))


def stable_digest(value: object) -> str:
    """A name for a JSON value: 16 hex digits of the SHA-256 of its canonical form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


MAX_TOKENS = 2**24
"""Of a prompt or a completion: beyond any model's context."""


class SamplingConfig(FrozenConfig):
    """How completions are drawn. Every value is sent to the engine explicitly.

    The defaults sample the model's own distribution (temperature 1, nothing cut off), as
    Math-Shepherd's completer does; `max_tokens` counts the tokens of one completion.
    """

    temperature: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Below 1 likely tokens become likelier; greedy decoding (0) is refused: its rollouts would
    all be the same."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Keeps the likeliest tokens that together have this probability; 1 keeps all."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """Keeps so many of the likeliest tokens; 0 keeps all."""
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Keeps tokens of at least this share of the likeliest one's probability; 0 keeps all."""
    repetition_penalty: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Above 1 tokens that stand in the text already become less likely; 1 changes nothing."""
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = 512
    """Of one completion: a rollout that reaches it is truncated, and counted as such."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """A completion ends before the first of these strings."""


class ModelDtype(StrEnum):
    """The numbers that the weights are loaded as; `auto` leaves it to the model's config."""

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class ModelConfig(FrozenConfig):
    """A causal language model in the `transformers` sense."""

    name: str = "demo"
    """`demo` is the bundled model; else a local folder or a Hub id."""
    revision: str | None = None
    """A commit, tag or branch of a Hub id; part of what names the samples."""
    gguf_file: str | None = None
    """A GGUF file inside the folder `name` (transformers engine only; dequantised)."""
    dtype: ModelDtype = ModelDtype.AUTO
    """The numbers that the weights are loaded as; `auto` is the model's own, and float32 on
    vLLM's CPU build."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model."""


class EngineKind(StrEnum):
    """Which engine runs the model; `auto` prefers vLLM where it can run."""

    AUTO = "auto"
    TRANSFORMERS = "transformers"
    VLLM = "vllm"
    OPENAI = "openai"
    """Servers that already run, at `engine.urls`."""
    RAY = "ray"
    """`engine.ray_worker_engine` many times over, placed by Ray."""
    SCRIPTED = "scripted"


class RayWorkerEngine(StrEnum):
    """What a Ray worker runs."""

    VLLM = "vllm"
    TRANSFORMERS = "transformers"
    SCRIPTED = "scripted"


class EngineConfig(FrozenConfig):
    """Where and how fast the model runs. Nothing here changes what a label means."""

    kind: EngineKind = EngineKind.AUTO
    """`auto` is `vllm` where `engine.python` has a vLLM that can run here (the CPU build, or a GPU
    build and a visible CUDA device) and the model is no GGUF file, else `transformers`."""
    max_num_seqs: Annotated[int, Field(ge=1, le=2**16)] = 192
    """Sequences that the engine decodes at once."""
    max_model_len: Annotated[int, Field(ge=16, le=MAX_TOKENS)] | None = None
    """Tokens of prompt and completion together; None takes the model's own limit. Of running
    servers (kind `openai`): the least of this and what they tell."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.90
    """The share of a GPU's memory that vLLM takes."""
    num_threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads of the engine; None takes one a core."""
    python: str | None = None
    """The interpreter that has vLLM; None takes the one that runs stepmark."""
    startup_seconds: Annotated[float, Field(gt=0)] = 600.0
    """For a start with download and loading; of kind `openai`, without any server that answers."""
    request_seconds: Annotated[float, Field(gt=0)] = 1800.0
    """For one request, queue included; after it the engine counts as hung."""
    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """Of a dead server, and of a dead Ray worker."""
    extra_arguments: tuple[str, ...] = ()
    """Passed to vLLM's server as they are."""
    urls: tuple[str, ...] = ()
    """Of running servers (kind `openai`), such as `http://gpu1:8000`. A problem's requests stay on
    one; all are to serve the same model with the same settings."""
    api_key_env: Annotated[str, Field(min_length=1)] | None = None
    """The environment variable that holds the servers' API key."""
    served_model: Annotated[str, Field(min_length=1)] | None = None
    """The model's name on the servers; None takes `model.name`. Not with a `[generator]` of
    another model: each is then served under its own name."""
    ray_address: Annotated[str, Field(min_length=1)] | None = None
    """`auto` or HOST:PORT joins a running Ray cluster; None starts one on this machine."""
    ray_workers: Annotated[int, Field(ge=1, le=4096)] | None = None
    """None takes one a GPU of the cluster, or one a node where there is no GPU."""
    ray_worker_engine: RayWorkerEngine = RayWorkerEngine.VLLM
    """What each Ray worker runs."""
    ray_cpus_per_worker: Annotated[float, Field(ge=0, le=1024)] = 1.0
    """CPUs that Ray reserves for a worker; a GPU is reserved where the cluster has any."""

    @field_validator("urls")
    @classmethod
    def _are_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            _check_url(url)
        if len({server_root(url) for url in urls}) != len(urls):
            raise ValueError("a server stands there twice")
        return urls

    @model_validator(mode="after")
    def _has_urls(self) -> "EngineConfig":
        if self.kind is EngineKind.OPENAI and not self.urls:
            raise ValueError("engine.kind = 'openai' needs engine.urls = ['http://HOST:PORT', …]")
        return self


def served_name(model: ModelConfig, engine: EngineConfig) -> str:
    """What servers that run already are asked for."""
    return engine.served_model or model.name


def server_root(url: str) -> str:
    """The URL without a trailing slash and `/v1`."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _check_url(url: str) -> None:
    shape = f"{url!r} is not of the form http://HOST:PORT or https://HOST[:PORT]"
    try:
        parts = urlsplit(url)
        has_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:  # a port that is no number
        raise ValueError(shape) from error
    if not has_address or parts.query or parts.fragment or any(map(str.isspace, url)):
        raise ValueError(shape)
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL with a password would be stored; use engine.api_key_env instead")
