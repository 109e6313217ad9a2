"""A platform with live rooms, to be held by somebody: it talks over websockets, and it is not reliable.

    ws://HOST:PORT/rooms          the names of the rooms, then the end
    ws://HOST:PORT/rooms/NAME     what is said there from now on, numbered in each room from 1

Connections are cut at random, and others are forgotten: they stay open, and nothing comes any more. A log tells of each
message to which connections it went, and of each connection when it ended. `check.py` reads it.
"""

import argparse
import asyncio
import json
import random
import signal
import time
from collections import deque
from itertools import count
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, broadcast, serve

TICK = 0.05
"""Seconds from one round of talk to the next."""


class Room:
    """Who listens, and what was said."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said = 0
        self.listeners: dict[int, ServerConnection] = {}
        """By the number of the connection; one that was forgotten is not among them."""


class Platform:
    """The rooms, their talk, and the accidents."""

    def __init__(self, rooms: int, log: Path) -> None:
        self._rooms = {name: Room(name) for name in (f"room-{number}" for number in range(rooms))}
        self._log = log.open("w")
        self._numbers = count(1)

    async def answer(self, connection: ServerConnection) -> None:
        """One connection, from its first to its last moment."""
        assert connection.request is not None
        name = connection.request.path.removeprefix("/rooms").removeprefix("/")
        if not name:
            await connection.send(json.dumps(list(self._rooms)))
        elif room := self._rooms.get(name):
            await self._seat(room, connection)
        else:
            await connection.close(1008, f'there is no room "{name}"')

    async def talk(self, rate: float) -> None:
        """Say something in every room, `rate` times a second in each."""
        due, owed, began = deque(self._rooms.values()), 0.0, time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            owed += (now - began) * rate * len(due)
            began = now
            while owed >= 1:
                owed -= 1
                self._say(due[0])
                due.rotate(-1)
            self._log.flush()

    async def fail(self, cuts: float, silences: float) -> None:
        """Cut so many connections a second, and forget so many others."""
        while cuts + silences > 0:
            await asyncio.sleep(random.expovariate(cuts + silences))
            room = random.choice(list(self._rooms.values()))
            if room.listeners:
                number = random.choice(list(room.listeners))
                connection = room.listeners.pop(number)
                if random.random() * (cuts + silences) < cuts:
                    connection.transport.abort()

    def _say(self, room: Room) -> None:
        room.said += 1
        text = json.dumps({"room": room.name, "number": room.said, "text": f"the {room.said}. thing that is said here"})
        broadcast(room.listeners.values(), text)
        self._note("sent", room.name, room.said, list(room.listeners))

    async def _seat(self, room: Room, connection: ServerConnection) -> None:
        number = next(self._numbers)
        room.listeners[number] = connection
        try:
            await connection.wait_closed()
        finally:
            room.listeners.pop(number, None)
            self._note("ended", number)

    def _note(self, what: str, *about: Any) -> None:
        self._log.write(json.dumps([what, time.monotonic(), *about]) + "\n")


async def main() -> None:
    """Run until a signal comes."""
    parser = argparse.ArgumentParser(description="A platform with live rooms.")
    parser.add_argument("--port", type=int, default=9905)
    parser.add_argument("--rooms", type=int, default=100)
    parser.add_argument("--rate", type=float, default=1.0, help="messages a second in each room")
    parser.add_argument("--cuts", type=float, default=1.0, help="connections a second that are cut")
    parser.add_argument("--silences", type=float, default=0.2, help="connections a second that are forgotten")
    parser.add_argument("--log", type=Path, default=Path("sent.jsonl"))
    asked = parser.parse_args()

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    platform = Platform(asked.rooms, asked.log)
    # No compression and no pings of ours: thousands of connections, and all on this machine.
    async with (
        serve(platform.answer, "127.0.0.1", asked.port, compression=None, ping_interval=None, backlog=4096),
        asyncio.TaskGroup() as group,
    ):
        print(f"{asked.rooms} rooms at ws://127.0.0.1:{asked.port}/rooms", flush=True)
        loops = [platform.talk(asked.rate), platform.fail(asked.cuts, asked.silences)]
        running = [group.create_task(loop) for loop in loops]
        await stopped.wait()
        for task in running:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
