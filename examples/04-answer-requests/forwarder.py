"""A forwarder: it holds the clients' connections, and hands on what services push.

It stands for a gateway and speaks Box on both sides: clients JOIN a room and stay, handlers PUSH to a room, and what is
pushed goes to everybody in it as HEARD.
"""

import asyncio
import json
import sys
from collections import defaultdict
from typing import Any

import rota
from rota.client import wire

JOIN, PUSH, HEARD = 1, 2, 3
LIMIT = 64 * 1024
BOXES = wire(rota.BOX)

Rooms = defaultdict[str, set[asyncio.WriteTransport]]


class Visitor(asyncio.Protocol):
    """A client that listens, or a handler that pushes."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        self._transport: asyncio.WriteTransport = transport

    def connection_lost(self, error: Exception | None) -> None:
        for visitors in self._rooms.values():
            visitors.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        frames, used = BOXES.split(self._rest + data, LIMIT)
        self._rest = (self._rest + data)[used:]
        for cmd, frame in frames:
            message = json.loads(BOXES.body(frame))
            if cmd == JOIN:
                self._rooms[message["room"]].add(self._transport)
                self._transport.write(BOXES.reply(frame, 0))
            elif cmd == PUSH:
                heard = BOXES.frame(message["text"].encode(), cmd=HEARD)
                for visitor in self._rooms[message["room"]]:
                    visitor.write(heard)


async def main(port: int) -> None:
    """Forward until killed."""
    rooms: Rooms = defaultdict(set)
    server = await asyncio.get_running_loop().create_server(lambda: Visitor(rooms), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9905))
