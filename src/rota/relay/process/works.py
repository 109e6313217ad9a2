"""Runs an outlet: does with its sink and its spool what the core asks for.

Two loops, so that a slow disk does not hold up a sink that works: one opens the sink and publishes, the other writes,
reads and clears the spool, in a thread, one step after the other. A sink that cannot be opened, or refuses to publish,
is retried until it succeeds; meanwhile the core has messages spooled.

A spool's folder is named for its sink's URL, and a file in it says which that is: so a relay that starts publishes what
an earlier life left, whatever the app declares now.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from random import random

from rota.kit.files import fsync_folder
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model.errors import RotaError, Unavailable
from rota.relay.core.core import Relay
from rota.relay.core.outlet import Outlet
from rota.relay.core.records import SinkState, SinkStatus
from rota.relay.process.spool import SUFFIX, Spool, SpoolRefused
from rota.sinks import url as urls
from rota.sinks.open import open_sink
from rota.sinks.port import Message, Sink

log = logging.getLogger(__name__)

PUBLISH = 500
"""Messages handed to a sink per call."""

WRITE = 2_000
"""Messages written to the spool per call."""

READ = 250
"""The number of messages worth reading from the disk, if there are that many."""

RETRY = timedelta(milliseconds=200), timedelta(seconds=5)
"""Shortest and longest wait until opening a sink is retried."""

DISK_RETRY = 1.0
"""Seconds until a disk that refused is retried."""

DAMAGED = "damaged in the spool"
REASONS = 20
"""The largest number of distinct rejection reasons that are counted separately."""

OTHER = "other reasons"
NAME = "sink"
"""The file that names a spool's sink."""


class OutletRunner:
    """Runs one outlet."""

    def __init__(
        self, core: Relay, outlet: Outlet, root: Path, limit: int, clock: Clock, pump: Callable[[], None]
    ) -> None:
        self._core, self._outlet, self._clock, self._pump = core, outlet, clock, pump
        self._folder, self._limit = root / name_of(outlet.sink), limit
        self._url = urls.parse(outlet.sink)
        self._sink: Sink | None = None
        self._spool: Spool | None = None
        self._may_publish, self._may_spool = asyncio.Event(), asyncio.Event()
        self._published = self._confirmed = 0
        self._rejected: Counter[str] = Counter()
        self._last_error = ""
        self._is_refused = False
        """Did the spool refuse the last write? It is logged once."""

        self._is_position_old = False
        self._open_spool()

    @property
    def rejected_for(self) -> set[str]:
        """The reasons why the sink rejected messages."""
        return set(self._rejected)

    def status(self) -> SinkStatus:
        """How the sink is, and its spool."""
        return SinkStatus(
            sink=str(self._url),
            state=SinkState.UP if self._sink is not None and self._outlet.is_up else SinkState.DOWN,
            published=self._published,
            confirmed=self._confirmed,
            rejected=dict(self._rejected),
            waiting=self._outlet.waiting,
            under_way=len(self._outlet.under_way),
            spool_messages=self._spool.unconfirmed if self._spool else 0,
            spool_bytes=self._spool.size if self._spool else 0,
            spool_limit=self._limit,
            last_error=self._last_error,
        )

    def wake(self) -> None:
        """Wake the loops: the core has something to do here."""
        self._may_publish.set()
        self._may_spool.set()

    def look(self) -> None:
        """Check whether the sink is usable."""
        if self._sink is not None:
            if why := self._sink.trouble:
                self._last_error = why
            self._is(why is None)

    async def run(self) -> None:
        """Publish and spool, until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._keep_sink(), name=f"sink {self._url}")
            loops.create_task(self._keep_spool(), name=f"spool of {self._url}")

    # The sink

    async def _keep_sink(self) -> None:
        waits = delays(*RETRY, random)
        while True:
            try:
                most = min(PUBLISH, urls.Options(self._url).window())
                async with open_sink(self._outlet.sink, self, node=self._core.node) as sink:
                    self._sink = sink
                    self.look()
                    await self._feed(sink, most)
            except RotaError as error:
                self._fail(error)
            finally:
                self._sink = None
            await asyncio.sleep(next(waits).total_seconds())

    async def _feed(self, sink: Sink, most: int) -> None:
        while True:
            while messages := self._outlet.to_publish(most):
                await self._publish(sink, messages)
            self._may_publish.clear()
            await self._may_publish.wait()

    async def _publish(self, sink: Sink, messages: list[Message]) -> None:
        """Have the sink take the messages; whatever it answers, they count as under way."""
        waits = delays(*RETRY, random)
        self._published += len(messages)
        while True:
            try:
                await sink.publish(messages)
                return
            except RotaError as error:
                self._fail(error)
                await asyncio.sleep(next(waits).total_seconds())

    def _fail(self, error: RotaError) -> None:
        if str(error) != self._last_error:
            self._last_error = str(error)
            log.warning("sink refuses", extra={"sink": str(self._url), "why": self._last_error})
        self._is(False)

    def _is(self, is_up: bool) -> None:
        if is_up != self._outlet.is_up:
            self._core.home.sink_is(self._outlet, is_up)
            self._pump()

    def confirmed(self, messages: Sequence[Message]) -> None:
        """The sink has these."""
        self._confirmed += len(messages)
        self._core.home.confirmed(self._outlet, messages, self._clock.monotonic())
        self._pump()

    def rejected(self, message: Message, why: str) -> None:
        """The sink can never deliver this one."""
        reason = why if why in self._rejected or len(self._rejected) < REASONS else OTHER
        self._rejected[reason] += 1
        self._core.home.rejected(self._outlet, message, reason, self._clock.monotonic())
        self._pump()

    # The spool

    def _open_spool(self) -> None:
        """Open the spool and take over what an earlier process left. A folder that cannot be used is retried later."""
        recovered: Counter[tuple[str, str]] = Counter()
        try:
            _remember(self._folder, self._outlet.sink)
            spool = Spool(self._folder, partial(self._recovered, recovered), limit=self._limit)
        except RotaError as error:
            self._core.home.not_recovered(self._outlet, recovered)
            self._refused(error)
            return
        if spool.lost or spool.torn:
            self._core.home.rejections[DAMAGED] += len(spool.lost)
            log.error("spool damaged", extra={"sink": str(self._url), "lost": len(spool.lost), "torn": spool.torn})
        self._spool = spool

    def _recovered(self, recovered: Counter[tuple[str, str]], messages: Sequence[Message]) -> None:
        recovered.update((message.kind, message.resource) for message in messages)
        self._core.home.recovered(self._outlet, messages, self._clock.monotonic())

    async def _keep_spool(self) -> None:
        while True:
            self._may_spool.clear()
            if self._spool is not None:
                await self._step(self._spool)
            await self._may_spool.wait()

    async def _step(self, spool: Spool) -> None:
        """Do everything that is to be done with the disk, each kind of work once."""
        outlet = self._outlet
        if spent := outlet.spent:
            outlet.spent = []
            await asyncio.to_thread(spool.confirm, spent)
            self._is_position_old = True
            if outlet.is_spool_full:
                self._core.home.spool_has_room(outlet)
        elif self._is_position_old:
            self._is_position_old = False
            await asyncio.to_thread(spool.sync)
        if messages := outlet.to_spool(WRITE):
            await self._write(spool, messages)
        # A small window never has so much room at a time that a trip would be worth it.
        if (most := outlet.to_read()) and most >= min(READ, outlet.unread, (outlet.window + 1) // 2):
            await self._read(spool, most)
        self._pump()

    async def _read(self, spool: Spool, most: int) -> None:
        try:
            back = await asyncio.to_thread(spool.read, most)
        except Unavailable as error:
            self._refused(error)
            return
        self._core.home.was_read(self._outlet, back.messages, self._clock.monotonic())
        if back.lost:
            log.error("spool damaged", extra={"sink": str(self._url), "lost": len(back.lost)})
            self._core.home.spool_lost(self._outlet, back.lost, DAMAGED)

    async def _write(self, spool: Spool, messages: list[Message]) -> None:
        try:
            first = await asyncio.to_thread(spool.append, messages)
        except SpoolRefused as error:
            self._refused(error)
        else:
            self._is_refused = False
            self._core.home.spooled(self._outlet, first)

    def _refused(self, error: RotaError) -> None:
        """The disk refused: messages wait in memory until it is retried."""
        self._last_error = str(error)
        if not self._is_refused:  # the reason contains figures that differ each time
            self._is_refused = True
            log.warning("spool refuses", extra={"sink": str(self._url), "why": self._last_error})
        self._core.home.spool_refused(self._outlet)
        asyncio.get_running_loop().call_later(DISK_RETRY, self._try_disk)

    def _try_disk(self) -> None:
        if self._spool is None:
            self._open_spool()
        if self._spool is not None:
            self._core.home.spool_has_room(self._outlet)
            self._pump()


def name_of(sink: str) -> str:
    """The name of the folder for a sink's spool."""
    return blake2b(sink.encode(), digest_size=8).hexdigest()


def left_behind(root: Path) -> list[str]:
    """The sinks that an earlier life has left messages for."""
    return [
        file.read_text()
        for file in sorted(root.glob(f"*/{NAME}"))
        if any(segment.stat().st_size for segment in file.parent.glob(f"*{SUFFIX}"))
    ]


def _remember(folder: Path, sink: str) -> None:
    """Write down which sink a folder is for, readable by this user only: the URL may contain a password."""
    file, draft = folder / NAME, folder / f"{NAME}.new"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            draft.touch(mode=0o600)
            draft.write_text(sink)
            draft.replace(file)
            fsync_folder(folder)
    except OSError as error:
        raise Unavailable(f"spool {folder}: {error.strerror}; make the folder usable") from error
