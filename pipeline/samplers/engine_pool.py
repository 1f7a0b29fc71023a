"""A sampler over several engines: affinity, fail-over, and the return of what failed.

An engine that faults is put aside, and its requests go to the others (`routing`). After a
pause, which doubles from fault to fault, it is revived and gets requests again. A request is
given up after `MAX_FAULTS` faults of its own, so that one that kills engines cannot kill all
for ever. The run ends when every engine is lost for good, or each has failed for
`patience_seconds` without completing a request. That an engine is revived proves nothing: a
server may answer `/health` and no request. A request sent again keeps its seeds, so where the
engine is deterministic no fault shows in the completions.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from pipeline.config import EngineConfig
from pipeline.errors import EngineError, StepmarkError
from pipeline.samplers.routing import Router
from pipeline.samplers.sampler import (
    Completion,
    EngineBusyError,
    EngineFaultError,
    SamplingRequest,
)
from pipeline.samplers.waiting import said_while_waiting

logger = logging.getLogger(__name__)

MAX_FAULTS = 5
"""Of one request, on engines that took it; waiting for an engine is none."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0


class EngineLostError(EngineError):
    """This engine will not come back."""


class PoolMember(Protocol):
    """One engine of a pool."""

    @property
    def name(self) -> str:
        """What the user knows it by; distinct in the pool, and the same from run to run."""
        ...

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """See `Sampler.sample`; EngineFaultError where another engine may do better."""
        ...

    async def revive(self) -> None:
        """Make sure that it works, starting it where needed. Called before its first request.

        Raises EngineFaultError where it does not work now, EngineLostError where it never
        will, and another StepmarkError for what the user must correct.
        """
        ...


@asynccontextmanager
async def open_pool(
    members: Sequence[PoolMember], engine: EngineConfig, *, patience_seconds: float | None = None
) -> AsyncGenerator["EnginePool"]:
    """Revive all members, wait for the first, serve requests until the block is left.

    `patience_seconds` is `engine.startup_seconds` where not said. Raises EngineError where no
    member works within it. Ending the members is the caller's business.
    """
    pool = EnginePool(
        members,
        capacity=in_flight(engine),
        patience_seconds=patience_seconds or engine.startup_seconds,
    )
    try:
        await pool.start()
        yield pool
    finally:
        await pool.aclose()


def in_flight(engine: EngineConfig) -> int:
    """Completions in flight a member: one batch decodes while the next one waits there."""
    return 2 * engine.max_num_seqs


class EnginePool:
    """A Sampler; made by `open_pool`."""

    def __init__(
        self,
        members: Sequence[PoolMember],
        *,
        capacity: int,
        patience_seconds: float,
    ) -> None:
        self.num_faults = 0
        """How often an engine was put aside."""
        self._states = [_State(member) for member in members]
        names = [member.name for member in members]
        self._router = Router(names, capacity=capacity)
        self._patience_seconds = patience_seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self._num_asking = 0
        self._patience: asyncio.Task[None] | None = None
        self._patience_ends_at: float | None = None

    @property
    def num_engines(self) -> int:
        """All members, those that are aside included."""
        return len(self._states)

    @property
    def num_working(self) -> int:
        """Members that get requests now."""
        return self._router.num_up

    async def start(self) -> None:
        """Revive all members; returns once one works."""
        with self._asking():
            for index in range(len(self._states)):
                self._revive_later(index, pause=0.0)
            async with self._router.place("", 0):
                pass

    async def aclose(self) -> None:
        """End what runs in the background; requests still waiting fail."""
        if self._patience is not None:
            self._tasks.add(self._patience)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._router.fail(EngineError("the engines were closed"))

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """See `Sampler.sample`; a request that outlives an engine is sent to another."""
        with self._asking():
            return await self._sample(request)

    async def _sample(self, request: SamplingRequest) -> list[Completion]:
        num_faults = 0
        while True:
            async with self._router.place(request.affinity, request.num_samples) as index:
                state = self._states[index]
                num_revivals = state.num_revivals
                try:
                    completions = await state.member.sample(request)
                except EngineFaultError as fault:
                    num_faults += not isinstance(fault, EngineBusyError)
                    if num_revivals == state.num_revivals:
                        self._put_aside(index, fault)
                    if num_faults >= MAX_FAULTS:
                        raise EngineError(
                            f"a request failed {num_faults} times, last on {state.member.name}: "
                            f"{fault}"
                        ) from fault
                else:
                    self._note_success(state)
                    return completions

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Patience runs while somebody waits; what failed before the first is forgiven."""
        if not self._num_asking:
            for state in self._states:
                state.failing_since = None if state.is_up else _now()
        self._num_asking += 1
        self._judge()
        try:
            yield
        finally:
            self._num_asking -= 1
            self._judge()

    def _note_success(self, state: "_State") -> None:
        if state.is_up and state.is_on_trial:
            logger.warning("%s works again", state.member.name)
            state.is_on_trial = False
        state.pause_seconds = FIRST_PAUSE_SECONDS
        if state.failing_since is not None:
            # one that is aside has finished what it began before
            state.failing_since = None if state.is_up else _now()
            self._judge()

    def _put_aside(self, index: int, fault: EngineFaultError) -> None:
        state = self._states[index]
        state.last_fault = fault
        if not state.is_up:
            return
        state.is_up = False
        if state.failing_since is None:
            state.failing_since = _now()
        self.num_faults += 1
        pause = max(state.next_pause(), fault.retry_after_seconds)
        logger.warning("%s is put aside for %.1f s: %s", state.member.name, pause, fault)
        self._router.put_aside(index)
        self._judge()
        self._revive_later(index, pause=pause)

    def _revive_later(self, index: int, *, pause: float) -> None:
        task = asyncio.create_task(self._revive(index, pause))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _revive(self, index: int, pause: float) -> None:
        """Bring the member back, however often it takes."""
        state = self._states[index]
        while True:
            await asyncio.sleep(pause)
            try:
                await state.member.revive()
            except EngineFaultError as fault:
                if state.last_fault is None:
                    logger.warning("%s does not work yet: %s", state.member.name, fault)
                state.last_fault = fault
                pause = max(state.next_pause(), fault.retry_after_seconds)
            except EngineLostError as error:
                self._lose(state, error)
                return
            except StepmarkError as error:
                if state.num_revivals == 0:  # the user's mistake, seen at the beginning
                    self._router.fail(error)
                    return
                logger.warning("%s is left out: %s", state.member.name, error)
                state.last_fault = error
                pause = state.next_pause()
            except Exception as error:
                self._router.fail(EngineError(f"{state.member.name}: {error!r}"))
                raise
            else:
                self._bring_back(index)
                return

    def _bring_back(self, index: int) -> None:
        state = self._states[index]
        if state.num_revivals:
            logger.info("%s is tried again", state.member.name)
            state.is_on_trial = True
        else:
            state.failing_since = None  # that it starts was in doubt until now
        state.is_up, state.up_since = True, _now()
        state.num_revivals += 1
        self._judge()
        self._router.bring_back(index)

    def _lose(self, state: "_State", error: EngineLostError) -> None:
        logger.error("%s is lost: %s", state.member.name, error)
        state.last_fault, state.is_lost = error, True
        if all(each.is_lost for each in self._states):
            self._router.fail(self._failure("every engine is lost"))
        self._judge()

    def _judge(self) -> None:
        """Fail, now or when it is time, where every engine has failed for the patience."""
        failing = [state.failing_since for state in self._states if not state.is_lost]
        since = [each for each in failing if each is not None]
        is_in_doubt = bool(self._num_asking and since) and len(since) == len(failing)
        ends_at = max(since) + self._patience_seconds if is_in_doubt else None
        if ends_at != self._patience_ends_at:
            self._patience_ends_at = ends_at
            if self._patience is not None:
                self._patience.cancel()
            self._patience = None if ends_at is None else asyncio.create_task(self._wait(ends_at))
        elif ends_at is not None and _now() >= ends_at:
            self._fail_unless_up(ends_at)

    async def _wait(self, ends_at: float) -> None:
        async with said_while_waiting(self._said, of_seconds=self._patience_seconds):
            await asyncio.sleep(ends_at - _now())
        self._fail_unless_up(ends_at)

    def _fail_unless_up(self, ends_at: float) -> None:
        """An engine that was brought back before may still finish what it has begun."""
        if any(state.is_up and state.up_since < ends_at for state in self._states):
            return
        is_started = any(state.num_revivals for state in self._states)
        done = "completed a request" if is_started else "worked"
        seconds = f"{self._patience_seconds:g} s (engine.startup_seconds)"
        self._router.fail(self._failure(f"no engine has {done} for {seconds}"))

    def _failure(self, reason: str) -> EngineError:
        return EngineError(
            f"{reason} ({self._said()}). Finished rollouts are kept; run the same command again to "
            "continue."
        )

    def _said(self) -> str:
        """What each engine's last fault was."""
        said = "; ".join(
            f"{state.member.name}: {state.last_fault or 'still starting'}"
            for state in self._states[:_MAX_NAMED]
        )
        others = len(self._states) - _MAX_NAMED
        return f"{said}; and {others} more" if others > 0 else said


_MAX_NAMED = 8


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True, eq=False)
class _State:
    member: PoolMember
    is_up: bool = False
    is_lost: bool = False
    num_revivals: int = 0
    failing_since: float | None = None
    """Its first fault since it last completed a request; loop time, as `up_since`."""
    up_since: float = 0.0
    is_on_trial: bool = False
    """Revived, with nothing completed since."""
    pause_seconds: float = FIRST_PAUSE_SECONDS
    """The next one; doubles until a request succeeds."""
    last_fault: StepmarkError | None = None

    def next_pause(self) -> float:
        """Seconds to leave the member alone; twice as many the next time."""
        pause = self.pause_seconds
        self.pause_seconds = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return pause
