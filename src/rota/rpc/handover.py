"""Hand-over: batches one way, acks the other, on a stream that some adapter carries.

`send` draws batches from their source only while there is room: at most `window` are under way, so a slow relay slows
its senders down instead of filling memory. `receive` hands each batch to `take` in order, without waiting for the one
before to be safe, and acks in order; so batches may share one trip to the disk or the broker.

An ack of n stands for every batch up to n. When the stream breaks, the batches in `take` go on: what is half written
must not be torn. Their sender hears nothing of it and hands them over again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import msgspec

from rota.model.errors import RotaError, Unavailable, Unknown
from rota.model.link import Batch
from rota.rpc import rules

Out_contra = TypeVar("Out_contra", contravariant=True)
In_co = TypeVar("In_co", covariant=True)


class Duplex(Protocol[Out_contra, In_co]):
    """One end of a stream that both may speak on."""

    async def send(self, item: Out_contra) -> None:
        """Send, waiting for room; Unavailable if the other end is gone."""

    async def receive(self) -> In_co | None:
        """What the other end sent next; None when it has ended, and its error if it ended with one."""

    async def end(self) -> None:
        """Say that no more will come from here."""


class _UnderWay:
    """The sequences that were sent and not acked."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._waiting: list[int] = []
        self._changed = asyncio.Event()
        self.acked = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def room(self) -> None:
        """Wait until another batch may go."""
        while len(self._waiting) >= self._window:
            self._changed.clear()
            await self._changed.wait()

    def add(self, sequence: int) -> None:
        """Count a batch in."""
        self._waiting.append(sequence)

    def settle(self, acked: int) -> bool:
        """Count out what an ack stands for; whether it said anything new."""
        if acked <= self.acked:
            return False
        self.acked = acked
        self._waiting = [sequence for sequence in self._waiting if sequence > acked]
        self._changed.set()
        return True


async def send(
    stream: Duplex[Batch, int], batches: AsyncIterable[Batch], window: int, peer: str
) -> AsyncGenerator[int, None]:
    """Hand `batches` over; yields the acks."""
    under_way = _UnderWay(window)
    feeding = asyncio.ensure_future(_feed(stream, batches, under_way))
    receiving = asyncio.ensure_future(stream.receive())
    try:
        while True:
            # Once all is fed there is only the receiving to wait for; a feeding that fails must be heard of.
            works: set[asyncio.Future[Any]] = {receiving} if _is_over(feeding) else {receiving, feeding}
            await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                feeding.result()
            elif (acked := receiving.result()) is None:
                break
            else:
                receiving = asyncio.ensure_future(stream.receive())
                if under_way.settle(acked):
                    yield acked
        if under_way or not feeding.done():
            raise Unavailable(f"node link {peer}: the hand-over was ended early; try again")
    except Unavailable as error:
        if not under_way:
            raise
        raise Unknown(
            f"node link {peer}: the hand-over broke off after batch {under_way.acked} was acked ({error}); "
            "hand the later ones over again"
        ) from error
    finally:
        await _end(feeding, receiving)


async def _feed(stream: Duplex[Batch, int], batches: AsyncIterable[Batch], under_way: _UnderWay) -> None:
    last = 0
    await under_way.room()
    async for batch in batches:
        rules.check_batch(batch, last)
        last = batch.sequence
        under_way.add(last)
        try:
            await stream.send(batch)
        except RotaError:
            return  # the receiving side tells why, after the acks that came before
        await under_way.room()  # before the next is drawn: what is not drawn can still go elsewhere
    with suppress(RotaError):
        await stream.end()


async def receive(stream: Duplex[int, Batch], take: Callable[[Batch], "asyncio.Task[None]"], window: int) -> None:
    """Hand each batch to `take`, which begins at once, and ack what is safe; ends with the sender."""
    begun: asyncio.Queue[_Begun | Exception | None] = asyncio.Queue(window)
    reading = asyncio.ensure_future(_read(stream, take, begun))
    try:
        while (batch := await begun.get()) is not None:
            if isinstance(batch, Exception):
                raise batch
            await asyncio.wait([batch.safe])  # if we are stopped, it goes on without us
            batch.safe.result()
            await stream.send(batch.sequence)
    finally:
        await _end(reading)


class _Begun(msgspec.Struct, frozen=True):
    """A batch that is being made safe."""

    sequence: int
    safe: "asyncio.Task[None]"


async def _read(
    stream: Duplex[int, Batch],
    take: Callable[[Batch], "asyncio.Task[None]"],
    begun: "asyncio.Queue[_Begun | Exception | None]",
) -> None:
    """Begin batches as they come; what goes wrong stands in line behind them, so that they are acked before."""
    last = 0
    try:
        while (batch := await stream.receive()) is not None:
            rules.check_batch(batch, last)
            last = batch.sequence
            await begun.put(_Begun(last, take(batch)))
        await begun.put(None)
    except Exception as error:
        await begun.put(error)


def _is_over(feeding: "asyncio.Future[None]") -> bool:
    """Whether all is fed."""
    return feeding.done() and not feeding.cancelled() and feeding.exception() is None


async def _end(*futures: "asyncio.Future[Any]") -> None:
    """End what is still going on, and hear of no error: there is one already, or nobody listens any more."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
