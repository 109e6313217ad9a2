"""Every declared stream has a loop of its own while this node leads: one that fails leaves the others alone."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from random import random

from rota.fleet.leading.term import Term
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model import keys
from rota.model.errors import TermOver
from rota.store.clock import StoreClock
from rota.store.follow import follow_all
from rota.store.port import Entry
from rota.store.records import understood
from rota.streams.core.records import StreamRecord
from rota.streams.fleet.placed import Placements
from rota.streams.fleet.stream import TICK, StreamKeeper

log = logging.getLogger(__name__)

AGAIN = timedelta(seconds=1), timedelta(seconds=30)
"""Shortest and longest wait until a loop that failed begins anew."""


async def keep_streams(term: Term, clock: Clock, tell: Callable[..., None], *, tick: float = TICK) -> None:
    """Keep the declared streams going until the term ends; each is looked at every `tick` seconds, and at news.

    Times in their records are the store's: an earlier leader has written them, on a machine with another clock.
    """
    async with asyncio.TaskGroup() as parts:
        store_clock = StoreClock(term.store, clock)
        parts.create_task(store_clock.run(), name="the store's clock")
        await store_clock.is_known.wait()
        await _Streams(term, clock, store_clock, tell, parts, tick).run()


class _Streams:
    def __init__(
        self,
        term: Term,
        clock: Clock,
        store_clock: StoreClock,
        tell: Callable[..., None],
        parts: asyncio.TaskGroup,
        tick: float,
    ) -> None:
        self._term, self._clock, self._store_clock = term, clock, store_clock
        self._tell, self._parts, self._tick = tell, parts, tick
        self._records: dict[str, StreamRecord] = {}
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._placements: Placements | None = None

    async def run(self) -> None:
        async with aclosing(follow_all(self._term.store, keys.STREAMS)) as coming:
            async for news in coming:
                if news.is_whole:
                    here = {change.key.removeprefix(keys.STREAMS) for change in news.changes}
                    for name in self._records.keys() - here:
                        self._see(name, None)
                for change in news.changes:
                    self._see(change.key.removeprefix(keys.STREAMS), change.entry)

    def _see(self, name: str, entry: Entry | None) -> None:
        record = understood(StreamRecord, entry, log)
        if record is None:
            self._records.pop(name, None)
            if (loop := self._loops.pop(name, None)) is not None:
                loop.cancel()
            return
        self._records[name] = record
        if name not in self._loops:
            self._loops[name] = self._parts.create_task(self._keep(name), name=f"stream {name}")

    async def _keep(self, name: str) -> None:
        waits = delays(*AGAIN, random)
        while True:
            keeper = StreamKeeper(
                self._term,
                name,
                lambda: self._records[name],
                self._placed(),
                self._clock,
                self._store_clock,
                self._tell,
                self._tick,
            )
            try:
                await keeper.run()
            except* TermOver:
                raise
            except* Exception:  # whatever it is, the other streams go on
                log.exception("stream failed", extra={"stream": name})
            await asyncio.sleep(next(waits).total_seconds())

    def _placed(self) -> Placements:
        """The placed tasks; followed from when there is a stream."""
        if self._placements is None:
            self._placements = Placements(self._store_clock)
            self._parts.create_task(self._placements.follow(self._term.store), name="placed stream tasks")
        return self._placements
