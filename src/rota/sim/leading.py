"""How machines of scenarios lead: election, supervisor and roster of the product."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any

from rota.fleet.leading.leader import LeaderCandidate
from rota.fleet.leading.term import Term
from rota.fleet.members.roster import keep_roster, last_roster
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.kit.aside import Offload, at_once
from rota.model.config import SupervisorConfig
from rota.model.ids import NodeId
from rota.model.node import Role, Roster
from rota.placement.fleet.placing import Placing
from rota.placement.fleet.supervisor import supervise
from rota.sim.world import Machine, World
from rota.store.port import Store

TTL = timedelta(seconds=10)


def candidate(
    world: World,
    machine: Machine,
    store: Store,
    session: NodeSession,
    config: SupervisorConfig,
    more: Callable[[Term], Iterable[Coroutine[Any, Any, None]]] = lambda term: (),
) -> LeaderCandidate:
    """A machine's candidate: as leader it supervises, keeps the roster, and does what `more` gives for its term."""

    async def lead(term: Term) -> None:
        roster = await last_roster(term)
        others = list(more(term))
        session_id, clock = session.node.session, machine.clock
        async with asyncio.TaskGroup() as duties:
            duties.create_task(supervise(term, session_id, roster, Placing(config), clock, nobody, aside=at_once))
            duties.create_task(keep_roster(term, nobody))
            for other in others:
                duties.create_task(other)

    return _candidate(world, machine, store, session, lead)


def supervising(
    world: World, config: SupervisorConfig, aside: Offload = at_once
) -> Callable[[Machine], Awaitable[None]]:
    """The program of a machine that only leads, for scenarios whose nodes are mere records in the store.

    `aside` makes its large plans.
    """

    async def program(machine: Machine) -> None:
        async def body(session: NodeSession) -> None:
            async def lead(term: Term) -> None:
                placing = Placing(config)
                await supervise(
                    term, session.node.session, Roster(nodes={}), placing, machine.clock, nobody, aside=aside
                )

            await _candidate(world, machine, machine.store, session, lead).run()

        name = NodeId(machine.name)
        identity = Identity(node=name, home=machine.name, role=Role.SUPERVISE, lease_ttl=TTL, slots=0)
        await in_session(machine.store, identity, machine.clock, body, world.random.random)

    return program


def _candidate(
    world: World, machine: Machine, store: Store, session: NodeSession, lead: Callable[[Term], Awaitable[None]]
) -> LeaderCandidate:
    node, jitter = session.node, world.random.random
    return LeaderCandidate(
        store, session.keeper, session.incarnation, node.id, node.session, machine.clock, lead, jitter
    )


def nobody(*_: object, **__: object) -> None:
    """Gets events that nothing listens to."""
