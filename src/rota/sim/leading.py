"""A machine that does nothing but lead: session, election and supervisor of the product, and no work of its own.

For scenarios about what the leader decides, whose nodes are mere records in the store.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from rota.control.leader import Candidate
from rota.control.placing import Placing
from rota.control.supervisor import supervise
from rota.control.term import Term
from rota.kit.aside import Aside, at_once
from rota.model.config import SupervisorConfig
from rota.model.ids import NodeId
from rota.model.node import Role, Roster
from rota.node.session import Identity, Session, in_session
from rota.sim.world import Machine, World

TTL = timedelta(seconds=10)


def supervising(world: World, config: SupervisorConfig, aside: Aside = at_once) -> Callable[[Machine], Awaitable[None]]:
    """The program of such a machine; `aside` makes its large plans."""
    jitter = world.random.random

    async def program(machine: Machine) -> None:
        async def body(session: Session) -> None:
            node, keeper = session.node, session.keeper

            async def lead(term: Term) -> None:
                await supervise(
                    term, node.session, Roster(nodes={}), Placing(config), machine.clock, _nobody, aside=aside
                )

            candidate = Candidate(
                machine.store, keeper, session.incarnation, node.id, node.session, machine.clock, lead, jitter
            )
            await candidate.run()

        name = NodeId(machine.name)
        identity = Identity(node=name, home=machine.name, role=Role.SUPERVISE, lease_ttl=TTL, slots=0)
        await in_session(machine.store, identity, machine.clock, body, jitter)

    return program


def _nobody(*_: object, **__: object) -> None:
    """Nobody listens."""
