"""The admin doors of a node: where the original control tool reaches its services, one door per service.

`Admins` keeps the doors that the app declares open. It compares the declarations with the open doors every `TICK`
seconds, because a reload may change them, and retries a door that could not be opened. A door accepts up to
`CONNECTIONS` connections. It answers the requests of a connection one after the other, and closes a connection that
sends an invalid frame or nothing for `IDLE` seconds.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from rota.fleet.audit.trail import AuditRecorder, forget
from rota.kit.files import privately
from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable
from rota.runtime.system.short_path import short
from rota.services.admin.protocol import Admin
from rota.services.core.admin_spec import AdminSpec
from rota.services.core.frames import BOX, BadFrame, wire
from rota.services.node.door import ServicesDoor

log = logging.getLogger(__name__)

TICK = 0.5
"""Seconds between two comparisons of the declared doors with the open ones."""

IDLE = 60.0
"""Seconds within which a connection must send its next request, or take an answer; after that it is closed."""

CONNECTIONS = 32
"""Connections at a time per door; further ones are closed at once."""

LIMIT = 1024 * 1024
"""The longest request, in bytes."""


class Admins:
    """The admin doors of one node."""

    def __init__(
        self,
        folder: Path,
        services: ServicesDoor,
        reload: Callable[[], Awaitable[object]],
        stop: Callable[[], None],
        environ: Mapping[str, str] = os.environ,
        note: AuditRecorder = forget,
    ) -> None:
        self.closed: dict[str, str] = {}
        """Service → why its declared door is not open."""

        self._folder, self._services, self._environ = folder, services, environ
        self._reload, self._stop, self._note = reload, stop, note
        self._open: dict[str, AdminDoor] = {}

    async def run(self) -> None:
        """Keep the declared doors open, until cancelled."""
        try:
            while True:
                await self._match()
                await asyncio.sleep(TICK)
        finally:
            for door in self._open.values():
                door.close()

    async def _match(self) -> None:
        """Close doors that are no longer declared; open declared ones that are not open yet."""
        names = self._services.names()
        wanted = {name: spec for name in names if (spec := self._services.admin(name)) is not None}
        for name in [name for name, door in self._open.items() if door.spec != wanted.get(name)]:
            self._open.pop(name).close()
        self.closed = {name: why for name, why in self.closed.items() if name in wanted}
        for name, spec in wanted.items():
            if name not in self._open:
                await self._try_to_open(name, spec)

    async def _try_to_open(self, name: str, spec: AdminSpec) -> None:
        def credentials() -> tuple[str, str]:
            return secret(spec.username, self._environ), secret(spec.password, self._environ)

        door = AdminDoor(spec, Admin(name, self._services, self._reload, self._stop, credentials, self._note))
        try:
            credentials()  # logs now that no password can be found, not at the first request
            await door.open(self._folder)
        except RotaError as error:
            if self.closed.get(name) != str(error):
                log.warning("no admin door", extra={"service": name, "why": str(error)})
            self.closed[name] = str(error)
        else:
            log.info("admin door open", extra={"service": name, "address": str(spec)})
            self.closed.pop(name, None)
            self._open[name] = door


class AdminDoor:
    """One admin door: a listening socket and its connections."""

    def __init__(self, spec: AdminSpec, admin: Admin) -> None:
        self.spec = spec
        self._admin = admin
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def open(self, folder: Path) -> None:
        """Start to listen; raises a Rota error naming the reason if that is impossible."""
        try:
            if isinstance(self.spec.address, str):
                self._path = folder / self.spec.address
                self._server = await asyncio.start_unix_server(self._serve, sock=_bound(self._path))
            else:
                self._server = await asyncio.start_server(self._serve, *self.spec.address)
        except UnicodeError as error:
            raise Invalid(f"admin {self.spec}: there is no such host; choose another") from error
        except OSError as error:
            raise _translated(error, self.spec) from error

    def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        if self._path is not None:
            with contextlib.suppress(OSError):  # another program removed or replaced the file
                self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        try:
            await self._converse(reader, writer)
        except (OSError, EOFError, BadFrame, TimeoutError) as error:
            log.debug("admin connection ended", extra={"why": str(error)})
        finally:
            self._connections.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other, until the connection ends."""
        while True:
            async with asyncio.timeout(IDLE):
                frame = await _frame(reader)
            writer.write(await self._admin.answer(frame))
            async with asyncio.timeout(IDLE):
                await writer.drain()


def secret(reference: str | None, environ: Mapping[str, str]) -> str:
    """The value of a declared secret: the text itself, or the content of the variable or file it names.

    Raises Unavailable if the variable or file is missing or empty. Called for each use, so a password may change
    without a reload.
    """
    if reference is None:
        return ""
    where, colon, place = reference.partition(":")
    if where == "env" and colon:
        if not (value := environ.get(place, "")):
            raise Unavailable(f"{reference}: the variable is not set; set it for the node, and start that again")
        return value
    if where == "file" and colon:
        try:
            value = Path(place).read_text().rstrip("\r\n")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise Unavailable(f"{reference}: {why}; write the password into it, readable for the node") from None
        if not value:
            raise Unavailable(f"{reference}: the file is empty; write the password into it")
        return value
    return reference


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """The next request; BadFrame if the bytes are no valid frame."""
    box = wire(BOX)
    header = await reader.readexactly(box.size)
    box.split(header, LIMIT)
    return header + await reader.readexactly(box.read(header)["packet_len"] - box.size)


def _bound(path: Path) -> socket.socket:
    """A socket at `path`, for this user alone. Replaces a socket that a dead process left, and nothing else."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short(path) as name:
            if path.exists():
                if not stat.S_ISSOCK(path.stat().st_mode):
                    raise Invalid(f"admin {path} is there, and is no socket; choose another path")
                if _is_served(name):
                    raise Conflict(f"admin {path} is in use by another; choose another path")
                path.unlink()
            with privately():
                sock.bind(str(name))
        path.chmod(0o600)
        return sock
    except BaseException:
        sock.close()
        raise


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller, contextlib.suppress(ConnectionRefusedError):
        caller.setblocking(False)
        with contextlib.suppress(BlockingIOError):  # a process listens there, and its queue of connections is full
            caller.connect(str(path))
        return True
    return False


def _translated(error: OSError, spec: AdminSpec) -> RotaError:
    """The Rota error for an error of the operating system."""
    match error.errno:
        case errno.EADDRINUSE:
            return Conflict(f"admin {spec} is taken; stop what listens there, or choose another")
        case errno.EACCES | errno.EPERM:
            return Denied(f"admin {spec}: {error.strerror}; choose another, or let this user have it")
        case _:
            return Invalid(f"admin {spec}: {error.strerror}; choose another")
