"""A bell: nobody who waits misses that it rang."""

import asyncio

from rota.kit.bell import Bell


async def test_everybody_who_waits_is_woken() -> None:
    bell = Bell()
    waiting = [asyncio.create_task(bell.wait(0)) for _ in range(3)]
    await asyncio.sleep(0)
    bell.ring()
    assert await asyncio.gather(*waiting) == [1, 1, 1]


async def test_who_was_busy_when_it_rang_does_not_wait() -> None:
    bell = Bell()
    bell.ring()
    assert await asyncio.wait_for(bell.wait(0), 60) == 1


async def test_waiting_may_end_without_a_ring_and_leaves_the_others_theirs() -> None:
    bell = Bell()
    patient = asyncio.create_task(bell.wait(0))
    assert await bell.wait(0, timeout=0.01) == 0
    given_up = asyncio.create_task(bell.wait(0))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    bell.ring()
    assert await patient == 1
