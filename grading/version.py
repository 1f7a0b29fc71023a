"""The grader's version, stored beside every verdict.

The number is raised by hand when a verdict may change; the digest over the modules that
decide verdicts makes a forgotten raise visible. A different version means `regrade`,
never resampling.
"""

import hashlib
from importlib import resources

from grading.config import GradingConfig

_NOT_DECIDING = frozenset(
    f"{name}.py"
    for name in (
        "__init__",
        "config",
        "files",
        "grade_cache",
        "pool",
        "version",
        "worker",
        "worker_process",
    )
)
"""They carry answers and grades about; every other module of the package decides."""


def deciding_modules() -> tuple[str, ...]:
    """File names of the modules of `grading` that the digest covers, sorted."""
    names = {file.name for file in resources.files("grading").iterdir()}
    return tuple(sorted(name for name in names - _NOT_DECIDING if name.endswith(".py")))


def _source_digest() -> str:
    folder = resources.files("grading")
    digest = hashlib.sha256()
    for name in deciding_modules():
        content = (folder / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:8]


GRADER_VERSION: str = f"2-{_source_digest()}"


def grader_version(config: GradingConfig) -> str:
    """What defines the verdicts under `config`: the grader's version and the profile."""
    return f"{GRADER_VERSION}-{config.profile}"
