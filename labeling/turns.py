"""So many samples in flight and no more: enough to keep engines busy, few enough to stop.

A semaphore of weighted turns, first come first served. What waits here is not with an
engine yet, so a budget that is met meanwhile stops it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


class Turns:
    """Lets in requests as long as their samples together are at most `max_samples`.

    A request of more samples than that goes alone. `on_room` hears when there may be room
    for one that does not wait yet.
    """

    def __init__(self, max_samples: int) -> None:
        self.max_samples = max_samples
        self.on_room: Callable[[], None] = _nobody_listens
        self._num_inside = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether nothing waits and not all of the room is taken."""
        return not self._waiting and self._num_inside < self.max_samples

    @asynccontextmanager
    async def turn(self, num_samples: int) -> AsyncGenerator[None]:
        """Wait for room for `num_samples`, and hold it until the block is left."""
        await self._enter(num_samples)
        try:
            yield
        finally:
            self._leave(num_samples)

    async def _enter(self, num_samples: int) -> None:
        entry = (num_samples, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._let_in()
        try:
            await entry[1]
        except asyncio.CancelledError:
            if entry[1].done() and not entry[1].cancelled():
                self._leave(num_samples)
            else:
                self._let_in()  # this one stood in the way
            raise

    def _leave(self, num_samples: int) -> None:
        self._num_inside -= num_samples
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            num_samples, is_let_in = self._waiting[0]
            if is_let_in.cancelled():
                self._waiting.popleft()
                continue
            if self._num_inside and self._num_inside + num_samples > self.max_samples:
                return
            self._waiting.popleft()
            self._num_inside += num_samples
            is_let_in.set_result(None)
        if self._num_inside < self.max_samples:
            self.on_room()


def _nobody_listens() -> None:
    pass
