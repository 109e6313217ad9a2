"""The node link in memory: complete, for tests and the simulator.

`memory://name` is a name in the mesh of the running event loop. A `Mesh` can be made with another network: it gets each
message with its sender and receiver, and delivers it now, later or never. That is how the simulator cuts, delays, drops
and freezes. A call is one message there and one back.

A handler runs in the context its door was opened in: a frozen node does not answer. Only the loop's clock is used, so
it works in virtual time.
"""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from rota.link import rules
from rota.link.address import Address
from rota.link.port import Admit, IsRevoked, LinkServer, NodeHandler, NodeLink, Shown, TakeNote
from rota.link.reception import Reception
from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt, Whom
from rota.link.settings import DEFAULT, LinkSettings, TlsFiles
from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable, Unknown

log = logging.getLogger(__name__)

T = TypeVar("T")


class MeshNetwork(Protocol):
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
) -> NodeLink:
    """A link in the mesh of this loop."""
    _check_no_tls(address, tls)
    return _mesh().link(address.host, meant=meant, token=token, settings=settings)


async def serve(
    address: Address,
    handler: NodeHandler,
    settings: LinkSettings,
    tls: TlsFiles | None,
    more: object,
    admit: Admit | None,
    take_note: TakeNote | None,
    is_revoked: IsRevoked,
) -> LinkServer:
    """A door in the mesh of this loop; `more` is not served and refusals are not recorded, as only nodes call here."""
    _check_no_tls(address, tls)
    return _mesh().serve(address.host, handler, admit)


class Mesh:
    """Nodes by name, and the network between them."""

    def __init__(self, network: MeshNetwork | None = None) -> None:
        self._network = network or Direct()
        self._doors: dict[str, MemoryServer] = {}

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

    def serve(self, name: str, handler: NodeHandler, admit: Admit | None = None) -> "MemoryServer":
        """Open a door in the present context; Conflict if there is one of that name."""
        if name in self._doors:
            raise Conflict(f"memory://{name} is taken; close what listens there, or choose another name")
        self._doors[name] = door = MemoryServer(self, name, Reception(handler), admit)
        return door

    def remove(self, name: str) -> None:
        """Remove a door without closing it, as when its process died; calls are refused from now on."""
        self._doors.pop(name, None)

    def door(self, name: str) -> "MemoryServer | None":
        """The door with a name, if there is one."""
        return self._doors.get(name)

    def carry(self, sender: str, receiver: str, deliver: Callable[[], None]) -> None:
        """Hand a message to the network."""
        self._network.carry(sender, receiver, deliver)


class MemoryServer:
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
        """Why a caller with this token is refused; None if it is admitted."""
        token = token() if callable(token) else token
        refused = self._admit("", f"Bearer {token}" if token else None) if self._admit else None
        return Denied(refused.why) if refused else None

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run work in the context of this node."""
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
    """The link from one node of a mesh to another."""

    def __init__(
        self, mesh: Mesh, way: tuple[str, str], meant: Whom | None, token: Shown, settings: LinkSettings
    ) -> None:
        self._mesh, (self._sender, self._receiver) = mesh, way
        self._meant, self._token, self._settings = meant, token, settings
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._replies: dict[asyncio.Future[Any], type[RotaError]] = {}

    async def check(self, *, timeout: timedelta | None = None) -> Presence:
        async def ask(reception: Reception) -> Presence:
            return reception.check(self._meant)

        return await self._ask(ask, timeout or self._settings.check, Unavailable)

    async def dispatch_many(
        self, starts: Sequence[StartAttempt], *, timeout: timedelta | None = None
    ) -> list[Accepted | AttemptRefused]:
        rules.check_starts(starts)

        async def ask(reception: Reception) -> list[Accepted | AttemptRefused]:
            return await reception.dispatch_many(self._meant, starts)

        return await self._ask(ask, timeout or self._settings.dispatch, Unknown)

    async def read_log(self, attempt: AttemptId, offset: int = 0, *, timeout: timedelta | None = None) -> LogPiece:
        rules.check_attempt(attempt, offset)

        async def ask(reception: Reception) -> LogPiece:
            return await reception.read_log(self._meant, attempt, offset)

        return await self._ask(ask, timeout or self._settings.read_log, Unavailable)

    async def close(self) -> None:
        self._is_closed = True
        for reply, unsure in self._replies.items():
            _settle(reply, None, unsure(f"node link {self._name}: closed before it was answered"))

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
        """The answer of the other node; raises `unsure` if there is none in time."""
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
        """Answer a request that has arrived, or refuse it if no node listens."""
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


def _mesh() -> Mesh:
    return _meshes.setdefault(asyncio.get_running_loop(), Mesh())


def _check_no_tls(address: Address, tls: TlsFiles | None) -> None:
    if tls is not None:
        raise Invalid(f"{address}: there is no TLS within one process; leave it out")


def _settle(reply: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if reply.done():
        return
    if error is None:
        reply.set_result(result)
    else:
        reply.set_exception(error)
