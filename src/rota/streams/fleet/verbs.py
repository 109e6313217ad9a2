"""Operators' requests to streams: plain functions on the store, for every door.

Each changes the record of wishes, which the leader carries out. The commit expects what was read; if the record has
changed, it is read again, a few times, and then Conflict is raised. It works without a leader: the next one sees it.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Conflict
from rota.store.port import Absent, At, Put, Store
from rota.streams.core.records import Reset, StreamWishes

TRIES = 5


async def suspend(store: Store, name: str, by: str) -> None:
    """Stop reading: groups publish what they have read, and no new ones start."""
    await _change(store, name, by, lambda wishes, now: replace(wishes, is_suspended=True))


async def resume(store: Store, name: str, by: str) -> None:
    """Let a stream that was suspended or terminated go on where it stopped."""
    await _change(store, name, by, lambda wishes, now: replace(wishes, is_suspended=False, is_terminated=False))


async def terminate(store: Store, name: str, by: str) -> None:
    """Stop reading, even if an app declares the stream: groups publish what they have read, and no new ones start."""
    await _change(store, name, by, lambda wishes, now: replace(wishes, is_terminated=True))


async def scale(store: Store, name: str, by: str, tasks: int | None) -> None:
    """Set the number of task groups; None: as many as are declared."""
    await _change(store, name, by, lambda wishes, now: replace(wishes, tasks=tasks, hand_off=()))


async def hand_off(store: Store, name: str, by: str, numbers: Collection[int]) -> None:
    """Have groups end and publish now; others read on from where they end."""

    def wanted(wishes: StreamWishes, now: datetime) -> StreamWishes:
        return replace(wishes, hand_off=tuple(sorted({*wishes.hand_off, *numbers})))

    await _change(store, name, by, wanted)


async def reset(
    store: Store,
    name: str,
    by: str,
    *,
    to: str = "",
    partitions: Mapping[int, str] | None = None,
    is_backfilled: bool = False,
) -> None:
    """Have the leader set offsets: all of them, or those of some partitions; what still waits to be set stays so.

    `is_backfilled`: another stream reads what is left out.

    Conflict while the leader is setting others.
    """

    def wanted(wishes: StreamWishes, now: datetime) -> StreamWishes:
        if wishes.reset is not None and wishes.reset.move:
            raise Conflict(f'stream "{name}": offsets are being set; try again in a moment')
        before = Reset(by=by, at=now) if to or wishes.reset is None else wishes.reset
        asked = replace(before, to=to or before.to, partitions={**before.partitions, **(partitions or {})})
        return replace(wishes, reset=replace(asked, is_backfilled=is_backfilled, by=by, at=now))

    await _change(store, name, by, wanted)


async def _change(store: Store, name: str, by: str, wanted: Callable[[StreamWishes, datetime], StreamWishes]) -> None:
    key = keys.STREAM_WISHES + name
    for _ in range(TRIES):
        entry, now = await store.get(key), await store.now()
        before = codec.decode(StreamWishes, entry.value) if entry else StreamWishes()
        after = wanted(before, now)
        if after == before:
            return
        put = Put(key, codec.encode(replace(after, by=by, at=now)))
        try:
            await store.commit(put, expect=[At(key, entry.modified) if entry else Absent(key)])
            return
        except Conflict:
            continue
    raise Conflict(f'stream "{name}": others change it all the time; try again', [key])
