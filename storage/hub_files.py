"""The files of a publish: the configs `labels`, `trl` and `rollouts`, split by split.

Made from the current snapshot, and the journal where rollouts are asked for, into an empty
folder laid out as the repo will be. Memory holds a row group or two. The same labels give the
same bytes; there are no times in the rows.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.records import LabeledSolution
from storage.dataset import label_files, split_of
from storage.formats import trl_stepwise
from storage.formats.options import ExportOptions, LabelKind
from storage.hub import HubFile
from storage.hub_rows import ROWS_A_GROUP, ShardWriter, ordered_groups, with_features
from storage.journal import live_parts
from storage.label_figures import LabelFigures
from storage.merge import merged_tables
from storage.problem_table import added_order
from storage.schema import LABELS, ROLLOUTS, table_batches
from storage.tables import labels_from_table

FOLDERS = {"labels": "data", "trl": "trl", "rollouts": "rollouts"}
"""By config."""
_ROWS_READ = 16_384
_SOLUTIONS_IN_MEMORY = 1024
_TRL = trl_stepwise.schema(LabelKind.HARD)
_PUBLIC_ROLLOUTS = pa.schema([one for one in ROLLOUTS if one.name != "created_at"])


@dataclass(slots=True)
class HubFiles:
    """What is to be published: files, splits by config, figures, TRL's drops, and one labelled
    solution to show.
    """

    files: list[HubFile] = field(default_factory=list)
    splits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    figures: LabelFigures = field(default_factory=LabelFigures)
    trl_counts: Counter[str] = field(default_factory=Counter)
    example: LabeledSolution | None = None


def write_hub_files(
    path: Path,
    snapshot: Path,
    staging: Path,
    *,
    hard_threshold: float,
    rollout_digests: frozenset[str] = frozenset(),
    rows_a_group: int = ROWS_A_GROUP,
) -> HubFiles:
    """Write the files of the dataset `path`, whose current label files are in `snapshot`.

    Rollouts of `rollout_digests` and of labelled problems are published, too; the caller holds
    the dataset's lock where there are any. Raises DataError for damaged files.
    """
    staging.mkdir(parents=True, exist_ok=True)
    order, made = added_order(path), HubFiles()
    made.splits = {"labels": (), "trl": ()}
    for file in label_files(snapshot):
        writing = _Split(split_of(file), staging, order, made, rows_a_group)
        writing.labels(file, ExportOptions(hard_threshold=hard_threshold))
        if rollout_digests:
            writing.rollouts(file, path, rollout_digests)
    for folder in FOLDERS.values():
        for file in sorted((staging / folder).glob("*.parquet")):
            made.files.append(HubFile.of(file, f"{folder}/{file.name}"))
    return made


@dataclass(frozen=True, slots=True)
class _Split:
    """One split's files."""

    name: str
    staging: Path
    order: pa.Array
    made: HubFiles
    rows_a_group: int

    def labels(self, file: Path, options: ExportOptions) -> None:
        """Of both configs that are made of the label file."""
        tables = table_batches(file, LABELS, num_rows=_ROWS_READ)
        with self._writer("labels", LABELS) as labels, self._writer("trl", _TRL) as trl:
            for shard, group in self._groups(tables):
                self.made.figures.add(self.name, group)
                labels.write(shard, group)
                trl.write(shard, self._trl_rows(group, options))
        self._note("labels", labels)
        self._note("trl", trl)

    def rollouts(self, file: Path, path: Path, digests: frozenset[str]) -> None:
        """Of the problems that the label file has."""
        columns = ("problem_id",)
        batches = table_batches(file, LABELS, num_rows=_ROWS_READ, columns=columns)
        ids = [table.column("problem_id").unique() for table in batches]
        problem_ids = pa.chunked_array(ids, pa.string()).unique()
        tables = (
            rows.filter(
                pc.field("problem_id").isin(problem_ids)
                & pc.field("sampling_digest").isin(sorted(digests))
            ).select(_PUBLIC_ROLLOUTS.names)
            for rows in merged_tables(live_parts(path))
        )
        with self._writer("rollouts", _PUBLIC_ROLLOUTS) as rollouts:
            for shard, group in self._groups(tables):
                rollouts.write(shard, group)
        self._note("rollouts", rollouts)

    def _groups(self, tables: Iterator[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
        spill = self.staging / ".rows.arrow"
        yield from ordered_groups(tables, self.order, spill, rows_a_group=self.rows_a_group)
        spill.unlink(missing_ok=True)

    def _writer(self, config: str, schema: pa.Schema) -> ShardWriter:
        return ShardWriter(self.staging / FOLDERS[config], self.name, with_features(schema))

    def _note(self, config: str, writer: ShardWriter) -> None:
        if writer.num_rows:  # no file, no split: `load_dataset` would not find it
            self.made.splits[config] = (*self.made.splits.get(config, ()), self.name)

    def _trl_rows(self, group: pa.Table, options: ExportOptions) -> pa.Table:
        tables = [_TRL.empty_table()]
        for start in range(0, group.num_rows, _SOLUTIONS_IN_MEMORY):
            solutions = labels_from_table(group.slice(start, _SOLUTIONS_IN_MEMORY), first_row=start)
            self.made.example = self.made.example or solutions[0]
            rows = list(trl_stepwise.write_rows(solutions, options, self.made.trl_counts))
            columns = [pa.array([row[one.name] for row in rows], one.type) for one in _TRL]
            tables.append(pa.Table.from_arrays(columns, schema=_TRL))
        return pa.concat_tables(tables).combine_chunks()
