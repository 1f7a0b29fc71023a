"""The grader's version, stored beside every verdict.

The number is raised by hand when a verdict may change; the digest over the modules that
decide verdicts makes a forgotten raise visible. A different version means `regrade`,
never resampling.
"""

import hashlib
from importlib import resources

from grading.config import GradingConfig

_DECIDING_MODULES = (
    "equivalence",
    "exact",
    "expression",
    "extract",
    "grade",
    "normalize",
    "relations",
    "structure",
    "tokens",
    "tree",
)


def _source_digest() -> str:
    folder = resources.files("grading")
    digest = hashlib.sha256()
    for name in _DECIDING_MODULES:
        digest.update((folder / f"{name}.py").read_bytes())
    return digest.hexdigest()[:8]


GRADER_VERSION: str = f"1-{_source_digest()}"


def grader_version(config: GradingConfig) -> str:
    """What defines the verdicts under `config`: the grader's version and the profile."""
    return f"{GRADER_VERSION}-{config.profile}"
