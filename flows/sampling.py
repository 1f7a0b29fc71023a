"""The sampling stage: draw and grade what is missing, model by model, within the budget.

First the generator's engine writes all solutions, then, after it was closed, the
completer's engine rolls out their prefixes: two models share one GPU in turn. Where one
model does both, one engine does it in one go. With nothing missing no engine is started.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from time import monotonic

from flows.engines import max_samples_in_flight, open_engine
from flows.ledger import CostLedger, StageCosts
from flows.roles import Role, Roles, resolve_roles
from flows.run_config import RunConfig
from flows.selection import selected_problems
from flows.stored import stored_solutions, stored_work
from grading.pool import GradePool, GraderStartError
from grading.verdict import Grade, Verdict
from labeling.budget import Budget
from labeling.engine import Grader, LabelingTools, Work, is_missing, roll_out
from labeling.estimate import label_problem
from labeling.policies.config import AllocationPolicy
from labeling.prompts import TokenPromptEncoder
from pipeline.errors import EngineError
from pipeline.records import Prefix, Problem, Rollout
from pipeline.samplers.interrupts import interrupts_deferred, interrupts_raised
from pipeline.samplers.metered import MeteredSampler
from pipeline.samplers.sampler import SamplingStage
from storage.journal import MAX_PARTS_READ, Journal, compact

FLUSH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far sampling is. Tokens and rollouts are those drawn in this run.

    With two models `num_done` starts anew when the completer begins.
    """

    num_done: int
    num_problems: int
    num_rollouts: int
    num_tokens: int
    seconds: float


OnProgress = Callable[[Progress], None]


def sample_rollouts(
    config: RunConfig, out: Path, *, on_progress: OnProgress, solutions_only: bool = False
) -> None:
    """Draw and grade the rollouts that are missing, or what the budget allows of them.

    What was drawn and whether the budget was met is kept in the ledger.
    """
    with interrupts_deferred():  # a loop interrupted while it is made complains on stderr
        runner = asyncio.Runner()
        runner.get_loop()
    with runner:
        runner.run(
            draw_missing(config, out, on_progress=on_progress, solutions_only=solutions_only)
        )


async def draw_missing(
    config: RunConfig, out: Path, *, on_progress: OnProgress, solutions_only: bool = False
) -> None:
    """`sample_rollouts` for a caller that has its own way to cancel it."""
    with interrupts_raised():
        roles = resolve_roles(config)
        ledger = CostLedger(out)
        ledger.begin_run()
        run = _Run(out, ledger, Budget(config.allocation.budget), on_progress)
    for phase in _phases(roles, out, solutions_only=solutions_only):
        if not run.budget.is_spent:
            await run.draw(phase)
    run.end()


def wants_more(work: Work, config: RunConfig) -> bool:
    """Whether a run without a budget would draw more for this problem."""
    if is_missing(work, steps=config.steps, allocation=config.allocation):
        return True
    if config.allocation.policy is not AllocationPolicy.UNCERTAIN_FIRST:
        return False
    labeled = label_problem(
        work.problem,
        work.rollouts,
        steps=config.steps,
        allocation=config.allocation,
        solutions=work.solutions,
    )
    intervals = (label.interval for solution in labeled for label in solution.labels[:-1])
    return any(high - low > config.allocation.max_interval_width for low, high in intervals)


@dataclass(frozen=True, slots=True)
class _Phase:
    """What one engine is to do."""

    role: Role
    work: Iterator[Work]
    solutions_only: bool

    def wants(self, work: Work) -> bool:
        config = self.role.config
        if self.solutions_only:
            return is_missing(
                work, steps=config.steps, allocation=config.allocation, solutions_only=True
            )
        return wants_more(work, config)


def _phases(roles: Roles, out: Path, *, solutions_only: bool) -> Iterator[_Phase]:
    """Lazily: the second phase reads what the first has written."""
    if roles.generator is not None or solutions_only:
        yield _Phase(roles.writer, stored_solutions(roles, out), solutions_only=True)
    if not solutions_only:
        yield _Phase(roles.completer, stored_work(roles, out), solutions_only=False)


class _Run:
    """What the phases share: the budget, the ledger, and the totals that are reported."""

    def __init__(
        self, out: Path, ledger: CostLedger, budget: Budget, on_progress: OnProgress
    ) -> None:
        self.budget = budget
        self._out = out
        self._ledger = ledger
        self._on_progress = on_progress
        self._started = monotonic()
        self._num_done = 0
        self._num_problems = 0

    async def draw(self, phase: _Phase) -> None:
        """Draw what the phase still wants; starts no engine where that is nothing."""
        with interrupts_raised():
            compact(self._out, max_parts=MAX_PARTS_READ)
            problems = selected_problems(self._out)
            first, self._num_done = _first_wanted(phase)
            self._num_problems = len(problems)
        if first is None:
            return
        self._report()
        config, engine = phase.role.config, phase.role.engine
        async with (
            open_engine(
                engine, config, problems=problems, state_path=self._out / "engine"
            ) as opened,
            self._journal(phase.role) as journal,
        ):
            with GradePool(config.grading) as pool:
                pool.start()
                costs = self._ledger.costs(phase.role.digest)
                await roll_out(
                    itertools.chain([first], phase.work),
                    tools=LabelingTools(
                        sampler=MeteredSampler(opened, costs),
                        encoder=engine.encoder,
                        grade=_grader(pool),
                        write=self._writer(journal, costs),
                        now=now,
                        on_done=self._count_done,
                    ),
                    identity=engine.identity,
                    sampling=config.sampling,
                    steps=config.steps,
                    allocation=config.allocation,
                    solutions_only=phase.solutions_only,
                    budget=self.budget,
                    max_samples=max_samples_in_flight(opened, config),
                )

    def end(self) -> None:
        """Note how the run ended."""
        self._ledger.last_run.budget_met = self.budget.is_spent
        self._write_ledger()

    @contextlib.asynccontextmanager
    async def _journal(self, role: Role) -> AsyncGenerator[Journal, None]:
        """A journal that is flushed every few seconds even while nothing arrives."""
        costs = self._ledger.costs(role.digest)[SamplingStage.PREFIXES]
        with Journal(self._out) as journal:

            def flush() -> None:
                journal.flush()
                if isinstance(role.engine.encoder, TokenPromptEncoder):
                    costs.reencoded_prefixes = role.engine.encoder.num_reencoded
                self._write_ledger()

            async def flush_regularly() -> None:
                while True:
                    await asyncio.sleep(FLUSH_SECONDS)
                    flush()

            flusher = asyncio.create_task(flush_regularly())
            try:
                yield journal
            finally:
                flusher.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await flusher
                flush()

    def _write_ledger(self) -> None:
        self._ledger.last_run.seconds = monotonic() - self._started
        self._ledger.write()

    def _writer(self, journal: Journal, costs: StageCosts) -> Callable[[Sequence[Rollout]], None]:
        last_run = self._ledger.last_run

        def write(rollouts: Sequence[Rollout]) -> None:
            journal.append(rollouts)
            _count(rollouts, costs)
            last_run.rollouts += len(rollouts)
            last_run.generated_tokens += sum(rollout.num_tokens for rollout in rollouts)
            self._report()

        return write

    def _count_done(self, _: Problem) -> None:
        self._num_done += 1
        self._report()

    def _report(self) -> None:
        self._on_progress(
            Progress(
                num_done=self._num_done,
                num_problems=self._num_problems,
                num_rollouts=self._ledger.last_run.rollouts,
                num_tokens=self._ledger.last_run.generated_tokens,
                seconds=monotonic() - self._started,
            )
        )


def _first_wanted(phase: _Phase) -> tuple[Work | None, int]:
    """The first problem that more is wanted for, and how many before it are done."""
    num_done = 0
    for work in phase.work:
        if phase.wants(work):
            return work, num_done
        num_done += 1
    return None, num_done


def _grader(pool: GradePool) -> Grader:
    async def grade(gold: str, texts: Sequence[tuple[str, bool]]) -> Sequence[Grade]:
        try:
            return await pool.agrade_all(gold, texts)
        except GraderStartError as error:
            raise EngineError(str(error)) from error

    return grade


def _count(rollouts: Sequence[Rollout], costs: StageCosts) -> None:
    """Add rollouts of one prefix to its stage's cost."""
    if not rollouts:
        return
    is_root = rollouts[0].prefix_id == _root_id(rollouts[0].problem_id)
    cost = costs[SamplingStage.SOLUTIONS if is_root else SamplingStage.PREFIXES]
    cost.rollouts += len(rollouts)
    cost.rollouts_undecided += sum(one.verdict is Verdict.UNDECIDED for one in rollouts)
    cost.rollouts_truncated += sum(one.is_truncated for one in rollouts)


@lru_cache(maxsize=1024)
def _root_id(problem_id: str) -> str:
    return Prefix(problem_id).prefix_id


def now() -> str:
    """The time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
