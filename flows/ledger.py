"""The cost ledger: what all runs on a dataset have spent, in its `cost.json`.

    {"stages": {<sampling digest>: {"solutions": {…}, "prefixes": {…}}}, "runs": [{…}, …]}

Each model with its settings has its own totals, to which every run adds; the latest runs are
kept one by one, the newest last. The file is
written whole after each flush of the journal, so a killed run's cost is lost for seconds
only. What was drawn and lost in a crash was spent all the same: the ledger can exceed what
is stored.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.errors import DataError
from pipeline.samplers.metered import StageCost
from pipeline.samplers.sampler import SamplingStage
from storage.files import write_json

StageCosts = dict[SamplingStage, StageCost]
MAX_RUNS = 100
"""Runs that are kept one by one."""


@dataclass(slots=True)
class RunCost:
    """What one run drew, regraded and topped up, and whether its budget ended it.

    `seconds` are those of sampling, engine start included; `started_at` is in UTC, ISO 8601.
    """

    started_at: str = ""
    rollouts: int = 0
    generated_tokens: int = 0
    top_up_rollouts: int = 0
    """Among `rollouts`: those drawn for the widest intervals once all was complete."""
    top_up_tokens: int = 0
    regraded: dict[str, Any] | None = None
    """`RegradeReport.summary` where stored rollouts were graded anew."""
    seconds: float = 0.0
    budget_met: bool = False


class CostLedger:
    """The totals of earlier runs, and those of this one, which grow while it runs."""

    def __init__(self, out: Path) -> None:
        """Raises DataError where the file is damaged."""
        self._file = out / "cost.json"
        self._before, self.runs = _read(self._file)
        self._of_this_run: dict[str, StageCosts] = {}

    @property
    def last_run(self) -> RunCost:
        """The newest of `runs`, to be added to."""
        if not self.runs:
            self.begin_run()
        return self.runs[-1]

    def begin_run(self) -> None:
        """From now on count for a new run; the oldest of too many is forgotten."""
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.runs = [*self.runs, RunCost(started_at=started_at)][-MAX_RUNS:]

    def costs(self, sampling_digest: str) -> StageCosts:
        """This run's costs of one model with its settings, to be added to."""
        empty = {stage: StageCost() for stage in SamplingStage}
        return self._of_this_run.setdefault(sampling_digest, empty)

    def total(self, sampling_digest: str, stage: SamplingStage) -> StageCost:
        """Of all runs."""
        total = StageCost()
        for costs in (self._before, self._of_this_run):
            total = total.plus(costs.get(sampling_digest, {}).get(stage, StageCost()))
        return total

    def write(self) -> None:
        """Put the totals on disk."""
        digests = sorted({*self._before, *self._of_this_run})
        stages = {
            digest: {stage.value: as_json(self.total(digest, stage)) for stage in SamplingStage}
            for digest in digests
        }
        write_json(self._file, {"stages": stages, "runs": [as_json(run) for run in self.runs]})


def as_json(record: StageCost | RunCost) -> dict[str, Any]:
    """The fields, with seconds to a thousandth."""
    return {**asdict(record), "seconds": round(record.seconds, 3)}


def _read(file: Path) -> tuple[dict[str, StageCosts], list[RunCost]]:
    if not file.exists():
        return {}, []
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        stages = {
            digest: {SamplingStage(name): StageCost(**cost) for name, cost in costs.items()}
            for digest, costs in content["stages"].items()
        }
        return stages, [RunCost(**run) for run in content["runs"]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{file} cannot be read ({error!r}); delete it, and costs are counted from zero"
        ) from error
