"""The node link in memory: complete, for tests and the simulator.

`memory://name` is a name in the mesh of the running event loop. A mesh with a network of one's own is made by hand: the
network is given each message with who sends it to whom, and delivers it now, later or never. That is how the simulator
cuts, delays, drops and freezes.

A call is one message there and one back. A stream is many, each with its number, so that a network may deliver them in
any order; one that is lost leaves a gap that nothing passes, and the stream ends for silence, as a connection would.
Both ends of a stream send a sign of life each third of `silence`.

What runs at a node runs in the context its door was opened in, and goes on in the order of the loop: a frozen group
answers nobody and gives no sign of life. All this takes the loop's time only, so it works in virtual time.
"""

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId
from rota.model.link import (
    Accepted,
    AttemptId,
    Batch,
    Chunk,
    Control,
    NotLeader,
    Presence,
    Refused,
    Report,
    Start,
    Whom,
)
from rota.rpc import handover, rules
from rota.rpc.address import Address
from rota.rpc.port import Admit, Handler, IsRevoked, Link, Server, Shown, TakeNote
from rota.rpc.reception import Reception
from rota.rpc.settings import DEFAULT, LinkSettings, TlsFiles

log = logging.getLogger(__name__)

T = TypeVar("T")
Out = TypeVar("Out")
In = TypeVar("In")

ROOM = 16
"""How many items of a stream may wait to be read."""


class Network(Protocol):
    """What lies between nodes."""

    def carry(self, sender: str, receiver: str, deliver: Callable[[], None]) -> None:
        """Call `deliver` once, now or later, or never."""


class Direct:
    """A network without faults and without delay."""

    def carry(self, sender: str, receiver: str, deliver: Callable[[], None]) -> None:
        deliver()


_meshes: "WeakKeyDictionary[asyncio.AbstractEventLoop, Mesh]" = WeakKeyDictionary()


def open(
    address: Address,
    meant: Whom | None,
    token: Shown,
    settings: LinkSettings,
    tls: TlsFiles | None,
    is_revoked: IsRevoked,
) -> Link:
    """A link in the mesh of this loop."""
    _check_no_tls(address, tls)
    return _mesh().link(address.host, meant=meant, token=token, settings=settings)


async def serve(
    address: Address,
    handler: Handler,
    settings: LinkSettings,
    tls: TlsFiles | None,
    more: object,
    admit: Admit | None,
    take_note: TakeNote | None,
    is_revoked: IsRevoked,
) -> Server:
    """A door in the mesh of this loop; `more` is not offered, and no note taken, for only nodes call here."""
    _check_no_tls(address, tls)
    return _mesh().serve(address.host, handler, settings, admit)


class Mesh:
    """Nodes by name, and the network between them."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Direct()
        self._doors: dict[str, Door] = {}

    def link(
        self,
        receiver: str,
        *,
        sender: str = "",
        meant: Whom | None = None,
        token: Shown = None,
        settings: LinkSettings = DEFAULT,
    ) -> "MemoryLink":
        """The way from one name to another."""
        return MemoryLink(self, (sender, receiver), meant, token, settings)

    def serve(
        self, name: str, handler: Handler, settings: LinkSettings = DEFAULT, admit: Admit | None = None
    ) -> "Door":
        """Open a door in the present context; Conflict if there is one of that name."""
        if name in self._doors:
            raise Conflict(f"memory://{name} is taken; close what listens there, or choose another name")
        self._doors[name] = door = Door(self, name, Reception(handler, settings), admit)
        return door

    def remove(self, name: str) -> None:
        """Take a door away without a word, as when its process died; calls are refused from now on."""
        self._doors.pop(name, None)

    def door(self, name: str) -> "Door | None":
        """Who answers to a name, if anybody does."""
        return self._doors.get(name)

    def carry(self, sender: str, receiver: str, deliver: Callable[[], None]) -> None:
        """Hand a message to the network."""
        self._network.carry(sender, receiver, deliver)


class Door:
    """A node of the mesh, as the others reach it."""

    def __init__(self, mesh: Mesh, name: str, reception: Reception, admit: Admit | None) -> None:
        self.reception = reception
        self._admit = admit
        self._mesh, self._name = mesh, name
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"memory://{self._name}"

    def refusal(self, token: Shown) -> Denied | None:
        """Why a caller with this token is not let in; None if it is."""
        token = token() if callable(token) else token
        refused = self._admit("", f"Bearer {token}" if token else None) if self._admit else None
        return Denied(refused.why) if refused else None

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have work done here, as soon as this node does anything."""
        self._loop.call_soon(self._begin, work, context=self._context)

    async def close(self, grace: timedelta) -> None:
        if self._mesh.door(self._name) is self:
            self._mesh.remove(self._name)
        await self.reception.close(grace)
        await asyncio.gather(*self._answering)  # with nothing under way any more, they end at once

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._loop.create_task(work(), name=f"answer of {self._name}")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)


class MemoryLink:
    """The way from one node of a mesh to another."""

    def __init__(
        self, mesh: Mesh, way: tuple[str, str], meant: Whom | None, token: Shown, settings: LinkSettings
    ) -> None:
        self._mesh, (self._sender, self._receiver) = mesh, way
        self._meant, self._token, self._settings = meant, token, settings
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._replies: dict[asyncio.Future[Any], type[RotaError]] = {}
        self._ends: set[_End[Any, Any]] = set()

    async def check(self, *, timeout: timedelta | None = None) -> Presence:
        async def ask(reception: Reception) -> Presence:
            return reception.check(self._meant)

        return await self._ask(ask, timeout or self._settings.check, Unavailable)

    async def report(self, report: Report, *, timeout: timedelta | None = None) -> NotLeader | None:
        rules.check_report(report)

        async def ask(reception: Reception) -> NotLeader | None:
            return reception.report(self._meant, report)

        return await self._ask(ask, timeout or self._settings.report, Unknown)

    async def dispatch(self, start: Start, *, timeout: timedelta | None = None) -> Accepted | Refused:
        rules.check_start(start)
        ask = partial(_dispatch, self._meant, start)
        return await self._ask(ask, timeout or self._settings.dispatch, Unknown)

    async def dispatch_many(
        self, starts: Sequence[Start], *, timeout: timedelta | None = None
    ) -> list[Accepted | Refused]:
        rules.check_starts(starts)
        ask = partial(_dispatch_many, self._meant, starts)
        return await self._ask(ask, timeout or self._settings.dispatch, Unknown)

    async def control(self, control: Control, *, timeout: timedelta | None = None) -> bool:
        rules.check_control(control)
        ask = partial(_control, self._meant, control)
        return await self._ask(ask, timeout or self._settings.control, Unknown)

    async def hand_over(
        self, source: NodeId, relay_map: int, batches: AsyncIterable[Batch], *, silence: timedelta | None = None
    ) -> AsyncGenerator[int, None]:
        rules.check_hand_over(source, relay_map)

        async def serve(reception: Reception, far: "_End[int, Batch]") -> None:
            await reception.hand_over(self._meant, source, relay_map, far)

        near: _End[Batch, int] = self._stream(serve, silence)
        try:
            await near.opened()  # before anything is sent that might then be Unknown
            async with aclosing(handover.send(near, batches, self._settings.window, self._name)) as acks:
                async for acked in acks:
                    yield acked
        finally:
            self._drop(near)

    async def follow_log(
        self, attempt: AttemptId, offset: int = 0, *, silence: timedelta | None = None
    ) -> AsyncGenerator[Chunk, None]:
        rules.check_attempt(attempt, offset)

        async def serve(reception: Reception, far: "_End[Chunk, None]") -> None:
            await reception.follow_log(self._meant, attempt, offset, far)

        near: _End[None, Chunk] = self._stream(serve, silence)
        try:
            while (chunk := await near.receive()) is not None:
                yield chunk
        finally:
            self._drop(near)

    async def close(self) -> None:
        self._is_closed = True
        for reply, unsure in self._replies.items():
            _settle(reply, None, unsure(f"node link {self._name}: closed before it was answered"))
        for end in list(self._ends):
            end.fail(self._closed())

    @property
    def _name(self) -> str:
        return f"memory://{self._receiver}"

    def _closed(self) -> Unavailable:
        return Unavailable(f"node link {self._name}: closed; open it again")

    async def _ask(
        self,
        operation: Callable[[Reception], Awaitable[T]],
        timeout: timedelta,
        unsure: type[Unavailable] | type[Unknown],
    ) -> T:
        """The answer of the other node; `unsure` if it stays out."""
        if self._is_closed:
            raise self._closed()
        reply: asyncio.Future[T] = self._loop.create_future()
        self._replies[reply] = unsure
        self._mesh.carry(self._sender, self._receiver, partial(self._arrive, operation, reply, unsure))
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await reply
        except TimeoutError:
            raise unsure(f"node link {self._name}: no answer within {timeout.total_seconds():g} s") from None
        finally:
            del self._replies[reply]

    def _arrive(
        self,
        operation: Callable[[Reception], Awaitable[T]],
        reply: "asyncio.Future[T]",
        unsure: type[Unavailable] | type[Unknown],
    ) -> None:
        """A request is there: have it answered, or refused where nobody listens."""
        door = self._mesh.door(self._receiver)
        if door is None:
            self._answer(partial(_settle, reply, None, self._nobody()))
            return
        if refused := door.refusal(self._token):
            self._answer(partial(_settle, reply, None, refused))
            return

        async def work() -> None:
            try:
                self._answer(partial(_settle, reply, await operation(door.reception), None))
            except RotaError as error:
                self._answer(partial(_settle, reply, None, error))
            except Exception as error:
                self._answer(partial(_settle, reply, None, unsure(f"node link {self._name}: it failed inside")))
                log.error("a handler of the node link failed", exc_info=error)

        door.run(work)

    def _answer(self, deliver: Callable[[], None]) -> None:
        self._mesh.carry(self._receiver, self._sender, deliver)

    def _nobody(self) -> Unavailable:
        return Unavailable(f"node link {self._name}: no node listens there; is the node running?")

    def _stream(
        self, serve: "Callable[[Reception, _End[In, Out]], Coroutine[Any, Any, None]]", silence: timedelta | None
    ) -> "_End[Out, In]":
        """Our end of a new stream, with `serve` at the other."""
        if self._is_closed:
            raise self._closed()
        patience = (silence or self._settings.silence).total_seconds()
        near: _End[Out, In] = _End(self._mesh, (self._sender, self._receiver), self._name, patience)
        far: _End[In, Out] = _End(self._mesh, (self._receiver, self._sender), self._name, patience)
        near.other, far.other = far, near
        self._ends.add(near)
        near.start()
        self._mesh.carry(self._sender, self._receiver, partial(self._open, serve, far))
        return near

    def _open(
        self, serve: "Callable[[Reception, _End[In, Out]], Coroutine[Any, Any, None]]", far: "_End[In, Out]"
    ) -> None:
        door = self._mesh.door(self._receiver)
        if door is None:
            far.close(self._nobody())
            return
        if refused := door.refusal(self._token):
            far.close(refused)
            return

        async def work() -> None:
            far.start()
            try:
                await far.unless_broken(serve(door.reception, far))
                await far.end()
            except RotaError as error:
                far.close(error)
            except Exception as error:
                far.close(Unavailable(f"node link {self._name}: it failed inside; see the log of that node"))
                log.error("a stream of the node link failed", exc_info=error)
            finally:
                far.close()

        door.run(work)

    def _drop(self, end: "_End[Any, Any]") -> None:
        end.close()
        self._ends.discard(end)


class _End(Generic[Out, In]):
    """One end of a stream."""

    other: "_End[In, Out]"

    def __init__(self, mesh: Mesh, way: tuple[str, str], name: str, silence: float) -> None:
        self._mesh, self._way, self._name, self._silence = mesh, way, name, silence
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        self._next = 0
        self._early: dict[int, Callable[[], None]] = {}
        self._items: deque[In] = deque()
        self._room = ROOM
        self._heard = self._loop.time()
        self._has_ended = False
        self._error: RotaError | None = None
        self._is_closed = False
        self._changed = asyncio.Event()
        self._life: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Give signs of life from now on, in the present context."""
        self._heard = self._loop.time()
        self._beat()

    async def opened(self) -> None:
        """Wait for the other end's first word; raises it if that is an error."""
        await self._until(lambda: self._next and self._error is None)

    async def unless_broken(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work at this end, and give it up if the other end is gone."""
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(self._until(lambda: False))
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            (working if working.done() else watching).result()
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def send(self, item: Out) -> None:
        await self._until(lambda: self._room > 0)
        self._room -= 1
        self._tell(lambda: self.other._items.append(item))

    async def receive(self) -> In | None:
        await self._until(lambda: self._items or self._has_ended)
        if not self._items:
            return None
        item = self._items.popleft()
        self._tell(self.other._take_room)
        return item

    async def end(self) -> None:
        self._tell(self.other._end)

    def close(self, error: RotaError | None = None) -> None:
        """Leave the stream; the other end learns of it, and why."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._life is not None:
            self._life.cancel()
        error = error or Unavailable(f"node link {self._name}: the other end of the stream is gone")
        self._tell(partial(self.other.fail, error))

    def fail(self, error: RotaError) -> None:
        """End with an error, once what came before is read."""
        self._error = self._error or error
        self._wake()

    def _end(self) -> None:
        self._has_ended = True

    def _take_room(self) -> None:
        self._room += 1

    def _beat(self) -> None:
        if not self._is_closed:
            self._tell(lambda: None)
            self._life = self._loop.call_later(self._silence / 3, self._beat)

    def _tell(self, effect: Callable[[], None]) -> None:
        """Have something happen at the other end, after all that we told it before."""
        self._mesh.carry(*self._way, partial(self.other._arrive, next(self._numbers), effect))

    def _arrive(self, number: int, effect: Callable[[], None]) -> None:
        self._early[number] = effect
        while (due := self._early.pop(self._next, None)) is not None:
            self._next += 1
            self._heard = self._loop.time()
            due()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition; raises what the stream ended with, or Unavailable when the other end is silent."""
        while not condition():
            if self._error is not None:
                raise self._error
            deadline = self._heard + self._silence
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                if self._heard + self._silence <= self._loop.time():
                    raise Unavailable(f"node link {self._name}: not a word for {self._silence:g} s") from None


def _mesh() -> Mesh:
    return _meshes.setdefault(asyncio.get_running_loop(), Mesh())


def _check_no_tls(address: Address, tls: TlsFiles | None) -> None:
    if tls is not None:
        raise Invalid(f"{address}: there is no TLS within one process; leave it out")


async def _dispatch_many(meant: Whom | None, starts: Sequence[Start], reception: Reception) -> list[Accepted | Refused]:
    return await reception.dispatch_many(meant, starts)


async def _dispatch(meant: Whom | None, start: Start, reception: Reception) -> Accepted | Refused:
    return await reception.dispatch(meant, start)


async def _control(meant: Whom | None, control: Control, reception: Reception) -> bool:
    return await reception.control(meant, control)


def _settle(reply: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if reply.done():
        return
    if error is None:
        reply.set_result(result)
    else:
        reply.set_exception(error)
