"""Incarnations: which life of a store this is.

Each store counts revisions for itself, so a restored store may reach the same numbers as the one it was copied from.
Its incarnation has a random name, and a key of that name that exists for as long as the incarnation lasts: a commit
that expects that key writes into this incarnation or not at all.
"""

import secrets

from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Invalid
from rota.model.node import Incarnation
from rota.store.port import Absent, At, Entry, Expect, Put, Store


async def current(store: Store, clock: Clock) -> At:
    """The key of the store's incarnation, which is begun if there is none; Invalid if the store is half loaded."""
    entry = await store.get(keys.INCARNATION)
    if entry is None:
        return await begin(store, new(clock), Absent(keys.INCARNATION))
    return At(keys.incarnation(whole(entry).id), entry.modified)


def whole(entry: Entry) -> Incarnation:
    """The incarnation in an entry; Invalid if it is still being loaded."""
    found = codec.decode(Incarnation, entry.value)
    if found.is_loading:
        raise Invalid(
            f"the store is half loaded: a load that began at {found.since:%Y-%m-%d %H:%M:%S} UTC has not ended; "
            "wait for it, or repeat it with rota store load"
        )
    return found


def new(clock: Clock) -> Incarnation:
    """An incarnation that has not begun."""
    return Incarnation(id=secrets.token_hex(8), since=clock.wall())


async def begin(store: Store, one: Incarnation, expect: Expect) -> At:
    """Let an incarnation begin: the record and the key of its name, in one commit."""
    key, value = keys.incarnation(one.id), codec.encode(one)
    return At(key, await store.commit(Put(keys.INCARNATION, value), Put(key, value), expect=[expect]))
