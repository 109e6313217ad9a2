"""The store on etcd: `etcd://host:2379,host:2379/namespace`.

A commit is one transaction of etcd, a lease one of its leases, a watch one of its watches, restarted when it breaks.
Keys live below a namespace, `/rota` unless the URL names another, so `etcdctl get --prefix /rota` shows a fleet; a user
needs a role on that prefix. Namespaces must not lie inside each other.

Revisions and compaction belong to the whole etcd, not to the namespace: between two commits of ours a revision may be
missing, and `compact` deletes the history of every user of that etcd.

Beside the keys stands the version of their schema. A store of a newer version is not opened.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from datetime import datetime, timedelta

import msgspec

from rota.kit.decoding import UNREADABLE
from rota.kit.time.clock import Clock
from rota.model.errors import BrokenOff, Compacted, Conflict, Denied, Invalid, LeaseLost, Unavailable, Unknown
from rota.model.ids import Instant, Key, LeaseId, Revision
from rota.store import rules
from rota.store.etcd import client as clients
from rota.store.etcd import errors, settings, wire
from rota.store.etcd.client import EtcdClient
from rota.store.etcd.clock import AgreedClock, members_clock
from rota.store.etcd.errors import EtcdRefused
from rota.store.etcd.pb import etcd_pb2 as pb
from rota.store.etcd.place import WatchPosition
from rota.store.etcd.wire import NamespaceCodec
from rota.store.port import Commit, Entry, Expect, Lease, Put, ScanResult, Store, Write
from rota.store.url import StoreUrl

SCHEMA = 1
"""The version of the schema that this code writes and understands."""

PAGE = 500
"""Entries per request of a scan."""


async def open(url: StoreUrl, clock: Clock, *, create: bool) -> Store:
    """The store at `url`; Unavailable, BrokenOff, Denied or Invalid if it cannot be used."""
    wanted = settings.read(url)
    client = await clients.connect(wanted)
    names = NamespaceCodec(wanted.namespace)
    try:
        await _check_schema(client, names, wanted.store, create=create)
    except BaseException as error:
        await client.close()
        if isinstance(error, Unavailable) and errors.is_from_there(error.__cause__):
            raise BrokenOff(str(error)) from error.__cause__
        raise
    return EtcdStore(client, names, clock, members_clock(wanted, clock), wanted)


class _Schema(msgspec.Struct):
    v: int


async def _check_schema(client: EtcdClient, names: NamespaceCodec, store: str, *, create: bool) -> None:
    """Invalid unless the schema is ours; with `create` it is written where there is none."""
    key = names.schema_key
    found = await client.range(pb.RangeRequest(key=key))
    while not found.kvs:
        if not create:
            raise rules.nothing_there(store)
        await _check_apart(client, names, store)
        await _write_schema(client, key, store)
        found = await client.range(pb.RangeRequest(key=key))
    try:
        version = msgspec.json.decode(found.kvs[0].value, type=_Schema).v
    except UNREADABLE:
        raise Invalid(f"store {store}: {key.decode()} in etcd is not Rota's; choose another namespace") from None
    if version > SCHEMA:
        raise Invalid(
            f"store {store} has schema version {version}, and this Rota knows {SCHEMA}; upgrade Rota on this machine"
        )


async def _check_apart(client: EtcdClient, names: NamespaceCodec, store: str) -> None:
    """Invalid if a namespace that is about to be used lies inside another one, or has another inside it."""
    for outer in names.around():
        with suppress(Denied):  # what this user may not read, it cannot disturb
            if (await client.range(pb.RangeRequest(key=outer.schema_key))).kvs:
                raise Invalid(f"store {store} is inside {outer}, where a fleet is already; choose one beside it")
    start, end = names.span("/")
    if found := (await client.range(pb.RangeRequest(key=start, range_end=end, limit=1, keys_only=True))).kvs:
        raise Invalid(
            f"store {store}: there are keys below it in etcd, such as {found[0].key.decode(errors='replace')}; "
            "choose a namespace without any"
        )


async def _write_schema(client: EtcdClient, key: bytes, store: str) -> None:
    """Write our version unless another process has done so."""
    request = pb.TxnRequest(
        compare=[pb.Compare(target=pb.Compare.CREATE, key=key, create_revision=0)],
        success=[pb.RequestOp(request_put=pb.PutRequest(key=key, value=msgspec.json.encode(_Schema(SCHEMA))))],
    )
    try:
        await client.txn(request)
    except Unknown as error:
        # Writing it twice does no harm, so the caller may simply open the store again.
        raise BrokenOff(f"store {store}: no answer while it was set up; open it again") from error


class EtcdStore:
    """The port on etcd."""

    def __init__(
        self,
        client: EtcdClient,
        names: NamespaceCodec,
        clock: Clock,
        agreed: AgreedClock,
        wanted: settings.EtcdSettings,
    ) -> None:
        self._client, self._wire, self._clock, self._agreed = client, names, clock, agreed
        self._store, self._timeout = wanted.store, wanted.timeout

    async def get(self, key: Key) -> Entry | None:
        rules.check_key(key)
        found = (await self._client.range(pb.RangeRequest(key=self._wire.outward(key)))).kvs
        return self._wire.entry(found[0]) if found else None

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        rules.check_scan(prefix, after, limit)
        while True:
            try:
                return await self._scan(prefix, after, limit, at)
            except Compacted:
                if at is not None:
                    raise
                # The revision of our first page was compacted between two pages: read a newer one.

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        expectations = rules.check_commit(writes, expect)
        try:
            response = await self._client.txn(self._wire.txn(writes, expectations))
        except EtcdRefused as refused:
            if refused.text != errors.LEASE_GONE:
                raise
            raise LeaseLost(await self._ended(writes)) from refused
        if not response.succeeded:
            stale = wire.stale(expectations, response)
            raise Conflict(f"{', '.join(stale)}: changed since you read it", stale)
        return Revision(response.header.revision)

    async def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        rules.check_prefix(prefix)
        place = WatchPosition(self._wire, prefix, after)
        async with aclosing(self._client.watch(place.request)) as responses:
            async for response in responses:
                for commit in place.take(response):
                    yield commit

    async def grant(self, ttl: timedelta) -> Lease:
        rules.check_ttl(ttl)
        asked = self._clock.monotonic()
        granted = await self._client.grant(pb.LeaseGrantRequest(TTL=math.ceil(ttl.total_seconds())))
        return Lease(LeaseId(str(granted.ID)), timedelta(seconds=granted.TTL), Instant(asked + granted.TTL))

    async def renew(self, lease: Lease) -> Instant:
        asked = self._clock.monotonic()
        renewed = await self._client.keep_alive(pb.LeaseKeepAliveRequest(ID=wire.lease_number(lease.id)))
        if renewed.TTL <= 0:
            raise LeaseLost(lease.id)
        return Instant(asked + renewed.TTL)

    async def revoke(self, lease: LeaseId) -> None:
        try:
            await self._client.revoke(pb.LeaseRevokeRequest(ID=wire.lease_number(lease)))
        except LeaseLost:
            return
        except EtcdRefused as refused:
            if refused.text != errors.LEASE_GONE:
                raise

    async def now(self) -> datetime:
        return await self._agreed.now()

    async def revision(self) -> Revision:
        found = await self._client.range(pb.RangeRequest(key=self._wire.schema_key, count_only=True))
        return Revision(found.header.revision)

    async def compact(self, before: Revision) -> None:
        before = min(before, await self.revision())
        if before < 1:
            return
        try:
            await self._client.compact(pb.CompactionRequest(revision=before))
        except EtcdRefused as refused:
            if refused.text != errors.COMPACTED:
                raise

    async def close(self) -> None:
        await self._agreed.close()
        await self._client.close()

    async def _scan(self, prefix: Key, after: Key | None, limit: int | None, at: Revision | None) -> ScanResult:
        start, end = self._wire.span(prefix)
        if after is not None:
            start = max(start, self._wire.outward(after) + b"\0")
        entries: list[Entry] = []
        while True:
            room = PAGE if limit is None else min(PAGE, limit - len(entries))
            page = await self._page(start, end, room, at)
            entries += map(self._wire.entry, page.kvs)
            at = Revision(page.header.revision) if at is None else at
            if not page.more or len(entries) == limit:
                return ScanResult(tuple(entries), at, page.more)
            start = page.kvs[-1].key + b"\0"

    async def _page(self, start: bytes, end: bytes, limit: int, at: Revision | None) -> pb.RangeResponse:
        # To etcd revision 0 is the present; before its first revision there was nothing, as there is at it.
        revision = 0 if at is None else max(at, 1)
        try:
            return await self._client.range(pb.RangeRequest(key=start, range_end=end, limit=limit, revision=revision))
        except EtcdRefused as refused:
            if at is not None and refused.text == errors.FUTURE:
                raise Invalid(f"revision {at} is in the future; the newest is {await self.revision()}") from None
            if at is not None and refused.text == errors.COMPACTED:
                raise await self._compacted(at) from None
            raise

    async def _compacted(self, asked: Revision) -> Compacted:
        """The error for a revision that is gone; etcd shows only to watchers where history starts."""
        try:
            async with asyncio.timeout(self._timeout):
                async with aclosing(self.watch("/", asked)) as commits:
                    await anext(commits)
        except Compacted as compacted:
            return compacted
        except TimeoutError:
            pass
        return Compacted(asked, await self.revision())

    async def _ended(self, writes: Sequence[Write]) -> LeaseId:
        """The lease among those of the writes that etcd did not find."""
        *others, last = dict.fromkeys(write.lease for write in writes if isinstance(write, Put) and write.lease)
        for lease in others:
            answer = await self._client.time_to_live(pb.LeaseTimeToLiveRequest(ID=wire.lease_number(lease)))
            if answer.TTL < 0:
                return lease
        return last
