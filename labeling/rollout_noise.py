"""Figures of the rollouts themselves: verdicts by reason, truncation, tokens, versions."""

from collections import Counter
from dataclasses import dataclass, field

from grading.verdict import Verdict
from pipeline.records import FinishReason, Prefix, Rollout


@dataclass(slots=True)
class RolloutNoise:
    """Counts over rollouts. Times are ISO 8601 in UTC, empty where there is no rollout."""

    num_rollouts: int = 0
    num_solutions: int = 0
    num_tokens: int = 0
    num_truncated: int = 0
    num_cut_off: int = 0
    reasons: Counter[tuple[Verdict, str]] = field(default_factory=Counter[tuple[Verdict, str]])
    grader_versions: Counter[str] = field(default_factory=Counter[str])
    first_at: str = ""
    last_at: str = ""

    def tell(self, rollout: Rollout, *, root_id: str) -> None:
        """Count a rollout; `root_id` names the root prefix of its problem."""
        self.num_rollouts += 1
        self.num_solutions += rollout.prefix_id == root_id
        self.num_tokens += rollout.num_tokens
        self.num_truncated += rollout.is_truncated
        self.num_cut_off += rollout.finish_reason is FinishReason.LENGTH
        self.reasons[rollout.verdict, rollout.verdict_reason] += 1
        self.grader_versions[rollout.grader_version] += 1
        self.first_at = min(self.first_at or rollout.created_at, rollout.created_at)
        self.last_at = max(self.last_at, rollout.created_at)

    @property
    def by_verdict(self) -> dict[Verdict, int]:
        """Rollouts by verdict; every verdict is there."""
        found = dict.fromkeys(Verdict, 0)
        for (verdict, _), count in self.reasons.items():
            found[verdict] += count
        return found


def root_id_of(problem_id: str) -> str:
    """The id of a problem's root prefix, whose rollouts are the solutions."""
    return Prefix(problem_id).prefix_id
