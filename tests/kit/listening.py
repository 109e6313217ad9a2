"""TCP servers of the test's own process that leave nothing open: asyncio forgets what a closed listener accepted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def listening(make: Callable[[], asyncio.Protocol], host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Serve inside, on the port this yields; in the end every connection is closed as well."""
    taken: list[asyncio.BaseTransport] = []

    def noted() -> asyncio.Protocol:
        protocol = make()
        inner = protocol.connection_made

        def connection_made(transport: asyncio.BaseTransport) -> None:
            taken.append(transport)
            inner(transport)

        protocol.connection_made = connection_made  # type: ignore[method-assign]
        return protocol

    server = await asyncio.get_running_loop().create_server(noted, host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_listening(server)
        for transport in taken:
            transport.close()
        await settled()


async def stop_listening(server: asyncio.Server) -> None:
    """Close a listener. Whom it accepted in this moment is let in first: asyncio would drop it with its socket open."""
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock)
    await settled()
    server.close()


async def settled() -> None:
    """Let connections that were accepted in this moment be made, and closed ones be closed: a few turns of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)
