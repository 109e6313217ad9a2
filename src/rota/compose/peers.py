"""A node among equals: it reports its load, checks the others, and does its part of the fleet's chores."""

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial

from rota.compose.state import NodeState
from rota.fleet.hooks.carry import send
from rota.fleet.hooks.deliver import Collector, Deliverer
from rota.fleet.leading.duties import Duties
from rota.fleet.members.health import HealthKeeper
from rota.fleet.members.load import publish_load
from rota.fleet.members.peers import Peers, check_peers
from rota.fleet.members.session import NodeSession
from rota.link.open import open_link
from rota.link.port import IsRevoked, NodeLink, Shown
from rota.link.records import Whom
from rota.link.settings import TlsFiles
from rota.model.config import PeersConfig
from rota.model.node import Node
from rota.runtime.system.confine import Commands
from rota.store import Store

FEED = "feed"
"""The duty of the node that looks first for due work."""

HEALTH = "health"
HOOKS = "hooks"


def live_together(
    parts: asyncio.TaskGroup,
    state: NodeState,
    store: Store,
    session: NodeSession,
    config: PeersConfig,
    commands: Commands,
    token: Shown,
    tls: TlsFiles | None,
    is_revoked: IsRevoked,
) -> None:
    """Start all that for one session; the peers and the duties are put in the state."""
    clock, node = state.clock, session.node

    def way(to: Node) -> AbstractAsyncContextManager[NodeLink]:
        meant = Whom(node=to.id, session=to.session)
        return open_link(f"grpc://{to.grpc}", meant=meant, token=token, tls=tls, is_revoked=is_revoked)

    def score() -> float:
        return state.meter.load.score

    peers = state.peers = Peers(node.id, way)
    duties = state.duties = Duties(store, node.id, node.session, session.incarnation, clock, score)
    health = HealthKeeper(store, node.id, session.incarnation, clock, config.check_every)
    parts.create_task(publish_load(store, session, state.meter, clock), name="load")
    parts.create_task(peers.follow(store), name="peers")
    parts.create_task(peers.follow_health(store), name="health of peers")
    parts.create_task(check_peers(store, session, peers, config, clock, state.journal.tell), name="checks")
    parts.create_task(duties.every(HEALTH, config.check_every, health.tend), name="duty health")
    parts.create_task(duties.keep(FEED, config.beat), name="duty feed")
    collector = Collector(store, node.id, session.incarnation, clock, config.check_every)
    parts.create_task(collector.run(), name="collector")
    parts.create_task(duties.every(HOOKS, config.check_every, collector.hold), name="duty hooks")
    deliverer = Deliverer(
        store, node.id, session.incarnation, clock, score, partial(send, commands=commands), state.hook_outcomes
    )
    parts.create_task(deliverer.run(), name="deliverer")
