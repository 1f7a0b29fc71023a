"""Steps of known truth to test a PRM on: of a dataset, of ProcessBench files, of candidates.

Where solutions are of the demo domain, their steps' exact truth is known beside any label.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from flows.display import printable
from flows.run_config import config_from_json
from pipeline.demo.problems import DemoProblem
from pipeline.demo.truth import demo_problem_of, step_truths
from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution, StepLabel
from search.best_of_n import ProblemCandidates
from search.known_steps import KnownSolution, KnownSteps, Truth
from storage.dataset import stored_labels
from storage.formats.options import ImportFormat, ImportOptions
from storage.formats.reading import OnProgress, ReadingReport, foreign_solutions
from storage.splits import split_of_question

logger = logging.getLogger(__name__)

_SHOWN_MALFORMED = 5
_HELD_OUT = "held-out"
_PARTS = {_HELD_OUT: 0.5, "tested": 0.5}


def is_held_out(question: str) -> bool:
    """Whether a question is in the half that chooses the threshold, by its hash."""
    return split_of_question(question, _PARTS) == _HELD_OUT


def dataset_steps(folder: Path, *, split: str | None) -> list[KnownSteps]:
    """A dataset's solutions with its labels and, those of the demo domain, with exact truth.

    Raises DataError for damaged labels and blank steps, ConfigError for an unknown split.
    """
    threshold = config_from_json(folder / "config.json").labels.hard_threshold
    labeled = list(stored_labels(folder, split=split))
    _refuse_blank_steps(labeled, folder)
    has_soft = any(label.num_graded > 1 for one in labeled for label in one.labels)
    by_labels = tuple(
        KnownSolution(
            one.problem.question,
            one.steps,
            tuple(_truth(label, threshold) for label in one.labels),
            tuple(_soft_label(label) for label in one.labels) if has_soft else (),
        )
        for one in labeled
    )
    exact, notes = _exact(
        (one.problem.problem_id, one.problem.question, one.steps) for one in labeled
    )
    groups = [KnownSteps("dataset", Truth.LABELS, by_labels)]
    return groups + ([KnownSteps("dataset-exact", Truth.EXACT, exact, notes)] if exact else [])


def process_bench_steps(files: Sequence[Path], *, on_progress: OnProgress) -> list[KnownSteps]:
    """The solutions of each ProcessBench file; malformed rows are counted and left out.

    Raises ConfigError for a file that is not there or given twice, DataError for one that is
    damaged or holds no good row.
    """
    twice = [file for file, n in Counter(file.resolve() for file in files).items() if n > 1]
    if twice:
        raise ConfigError(f"--processbench {twice[0]} is given twice")
    names = _names(files)
    return [
        _process_bench(file, name, on_progress) for file, name in zip(files, names, strict=True)
    ]


def candidate_steps(problems: Sequence[ProblemCandidates]) -> KnownSteps | None:
    """The scored candidates of demo problems with exact truth; None where there are none."""
    candidates = [(problem, one) for problem in problems for one in problem.candidates]
    exact: list[KnownSolution] = []
    notes: Counter[str] = Counter()
    for problem, one in candidates:
        truths = _exact_truths(problem.problem_id, problem.question, one.steps)
        if truths is None:
            notes["not of the demo domain"] += 1
        elif not one.steps:
            notes["without steps"] += 1
        else:
            solution = KnownSolution(
                problem.question, one.steps, truths, step_scores=one.step_scores
            )
            exact.append(solution)
    if not exact:
        return None
    return KnownSteps("candidates-exact", Truth.EXACT, tuple(exact), dict(notes))


def _truth(label: StepLabel, threshold: float = 0.0) -> bool | None:
    return label.hard_label(threshold) if label.num_graded else None


def _soft_label(label: StepLabel) -> float | None:
    return label.mc_value if label.num_graded else None


def _refuse_blank_steps(solutions: Iterable[LabeledSolution], folder: Path) -> None:
    for one in solutions:
        for step_index, step in enumerate(one.steps):
            if not step.strip():
                raise DataError(
                    f"{folder}: step {step_index} of the solution {one.solution_id!r} is {step!r}, "
                    "without content; make the labels again"
                )


def _exact(
    solutions: Iterable[tuple[str, str, tuple[str, ...]]],
) -> tuple[tuple[KnownSolution, ...], dict[str, int]]:
    known: list[KnownSolution] = []
    num_others = 0
    for problem_id, question, steps in solutions:
        truths = _exact_truths(problem_id, question, steps)
        if truths is None:
            num_others += 1
        else:
            known.append(KnownSolution(question, steps, truths))
    return tuple(known), {"not of the demo domain": num_others} if num_others else {}


def _exact_truths(
    problem_id: str, question: str, steps: tuple[str, ...]
) -> tuple[bool, ...] | None:
    """None for what is no problem of the demo domain, whatever its id."""
    problem = _demo_problem(problem_id)
    if problem is None or problem.question != question:
        return None
    return step_truths(problem, steps)


@lru_cache(maxsize=1024)
def _demo_problem(problem_id: str) -> DemoProblem | None:
    try:
        return demo_problem_of(problem_id)
    except ValueError:
        return None


def _names(files: Sequence[Path]) -> list[str]:
    """A name for each file that is one in any file system, and no other's."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for file in files:
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", file.name.partition(".")[0])[:60]
        name = f"processbench-{stem}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names


def _process_bench(file: Path, name: str, on_progress: OnProgress) -> KnownSteps:
    report = ReadingReport()
    rows = foreign_solutions(
        [file],
        ImportFormat.PROCESS_BENCH,
        ImportOptions(),
        strict=False,
        report=report,
        on_progress=on_progress,
    )
    distinct: dict[tuple[str, tuple[str, ...]], KnownSolution] = {}
    for one in rows:
        truths = tuple(map(_truth, one.labels))
        solution = KnownSolution(one.question, one.steps, truths)
        distinct.setdefault((one.question, one.steps), solution)
    for row in report.malformed[:_SHOWN_MALFORMED]:
        why = printable(f"{row.file}, row {row.row}: {row.reason}")
        logger.warning("%s; the row is left out", why)
    notes = {
        "malformed rows": report.counts["rows malformed"],
        "repeated solutions": report.counts["rows kept"] - len(distinct),
    }
    return KnownSteps(
        name,
        Truth.PROCESS_BENCH,
        tuple(distinct.values()),
        {what: n for what, n in notes.items() if n},
    )
