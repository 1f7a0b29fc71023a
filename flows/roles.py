"""The two models of a run: the generator writes solutions, the completer rolls them out.

Without a [generator] the completer is both. So it is where the generator's section names
the same model with the same settings: what defines the samples is then the same.
"""

from dataclasses import dataclass

from flows.engines import Engine, resolve_engine
from flows.run_config import RunConfig
from labeling.engine import Identity


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
    """Choose the engines, load the tokenizers, name the samples. Raises ConfigError."""
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
    return Roles(completer, None if generator.digest == completer.digest else generator)
