"""Which of several engines a request goes to, and when.

Requests of one affinity go to one engine, chosen by rendezvous hashing (Thaler and Ravishankar
1998): each engine gets an equal share of the affinities, and when one leaves or returns only
its own move. An engine has at most `capacity` completions in flight; what exceeds that waits
in its queue. A request that has waited for `spill_seconds` goes to the least busy engine that
has room instead: a cold prefix cache costs less than an idle engine. A request larger than
the capacity runs alone.

What engines are and why one is aside is not known here. For one event loop.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

SPILL_SECONDS = 2.0
_CLOCK_SLACK = 0.01


class Router:
    """Hands out places on engines, named by their index; all are aside at first."""

    def __init__(
        self, names: Sequence[str], *, capacity: int, spill_seconds: float = SPILL_SECONDS
    ) -> None:
        """`names` say which affinities an engine gets; `capacity` is in completions."""
        self._lanes = [_Lane(index, name) for index, name in enumerate(names)]
        self._capacity = capacity
        self._spill_seconds = spill_seconds
        self._homeless: deque[_Waiting] = deque()
        self._failure: BaseException | None = None

    @property
    def num_up(self) -> int:
        """Engines that get requests."""
        return sum(lane.is_up for lane in self._lanes)

    @asynccontextmanager
    async def place(self, affinity: str, num_samples: int) -> AsyncGenerator[int]:
        """Wait for a place, give the engine's index, and free the place on leaving.

        Raises what `fail` was given.
        """
        index = await self._take(affinity, num_samples)
        try:
            yield index
        finally:
            self._free(index, num_samples)

    def bring_back(self, index: int) -> None:
        """Give the engine requests from now on."""
        self._lanes[index].is_up = True
        homeless, self._homeless = self._homeless, deque()
        for waiting in homeless:
            self._enqueue(waiting)
        self._grant()

    def put_aside(self, index: int) -> None:
        """Give the engine nothing more; what waits for it goes to others."""
        lane = self._lanes[index]
        lane.is_up = False
        queue, lane.queue = lane.queue, deque()
        for waiting in queue:
            self._enqueue(waiting)
        self._grant()

    def fail(self, error: BaseException) -> None:
        """Raise `error` in all that wait and in all that come."""
        self._failure = error
        for queue in (self._homeless, *(lane.queue for lane in self._lanes)):
            for waiting in queue:
                if not waiting.granted.done():
                    waiting.granted.set_exception(error)
            queue.clear()

    async def _take(self, affinity: str, num_samples: int) -> int:
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        waiting = _Waiting(affinity, num_samples, loop.create_future(), loop.time())
        self._enqueue(waiting)
        self._grant()
        if not waiting.granted.done():
            loop.call_later(self._spill_seconds, self._grant)
        try:
            return await waiting.granted
        except asyncio.CancelledError:
            if waiting.granted.done() and not waiting.granted.cancelled():
                self._free(waiting.granted.result(), num_samples)
            raise

    def _free(self, index: int, num_samples: int) -> None:
        self._lanes[index].num_in_flight -= num_samples
        self._grant()

    def _enqueue(self, waiting: "_Waiting") -> None:
        up = [lane for lane in self._lanes if lane.is_up]
        if not up:
            self._homeless.append(waiting)
        elif waiting.affinity:
            max(up, key=lambda lane: _weight(waiting.affinity, lane.name)).queue.append(waiting)
        else:
            min(up, key=lambda lane: lane.num_in_flight + len(lane.queue)).queue.append(waiting)

    def _grant(self) -> None:
        """Give places to the heads of the queues, then to those that have waited too long."""
        for lane in self._lanes:
            while (head := lane.head()) is not None and self._has_room(lane, head):
                self._move(lane, lane)
        now = asyncio.get_running_loop().time()
        while True:
            late = [
                (head.since, lane)
                for lane in self._lanes
                if (head := lane.head()) is not None
                and now - head.since >= self._spill_seconds - _CLOCK_SLACK
            ]
            if not late:
                return
            _, source = min(late, key=lambda pair: pair[0])
            target = min(
                (lane for lane in self._lanes if lane.is_up),
                key=lambda lane: lane.num_in_flight,
            )
            if not self._has_room(target, source.queue[0]):
                return
            self._move(source, target)

    def _has_room(self, lane: "_Lane", waiting: "_Waiting") -> bool:
        total = lane.num_in_flight + waiting.num_samples
        return lane.is_up and (lane.num_in_flight == 0 or total <= self._capacity)

    def _move(self, source: "_Lane", target: "_Lane") -> None:
        waiting = source.queue.popleft()
        target.num_in_flight += waiting.num_samples
        waiting.granted.set_result(target.index)


@dataclass(slots=True, eq=False)
class _Waiting:
    affinity: str
    num_samples: int
    granted: asyncio.Future[int]
    since: float


@dataclass(slots=True, eq=False)
class _Lane:
    index: int
    name: str
    is_up: bool = False
    num_in_flight: int = 0
    queue: deque[_Waiting] = field(default_factory=deque)

    def head(self) -> _Waiting | None:
        """The first that still waits."""
        while self.queue and self.queue[0].granted.done():
            self.queue.popleft()
        return self.queue[0] if self.queue else None


def _weight(affinity: str, name: str) -> bytes:
    return hashlib.blake2b(f"{name}\x1f{affinity}".encode(), digest_size=8).digest()
