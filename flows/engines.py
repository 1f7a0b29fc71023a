"""From a config to a running engine, its prompt encoder, and the samples' identity."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.run_config import RunConfig
from grading.version import grader_version
from labeling.engine import Identity
from labeling.prompts import (
    PromptEncoder,
    TextPromptEncoder,
    TokenPromptEncoder,
    prompt_identity,
)
from pipeline.config import EngineKind, RayWorkerEngine, stable_digest
from pipeline.demo.problems import DemoProblem
from pipeline.demo.truth import demo_problem_of
from pipeline.errors import ConfigError
from pipeline.records import Problem
from pipeline.samplers.engine_pool import EnginePool
from pipeline.samplers.interrupts import interrupts_deferred
from pipeline.samplers.models import load_tokenizer, resolve_model
from pipeline.samplers.sampler import Sampler
from pipeline.samplers.scripted import ScriptedSampler


@dataclass(frozen=True, slots=True)
class Engine:
    """A resolved engine that is not started yet."""

    kind: EngineKind
    encoder: PromptEncoder
    identity: Identity


def resolve_engine(config: RunConfig) -> Engine:
    """Choose the engine, load the tokenizer, name the samples. Raises ConfigError."""
    kind = _kind(config)
    if _is_scripted(kind, config):
        label, model_identity, tokenizer = "scripted", "scripted", None
        encoder: PromptEncoder = TextPromptEncoder(config.prompt)
    else:
        source = resolve_model(config.model)
        label, model_identity = source.label, source.identity
        tokenizer = load_tokenizer(config.model)
        encoder = TokenPromptEncoder(config.prompt, tokenizer)
    digest = stable_digest(
        {
            "model": model_identity,
            "dtype": config.model.dtype,
            "prompt": prompt_identity(config.prompt, tokenizer),
            "sampling": config.sampling.model_dump(mode="json"),
            "steps": config.steps.model_dump(mode="json"),
            "seed": config.seed,
        }
    )
    return Engine(kind, encoder, Identity(label, digest, grader_version(config.grading)))


def max_samples_in_flight(sampler: Sampler, config: RunConfig) -> int:
    """As many completions as keep the engines of `sampler` busy: each decodes one batch, has
    the next one waiting, and a third is on its way.
    """
    num_engines = sampler.num_engines if isinstance(sampler, EnginePool) else 1
    return 3 * config.engine.max_num_seqs * num_engines


@asynccontextmanager
async def open_engine(
    engine: Engine, config: RunConfig, *, problems: list[Problem], state_path: Path
) -> AsyncGenerator[Sampler, None]:
    """Start the engine and end it on leaving. `state_path` keeps its log and pid."""
    match engine.kind:
        case EngineKind.SCRIPTED:
            yield _scripted(problems)
        case EngineKind.OPENAI:
            from pipeline.samplers.openai_server import open_openai_servers

            async with open_openai_servers(config.model, config.engine) as sampler:
                yield sampler
        case EngineKind.RAY:
            from pipeline.samplers.ray_pool import open_ray_pool

            scripted = _scripted(problems) if _is_scripted(engine.kind, config) else None
            async with open_ray_pool(
                config.model, config.engine, state_path=state_path, scripted=scripted
            ) as sampler:
                yield sampler
        case EngineKind.VLLM:
            from pipeline.samplers.vllm_server import open_vllm_server

            async with open_vllm_server(
                config.model, config.engine, state_path=state_path
            ) as sampler:
                yield sampler
        case _:
            with interrupts_deferred():
                from pipeline.samplers.transformers_engine import open_transformers_engine

            async with open_transformers_engine(config.model, config.engine) as sampler:
                yield sampler


def _is_scripted(kind: EngineKind, config: RunConfig) -> bool:
    return kind is EngineKind.SCRIPTED or (
        kind is EngineKind.RAY and config.engine.ray_worker_engine is RayWorkerEngine.SCRIPTED
    )


def _scripted(problems: list[Problem]) -> ScriptedSampler:
    return ScriptedSampler({problem.question: _known_problem(problem) for problem in problems})


def _known_problem(problem: Problem) -> DemoProblem:
    """A demo problem that the source has reworded keeps its id and its solution."""
    try:
        return demo_problem_of(problem.problem_id.partition("~")[0])
    except ValueError as error:
        raise ConfigError(
            f"engine.kind = 'scripted' knows demo problems only, not {problem.problem_id!r}; set "
            "problems.source = 'demo' or another engine.kind"
        ) from error


def _kind(config: RunConfig) -> EngineKind:
    if config.engine.kind is not EngineKind.AUTO:
        return config.engine.kind
    from pipeline.samplers.vllm_server import vllm_available

    if config.model.gguf_file is None and vllm_available(config.engine):
        return EngineKind.VLLM
    return EngineKind.TRANSFORMERS
