"""A node of its own for a test of processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rota.model import keys
from rota.store import open_store
from tests.kit.node import APP, NodeUnderTest
from tests.kit.waiting import eventually


@asynccontextmanager
async def running(
    folder: Path, *flags: object, portable: str = "", app: str = APP, ttl: str = "20s"
) -> AsyncIterator[NodeUnderTest]:
    """A node that is ready; none of its processes may be left in the end. A short ttl is for who waits for its end."""
    environ = {"ROTA_PORTABLE": portable}
    with NodeUnderTest(folder / "node", "--lease-ttl", ttl, "--drain", "3s", *flags, app=app, environ=environ) as node:
        await node.ready()
        yield node
    await eventually(lambda: not node.leftovers())


async def until_its_lease_is_over(node: NodeUnderTest) -> None:
    """It is swept by us, for want of other nodes."""
    async with open_store(node.store) as store:

        async def is_over() -> bool:
            return not (await store.scan(keys.NODES)).entries

        await eventually(is_over)
