"""The sampling stage: draw and grade what is missing, model by model, within the budget.

First the generator's engine writes all solutions, then, after it was closed, the
completer's engine rolls out their prefixes: two models share one GPU in turn. Where one
model does both, one engine does it in one go. What the [refresh] allows then goes to the
widest intervals. With nothing missing and nothing to top up no engine is started.
"""

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from time import monotonic

from flows.engines import max_samples_in_flight, open_engine
from flows.grader_versions import expected_versions
from flows.ledger import CostLedger, StageCosts
from flows.roles import Role, Roles, resolve_roles
from flows.run_config import RunConfig
from flows.selection import selected_problems
from flows.stored import stored_solutions, stored_work
from grading.pool import GradePool, GraderStartError
from grading.verdict import Grade, Verdict
from labeling.budget import Budget
from labeling.engine import Grader, LabelingTools, roll_out, top_up
from labeling.policies.config import AllocationPolicy
from labeling.prompts import TokenPromptEncoder
from labeling.work import Work, is_missing, wide_prefixes
from pipeline.errors import EngineError
from pipeline.records import Prefix, Problem, Rollout
from pipeline.samplers.interrupts import interrupts_deferred, interrupts_raised
from pipeline.samplers.metered import MeteredSampler
from pipeline.samplers.sampler import Sampler, SamplingStage
from storage.journal import MAX_PARTS_READ, Journal, compact
from storage.remote import local_state

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
    config: RunConfig,
    out: Path,
    *,
    on_progress: OnProgress,
    solutions_only: bool = False,
    begins_run: bool = True,
) -> None:
    """Draw and grade the rollouts that are missing, or what the budget allows of them.

    What was drawn and whether the budget was met is kept in the ledger, as a run of its own
    or, without `begins_run`, as part of the run that was begun there.
    """
    with interrupts_deferred():  # a loop interrupted while it is made complains on stderr
        runner = asyncio.Runner()
        runner.get_loop()
    with runner:
        runner.run(
            draw_missing(
                config,
                out,
                on_progress=on_progress,
                solutions_only=solutions_only,
                begins_run=begins_run,
            )
        )


async def draw_missing(
    config: RunConfig,
    out: Path,
    *,
    on_progress: OnProgress,
    solutions_only: bool = False,
    begins_run: bool = True,
) -> None:
    """`sample_rollouts` for a caller that has its own way to cancel it."""
    with interrupts_raised():
        roles = resolve_roles(config)
        ledger = CostLedger(out)
        if begins_run:
            ledger.begin_run()
        run = _Run(config, out, ledger, on_progress)
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
    return bool(
        wide_prefixes(work, steps=config.steps, allocation=config.allocation, max_rollouts=None)
    )


@dataclass(frozen=True, slots=True)
class _Phase:
    """What one engine is to do. `read` begins anew with the first problem."""

    role: Role
    read: Callable[[], Iterator[Work]]
    solutions_only: bool

    def wants(self, work: Work) -> bool:
        config = self.role.config
        if self.solutions_only:
            return is_missing(
                work, steps=config.steps, allocation=config.allocation, solutions_only=True
            )
        return wants_more(work, config)

    def has_wide(self) -> bool:
        """Whether a top-up would draw anything."""
        config = self.role.config
        if self.solutions_only or not config.refresh.tops_up:
            return False
        return any(
            wide_prefixes(
                work,
                steps=config.steps,
                allocation=config.allocation,
                max_rollouts=config.refresh.top_up_max_rollouts,
            )
            for work in self.read()
        )


def _phases(roles: Roles, out: Path, *, solutions_only: bool) -> Iterator[_Phase]:
    """Lazily: the second phase reads what the first has written."""
    if roles.generator is not None or solutions_only:
        yield _Phase(roles.writer, lambda: stored_solutions(roles, out), solutions_only=True)
    if not solutions_only:
        yield _Phase(roles.completer, lambda: stored_work(roles, out), solutions_only=False)


class _Run:
    """What the phases share: the budget, the ledger, and the totals that are reported."""

    def __init__(
        self, config: RunConfig, out: Path, ledger: CostLedger, on_progress: OnProgress
    ) -> None:
        before = ledger.last_run  # not nothing where an attempt of this run has failed
        self.budget = Budget(
            config.allocation.budget,
            num_tokens=before.generated_tokens,
            num_reserved=before.rollouts,
            seconds_before=before.seconds,
        )
        self._out = out
        self._ledger = ledger
        self._on_progress = on_progress
        self._versions = expected_versions(config, out)
        self._seconds_before = ledger.last_run.seconds
        self._started = monotonic()
        self._num_done = 0
        self._num_problems = 0

    async def draw(self, phase: _Phase) -> None:
        """Draw what the phase still wants, then top up; no engine where that is nothing."""
        with interrupts_raised():
            compact(self._out, max_parts=MAX_PARTS_READ)
            problems = selected_problems(self._out)
            work = phase.read()
            first, self._num_done = _first_wanted(phase, work)
            self._num_problems = len(problems)
            if first is None and not phase.has_wide():
                return
        self._report()
        config, engine = phase.role.config, phase.role.engine
        async with open_engine(
            engine, config, problems=problems, state_path=local_state(self._out) / "engine"
        ) as opened:
            with GradePool(config.grading) as pool:
                pool.start()
                if first is not None:
                    await self._roll_out(phase, itertools.chain([first], work), opened, pool)
                if config.refresh.tops_up and not phase.solutions_only:
                    await self._top_up(phase, opened, pool)

    async def _roll_out(
        self, phase: _Phase, work: Iterator[Work], opened: Sampler, pool: GradePool
    ) -> None:
        config = phase.role.config
        async with self._tools(phase.role, opened, pool) as tools:
            await roll_out(
                work,
                tools=tools,
                identity=phase.role.identity,
                sampling=config.sampling,
                steps=config.steps,
                allocation=config.allocation,
                solutions_only=phase.solutions_only,
                budget=self.budget,
                max_samples=max_samples_in_flight(opened, config),
            )

    async def _top_up(self, phase: _Phase, opened: Sampler, pool: GradePool) -> None:
        """Spend the refresh's budget, within the run's, where the run has come to its end."""
        config = phase.role.config
        refresh = config.refresh
        if self.budget.is_spent:
            return
        with interrupts_raised():
            compact(self._out, max_parts=MAX_PARTS_READ)
        tokens = refresh.top_up_tokens
        if tokens is not None:
            tokens = max(0, tokens - self._ledger.last_run.top_up_tokens)
        budget = self.budget.part(tokens=tokens, minutes=refresh.top_up_minutes)
        async with self._tools(phase.role, opened, pool, tops_up=True) as tools:
            await top_up(
                phase.read(),
                tools=tools,
                identity=phase.role.identity,
                sampling=config.sampling,
                steps=config.steps,
                allocation=config.allocation,
                max_rollouts=refresh.top_up_max_rollouts,
                budget=budget,
                max_samples=max_samples_in_flight(opened, config),
            )

    @contextlib.asynccontextmanager
    async def _tools(
        self, role: Role, opened: Sampler, pool: GradePool, *, tops_up: bool = False
    ) -> AsyncGenerator[LabelingTools, None]:
        costs = self._ledger.costs(role.digest)
        async with self._journal(role) as journal:
            yield LabelingTools(
                sampler=MeteredSampler(opened, costs),
                encoder=role.engine.encoder,
                grade=_grader(pool),
                write=self._writer(journal, costs, tops_up=tops_up),
                now=now,
                on_done=self._count_done,
            )

    def end(self) -> None:
        """Note how the run ended."""
        self._ledger.last_run.budget_met = self.budget.is_spent
        self._write_ledger()

    @contextlib.asynccontextmanager
    async def _journal(self, role: Role) -> AsyncGenerator[Journal, None]:
        """A journal that is flushed every few seconds even while nothing arrives."""
        costs = self._ledger.costs(role.digest)[SamplingStage.PREFIXES]
        with Journal(self._out, flush_seconds=math.inf) as journal:

            def flush() -> None:
                if isinstance(role.engine.encoder, TokenPromptEncoder):
                    costs.reencoded_prefixes = role.engine.encoder.num_reencoded
                self._write_ledger()  # first: what is stored was spent, whenever we are killed
                journal.flush()

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
        self._ledger.last_run.seconds = self._seconds_before + monotonic() - self._started
        self._ledger.write()

    def _writer(
        self, journal: Journal, costs: StageCosts, *, tops_up: bool
    ) -> Callable[[Sequence[Rollout]], None]:
        last_run, versions = self._ledger.last_run, self._versions

        def write(rollouts: Sequence[Rollout]) -> None:
            version = versions.others.get(rollouts[0].problem_id) if rollouts else None
            if version is not None:
                rollouts = [replace(one, grader_version=version) for one in rollouts]
            journal.append(rollouts)
            _count(rollouts, costs)
            num_tokens = sum(rollout.num_tokens for rollout in rollouts)
            last_run.rollouts += len(rollouts)
            last_run.generated_tokens += num_tokens
            if tops_up:
                last_run.top_up_rollouts += len(rollouts)
                last_run.top_up_tokens += num_tokens
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


def _first_wanted(phase: _Phase, work: Iterator[Work]) -> tuple[Work | None, int]:
    """The first problem that more is wanted for, and how many before it are done."""
    num_done = 0
    for one in work:
        if phase.wants(one):
            return one, num_done
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
