"""A node among equals: it tells how busy it is, checks the others, and takes its part in the fleet's chores."""

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial

from rota.compose.state import NodeState
from rota.control.duties import Duties
from rota.control.health import HealthKeeper
from rota.control.hooks import Collector, Deliverer
from rota.model.config import PeersConfig
from rota.model.link import Whom
from rota.model.node import Node
from rota.node.confine import Commands
from rota.node.hooks import send
from rota.node.load import publish_load
from rota.node.peers import Peers, check_peers
from rota.node.session import NodeSession
from rota.rpc.open import open_link
from rota.rpc.port import IsRevoked, NodeLink, Shown
from rota.rpc.settings import TlsFiles
from rota.store import Store

FEED = "feed"
"""The duty of whoever should be the first to look for work that is due."""

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
    """Start all that for one session; the state knows the peers and the duties from now on."""
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
