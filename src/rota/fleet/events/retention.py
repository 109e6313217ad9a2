"""Retention of events: the leader clears away those that are too old or too many.

It counts the events once, at the beginning of its term, and then follows what comes and goes, so that knowing how many
there are costs no reading. Clearing reads a page of the oldest, and deletes them through the term in commits of 100.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime

from rota.fleet.leading.term import Term
from rota.model import event, keys
from rota.model.config import EventsConfig
from rota.model.errors import Compacted, Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.store.port import Commit, Delete

log = logging.getLogger(__name__)

BATCH = 100
PAGE = 1000


class Count:
    """How many events there are, and up to which revision that was counted."""

    def __init__(self) -> None:
        self.events = 0
        self.revision = Revision(0)
        self.is_known = asyncio.Event()

    def fold(self, commit: Commit) -> None:
        """Take in one commit. An event is written once, so a change with an entry is a new one."""
        self.events += sum(1 if change.entry else -1 for change in commit.changes)
        self.revision = commit.revision


def doomed(oldest: Sequence[Key], count: int, now: datetime, config: EventsConfig) -> list[Key]:
    """Which of the oldest events to delete: the surplus, and those past their time."""
    surplus = max(0, count - config.entries)
    return [key for place, key in enumerate(oldest) if place < surplus or _is_past(key, now, config)]


async def keep_events(term: Term, config: EventsConfig) -> None:
    """Delete old events periodically, for as long as the term lasts."""
    count = Count()
    async with asyncio.TaskGroup() as parts:
        parts.create_task(_follow(term, count), name="count events")
        parts.create_task(_clear(term, config, count), name="clear events")


async def _clear(term: Term, config: EventsConfig, count: Count) -> None:
    await count.is_known.wait()
    while True:
        await asyncio.sleep(config.every.total_seconds())
        try:
            cleared = await _clear_once(term, config, count.events)
        except (Unavailable, Unknown) as error:
            log.warning("events not cleared", extra={"why": str(error), "term": term.number})
        else:
            if cleared:
                log.debug("events cleared", extra={"events": cleared, "term": term.number})


async def _clear_once(term: Term, config: EventsConfig, count: int) -> int:
    """Delete the surplus and the expired; returns how many."""
    now, cleared = await term.store.now(), 0
    while True:
        listing = await term.store.scan(keys.EVENTS, limit=BATCH)
        going = doomed([entry.key for entry in listing.entries], count - cleared, now, config)
        if not going:
            return cleared
        await term.commit(*(Delete(key) for key in going))
        cleared += len(going)


async def _follow(term: Term, count: Count) -> None:
    """Keep the count up to date, counting anew when the history was compacted."""
    while True:
        try:
            await _count(term, count)
            async with aclosing(term.store.watch(keys.EVENTS, count.revision)) as commits:
                async for commit in commits:
                    count.fold(commit)
        except Compacted:
            log.debug("counting events anew", extra={"term": term.number})


async def _count(term: Term, count: Count) -> None:
    revision, events, after = await term.store.revision(), 0, None
    while True:
        listing = await term.store.scan(keys.EVENTS, after=after, limit=PAGE, at=revision)
        events += len(listing.entries)
        if not listing.more:
            break
        after = listing.entries[-1].key
    count.events, count.revision = events, revision
    count.is_known.set()


def _is_past(key: Key, now: datetime, config: EventsConfig) -> bool:
    """Is its time over? What has no time in its key is no event, and goes too."""
    at = event.time_of(key.removeprefix(keys.EVENTS))
    return at is None or at < now - config.keep
