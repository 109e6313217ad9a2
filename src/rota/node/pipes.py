"""Messages among agent, loader, workers, proxies and relay, on socket pairs.

Each message is a small record, packed, behind its length (`kit.frames`). `Channel` is for processes with an event loop
(the agent, host workers, the relay), `Pipe` for those without (the loader, workers of sync code). File descriptors
travel with the frame they belong to; a channel takes them only if it was told to.

A channel's unsent bytes are bounded: a peer that does not read is not waited for; the channel closes, and the peer is
treated as lost. A sender that has more to send than a peer can read at once asks `has_room` first, and goes on when
`when_room` calls it: a burst of its own must not look like a peer that does not read.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from rota.kit import frames
from rota.kit.decoding import UNREADABLE
from rota.model.relay import RelayMap, RelayStatus, ResourceTally
from rota.model.stream import KIND
from rota.workloads.services.figures import Figures
from rota.workloads.services.table import Table
from rota.workloads.summary import AppSummary

log = logging.getLogger(__name__)

LIMIT = 32 * 1024 * 1024
"""Bytes that may wait for a peer, and bytes of one message."""

ROOM = LIMIT // 4
"""Bytes that wait for a peer when a sender that can wait sends no more."""


class Message(msgspec.Struct, frozen=True, tag=True):
    """What is sent."""


class Order(msgspec.Struct, frozen=True):
    """A resource task that a worker should run."""

    task: str
    epoch: int
    kind: str
    """Name of the resource's declaration in the app."""

    resource: str
    slot: int
    spec: bytes = b"{}"
    """Its fields, as JSON."""

    saved: bytes = b"{}"
    """What the task before it saved, as JSON."""

    is_exclusive: bool = False


def stream_of(order: Order) -> str:
    """The stream whose group a task is of."""
    return str(msgspec.json.decode(order.spec).get("stream") or order.kind.removeprefix(KIND))


class Deadline(Message, frozen=True):
    """To a worker with exclusive work: until when work that must not be done twice may go on."""

    stop_at: float
    dead_by: float


class Emitting(msgspec.Struct, frozen=True):
    """How a worker hands messages over to the relay."""

    sink: str = ""
    """Where messages of kinds without a sink of their own go; empty: nowhere."""

    messages: int = 10_000
    bytes: int = 16 * 2**20
    """How much its outbox holds."""

    flush: float = 2.0
    """Seconds that a worker which is to end waits for acks."""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One try of a run, or of asking a source."""

    run: str
    attempt: int
    job: str
    due: datetime | None = None
    token: int = 0
    payload: bytes = b""
    source: str = ""
    """The kind whose source is to be asked; then there is no job."""

    argv: tuple[str, ...] = ()
    """The program of a command; empty for a function."""

    env: dict[str, str] = {}
    cwd: str | None = None
    is_from_api: bool = False
    """Was its command added over the API? Then it runs as `[commands]` says."""


class Brief(msgspec.Struct, frozen=True):
    """What a worker is for."""

    worker: int
    role: str
    pool: str
    slot: int
    generation: int
    node: str
    beat: float = 1.0
    """Seconds between signs of life."""

    service: str = ""
    group: str = ""
    has_line: bool = False
    """Does a line to a proxy come along?"""

    order: Order | None = None
    attempt: Attempt | None = None
    """Of a worker that is there for one attempt."""

    mark: bytes = b""
    """What sets an answer apart from output, in what a worker of runs writes (`node.output`)."""

    deadline: Deadline | None = None
    """Until when exclusive work may go on, if nothing later is said."""

    emitting: Emitting = Emitting()
    letters: str = ""
    """The folder for records that streams could not read."""

    letters_at: int | None = None
    """The same folder, opened by the loader for a user that cannot get there by its path."""

    printed: str = ""
    """The folder for lines that workers print; empty: they are not kept."""

    printed_at: int | None = None
    """The same folder, opened by the loader likewise."""


class Fork(Message, frozen=True):
    """To the loader: fork a worker; its channel, lifeline and stack file come along, and what else it needs."""

    brief: Brief
    extras: int = 0
    """How many descriptors come after those."""


class Leave(Message, frozen=True):
    """To the loader: end."""


class Loaded(Message, frozen=True):
    """From the loader: the app is imported."""

    app: AppSummary
    code: str
    """Digest of the app's source files."""

    warnings: tuple[str, ...] = ()
    version: str = ""
    """As the app's module says, if it does."""


class AskSources(Message, frozen=True):
    """To a loader: what did it import?"""

    number: int


class SourcesAre(Message, frozen=True):
    """From a loader: the app's modules as it imported them (`node.kept`); empty if they are too large."""

    number: int
    data: bytes


class LoadFailed(Message, frozen=True):
    """From the loader: the app could not be imported, and this is why."""

    why: str
    details: str = ""


class Forked(Message, frozen=True):
    """From the loader: the worker is there."""

    worker: int
    pid: int


class ForkRefused(Message, frozen=True):
    """From the loader: it cannot fork, and this is why."""

    worker: int
    why: str


class Reaped(Message, frozen=True):
    """From the loader: one of its workers ended, and what it had used."""

    pid: int
    status: int
    cpu_seconds: float = 0.0
    peak_memory: int = 0


class Registered(Message, frozen=True):
    """From a worker: it can work."""


class StartFailed(Message, frozen=True):
    """From a worker: it cannot work, and this is why."""

    why: str


class Beat(Message, frozen=True):
    """From a worker: its loop turns."""

    done: int = 0
    """Pieces of work finished since it started."""


class StartTask(Message, frozen=True):
    """To a host worker."""

    order: Order


class StopTask(Message, frozen=True):
    """To a host worker."""

    task: str
    epoch: int


class TaskStarted(Message, frozen=True):
    """From a worker: the task's function runs."""

    task: str
    epoch: int


class TaskEnded(Message, frozen=True):
    """From a worker: the task's function ended; `error` is empty when it was asked to or returned."""

    task: str
    epoch: int
    was_asked: bool
    error: str = ""


class TaskSilent(Message, frozen=True):
    """From a worker: the task gave no sign of life for too long."""

    task: str
    epoch: int
    why: str


class Save(Message, frozen=True):
    """From a worker: what the task wants to be kept for the one after it, as JSON."""

    task: str
    epoch: int
    state: bytes


class Listed(Message, frozen=True):
    """From an executor: what a source listed, as JSON, or why it did not."""

    attempt: int
    error: str = ""
    result: bytes = b""


class AskStore(Message, frozen=True):
    """From a worker that the store is lent to: a question (`store.lent`)."""

    frame: bytes


class StoreSaid(Message, frozen=True):
    """To such a worker: an answer."""

    frame: bytes


class Finish(Message, frozen=True):
    """To a worker: take nothing new, finish, end."""


class Serve(Message, frozen=True):
    """To a proxy: serve this service by this table from now on."""

    table: Table


class Listen(Message, frozen=True):
    """To a proxy: these are the service's sockets, and no others; they come along, those of TCP first."""

    service: str
    tcp: int
    udp: int


class Withdraw(Message, frozen=True):
    """To a proxy: take nothing new for this service; its workers work off what is there."""

    service: str


class Unserve(Message, frozen=True):
    """To a proxy: this service is not ours any more; answer what is left, and hang up."""

    service: str


class TakeSeat(Message, frozen=True):
    """To a proxy: a worker is being started; the line to it comes along."""

    worker: int
    service: str
    group: int
    generation: int
    capacity: int = 1
    grace: float = 0.0
    """Seconds that the worker's own watch over a request's time may come after the proxy's."""


class Dismiss(Message, frozen=True):
    """To a proxy: give this worker nothing more, and tell it to end when it has done what it holds."""

    worker: int
    patience: float
    """Seconds until it is reported that the worker still has work."""


class Gone(Message, frozen=True):
    """To a proxy: this worker has ended."""

    worker: int


class Close(Message, frozen=True):
    """To a proxy: take no new connections and no new requests; tell when those that are here are done."""


class GiveUp(Message, frozen=True):
    """To a proxy: answer what is left, hang up, end."""


class Ask(Message, frozen=True):
    """To a proxy: what are the figures of a service?"""

    number: int
    service: str


class Clear(Message, frozen=True):
    """To a proxy: drop what waits in these groups, or in all."""

    number: int
    service: str
    groups: tuple[int, ...] | None


class Told(Message, frozen=True):
    """From a proxy: the answer to what was asked under this number."""

    number: int
    figures: Figures | None = None
    dropped: dict[int, int] | None = None
    """Group → how many requests were dropped."""


class Unseated(Message, frozen=True):
    """From a proxy: the worker to dismiss is not here, or has answered all it had and was told to end."""

    worker: int


class Overdue(Message, frozen=True):
    """From a proxy: this worker did not end a request in time; does it hold others?"""

    worker: int
    holds_others: bool


class HeldUp(Message, frozen=True):
    """From a proxy: this worker should have ended, and still has requests; about the oldest of them."""

    worker: int
    cmd: int
    seconds: float
    requests: int


class Idle(Message, frozen=True):
    """From a proxy that was told to close: no request is here."""


class EmitTo(Message, frozen=True):
    """To a worker: the line to the relay comes along; one that it had before is over."""


class LineLost(Message, frozen=True):
    """From a worker: its line to the relay broke."""


class Unsent(Message, frozen=True):
    """From a worker that ends: so many messages have no ack."""

    count: int


class BeRelay(Message, frozen=True):
    """To a relay, first: what it is to be."""

    node: str
    address: str
    """Where other relays reach it."""

    folder: str
    """Where its spools are."""

    token: str
    spool_bytes: int
    window: int
    """Messages under way to a sink or to another relay at most."""

    held_messages: int
    held_bytes: int
    """How much it has in memory for each of them."""

    tls: str = ""
    """The folder with its certificates; empty if relays speak without TLS."""


class Revoked(Message, frozen=True):
    """To a relay: the certificates that were taken back, by serial; all of them."""

    serials: list[str]


class Tokens(Message, frozen=True):
    """To a relay: the token to show to others, and the digests in hex of those that others may show."""

    token: str
    taken: list[str]

    def __repr__(self) -> str:
        return f"Tokens({len(self.taken)} taken)"


class TakeLine(Message, frozen=True):
    """To a relay: this worker's line comes along."""

    sender: str


class SenderGone(Message, frozen=True):
    """To a relay: this worker has ended."""

    sender: str


class Fleet(Message, frozen=True):
    """To a relay: the relay map, and where each relay of the fleet is reached."""

    relay_map: RelayMap | None
    members: dict[str, str]


class Fences(Message, frozen=True):
    """To a relay: kind, resource and epoch of exclusive tasks as they are assigned now."""

    fences: tuple[tuple[str, str, int], ...]


class AskTallies(Message, frozen=True):
    """To a relay: what was counted of this kind's resources, or of one?"""

    number: int
    kind: str
    resource: str | None = None


class AskRest(Message, frozen=True):
    """To a relay: is there anything left?"""

    number: int


class RelayTold(Message, frozen=True):
    """From a relay: the answer to what was asked under this number."""

    number: int
    tallies: tuple[ResourceTally, ...] = ()
    is_idle: bool = False
    """Has the sink everything?"""

    is_safe: bool = False
    """Is everything in the sink or on disk?"""


class RelayIs(Message, frozen=True):
    """From a relay: how it is."""

    status: RelayStatus


class Place(msgspec.Struct, frozen=True, order=True):
    """Where a service listens on an address that nodes share."""

    service: str
    host: str
    port: int
    sort: str
    """tcp or udp."""


class Borrow(Message, frozen=True):
    """From a node to `rota up`: all shared sockets that it wants. What it was lent and does not name goes back."""

    number: int
    places: tuple[Place, ...]


class Lent(Message, frozen=True):
    """From `rota up` to a node: a socket that it asked for, as a descriptor, or why it cannot have it."""

    number: int
    """Which `Borrow` this answers."""

    place: Place
    why: str = ""


Any_ = (
    Fork | Leave | Loaded | LoadFailed | Forked | ForkRefused | Reaped | Registered | StartFailed | Beat | StartTask
    | StopTask | TaskStarted | TaskEnded | TaskSilent | Save | Listed | AskStore | StoreSaid | Deadline | Finish
    | Serve | Listen | Withdraw | HeldUp | AskSources | SourcesAre
    | Unserve | TakeSeat | Dismiss | Gone | Close | GiveUp | Ask | Clear | Told | Unseated | Overdue | Idle | EmitTo
    | LineLost | Unsent | BeRelay | Revoked | Tokens | TakeLine | SenderGone | Fleet | Fences | AskTallies | AskRest
    | RelayTold | RelayIs | Borrow | Lent
)  # fmt: skip

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any_] = msgspec.msgpack.Decoder(Any_)
C = TypeVar("C", bound="Channel")


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def encode(message: Message) -> bytes:
    """The message as one frame."""
    return frames.encode(_encoder.encode(message), limit=LIMIT)


class Channel:
    """One end, in an event loop. `on_message` is called for each message, `on_end` once when the peer is gone."""

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[Any], None],
        on_end: Callable[[], None],
        *,
        takes_fds: bool = False,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._takes_fds = takes_fds
        self.fds: deque[int] = deque()
        """Descriptors that came along and were not taken yet."""

        self._on_message, self._on_end = on_message, on_end
        self._decoder = frames.Decoder(limit=LIMIT)
        self._unsent: deque[tuple[memoryview, list[int]]] = deque()
        self._waiting = 0
        self._on_room: set[Callable[[], None]] = set()
        self._on_empty: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)
        self.is_open = True

    def send(self, message: Message, fds: list[int] | None = None) -> None:
        """Send, or keep until the peer reads; nothing if the peer is gone. Sent descriptors are closed here."""
        frame = memoryview(encode(message))
        if not self.is_open:
            _close(fds or [])
            return
        if self._waiting + len(frame) > LIMIT:
            _close(fds or [])
            self.close()
            self._on_end()
            return
        self._unsent.append((frame, fds or []))
        self._waiting += len(frame)
        if len(self._unsent) == 1:
            self._write()

    @property
    def has_room(self) -> bool:
        """May a sender that can wait send more now?"""
        return self.is_open and self._waiting < ROOM

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once, when the peer has read most of what waits for it; never if it ends before."""
        if self.is_open and callback not in self._on_room:
            self._on_room.add(callback)
            self._loop.call_soon(self._look_for_room)

    async def flush(self) -> None:
        """Wait until all was sent, or the peer is gone."""
        if self.is_open and self._unsent:
            self._on_empty = self._on_empty or self._loop.create_future()
            await asyncio.shield(self._on_empty)

    def close(self) -> None:
        """Let go of the socket; nothing is called any more."""
        if not self.is_open:
            return
        self.is_open = False
        self._on_room.clear()
        self._is_empty()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        for _, fds in self._unsent:
            _close(fds)
        self._unsent.clear()
        _close(list(self.fds))
        self.fds.clear()
        self._sock.close()

    def drain(self) -> None:
        """Take in all that the peer, which has ended, had sent before."""
        while self.is_open and self._take_in():
            pass

    def _read(self) -> None:
        if self._take_in() is False:
            self._lost()

    def _take_in(self) -> bool | None:
        """One piece of what has come; False if the peer is gone or talks nonsense, None if nothing is there."""
        try:
            data = self._receive()
            messages = _decoded(self._decoder, data)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return False
        except (frames.FrameTooLong, *UNREADABLE) as error:
            log.error(
                "a process of this node says what cannot be understood; its channel is closed", extra={"why": error}
            )
            return False
        for message in messages:
            if self.is_open:
                self._on_message(message)
        return bool(data)

    def _receive(self) -> bytes:
        if not self._takes_fds:
            return self._sock.recv(262_144)  # the kernel closes what came along
        data, fds = receive_fds(self._sock)
        self.fds += fds
        return data

    def _write(self) -> None:
        while self._unsent:
            frame, fds = self._unsent[0]
            try:
                sent = socket.send_fds(self._sock, [frame], fds) if fds else self._sock.send(frame)
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._sock, self._write)
                self._look_for_room()
                return
            except OSError:
                self._lost()
                return
            _close(fds)
            self._waiting -= sent
            if sent == len(frame):
                self._unsent.popleft()
            else:
                self._unsent[0] = (frame[sent:], [])
        self._loop.remove_writer(self._sock)
        self._look_for_room()
        self._is_empty()

    def _look_for_room(self) -> None:
        if self._waiting <= ROOM // 2:
            for callback in self._on_room:
                self._loop.call_soon(callback)
            self._on_room.clear()

    def _is_empty(self) -> None:
        if self._on_empty is not None:
            self._on_empty.set_result(None)
            self._on_empty = None

    def _lost(self) -> None:
        self.close()
        self._on_end()


class Pipe:
    """One end, without a loop: `receive` waits, `send` may be called from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self.sock = sock
        self.fds: deque[int] = deque()
        """Descriptors that came along and were not taken yet."""

        self._decoder = frames.Decoder(limit=LIMIT)
        self._ready: deque[Any] = deque()
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send; nothing if the peer is gone."""
        with self._lock, contextlib.suppress(OSError):
            self.sock.sendall(encode(message))

    def receive(self) -> Any | None:
        """The next message; None when the peer is gone."""
        while not self._ready:
            if not self.read():
                return None
        return self._ready.popleft()

    def read(self) -> bool:
        """Take in what has come, waiting if nothing has; False when the peer is gone, or a descriptor was lost."""
        try:
            data, fds = receive_fds(self.sock)
        except OSError:
            return False
        self.fds += fds
        self._ready += _decoded(self._decoder, data)
        return bool(data)

    def ready(self) -> Iterator[Any]:
        """What was taken in and not yet given out."""
        while self._ready:
            yield self._ready.popleft()

    def close(self) -> None:
        """Let go of the socket and of descriptors nobody took."""
        self.sock.close()
        _close(list(self.fds))
        self.fds.clear()


def receive_fds(sock: socket.socket) -> tuple[bytes, list[int]]:
    """What has come, with its descriptors; OSError if one was lost: going on, we would take the next one for it."""
    data, fds, flags, _ = socket.recv_fds(sock, 262_144, 64)
    if flags & socket.MSG_CTRUNC:
        _close(fds)
        raise OSError("a descriptor was lost on its way")
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, fds


def _decoded(decoder: frames.Decoder, data: bytes) -> list[Any]:
    return [_decoder.decode(frame) for frame in decoder.feed(data)]


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
