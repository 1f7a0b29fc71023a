"""A dataset folder made of foreign label files: read by `show`, `train`, `export` like any other.

It holds problems, one snapshot of labels, a manifest that says under `imported` what it was made
of, and a config with the settings to train with. It has no rollouts, and `generate` refuses to
work in it. The folder appears whole or not at all.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from flows.ledger import RunCost, as_json
from flows.run_config import RunConfig, check_config
from flows.sampling import now
from flows.selection import Purpose
from grading.pool import GradePool
from grading.verdict import Verdict
from pipeline.config import stable_digest
from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution
from pipeline.samplers.metered import StageCost
from pipeline.samplers.sampler import SamplingStage
from storage.files import file_hash, sync, write_errors, write_json, write_parquet_batches
from storage.formats.foreign import ForeignSolution
from storage.formats.gathering import Arrival, GatheredSolutions
from storage.formats.options import ImportFormat, ImportOptions
from storage.formats.reading import OnProgress, ReadingReport, foreign_solutions
from storage.formats.row_groups import row_groups
from storage.lock_holder import parse_holder, this_process
from storage.schema import PROBLEMS
from storage.snapshots import publish_snapshot, stage_labels
from storage.tables import labels_to_table, problems_to_table

MAKER_FILE = ".made-by"
"""Says in an unfinished folder which process makes it, as a lock file does."""

_HUMAN = (ImportFormat.PRM800K, ImportFormat.PROCESS_BENCH)


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import. `strict` makes the first malformed row fatal."""

    files: tuple[Path, ...]
    kind: ImportFormat
    options: ImportOptions
    split: str
    strict: bool

    @property
    def completer(self) -> str:
        """Whose judgement the labels are."""
        return "human" if self.kind in _HUMAN else self.kind.value

    @property
    def digest(self) -> str:
        """What defines the labels beside the files."""
        return stable_digest([self.kind, self.options.model_dump(mode="json")])


def import_dataset(request: ImportRequest, out: Path, *, on_progress: OnProgress) -> ReadingReport:
    """Make the dataset folder `out`; returns what became of the rows and solutions.

    Raises ConfigError where `out` holds something or an option does not fit, DataError for a
    damaged file, malformed rows under `strict`, and where nothing is left to keep.
    """
    report = ReadingReport()
    config = _config(request)
    with _appears_whole(out) as folder:
        with GatheredSolutions(folder, origin=request.kind, split=request.split) as gathered:
            _gather(request, gathered, config, report, on_progress)
            counts: Counter[str] = Counter()
            write_parquet_batches(
                folder / "problems" / "part-000000.parquet",
                _problem_tables(gathered, counts),
                schema=PROBLEMS,
            )
            _write_selection(folder, request, report)
            write_json(folder / "config.json", config.model_dump(mode="json"))
            tables = _label_tables(gathered.solutions(), request, config, counts)
            stage_labels(folder, ((request.split, table) for table in tables))
        publish_snapshot(folder, _manifest(request, config, counts, report), keep=1)
    return report


def _config(request: ImportRequest) -> RunConfig:
    content = {
        "problems": {"source": str(request.files[0]), "split": request.split},
        "train": {"split": request.split},
    }
    return check_config(content, origin="--split")


def _gather(
    request: ImportRequest,
    gathered: GatheredSolutions,
    config: RunConfig,
    report: ReadingReport,
    on_progress: OnProgress,
) -> None:
    solutions = foreign_solutions(
        request.files,
        request.kind,
        request.options,
        strict=request.strict,
        report=report,
        on_progress=on_progress,
    )
    with GradePool(config.grading) as pool:
        for solution in solutions:
            verdict, version = _verdict(solution, pool)
            arrival = gathered.add(solution, verdict, version)
            if arrival is Arrival.NEW:
                report.counts["solutions kept"] += 1
            else:
                report.counts[f"solutions dropped: {arrival}"] += 1
    if gathered.num_other_gold_answers:
        report.counts["solutions with another gold answer than the question's first"] = (
            gathered.num_other_gold_answers
        )
    if not report.counts["solutions kept"]:
        reasons = "; ".join(f"{what}: {n}" for what, n in sorted(report.counts.items()) if n)
        raise DataError(f"no labelled solution is left of {report.counts['rows']} rows: {reasons}")


def _verdict(solution: ForeignSolution, pool: GradePool) -> tuple[Verdict, str]:
    """The solution's verdict, and the grader's version where it was asked."""
    if solution.verdict is not None:
        return solution.verdict, ""
    if not solution.final_answer or not solution.gold_answer:
        return Verdict.UNDECIDED, ""
    return pool.grade_answer(solution.gold_answer, solution.final_answer).verdict, pool.version


def _problem_tables(gathered: GatheredSolutions, counts: Counter[str]) -> Iterator[pa.Table]:
    for group in row_groups(gathered.problems(), lambda problem: len(problem.question)):
        counts["problems"] += len(group)
        yield problems_to_table(group)


def _label_tables(
    solutions: Iterator[tuple[LabeledSolution, str, str]],
    request: ImportRequest,
    config: RunConfig,
    counts: Counter[str],
) -> Iterator[pa.Table]:
    for group in row_groups(solutions, lambda one: sum(map(len, one[0].steps))):
        labeled = [solution for solution, _, _ in group]
        table = labels_to_table(
            labeled,
            completer=request.completer,
            generator="",
            sampling_digest=request.digest,
            grader_versions=[version for _, _, version in group],
            hard_threshold=config.labels.hard_threshold,
        )
        generators = pa.array([generator or request.kind.value for _, generator, _ in group])
        at = table.schema.get_field_index("generator")
        yield table.set_column(at, table.schema.field(at), generators)
        counts["labeled_solutions"] += len(labeled)
        for solution in labeled:
            counts["labeled_steps"] += len(solution.steps)
            counts["steps_without_label"] += sum(not label.num_graded for label in solution.labels)


def _manifest(
    request: ImportRequest, config: RunConfig, counts: Counter[str], report: ReadingReport
) -> dict[str, object]:
    """The keys of a sampled dataset's manifest, and what was imported."""
    files = [
        {"name": file.name, "sha256": file_hash(file), "bytes": file.stat().st_size}
        for file in request.files
    ]
    no_cost = as_json(StageCost())
    return {
        "config": config.model_dump(mode="json"),
        "config_digest": config.digest(),
        "completer": request.completer,
        "generator": request.kind.value,
        "sampling_digest": request.digest,
        "generator_digest": request.digest,
        "grader_version": "",
        "counts": {
            **dict.fromkeys(_NO_ROLLOUTS, 0),
            "rejected_rows": report.counts["rows malformed"],
            **counts,
        },
        "cost": {
            **{stage.value: no_cost for stage in SamplingStage},
            "last_run": as_json(RunCost()),
            "tokens_per_label": None,
        },
        "imported": {
            "format": request.kind,
            "files": files,
            "options": {**request.options.model_dump(mode="json"), "split": request.split},
            "counts": dict(sorted(report.counts.items())),
        },
        "finished_at": now(),
    }


_NO_ROLLOUTS = (
    "problems_unfinished",
    "solutions_without_steps",
    "steps_without_label",
    "rollouts",
    "rollouts_correct",
    "rollouts_incorrect",
    "rollouts_undecided",
    "rollouts_truncated",
)


def _write_selection(folder: Path, request: ImportRequest, report: ReadingReport) -> None:
    """Of another purpose than labels: `generate` then leaves the folder alone."""
    write_json(
        folder / "selection.json",
        {
            "purpose": Purpose.IMPORTED,
            "split": request.split,
            "problem_ids": [],
            "rejected_rows": [asdict(row) for row in report.malformed],
        },
    )


@contextmanager
def _appears_whole(out: Path) -> Generator[Path, None, None]:
    """A folder beside `out` that takes its place at the end; gone after an error."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} is not an empty folder; name a new one")
    out = Path(os.path.realpath(out))
    folder = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    with write_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(out)
        folder.mkdir()
        try:
            (folder / MAKER_FILE).write_bytes(this_process().as_bytes())
            yield folder
            (folder / MAKER_FILE).unlink()
            folder.replace(out)
            sync(out.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(out: Path) -> None:
    """Remove what dead processes of this host left of an earlier import of `out`.

    A neighbour's folder may look alike: only one that says who made it goes.
    """
    name = re.compile(re.escape(f".{out.name}.") + r"([0-9]{1,10})\.tmp")
    for folder in out.parent.iterdir():
        named = name.fullmatch(folder.name)
        if named is not None and _is_abandoned(folder, pid=int(named[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path, *, pid: int) -> bool:
    try:
        maker = parse_holder((folder / MAKER_FILE).read_bytes())
    except OSError:  # no such file: not ours
        return False
    if folder.is_symlink() or maker is None or maker.pid != pid:
        return False
    return maker.host == os.uname().nodename and not maker.is_alive
