"""A leader that does not know when to stop: `python -m tests.kit.stubborn URL NODE TTL FOLDER`.

It stands for election with the product's own session and election code. But once it has led, it goes on writing its
term into `/probe` for ever, deaf to its clock and to every refusal: only the fence can hold it back. It prints
`leading TERM`, and then `accepted TERM` or `refused TERM` for each write.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from rota.fleet.leading.leader import LeaderCandidate
from rota.fleet.leading.term import Term
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.kit.time.clock import SYSTEM
from rota.kit.time.durations import parse
from rota.model.errors import TermOver, Unavailable, Unknown
from rota.model.ids import NodeId
from rota.model.node import Role
from rota.runtime.system import data_folder
from rota.store import Put, Store, open_store

PROBE = "/probe"


def say(*words: object) -> None:
    """A line that is out at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def write_on(term: Term) -> None:
    """Write as leader of a term, for ever."""
    while True:
        try:
            await term.insist(Put(PROBE, str(term.number).encode()))
            say("accepted", term.number)
        except TermOver:
            say("refused", term.number)
        except (Unavailable, Unknown) as error:
            say("failed", term.number, error)
        await asyncio.sleep(0.02)


async def stand(store: Store, node: NodeId, home: str, ttl: timedelta) -> None:
    """Take part in elections, and start a writer with each term."""
    writers = []

    async def lead(term: Term) -> None:
        say("leading", term.number)
        writers.append(asyncio.create_task(write_on(term)))
        await asyncio.Event().wait()

    async def body(session: NodeSession) -> None:
        life = session.node.session
        await LeaderCandidate(store, session.keeper, session.incarnation, node, life, SYSTEM, lead).run()

    await in_session(store, Identity(node=node, home=home, role=Role.BOTH, lease_ttl=ttl), SYSTEM, body)


async def main(url: str, node: str, ttl: str, folder: str) -> None:
    """One stubborn node."""
    with data_folder.hold(Path(folder)) as data:
        async with open_store(url) as store:
            await stand(store, data.node_id(NodeId(node)), data.home, parse(ttl))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
