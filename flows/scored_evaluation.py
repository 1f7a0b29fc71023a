"""Known steps and candidates through the models of an evaluation, and the reports on steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.evaluation_display import SCORER_NAMES
from flows.known_steps import candidate_steps, is_held_out
from flows.progress import counting_progress
from search.best_of_n import ProblemCandidates, score_candidates
from search.known_steps import KnownSteps, score_known
from search.scoring import ScorerRole, StepScorer
from search.step_report import StepReport, step_report


@dataclass(frozen=True, slots=True)
class NamedScorer:
    """A model and what the command line called it."""

    source: str
    scorer: StepScorer

    @property
    def num_lost_steps(self) -> int:
        """Steps that end beyond the model's length and scored 0 so far; 0 where it counts none."""
        return int(getattr(self.scorer, "num_lost_steps", 0))


Scorers = Mapping[ScorerRole, NamedScorer]


def report_steps(
    groups: Sequence[KnownSteps], scorers: Scorers, *, threshold: float | None, seed: int
) -> list[StepReport]:
    """A report on each group. An ORM is left out: it judges whole solutions."""
    scored: dict[ScorerRole, list[KnownSteps]] = {}
    for role, named in scorers.items():
        if role is ScorerRole.ORM:
            continue
        with counting_progress(f"{SCORER_NAMES[role]}: steps", unit="solutions") as on_progress:
            scored[role] = score_known(
                groups, scorer=named.scorer, name=named.source, on_progress=on_progress
            )
    return [
        step_report(
            {role: of_role[index] for role, of_role in scored.items()},
            is_held_out=is_held_out,
            threshold=threshold,
            seed=seed,
        )
        for index in range(len(groups))
    ]


def score_by_all(
    problems: Sequence[ProblemCandidates], scorers: Scorers
) -> dict[ScorerRole, list[ProblemCandidates]]:
    """The same candidates with each model's scores."""
    scored: dict[ScorerRole, list[ProblemCandidates]] = {}
    for role, named in scorers.items():
        what = f"{SCORER_NAMES[role]}: candidates"
        with counting_progress(what, unit="solutions") as on_progress:
            scored[role] = score_candidates(
                problems, scorer=named.scorer, name=named.source, on_progress=on_progress
            )
    return scored


def report_exact(
    scored: Mapping[ScorerRole, Sequence[ProblemCandidates]],
    *,
    threshold: float | None,
    seed: int,
) -> list[StepReport]:
    """The report on candidates of demo problems, whose steps' exact truth is known; none where
    there are no such candidates.
    """
    groups = {
        role: group
        for role, problems in scored.items()
        if role is not ScorerRole.ORM and (group := candidate_steps(problems)) is not None
    }
    if not groups:
        return []
    return [step_report(groups, is_held_out=is_held_out, threshold=threshold, seed=seed)]
