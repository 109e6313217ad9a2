"""`make show-relay`: what the relay must show. Takes about eight minutes."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import psutil

import benchmarks
from shows.ground import figure
from shows.report import Line, show
from tests.kit.live_rooms import WINDOW, LiveRooms, Talk, live_rooms
from tests.kit.process import ROOT
from tests.kit.servers import RabbitMQ

ROOMS = 1000
SECONDS = 60.0
KILL_EVERY = 5.0
OUTAGE = 30.0
STEADY = 10.0
"""Seconds of talk before and after something dies."""

UNRELIABLE = Talk(rooms=ROOMS, cuts=2.0, silences=0.5)
STEADFAST = Talk(rooms=ROOMS)


@asynccontextmanager
async def holding(talk: Talk) -> AsyncIterator[LiveRooms]:
    """The example, with every room heard."""
    with tempfile.TemporaryDirectory(prefix="rota-relay-") as name:
        folder = Path(name)
        (folder / "server").mkdir()
        with RabbitMQ(folder / "server") as server:
            async with live_rooms(folder, server, talk) as rooms:
                await rooms.until_heard()
                yield rooms


def workers_that_die_lose_nothing() -> Iterator[Line]:
    """1,000 rooms on a platform that cuts and forgets connections, and a worker killed every 5 s."""
    yield from asyncio.run(_kill_workers())


async def _kill_workers() -> list[Line]:
    async with holding(UNRELIABLE) as rooms:
        psutil.cpu_percent()
        killed, end = 0, monotonic() + SECONDS
        while monotonic() + KILL_EVERY < end:
            await asyncio.sleep(KILL_EVERY)
            rooms.kill_a_worker()
            killed += 1
        await asyncio.sleep(max(0.0, end - monotonic()))
        busy = psutil.cpu_percent()
        found = await rooms.verdict()
    what = f"{ROOMS:,} rooms × 2 for {SECONDS:g} s, {killed} workers killed −9"
    return [
        Line(found["lost"] == 0, f"{what}: all that a replica got and lived 1 s longer is in the queue", _told(found)),
        Line(
            found["repeats"] == found["renamed"] == 0,
            f"{what}: duplicates 0",
            f"{found['repeats']} repeats, {found['renamed']} under another id",
        ),
        Line(True, f"{what}: the machine meanwhile", f"{busy:.0f} % of its CPU"),
    ]


def a_broker_that_is_away_or_dies_costs_nothing() -> Iterator[Line]:
    """RabbitMQ stopped for 30 s, then killed −9 and restarted at once, under load."""
    yield from asyncio.run(_break_the_broker())


async def _break_the_broker() -> list[Line]:
    async with holding(STEADFAST) as rooms:
        await asyncio.sleep(STEADY)
        await asyncio.to_thread(rooms.server.stop)
        await asyncio.sleep(OUTAGE)
        spooled = _spooled(await rooms.stats())
        await asyncio.to_thread(rooms.server.start)
        await asyncio.sleep(STEADY)
        await asyncio.to_thread(rooms.server.kill)
        await asyncio.to_thread(rooms.server.start)
        await asyncio.sleep(STEADY)
        found = await rooms.verdict()
    what = f"RabbitMQ stopped for {OUTAGE:g} s, then killed −9, under load"
    most = 2 * 2 * WINDOW
    return [
        Line(spooled > 0, f"{what}: messages are spooled meanwhile", f"{spooled:,}"),
        *_judged(what, found, most, f"two breaks × two relays × a window of {WINDOW:,}"),
    ]


def a_relay_that_dies_costs_nothing() -> Iterator[Line]:
    """Each node's relay killed −9 under load, one after the other."""
    yield from asyncio.run(_kill_relays())


async def _kill_relays() -> list[Line]:
    async with holding(STEADFAST) as rooms:
        for relay in rooms.relays():
            await asyncio.sleep(STEADY)
            relay.kill()
        await asyncio.sleep(STEADY)
        found = await rooms.verdict()
    what = "each of two relays killed −9 under load"
    return _judged(what, found, 2 * WINDOW, f"two relays × a window of {WINDOW:,}")


def it_is_fast_and_small() -> Iterator[Line]:
    """`make bench`'s parts about the relay, by their own verdicts."""
    for part in ("relay", "emit"):
        for row in benchmarks.run(only=part):
            yield Line(row.verdict != "short", row.name, figure(row))


def _judged(what: str, found: dict[str, int], most: int, because: str) -> list[Line]:
    return [
        Line(found["lost"] == 0, f"{what}: nothing lost", _told(found)),
        Line(found["disordered"] == 0, f"{what}: order per resource kept", f"{found['disordered']} out of order"),
        Line(
            found["repeats"] <= most and found["renamed"] == 0,
            f"{what}: repeats within what was under way, with equal ids",
            f"{found['repeats']} repeats of at most {most:,} ({because}), {found['renamed']} under another id",
        ),
    ]


def _told(found: dict[str, int]) -> str:
    return f"{found['lost']} lost of {found['heard']:,} ({found['sent']:,} sent, {found['arrived']:,} arrived)"


def _spooled(seen: dict[str, object]) -> int:
    relays: list[dict[str, dict[str, list[dict[str, int]]]]] = seen["relays"]  # type: ignore[assignment]
    return sum(sink["spool_messages"] for relay in relays for sink in relay["status"]["sinks"])


if __name__ == "__main__":
    os.chdir(ROOT)
    show(
        [
            workers_that_die_lose_nothing,
            a_broker_that_is_away_or_dies_costs_nothing,
            a_relay_that_dies_costs_nothing,
            it_is_fast_and_small,
        ]
    )
