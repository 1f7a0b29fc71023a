"""Routing: affinity, balance, the bound in flight, spilling over, and who moves when."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from pipeline.errors import EngineError
from pipeline.samplers.routing import Router

NAMES = ("http://a", "http://b", "http://c")


def router(*, capacity: int = 4, spill_seconds: float = 60.0, num_up: int = 3) -> Router:
    made = Router(NAMES, capacity=capacity, spill_seconds=spill_seconds)
    for index in range(num_up):
        made.bring_back(index)
    return made


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), 20)

    asyncio.run(bounded())


async def home(of: Router, affinity: str) -> int:
    async with of.place(affinity, 1) as index:
        return index


class Held:
    """A place that is held until `leave`."""

    def __init__(self, of: Router, affinity: str, num_samples: int = 1) -> None:
        self.index: int | None = None
        self._left = asyncio.Event()
        self.task = asyncio.create_task(self._hold(of, affinity, num_samples))

    async def _hold(self, of: Router, affinity: str, num_samples: int) -> None:
        async with of.place(affinity, num_samples) as self.index:
            await self._left.wait()

    async def leave(self) -> None:
        self._left.set()
        await self.task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_affinity_keeps_its_engine_and_engines_share_alike() -> None:
    async def test() -> None:
        made = router()
        homes = {f"p{i}": await home(made, f"p{i}") for i in range(3000)}
        assert {each: await home(made, each) for each in homes} == homes
        assert all(900 < count < 1100 for count in Counter(homes.values()).values())

    run(test)


def test_only_the_affinities_of_an_absent_engine_move() -> None:
    async def test() -> None:
        made = router()
        before = {f"p{i}": await home(made, f"p{i}") for i in range(600)}
        made.put_aside(1)
        during = {each: await home(made, each) for each in before}
        assert all(during[each] == index for each, index in before.items() if index != 1)
        moved = Counter(during[each] for each, index in before.items() if index == 1)
        assert set(moved) == {0, 2}
        assert min(moved.values()) > 60
        made.bring_back(1)
        assert {each: await home(made, each) for each in before} == before

    run(test)


def test_requests_without_affinity_go_to_the_idlest() -> None:
    async def test() -> None:
        made = router()
        held = [Held(made, "") for _ in range(9)]
        await settle()
        assert Counter(each.index for each in held) == {0: 3, 1: 3, 2: 3}
        for each in held:
            await each.leave()

    run(test)


def test_an_engine_gets_no_more_than_its_capacity_and_serves_in_order() -> None:
    async def test() -> None:
        made = router(capacity=4, num_up=1)
        first, second, third = (Held(made, "p", 2) for _ in range(3))
        await settle()
        assert [first.index, second.index, third.index] == [0, 0, None]
        await second.leave()
        await settle()
        assert third.index == 0
        huge = Held(made, "p", 9)
        await settle()
        assert huge.index is None
        await first.leave()
        await third.leave()
        await settle()
        assert huge.index == 0  # alone
        await huge.leave()

    run(test)


def test_a_long_wait_spills_over_to_an_engine_with_room() -> None:
    async def test() -> None:
        made = router(capacity=2, spill_seconds=0.2)
        held = [Held(made, "p", 2) for _ in range(4)]
        await settle()
        own = held[0].index
        assert [each.index for each in held] == [own, None, None, None]
        await asyncio.sleep(0.4)
        places = [each.index for each in held]
        assert None in places  # three engines, four requests
        assert sorted(place for place in places if place is not None) == [0, 1, 2]
        for each in held:
            await each.leave()
        assert await home(made, "p") == own

    run(test)


def test_what_waits_for_an_engine_moves_when_it_is_put_aside_or_others_come() -> None:
    async def test() -> None:
        made = router(capacity=1, num_up=0)
        held = [Held(made, "p") for _ in range(2)]
        await settle()
        assert [each.index for each in held] == [None, None]
        made.bring_back(1)
        await settle()
        assert [each.index for each in held] == [1, None]
        made.put_aside(1)
        made.bring_back(2)
        await settle()
        assert [each.index for each in held] == [1, 2]
        assert made.num_up == 1
        for each in held:
            await each.leave()

    run(test)


def test_a_cancelled_request_gives_its_place_up() -> None:
    async def test() -> None:
        made = router(capacity=1, num_up=1)
        holding, waiting, next_one = (Held(made, "p") for _ in range(3))
        await settle()
        waiting.task.cancel()
        await holding.leave()
        await settle()
        assert next_one.index == 0
        # cancelled in the very turn in which its place was granted
        late = Held(made, "p")
        await settle()
        await next_one.leave()
        late.task.cancel()
        await settle()
        assert await home(made, "p") == 0

    run(test)


def test_failure_reaches_all_that_wait_and_all_that_come() -> None:
    async def test() -> None:
        made = router(num_up=0)
        waiting = Held(made, "p")
        await settle()
        made.fail(EngineError("all is lost"))
        with pytest.raises(EngineError, match="all is lost"):
            await waiting.task
        with pytest.raises(EngineError, match="all is lost"):
            await home(made, "q")

    run(test)
