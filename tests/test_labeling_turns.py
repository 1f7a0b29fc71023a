"""Weighted turns: never more samples inside than allowed, in the order of arrival."""

import asyncio
import random

import pytest

from labeling.turns import Turns


async def _hold(turns: Turns, num_samples: int, log: list[int], release: asyncio.Event) -> None:
    async with turns.turn(num_samples):
        log.append(num_samples)
        await release.wait()


def test_as_many_as_there_is_room_for_in_the_order_of_arrival() -> None:
    async def run() -> None:
        turns, log, release = Turns(10), list[int](), asyncio.Event()
        tasks = [asyncio.create_task(_hold(turns, n, log, release)) for n in (6, 3, 5, 1)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert log == [6, 3]  # 5 has no room, and 1 does not overtake it
        release.set()
        await asyncio.gather(*tasks)
        assert log == [6, 3, 5, 1]

    asyncio.run(run())


def test_one_that_is_larger_than_all_goes_alone() -> None:
    async def run() -> None:
        turns, log, release = Turns(4), list[int](), asyncio.Event()
        tasks = [asyncio.create_task(_hold(turns, n, log, release)) for n in (2, 9, 2)]
        await asyncio.sleep(0.01)
        assert log == [2]
        release.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 1)
        assert log == [2, 9, 2]

    asyncio.run(run())


def test_one_that_is_cancelled_lets_the_next_in() -> None:
    async def run() -> None:
        turns, log, release = Turns(4), list[int](), asyncio.Event()
        first, second, third = (
            asyncio.create_task(_hold(turns, n, log, release)) for n in (2, 4, 2)
        )
        await asyncio.sleep(0.01)
        assert log == [2]
        second.cancel()
        await asyncio.sleep(0.01)
        assert log == [2, 2]
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        async with turns.turn(2):  # the room of one that was cancelled inside is free again
            pass
        release.set()
        await third

    asyncio.run(run())


def test_a_load_with_cancellations_never_exceeds_the_room_and_loses_none_of_it() -> None:
    async def run() -> None:
        turns, rng, inside, most = Turns(20), random.Random(0), 0, 0

        async def work(num_samples: int) -> None:
            nonlocal inside, most
            async with turns.turn(num_samples):
                inside += num_samples
                most = max(most, inside)
                try:
                    await asyncio.sleep(rng.random() / 1000)
                finally:
                    inside -= num_samples

        tasks = [asyncio.create_task(work(rng.randint(1, 20))) for _ in range(400)]
        for task in rng.sample(tasks, 100):
            await asyncio.sleep(rng.random() / 1000)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert 15 <= most <= 20
        await asyncio.wait_for(work(20), 1)

    asyncio.run(run())
