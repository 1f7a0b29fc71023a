"""`stepmark verify`: the files of a dataset, and whether its labels follow from its rollouts.

The labels of a snapshot are a function of the rollouts and of the config that its manifest
holds; they are made again here, for some problems or all, and compared column by column. No
model is loaded: the manifest says whose rollouts count.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flows.run_config import RunConfig, check_config
from flows.stored import label_work, root_rollouts
from labeling.work import Work
from pipeline.errors import ConfigError
from pipeline.records import Problem, Rollout
from storage.dataset import MANIFEST, SNAPSHOTS, label_files, refuse_model
from storage.findings import REMAKE, Finding
from storage.journal import grouped_rollouts
from storage.lock import refuse_live_holder
from storage.problem_table import problem_parts, read_problems
from storage.schema import LABELS, table_batches
from storage.tables import labels_to_table
from storage.verify import FileCheck, verify_files

SAMPLED_PROBLEMS = 200
_LABELS_AT_ONCE = 1024
_NOT_COMPARED = frozenset({"grader_version"})


@dataclass(frozen=True, slots=True)
class Verification:
    """`num_labels_compared` counts solutions; `not_compared` says why none, where so."""

    findings: tuple[Finding, ...]
    figures: Mapping[str, int]
    num_labels_compared: int
    not_compared: str

    def as_json(self) -> dict[str, object]:
        """As `--json` writes it."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "figures": dict(self.figures),
            "labels_compared": self.num_labels_compared,
            "labels_not_compared": self.not_compared or None,
        }


def verify(path: Path, *, full: bool = False) -> Verification:
    """Check the dataset `path`; `full` makes the labels of all problems again, not of some.

    Raises ConfigError where there is no dataset, and DatasetLockedError while a run works on
    it: what it moves meanwhile would look like damage.
    """
    if not any((path / name).exists() for name in ("rollouts", SNAPSHOTS, "labels", "problems")):
        refuse_model(path)
        raise ConfigError(f"{path} is no dataset folder; give the --out of `stepmark generate`")
    refuse_live_holder(path)
    files = verify_files(path)
    why_not = _why_not_compared(path, files)
    compared, wrong = (0, ()) if why_not else _compare_labels(path, files, full=full)
    figures = {
        "files": files.num_files,
        "problems": files.num_problems,
        "rollouts": files.journal.num_rollouts,
        "rollouts stored twice": files.journal.num_doubled,
        "snapshots": len(files.snapshots),
        "labelled solutions": files.num_labeled_solutions,
    }
    return Verification((*files.findings, *wrong), figures, compared, why_not)


def _why_not_compared(path: Path, files: FileCheck) -> str:
    if not files.manifest:
        return "no run has ended yet"
    if files.findings:
        return "what is found has to be put in order first"
    if "imported" in files.manifest:
        return "they were imported, not made of rollouts"
    if not files.is_journal_of_manifest:
        return "a later run has added rollouts and is not finished: run it to its end"
    listed = files.manifest.get("files", {})
    if any(f"problems/{part.name}" not in listed for part in problem_parts(path)):
        return "a later run has added problems and is not finished: run it to its end"
    if "snapshot" not in files.manifest:
        return "an earlier stepmark has made them"
    return ""


def _compare_labels(path: Path, files: FileCheck, *, full: bool) -> tuple[int, Sequence[Finding]]:
    """How many labelled solutions were made again, and the files where they are others."""
    manifest = files.manifest
    try:
        config = check_config(manifest["config"], origin=str(path / MANIFEST))
    except (ConfigError, KeyError) as error:
        what = f"its config cannot be used: {error}"
        return 0, [Finding(MANIFEST, what, "use the stepmark that wrote it")]
    folder = path / SNAPSHOTS / str(manifest["snapshot"])
    stored = _stored_rows(folder, _chosen(folder, full=full))
    wrong: dict[str, Finding] = {}
    num_compared = 0
    for problem, rows in _made_again(path, set(stored), config, manifest):
        theirs = stored.pop(problem)
        num_compared += len(theirs)
        different = _difference([row for _, row in theirs], rows)
        if different:
            name = theirs[0][0].relative_to(path).as_posix()
            what = f"the labels of problem {problem!r} do not follow from its rollouts: {different}"
            wrong.setdefault(name, Finding(name, what, REMAKE))
    for problem, theirs in stored.items():
        name = theirs[0][0].relative_to(path).as_posix()
        what = f"problem {problem!r} has labels and no rollouts"
        wrong.setdefault(name, Finding(name, what, REMAKE))
    return num_compared, list(wrong.values())


def _chosen(folder: Path, *, full: bool) -> set[str]:
    """The problems to look at: every n-th in the order of the ids."""
    found: set[str] = set()
    for file in label_files(folder):
        for table in table_batches(file, LABELS, num_rows=_LABELS_AT_ONCE, columns=("problem_id",)):
            found.update(table.column("problem_id").to_pylist())
    step = 1 if full else max(1, len(found) // SAMPLED_PROBLEMS)
    return set(sorted(found)[::step])


_Rows = list[tuple[Path, dict[str, Any]]]


def _stored_rows(folder: Path, chosen: set[str]) -> dict[str, _Rows]:
    """The rows of the label files, with their file, by problem."""
    found: dict[str, _Rows] = {}
    for file in label_files(folder):
        for table in table_batches(file, LABELS, num_rows=_LABELS_AT_ONCE):
            for row in table.to_pylist():
                if row["problem_id"] in chosen:
                    found.setdefault(row["problem_id"], []).append((file, row))
    return found


def _made_again(
    path: Path, chosen: set[str], config: RunConfig, manifest: Mapping[str, Any]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each chosen problem that has rollouts, and the rows of its labels."""
    problems = {problem.problem_id: problem for problem in read_problems(path)}
    own, writers = str(manifest["sampling_digest"]), str(manifest["generator_digest"])
    for problem_id, rollouts in grouped_rollouts(path, sampling_digests={own, writers}):
        if problem_id in chosen:
            work = _work(problems[problem_id], rollouts, own, writers)
            solutions = label_work(work, config).solutions
            table = labels_to_table(
                solutions,
                completer=str(manifest["completer"]),
                generator=str(manifest["generator"]),
                sampling_digest=own,
                grader_versions=[""] * len(solutions),
                hard_threshold=config.labels.hard_threshold,
            )
            yield problem_id, table.to_pylist()


def _work(problem: Problem, rollouts: Sequence[Rollout], own: str, writers: str) -> Work:
    completers = [one for one in rollouts if one.sampling_digest == own]
    if writers == own:
        return Work(problem, completers)
    theirs = [one for one in rollouts if one.sampling_digest == writers]
    return Work(problem, completers, root_rollouts(problem, theirs))


def _difference(stored: Sequence[dict[str, Any]], made: Sequence[dict[str, Any]]) -> str:
    """What differs, of the first solution that does; empty where nothing does."""
    of_made = {row["solution_id"]: row for row in made}
    if {row["solution_id"] for row in stored} != of_made.keys():
        return f"{len(stored)} solutions are stored, {len(made)} are made of the rollouts"
    for row in stored:
        other = of_made[row["solution_id"]]
        for name, value in row.items():
            if name not in _NOT_COMPARED and value != other[name]:
                return f"{name} of solution {row['solution_id']} is {value}, not {other[name]}"
    return ""
