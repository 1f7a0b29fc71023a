"""Which grader version each problem's verdicts should have.

It is the grader's own, but for a problem whose gold answer was changed after it was first
stored: there the gold answer's hash is part of it, so that rollouts that were graded
against the old one are out of date, and drawn ones are not.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.run_config import RunConfig
from grading.version import grader_version
from storage.problem_table import changed_golds


@dataclass(frozen=True, slots=True)
class GraderVersions:
    """The version of most problems, and those of the others by id."""

    usual: str
    others: Mapping[str, str]

    def of(self, problem_id: str) -> str:
        """The version that a rollout of this problem should have."""
        return self.others.get(problem_id, self.usual)


def expected_versions(config: RunConfig, out: Path) -> GraderVersions:
    """The versions for the problems as they are stored."""
    return versions_for(config, changed_golds(out))


def versions_for(config: RunConfig, golds: Mapping[str, str]) -> GraderVersions:
    """The versions where `golds` are the gold answers that are not the first, by problem."""
    usual = grader_version(config.grading)
    return GraderVersions(
        usual, {problem_id: f"{usual}#{_short_hash(gold)}" for problem_id, gold in golds.items()}
    )


def _short_hash(gold: str) -> str:
    return hashlib.sha256(gold.encode("utf-8", "surrogatepass")).hexdigest()[:8]
