"""The exceptions that stepmark raises on purpose.

Policy: raise for bugs, bad configuration, broken files and dead engines; record bad
model output as data (a verdict and a count). A message is one paragraph that names the
offending value, where it stands, and what to do about it. The command line prints the
message on stderr and exits with `exit_code`; anything else that escapes is a bug of ours.
"""

from collections.abc import Mapping, Sequence


class StepmarkError(Exception):
    """Base of all errors raised on purpose. `exit_code` is the command line's."""

    exit_code = 1


class ConfigError(StepmarkError):
    """Bad usage: a configuration, an option or an argument that cannot be used."""

    exit_code = 2


class DataError(StepmarkError):
    """An input or stored file that is missing, damaged or of another schema."""


class EngineError(StepmarkError):
    """A language-model engine that cannot be started, or that died for good."""


class DatasetLockedError(StepmarkError):
    """Another live run holds the dataset's lock."""


class HubError(StepmarkError):
    """The Hub cannot be reached, or refuses what was asked of it."""


class GateError(StepmarkError):
    """Labels that the quality gates keep from being published.

    `gates` are all that were asked, as rows to show: name, found, limit, is_met.
    """

    def __init__(self, message: str, gates: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(message)
        self.gates = gates
