"""Hooks: events into the outbox, and from there out of the fleet.

`Collector` reads events and writes their deliveries into the outbox, together with its cursor, in one commit. The node
that claimed the duty of the beat collects; if two do, one of them conflicts. So each event is taken for each hook once.
If the collector dies, the next one goes on from the cursor.

`Deliverer` runs on every node. It follows the outbox and claims what is due by rewriting the record: its new time is
when another node may take it for lost. So a delivery is tried at least once, and twice if its node fell silent during
the attempt; each attempt has the same id, by which the receiver recognises a repeat.

The cursor lies beside the events, under their prefix without the slash: one watch covers both, and a collector that
sees its cursor in the watch has seen every event before it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from itertools import count
from random import random
from typing import TypeAlias

from rota.fleet.core.hooks.decide import Taken, claimed, failed, taken, wait
from rota.fleet.core.hooks.record import Delivery, Hook, HookCursor, HookFailure, HookStatus
from rota.fleet.core.leading import duties
from rota.fleet.events.event_log import event_put, written_past
from rota.kit.record import replace
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Compacted, Conflict, Invalid, Unavailable, Unknown
from rota.model.event import Event, Value
from rota.model.ids import Instant, Key, NodeId, Revision
from rota.store.follow import follow_all
from rota.store.port import Absent, At, Commit, Delete, Entry, Expect, Put, Store, Write
from rota.store.records import understood

log = logging.getLogger(__name__)

Send: TypeAlias = Callable[[Hook, Delivery], Awaitable[HookFailure | None]]
"""Tries a delivery once; why it failed, or None."""

RETRY = 1.0
"""Seconds until what went wrong with the store is tried again."""

AT_A_TIME = 8
"""Deliveries that one node tries at the same time."""

BATCH = 90
"""Deliveries of one commit, which has a few other writes."""

TRIES = 5
COLLECTED, DELIVERED = 600_000, 700_000
"""First number of the events recorded here; each part of a node has a range of its own, so that none repeats."""


class Collector:
    """Turns events into deliveries, while this node has the duty."""

    def __init__(self, store: Store, me: NodeId, incarnation: At, clock: Clock, beat: timedelta) -> None:
        self._store, self._me, self._incarnation, self._clock, self._beat = store, me, incarnation, clock, beat
        self._until = clock.monotonic()
        self._held = asyncio.Event()
        self._cursor: Entry | None = None
        self._position = Revision(0)
        self._writing = asyncio.Lock()
        self._numbers = count(COLLECTED)

    async def hold(self, _: int) -> None:
        """The duty is this node's for one beat, and half of the next one: a gap would cost more than an overlap."""
        self._until = Instant(self._clock.monotonic() + 1.5 * self._beat.total_seconds())
        self._held.set()
        if self._position and (hooks := await self._hooks()):
            async with self._writing:
                await self._write(Taken(paces=self._paces(hooks)), self._position)

    async def run(self) -> None:
        """Collect whenever the duty is this node's, until cancelled."""
        while True:
            await self._held.wait()
            self._held.clear()
            while (left := self._until - self._clock.monotonic()) > 0:
                try:
                    async with asyncio.timeout(left):
                        await self._collect()
                except TimeoutError:
                    self._position = Revision(0)
                except (Conflict, Unavailable, Unknown) as error:
                    log.debug("collecting for hooks again", extra={"node": self._me, "why": str(error)})
                    await asyncio.sleep(RETRY)

    async def _collect(self) -> None:
        """Read every event past the cursor, until another node moves it."""
        async with self._writing:
            self._cursor = await self._store.get(keys.EVENTS_CURSOR)
            self._position = await self._beginning()
        try:
            async with aclosing(self._store.watch(keys.EVENTS_AND_CURSOR, self._position)) as commits:
                async for commit in commits:
                    async with self._writing:
                        await self._take(commit)
        except Compacted:
            missed, present = await written_past(self._store, self._position)
            async with self._writing:
                await self._offer(missed, present, is_gap=True)

    async def _beginning(self) -> Revision:
        """Where to begin: where the last one was, but not before the oldest hook."""
        cursor = understood(HookCursor, self._cursor, log)
        oldest = min((entry.modified for entry, _ in await self._hooks()), default=None)
        if oldest is None:
            return await self._store.revision()
        return max(cursor.revision, oldest) if cursor else oldest

    async def _take(self, commit: Commit) -> None:
        happened: list[tuple[Revision, Event]] = []
        for change in commit.changes:
            if change.key == keys.EVENTS_CURSOR:
                self._see(change.entry)
            elif change.key.startswith(keys.EVENTS) and (found := understood(Event, change.entry, log)):
                happened.append((commit.revision, found))
        if happened:
            await self._offer(happened, commit.revision)
        self._position = commit.revision

    def _see(self, entry: Entry | None) -> None:
        if self._cursor is None or entry is None or entry.modified > self._cursor.modified:
            raise Conflict("another node collects for hooks; go on from its cursor", [keys.EVENTS_CURSOR])

    async def _offer(
        self, happened: Iterable[tuple[Revision, Event]], reached: Revision, *, is_gap: bool = False
    ) -> None:
        """Give events to the hooks that want them. A hook that was changed later has no use for them."""
        hooks = await self._hooks()
        now = await self._store.now()
        found = Taken(paces=self._paces(hooks))
        for revision, event in happened:
            present = [hook for entry, hook in hooks if entry.modified < revision]
            part = taken(present, [event], found.paces, now)
            found.deliveries.extend(part.deliveries)
            found.paces.update(part.paces)
            for name, many in part.dropped.items():
                found.dropped[name] = found.dropped.get(name, 0) + many
        if found.deliveries or found.dropped or (is_gap and hooks):
            await self._write(found, reached)

    def _paces(self, hooks: Iterable[tuple[Entry, Hook]]) -> dict[str, datetime]:
        cursor = understood(HookCursor, self._cursor, log)
        known = {hook.name for _, hook in hooks}
        return {name: at for name, at in cursor.paces.items() if name in known} if cursor else {}

    async def _write(self, found: Taken, reached: Revision) -> None:
        """Deliveries and cursor in one commit. Where there are too many for one, the cursor comes with the last."""
        writes: list[Write] = [Put(keys.delivery(each.id), codec.encode(each)) for each in found.deliveries]
        while len(writes) > BATCH:
            await self._commit(writes[:BATCH])  # a crash behind this takes some again, with the same ids
            del writes[:BATCH]
        for name, many in found.dropped.items():
            log.warning("hook is too slow, events are dropped", extra={"hook": name, "count": many})
            writes.append(self._dropped(name, many))
        value = codec.encode(HookCursor(revision=reached, paces=found.paces))
        revision = await self._commit([*writes, Put(keys.EVENTS_CURSOR, value)])
        self._cursor = Entry(keys.EVENTS_CURSOR, value, revision, revision)

    def _dropped(self, hook: str, many: int) -> Put:
        number = next(self._numbers)
        return event_put("hook.dropped", hook, {"count": many}, node=self._me, at=self._clock.wall(), number=number)

    async def _commit(self, writes: Iterable[Write]) -> Revision:
        key = keys.EVENTS_CURSOR
        expected: Expect = At(key, self._cursor.modified) if self._cursor else Absent(key)
        return await self._store.commit(*writes, expect=[expected, self._incarnation])

    async def _hooks(self) -> list[tuple[Entry, Hook]]:
        entries = (await self._store.scan(keys.HOOKS)).entries
        return [(entry, hook) for entry in entries if (hook := understood(Hook, entry, log))]


class Deliverer:
    """Delivers what is in the outbox, beside all other nodes.

    `score` gives this node's load score; `outcomes` counts the results of its attempts.
    """

    def __init__(
        self,
        store: Store,
        me: NodeId,
        incarnation: At,
        clock: Clock,
        score: Callable[[], float],
        send: Send,
        outcomes: Counter[str],
        jitter: Callable[[], float] = random,
    ) -> None:
        self._store, self._me, self._incarnation, self._clock = store, me, incarnation, clock
        self._score, self._send, self._outcomes, self._jitter = score, send, outcomes, jitter
        self._outbox: dict[Key, tuple[Entry, Delivery]] = {}
        self._busy: set[Key] = set()
        self._numbers = count(DELIVERED)
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow(), name="outbox")
            while True:
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(await self._start(parts)):
                        await self._news.wait()

    async def _follow(self) -> None:
        async with aclosing(follow_all(self._store, keys.HOOK_OUTBOX, self._jitter)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._outbox = {}
                for change in news.changes:
                    self._outbox.pop(change.key, None)
                    if change.entry and (delivery := understood(Delivery, change.entry, log)):
                        self._outbox[change.key] = change.entry, delivery
                self._news.set()

    async def _start(self, parts: asyncio.TaskGroup) -> float | None:
        """Start the deliveries that are due; returns seconds until the next may be due, or None if none waits."""
        waiting = [each for key, each in self._outbox.items() if key not in self._busy]
        if not waiting or len(self._busy) >= AT_A_TIME:
            return None
        try:
            now = await self._store.now()
        except Unavailable:
            return RETRY
        waiting.sort(key=lambda each: (wait(each[1], now), each[0].key))
        for entry, delivery in waiting[: AT_A_TIME - len(self._busy)]:
            if left := wait(delivery, now):
                return left.total_seconds()
            self._busy.add(entry.key)
            parts.create_task(self._try(entry, delivery), name=f"hook {delivery.id}")
        return None

    async def _try(self, entry: Entry, delivery: Delivery) -> None:
        try:
            await asyncio.sleep(duties.wait(self._score()).total_seconds())
            await self._deliver(entry, delivery)
        except (Conflict, Unavailable, Unknown, Invalid) as error:
            log.debug("delivery left to others", extra={"delivery": delivery.id, "why": str(error)})
            await asyncio.sleep(RETRY)
        finally:
            self._busy.discard(entry.key)
            self._news.set()

    async def _deliver(self, entry: Entry, delivery: Delivery) -> None:
        hook = understood(Hook, await self._store.get(keys.hook(delivery.hook)), log)
        expected = At(entry.key, entry.modified)
        if hook is None or not hook.enabled:
            await self._store.commit(Delete(entry.key), expect=[expected, self._incarnation])
            return
        mine = claimed(delivery, hook, self._me, await self._store.now())
        revision = await self._store.commit(Put(entry.key, codec.encode(mine)), expect=[expected, self._incarnation])
        failure = await self._send(hook, mine)
        await self._settle(hook, mine, At(entry.key, revision), failure)

    async def _settle(self, hook: Hook, delivery: Delivery, mine: At, failure: HookFailure | None) -> None:
        now = await self._store.now()
        again = failed(delivery, hook, now) if failure is not None else None
        self._outcomes["delivered" if failure is None else "given up" if again is None else "failed"] += 1
        if again is not None:
            log.info("hook failed, and is tried again", extra={"hook": hook.name, "why": failure and failure.why})
            await self._store.commit(Put(mine.key, codec.encode(again)), expect=[mine, self._incarnation])
            return
        for _ in range(TRIES):
            try:
                await self._end(hook, delivery, mine, failure, now)
                return
            except Conflict as conflict:
                if mine.key in conflict.keys:
                    return  # another node took it for lost, and finishes it

    async def _end(self, hook: Hook, delivery: Delivery, mine: At, failure: HookFailure | None, now: datetime) -> None:
        """Count a finished delivery, and record an event if it was given up."""
        why = failure.why if failure is not None else None
        key = keys.hook_status(hook.name)
        entry = await self._store.get(key)
        before = understood(HookStatus, entry, log) or HookStatus()
        after = replace(
            before,
            delivered=before.delivered + (why is None),
            failed=before.failed + (why is not None),
            last=delivery.event.id,
            last_at=now,
            error=why or "",
            output=failure.output if failure is not None else "",
        )
        writes: list[Write] = [Delete(mine.key), Put(key, codec.encode(after))]
        expected: list[Expect] = [mine, At(key, entry.modified) if entry else Absent(key), self._incarnation]
        if why is not None:
            fields: dict[str, Value] = {"event": delivery.event.id, "attempts": delivery.attempts, "why": why}
            at, number = self._clock.wall(), next(self._numbers)
            event = event_put("hook.failed", hook.name, fields, node=self._me, at=at, number=number)
            writes.append(event)
            expected.append(Absent(event.key))
        await self._store.commit(*writes, expect=expected)
        if why is not None:
            log.error("hook given up", extra={"hook": hook.name, "event": delivery.event.id, "why": why})
