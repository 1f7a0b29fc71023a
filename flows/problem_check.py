"""The problems of a run, after the check against its test sets (`[decontamination]`)."""

from dataclasses import dataclass

from flows.run_config import RunConfig
from flows.selection import Purpose
from grading.grade import ungradable_reason
from storage.decontamination import Decontamination, find_contaminated, without_contaminated
from storage.problems import LoadedProblems, load_problems


@dataclass(frozen=True, slots=True)
class CheckedProblems:
    """Usable problems, and what was found of them in the test sets; None if not looked for."""

    loaded: LoadedProblems
    decontamination: Decontamination | None


def load_checked_problems(config: RunConfig, *, purpose: Purpose) -> CheckedProblems:
    """Read the problems; those to be labelled are compared with the test sets.

    With `decontamination.exclude` the contaminated ones are among the rejected rows. Raises
    the errors of `load_problems` and `find_contaminated`.
    """
    loaded = load_problems(config.problems, ungradable_reason=ungradable_reason)
    if purpose is not Purpose.LABELS or not config.decontamination.files:
        return CheckedProblems(loaded, None)
    found = find_contaminated(loaded.problems, config.decontamination)
    if config.decontamination.exclude:
        loaded = without_contaminated(loaded, found)
    return CheckedProblems(loaded, found)
