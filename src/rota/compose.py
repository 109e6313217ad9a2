"""The one place that puts the parts together."""

import asyncio

from rota.control.leader import Candidate
from rota.control.retention import clear_away
from rota.control.roster import keep_roster
from rota.control.term import Term
from rota.kit.clock import SYSTEM, Clock
from rota.model.config import NodeConfig, RetentionConfig
from rota.node import data_folder
from rota.node.session import Identity, Session, in_session
from rota.store import open_store


async def run_node(config: NodeConfig, stop: asyncio.Event, clock: Clock = SYSTEM) -> None:
    """Run one node until `stop`, which may come at any time, also while the store is still being reached."""
    with data_folder.hold(config.data) as folder:
        identity = Identity(
            node=folder.node_id(config.id), home=folder.home, role=config.role, lease_ttl=config.lease_ttl
        )
        async with asyncio.TaskGroup() as parts:
            member = parts.create_task(be_member(config.store, identity, clock), name="member")
            await stop.wait()
            member.cancel()


async def be_member(url: str, identity: Identity, clock: Clock) -> None:
    """Take part in the fleet, in one session after the other."""

    async def lead(term: Term) -> None:
        async with asyncio.TaskGroup() as duties:
            duties.create_task(keep_roster(term), name="roster")
            duties.create_task(clear_away(term, RetentionConfig(), clock), name="retention")

    async def body(session: Session) -> None:
        if identity.role.may_lead:
            node = session.node
            await Candidate(store, session.keeper, session.incarnation, node.id, node.session, clock, lead).run()
        else:
            await asyncio.Event().wait()

    async with open_store(url, clock=clock) as store:
        await in_session(store, identity, clock, body)
