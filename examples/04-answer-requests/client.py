"""A client of the chat: `python client.py NAME` logs in, shows what is said in the lobby, and says what you type."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from forwarder import BOXES, JOIN

from rota.client import AsyncServiceClient

LOGIN, SAY = 101, 201
ROOM = "lobby"


class Ear:
    """A connection to the forwarder that has joined a room."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def hear(self) -> str:
        """What comes next."""
        header = await self._reader.readexactly(BOXES.size)
        body = await self._reader.readexactly(BOXES.read(header)["packet_len"] - BOXES.size)
        return body.decode()


@asynccontextmanager
async def listening(forwarder: int, room: str = ROOM) -> AsyncIterator[Ear]:
    """An ear in the room, by way of the forwarder on that port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", forwarder)
    try:
        writer.write(BOXES.frame(json.dumps({"room": room}).encode(), cmd=JOIN, sn=1))
        ear = Ear(reader)
        assert await ear.hear() == ""  # it has joined
        yield ear
    finally:
        writer.close()


class Mouth:
    """Somebody who asks and speaks."""

    def __init__(self, name: str, logic: AsyncServiceClient) -> None:
        self._name, self._logic = name, logic

    async def login(self) -> str:
        """What the service answers."""
        answer = await self._logic.call(LOGIN, json={"name": self._name})
        return answer.raise_for_ret().body.decode()

    async def say(self, text: str, room: str = ROOM) -> None:
        """Say something; nobody answers, the room hears it."""
        await self._logic.send(SAY, json={"name": self._name, "room": room, "text": text})


async def main(name: str) -> None:
    """Show what is heard, and say what is typed, until the input ends."""
    service, forwarder = os.environ.get("CHAT_PORT", "9904"), os.environ.get("FORWARDER_PORT", "9905")
    async with AsyncServiceClient(f"127.0.0.1:{service}") as logic, listening(int(forwarder)) as ear:
        mouth = Mouth(name, logic)
        print(await mouth.login())

        async def show() -> None:
            while True:
                print(await ear.hear())

        showing = asyncio.create_task(show())
        while line := await asyncio.to_thread(sys.stdin.readline):
            await mouth.say(line.strip())
        showing.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Ada"))
