"""The two models of a run: the generator writes solutions, the completer rolls them out.

Without a [generator] the completer is both. So it is where the generator's section names
the same model with the same settings: what defines the samples is then the same.
"""

from dataclasses import dataclass

from flows.engines import Engine, resolve_engine
from flows.run_config import RunConfig
from labeling.engine import Identity
from pipeline.config import EngineKind, served_name
from pipeline.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Role:
    """A model, and the config whose [model], [sampling] and [prompt] are its own."""

    engine: Engine
    config: RunConfig

    @property
    def identity(self) -> Identity:
        """What is written into its rollouts."""
        return self.engine.identity

    @property
    def digest(self) -> str:
        """Its rollouts' sampling digest."""
        return self.engine.identity.sampling_digest


@dataclass(frozen=True, slots=True)
class Roles:
    """`generator` is None where the completer writes the solutions itself."""

    completer: Role
    generator: Role | None

    @property
    def writer(self) -> Role:
        """Who writes the solutions."""
        return self.generator or self.completer

    @property
    def digests(self) -> set[str]:
        """The sampling digests of both."""
        return {self.completer.digest, self.writer.digest}


def resolve_roles(config: RunConfig) -> Roles:
    """Choose the engines, load the tokenizers, name the samples.

    Raises ConfigError, also where running servers would serve both models under one name.
    """
    completer = Role(resolve_engine(config), config)
    if config.generator is None:
        return Roles(completer, None)
    own = config.generator
    generators = config.model_copy(
        update={
            "model": own.model,
            "sampling": own.sampling or config.sampling,
            "prompt": own.prompt or config.prompt,
            "generator": None,
        }
    )
    generator = Role(resolve_engine(generators), generators)
    if generator.digest == completer.digest:
        return Roles(completer, None)
    _check_served_names(completer, generator)
    return Roles(completer, generator)


def _check_served_names(completer: Role, generator: Role) -> None:
    """A server knows a model by its name only: two models need two names."""
    engine, one, other = completer.config.engine, completer.config.model, generator.config.model
    names = {served_name(one, engine), served_name(other, engine)}
    if completer.engine.kind is not EngineKind.OPENAI or one == other or len(names) > 1:
        return
    if engine.served_model is None:
        raise ConfigError(
            f"model and generator.model are different models of one name, {one.name!r}, under "
            "which the servers at engine.urls can serve only one; give one of them as a folder "
            "of another name, and serve it under that name"
        )
    raise ConfigError(
        f"engine.served_model = {engine.served_model!r} would stand for both models, "
        f"model.name = {one.name!r} and generator.model.name = {other.name!r}; serve both under "
        "their own names and leave engine.served_model out"
    )
