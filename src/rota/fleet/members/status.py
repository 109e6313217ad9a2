"""A node's status in the store: what it runs, readable anywhere in the fleet.

Written when it changed, at most once a second, under the node's lease: it goes when the node does.
"""

import asyncio
import logging
from collections.abc import Callable

from rota.fleet.members.session import NodeSession
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, LeaseLost, Unavailable, Unknown
from rota.model.ids import Key
from rota.model.node import NodeStatus
from rota.resources.core.records import KindRecord
from rota.store.port import Absent, At, Delete, Put, Store
from rota.streams.core.records import Declaration, StreamRecord

log = logging.getLogger(__name__)

PACE = 1.0
"""Seconds from one look to the next."""

DECLARATIONS = 50
"""Declarations kept for one stream; the oldest are deleted first."""


async def publish_kinds(
    store: Store, session: NodeSession, kinds: Callable[[], list[KindRecord]], *, pace: float = PACE
) -> None:
    """Write the kinds that the app declares where the store differs, until cancelled."""
    written: list[KindRecord] = []
    while True:
        now = kinds()
        if now != written:
            try:
                for kind in now:
                    await _write(store, session, keys.kind(kind.name), codec.encode(kind))
                written = now
            except (Conflict, Unavailable, Unknown) as error:
                log.debug("kinds not written", extra={"node": session.node.id, "why": str(error)})
        await asyncio.sleep(pace)


async def _write(store: Store, session: NodeSession, key: Key, value: bytes) -> None:
    entry = await store.get(key)
    if entry is None or entry.value != value:
        seen = At(key, entry.modified) if entry else Absent(key)
        await store.commit(Put(key, value), expect=[seen, session.incarnation])


async def publish_streams(
    store: Store, session: NodeSession, streams: Callable[[], list[StreamRecord]], *, pace: float = PACE
) -> None:
    """Write the streams that the app declares where the store differs, until cancelled."""
    written: list[StreamRecord] = []
    while True:
        now = streams()
        if now != written:
            try:
                for stream in now:
                    await _declare(store, session, stream)
                written = now
            except (Conflict, Unavailable, Unknown) as error:
                log.debug("streams not written", extra={"node": session.node.id, "why": str(error)})
        await asyncio.sleep(pace)


async def _declare(store: Store, session: NodeSession, stream: StreamRecord) -> None:
    """Write a stream's declaration and add it to its history, if it differs from the store's."""
    key, value = keys.STREAMS + stream.name, codec.encode(stream)
    entry = await store.get(key)
    if entry is not None and entry.value == value:
        return
    at = await store.now()
    version = Declaration(record=stream, node=session.node.id, at=at)
    before = (await store.scan(f"{keys.STREAM_HISTORY}{stream.name}/")).entries
    await store.commit(
        Put(key, value),
        Put(keys.stream_declaration(stream.name, at), codec.encode(version)),
        *(Delete(old.key) for old in before[: max(0, len(before) + 1 - DECLARATIONS)]),
        expect=[At(key, entry.modified) if entry else Absent(key), session.incarnation],
    )


async def publish_status(
    store: Store, session: NodeSession, status: Callable[[], NodeStatus], *, pace: float = PACE
) -> None:
    """Write what the node runs whenever that has changed, until cancelled."""
    key, written = keys.status(session.node.id), None
    while True:
        now = status()
        if now != written:
            try:
                put = Put(key, codec.encode(now), session.keeper.lease)
                await store.commit(put, expect=[session.incarnation])
                written = now
            except (Conflict, Invalid, LeaseLost, Unavailable, Unknown) as error:
                log.debug("status not written", extra={"node": session.node.id, "why": str(error)})
        await asyncio.sleep(pace)
