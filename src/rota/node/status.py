"""A node's status in the store: what it runs, for whoever asks anywhere in the fleet.

Written when it changed, at most once a second, under the node's lease: it goes when the node does.
"""

import asyncio
import logging
from collections.abc import Callable

from rota.model import codec, keys
from rota.model.errors import Conflict, LeaseLost, Unavailable, Unknown
from rota.model.node import NodeStatus
from rota.node.session import Session
from rota.store.port import Put, Store

log = logging.getLogger(__name__)

PACE = 1.0
"""Seconds from one look to the next."""


async def publish_status(store: Store, session: Session, status: Callable[[], NodeStatus]) -> None:
    """Write what the node runs whenever that has changed, for ever."""
    key, written = keys.status(session.node.id), None
    while True:
        now = status()
        if now != written:
            try:
                put = Put(key, codec.encode(now), session.keeper.lease)
                await store.commit(put, expect=[session.incarnation])
                written = now
            except (Conflict, LeaseLost, Unavailable, Unknown) as error:
                log.debug("status not written", extra={"node": session.node.id, "why": str(error)})
        await asyncio.sleep(PACE)
