"""Sessions of browsers that have logged in.

A session is a random id that the browser keeps in a cookie, and a record in the store with the digest of the token that
it was made with. It grants what that token grants, and only while the token is valid: revoking the token ends its
sessions. The record is under a lease, so it ends by itself; logging out deletes it, for every node.

Every node follows the records. One that has not heard of a session yet, because it was made at another node a moment
ago, asks the store.
"""

import hashlib
import re
import secrets
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import timedelta

from rota.fleet.core.access.token import SessionRecord
from rota.kit.time.clock import SYSTEM, Clock
from rota.model import codec, keys
from rota.model.errors import RotaError, Unavailable, Unknown
from rota.model.ids import Key
from rota.store.follow import follow_all
from rota.store.port import Delete, Put, Store
from rota.store.records import understood

LIFE = timedelta(hours=12)
"""How long a session lasts at most."""

MOST = 20
"""Sessions of one token; the next one ends the oldest."""

LOOKUPS = 20
"""How often in a second the store is asked about unknown ids."""

BYTES = 32
_ID = re.compile(r"[A-Za-z0-9_-]{43}")


class Sessions:
    """The sessions of a fleet, as one node knows them."""

    def __init__(self, store: Callable[[], Store | None] = lambda: None, clock: Clock = SYSTEM) -> None:
        self._store, self._clock = store, clock
        self._known: dict[Key, SessionRecord] = {}
        self._lookups: deque[float] = deque(maxlen=LOOKUPS)
        self._ended: deque[Key] = deque(maxlen=1000)
        """Sessions that ended last: a lookup in the store may have begun before their end was seen."""

    async def begin(self, digest: bytes) -> str:
        """Make a session for the token with this digest and return its id; Unavailable without a store."""
        store, until = self._present(), self._clock.wall() + LIFE
        own = sorted((record.until, key) for key, record in self._known.items() if record.digest == digest.hex())
        for _, key in own[: max(0, len(own) - MOST + 1)]:
            await self._delete(store, key)
        id, record = secrets.token_urlsafe(BYTES), SessionRecord(digest=digest.hex(), until=until)
        lease = await store.grant(LIFE)
        try:
            await store.commit(Put(_key(id), codec.encode(record), lease.id))
        except Unknown:
            raise  # it may exist, but its id was given to no client
        except RotaError:
            with suppress(RotaError):  # it ends by itself
                await store.revoke(lease.id)
            raise
        self._known[_key(id)] = record
        return id

    async def find(self, id: str) -> SessionRecord | None:
        """The session, asking the store if it is unknown here; None if there is none."""
        if not _ID.fullmatch(id):
            return None
        if self.known(id) is None and (store := self._store()) is not None:
            now = self._clock.monotonic()
            if len(self._lookups) == LOOKUPS and now - self._lookups[0] < 1:
                raise Unavailable("too many unknown sessions were shown to this node; try again in a second")
            self._lookups.append(now)
            if (record := understood(SessionRecord, await store.get(_key(id)))) is not None and (
                _key(id) not in self._ended
            ):
                self._known[_key(id)] = record
        return self.known(id)

    def known(self, id: str) -> SessionRecord | None:
        """The session, as far as this node knows; None if there is none, or it has ended."""
        record = self._known.get(_key(id))
        return record if record is not None and self._clock.wall() < record.until else None

    async def end(self, id: str) -> None:
        """Forget a session, on every node."""
        await self._delete(self._present(), _key(id))

    async def follow(self, store: Store) -> None:
        """Follow the sessions in the store, until cancelled."""
        async with aclosing(follow_all(store, keys.SESSIONS)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._known.clear()
                for change in news.changes:
                    self._known.pop(change.key, None)
                    if change.entry is None:
                        self._ended.append(change.key)
                    if (record := understood(SessionRecord, change.entry)) is not None:
                        self._known[change.key] = record

    async def _delete(self, store: Store, key: Key) -> None:
        entry = await store.get(key)
        if entry is not None and entry.lease is not None:
            await store.revoke(entry.lease)  # takes the key along
        elif entry is not None:
            await store.commit(Delete(key))
        self._known.pop(key, None)

    def _present(self) -> Store:
        if (store := self._store()) is None:
            raise Unavailable("this node is not in the fleet yet; try again in a moment, or open another node's page")
        return store


def _key(id: str) -> Key:
    return keys.session(hashlib.sha256(id.encode(errors="replace")).hexdigest())
