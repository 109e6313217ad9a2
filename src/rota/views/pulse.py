"""The pulse of a fleet: which parts of it have changed, reported a few times a second at most.

A client that shows a part of the fleet reads it again when the pulse names it, and otherwise only now and then. One
stream is enough for everything on a screen, and a burst of commits costs its watchers one short message.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from random import random
from typing import Any

import msgspec

from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.kit.time.backoff import delays
from rota.model import keys
from rota.model.errors import Compacted, Unavailable
from rota.model.ids import Key, Revision
from rota.store.follow import RETRY
from rota.store.port import Commit, Store

PACE = 0.25
"""Seconds from one beat to the next, at least."""

EVERYTHING: Key = "/"

PARTS: Mapping[str, tuple[Key, ...]] = {
    "nodes": (
        keys.NODES,
        keys.STATUS,
        keys.NODE_LOADS,
        keys.NODE_HEALTH,
        keys.STRIKES,
        keys.LEADER,
        keys.CORDONS,
        keys.DRAINS,
        keys.SLOTS,
        keys.LABELS,
    ),
    "resources": (keys.RESOURCES, keys.RESOURCE_STATUS, keys.KINDS, keys.LISTINGS),
    "tasks": (keys.ASSIGNMENTS,),
    "jobs": (keys.JOBS, keys.JOB_CURSORS),
    "runs": (keys.LIVE_RUNS, keys.RUNS),
    "streams": (
        keys.STREAMS,
        keys.STREAM_WISHES,
        keys.STREAM_STATUS,
        keys.STREAM_OFFSETS,
        keys.STREAM_GROUPS,
        keys.STREAM_TASKS,
        keys.MANIFESTS,
    ),
    "relays": (keys.RELAY,),
    "events": (keys.EVENTS,),
    "hooks": (keys.HOOKS, keys.HOOK_STATUS),
}
"""The parts that a pulse can name → the prefixes of their keys."""

_PART_OF = {prefix: part for part, prefixes in PARTS.items() for prefix in prefixes}


class PulseBeat(msgspec.Struct, frozen=True, kw_only=True):
    """Some parts have changed."""

    parts: tuple[str, ...]
    """The parts, sorted. The first beat has all of them, as it is not known what the watcher has seen."""

    revision: Revision
    """The revision up to which changes are included."""


@verb("GET", "/v1/pulse/watch", Access.VIEW, goes_on="Events `beat`, with `parts` and `revision`.")
async def watch_pulse(
    store: Store, sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
) -> AsyncGenerator[tuple[PulseBeat, ...], None]:
    """Watch which parts of the fleet have changed."""
    waits, has_begun = delays(*RETRY, random), False
    while True:
        try:
            revision = await store.revision()
            yield (PulseBeat(parts=tuple(sorted(PARTS)), revision=revision),)
            waits, has_begun = delays(*RETRY, random), True
            async with aclosing(_beats(store, revision, sleep)) as beats:
                async for beat in beats:
                    yield (beat,)
        except Compacted:
            continue
        except Unavailable:
            if not has_begun:
                raise
            await sleep(next(waits).total_seconds())


async def _beats(
    store: Store, after: Revision, sleep: Callable[[float], Coroutine[Any, Any, None]]
) -> AsyncGenerator[PulseBeat, None]:
    """The changed parts of each group of commits; commits that arrive during the pause join the group."""
    news, gathered = asyncio.Event(), _Gathered(after)

    async def gather() -> None:
        try:
            async with aclosing(store.watch(EVERYTHING, after)) as commits:
                async for commit in commits:
                    gathered.add(commit)
                    if gathered.parts:
                        news.set()
        finally:
            news.set()

    gathering = asyncio.create_task(gather(), name="pulse")
    try:
        while True:
            await news.wait()
            if gathering.done():
                gathering.result()
                return
            news.clear()
            yield gathered.taken()
            await sleep(PACE)
    finally:
        gathering.cancel()
        await asyncio.wait([gathering])


class _Gathered:
    """Changes that were not sent yet."""

    def __init__(self, revision: Revision) -> None:
        self.parts: set[str] = set()
        self._revision = revision

    def add(self, commit: Commit) -> None:
        """Add the changes of a commit."""
        self.parts |= parts_of(change.key for change in commit.changes)
        self._revision = commit.revision

    def taken(self) -> PulseBeat:
        """Return and clear the changes."""
        beat = PulseBeat(parts=tuple(sorted(self.parts)), revision=self._revision)
        self.parts = set()
        return beat


def parts_of(changed: Iterable[Key]) -> set[str]:
    """The parts of the fleet that these keys belong to; some belong to none."""
    return {part for key in changed if (part := _PART_OF.get(_prefix(key)))}


def _prefix(key: Key) -> Key:
    """The first folder of a key; the whole key, if it is in none."""
    end = key.find("/", 1)
    return key if end < 0 else key[: end + 1]
