"""A sampler over several engines: affinity, fail-over, and the return of what failed.

An engine that faults is put aside, and its requests go to the others (`routing`). After a
pause, which doubles from fault to fault, it is revived and gets requests again. A request is
given up after `MAX_FAULTS` faults of its own, so that one that kills engines cannot kill all
for ever. The run ends when every engine is lost for good, or none has worked for
`patience_seconds`. A request sent again keeps its seeds, so where the engine is deterministic
no fault shows in the completions.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
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
        self._waits_for_any: asyncio.TimerHandle | None = None

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
        self._expect_one()
        for index in range(len(self._states)):
            self._revive_later(index, pause=0.0)
        async with self._router.place("", 0):
            pass

    async def aclose(self) -> None:
        """End what runs in the background; requests still waiting fail."""
        if self._waits_for_any is not None:
            self._waits_for_any.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._router.fail(EngineError("the engines were closed"))

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """See `Sampler.sample`; a request that outlives an engine is sent to another."""
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
                    state.pause_seconds = FIRST_PAUSE_SECONDS
                    return completions

    def _put_aside(self, index: int, fault: EngineFaultError) -> None:
        state = self._states[index]
        state.last_fault = fault
        if not state.is_up:
            return
        state.is_up = False
        self.num_faults += 1
        pause = max(state.next_pause(), fault.retry_after_seconds)
        logger.warning("%s is put aside for %.1f s: %s", state.member.name, pause, fault)
        self._router.put_aside(index)
        if not self._router.num_up:
            self._expect_one()
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
            logger.warning("%s works again", state.member.name)
        state.is_up = True
        state.num_revivals += 1
        if self._waits_for_any is not None:
            self._waits_for_any.cancel()
            self._waits_for_any = None
        self._router.bring_back(index)

    def _lose(self, state: "_State", error: EngineLostError) -> None:
        logger.error("%s is lost: %s", state.member.name, error)
        state.last_fault, state.is_lost = error, True
        if all(each.is_lost for each in self._states):
            self._router.fail(self._failure("every engine is lost"))

    def _expect_one(self) -> None:
        """Fail unless an engine works within the patience."""
        if self._waits_for_any is not None:
            self._waits_for_any.cancel()
        reason = f"no engine has worked for {self._patience_seconds:g} s (engine.startup_seconds)"
        self._waits_for_any = asyncio.get_running_loop().call_later(
            self._patience_seconds, lambda: self._router.fail(self._failure(reason))
        )

    def _failure(self, reason: str) -> EngineError:
        said = "; ".join(
            f"{state.member.name}: {state.last_fault or 'still starting'}"
            for state in self._states[:_MAX_NAMED]
        )
        others = len(self._states) - _MAX_NAMED
        more = f"; and {others} more" if others > 0 else ""
        return EngineError(
            f"{reason} ({said}{more}). Finished rollouts are kept; run the same command again to "
            "continue."
        )


_MAX_NAMED = 8


@dataclass(slots=True, eq=False)
class _State:
    member: PoolMember
    is_up: bool = False
    is_lost: bool = False
    num_revivals: int = 0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    """The next one; doubles until a request succeeds."""
    last_fault: StepmarkError | None = None

    def next_pause(self) -> float:
        """Seconds to leave the member alone; twice as many the next time."""
        pause = self.pause_seconds
        self.pause_seconds = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return pause
