"""Step scores against known steps: every figure with its interval, for one or more scorers.

The threshold is chosen on a held-out part of the *problems*, and what depends on it is
measured on the others only (ProcessBench, arXiv 2412.06559). Intervals are bootstraps over
problems; the scorers of a report see the same steps and the same resamples, so differences
are paired.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.errors import DataError
from search.calibration import ReliabilityBin, reliability_bins
from search.first_error import Case, best_threshold
from search.known_steps import KnownSolution, KnownSteps, Truth
from search.resampling import (
    NUM_RESAMPLES,
    Estimate,
    Floats,
    Resampled,
    difference,
    resampling_weights,
    undefined,
)
from search.scoring import ScorerRole
from search.step_figures import (
    Figure,
    FlatSteps,
    figures_at_threshold,
    figures_of_scores,
)

IsHeldOut = Callable[[str], bool]
"""Whether a question's solutions choose the threshold, and so are not tested with it."""

AT_THRESHOLD = (Figure.ACCURACY, Figure.ERRONEOUS, Figure.CORRECT, Figure.F1)


@dataclass(frozen=True, slots=True)
class Part:
    """How much a part of the solutions holds; erroneous are those with a first error."""

    num_problems: int
    num_solutions: int
    num_erroneous: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """From this score on a step counts as good. `value` is None where none could be chosen.

    `held_out_f1` is None for a threshold that was given; then nothing is held out.
    """

    value: float | None
    held_out_f1: float | None
    held_out: Part
    tested: Part
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ScorerReport:
    """What one model's scores are worth. Figures that do not apply are left out."""

    scorer: ScorerRole
    figures: dict[Figure, Estimate]
    threshold: Threshold
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True, slots=True)
class StepReport:
    """The figures of each scorer on the same known steps, and the PRM's minus the second's."""

    name: str
    truth: Truth
    num_problems: int
    num_solutions: int
    num_steps: int
    """Of known truth; the figures rest on these."""
    num_right_steps: int
    num_unknown_steps: int
    num_undetermined: int
    """Solutions whose first error is not known: left out of the first-error figures."""
    notes: dict[str, int]
    scorers: tuple[ScorerReport, ...]
    differences: dict[Figure, Estimate]

    def as_json(self) -> dict[str, Any]:
        """A JSON object (no NaN in it)."""
        return asdict(self)


def step_report(
    groups: Mapping[ScorerRole, KnownSteps],
    *,
    is_held_out: IsHeldOut,
    threshold: float | None = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> StepReport:
    """The report on the same known steps, scored by each scorer.

    `threshold` None chooses one for each scorer. Raises DataError for no solutions.
    """
    group = next(iter(groups.values()))
    known = group.solutions
    if not known:
        raise DataError(f"{group.name}: there is no solution to test step scores on")
    measured = {
        role: _measured(one.solutions, is_held_out, threshold, num_resamples, seed)
        for role, one in groups.items()
    }
    truths = [truth for one in known for truth in one.truths]
    return StepReport(
        name=group.name,
        truth=group.truth,
        num_problems=len({one.problem_key for one in known}),
        num_solutions=len(known),
        num_steps=sum(truth is not None for truth in truths),
        num_right_steps=sum(truth is True for truth in truths),
        num_unknown_steps=sum(truth is None for truth in truths),
        num_undetermined=sum(one.first_error is None for one in known),
        notes=group.notes,
        scorers=tuple(one.report(role) for role, one in measured.items()),
        differences=_differences(measured),
    )


@dataclass(frozen=True, slots=True)
class _Measured:
    figures: dict[Figure, Resampled]
    threshold: Threshold
    bins: tuple[ReliabilityBin, ...]

    def report(self, role: ScorerRole) -> ScorerReport:
        figures = {name: one.estimate() for name, one in self.figures.items()}
        return ScorerReport(role, figures, self.threshold, self.bins)


def _measured(
    solutions: Sequence[KnownSolution],
    is_held_out: IsHeldOut,
    given: float | None,
    num_resamples: int,
    seed: int,
) -> _Measured:
    def weights(parts: Sequence[KnownSolution]) -> Floats:
        num_problems = len({one.problem_key for one in parts})
        return resampling_weights(num_problems, num_resamples=num_resamples, seed=seed)

    steps = FlatSteps(solutions)
    figures = figures_of_scores(steps, weights(solutions))
    held_out = [one for one in solutions if given is None and is_held_out(one.question)]
    tested = [one for one in solutions if given is not None or not is_held_out(one.question)]
    threshold = _threshold(held_out, tested, given)
    if threshold.value is None:
        figures |= dict.fromkeys(AT_THRESHOLD, undefined(threshold.reason or "no threshold"))
    else:
        figures |= figures_at_threshold(tested, threshold.value, weights(tested))
    return _Measured(figures, threshold, reliability_bins(steps.scores, steps.truths, steps.soft))


def _threshold(
    held_out: Sequence[KnownSolution], tested: Sequence[KnownSolution], given: float | None
) -> Threshold:
    parts = _part(held_out), _part(tested)
    if given is not None:
        return Threshold(given, None, *parts)
    cases = [
        Case(one.first_error, one.step_scores) for one in held_out if one.first_error is not None
    ]
    best = best_threshold(cases)
    if best is not None and tested:
        return Threshold(*best, *parts)
    lack = "no problem is left to test on"
    if best is None:
        lack = "the held-out part lacks solutions with an error, or without"
    reason = (
        f"no threshold can be chosen: {lack} ({parts[0].num_problems} problems are held out, "
        f"{parts[1].num_problems} tested); give more problems, or --threshold"
    )
    return Threshold(None, None, *parts, reason=reason)


def _part(solutions: Sequence[KnownSolution]) -> Part:
    errors = [one.first_error for one in solutions]
    return Part(
        num_problems=len({one.problem_key for one in solutions}),
        num_solutions=len(solutions),
        num_erroneous=sum(error is not None and error >= 0 for error in errors),
    )


def _differences(measured: Mapping[ScorerRole, _Measured]) -> dict[Figure, Estimate]:
    if not {ScorerRole.PRM, ScorerRole.SECOND_PRM} <= set(measured):
        return {}
    one, other = measured[ScorerRole.PRM], measured[ScorerRole.SECOND_PRM]
    return {
        name: difference(figure, other.figures[name]).estimate()
        for name, figure in one.figures.items()
    }
