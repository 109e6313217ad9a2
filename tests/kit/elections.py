"""Nodes that stand for election, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from rota.fleet.leading.leader import LeaderCandidate
from rota.fleet.leading.term import Term
from rota.fleet.members.session import NodeSession, in_session
from rota.kit.time import virtual
from rota.kit.time.virtual import CallbackGroup
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.model.node import Leader
from rota.store import Store, open_store
from tests.kit.identities import identity
from tests.kit.virtual_trials import CLOCK

Lead = Callable[[Term], Awaitable[None]]


async def forever(term: Term) -> None:
    await asyncio.Event().wait()


def start(store: Store, name: str, lead: Lead, group: CallbackGroup | None = None) -> asyncio.Task[None]:
    """A node that stands for election."""

    async def body(session: NodeSession) -> None:
        life = session.node.session
        await LeaderCandidate(store, session.keeper, session.incarnation, NodeId(name), life, CLOCK, lead).run()

    async def run() -> None:
        await in_session(store, identity(name, home=name), CLOCK, body)

    with (group or CallbackGroup(name)).enter():
        return asyncio.create_task(run(), name=name)


def play(story: Callable[[Store, Callable[..., asyncio.Task[None]]], Awaitable[None]]) -> None:
    """A story with a store and a way to start nodes, which are stopped in the end."""

    async def main() -> None:
        running: list[asyncio.Task[None]] = []

        def node(name: str, lead: Lead = forever, group: CallbackGroup | None = None) -> asyncio.Task[None]:
            running.append(start(store, name, lead, group))
            return running[-1]

        async with AsyncExitStack() as up:
            store = await up.enter_async_context(open_store("memory://s", clock=CLOCK))
            await story(store, node)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    virtual.run(main())


async def leader(store: Store) -> str | None:
    entry = await store.get(keys.LEADER)
    return codec.decode(Leader, entry.value).node if entry else None
