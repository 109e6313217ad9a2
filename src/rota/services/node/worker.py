"""A service worker: answers the requests that its proxy hands it, over a line of its own.

There are three ways to work. One request at a time, without an event loop or a thread in the way: the usual one.
Several at a time in threads, if the service says so. And an event loop, if any function of the service is async; those
that are not run in threads beside it.

The agent's messages come on another channel, read by a thread or by the loop. The proxy decides when this worker may
end, because it knows what the worker holds: its last parcel is FINISH.
"""

import asyncio
import contextlib
import logging
import queue
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from rota.model.errors import Invalid
from rota.runtime.pipes.brief import Brief
from rota.runtime.pipes.channel import Channel, Pipe
from rota.runtime.pipes.worker import Beat, Finish, Registered
from rota.runtime.printed import service_lines
from rota.runtime.worker.roles import Setup
from rota.runtime.worker.tee import About
from rota.sdk.app import App
from rota.sdk.service import Service
from rota.services.core.codes import Ret
from rota.services.core.context import Client, Reply, Request
from rota.services.core.frames import FrameCodec, wire
from rota.services.core.parcels import (
    ADDRESS,
    ANSWERED,
    DONE,
    GIVEN,
    LIMIT,
    NO_LIMIT,
    READY,
    RETURNED,
    ParcelDecoder,
    returned,
)
from rota.services.core.routing import ROUTER
from rota.services.node.desk import RequestRunner, drive
from rota.services.node.posts import ROUTER_GROUP
from rota.services.proxy.intake import receive

log = logging.getLogger(__name__)

LARGEST = LIMIT - RETURNED.size
"""Bytes of the largest answer."""

FRAME_AT = ADDRESS.size
"""Where in a parcel the client's frame begins."""


def lines_of(brief: Brief) -> About:
    """The service and group that a worker's printed lines are filed under."""
    return About(service_lines(brief.service), brief.group)


def be_service_worker(app: App, setup: Setup) -> None:
    """Answer requests until the proxy says that there are no more, or until the agent is gone."""
    brief, sock, extras = setup.brief, setup.sock, setup.extras
    service = app.services[brief.service]
    if extras:
        line = socket.socket(fileno=extras[0])
    else:  # a canary: it shows that it can start
        line, other = socket.socketpair()
        line_of_canary = other  # noqa: F841  # kept open, or the line would end
    if brief.group == ROUTER_GROUP:
        _Sequential(brief, sock, line, _Router(service)).run()
    elif service.has_loop:
        asyncio.run(_Looped(brief, service).run(sock, line))
    elif service.spec.concurrency > 1:
        _Threaded(brief, sock, line, _ParcelServer(service, int(brief.group))).run()
    else:
        _Sequential(brief, sock, line, _ParcelServer(service, int(brief.group))).run()


class _ParcelServer:
    """Where a worker's requests are answered: parcels in, parcels out."""

    def __init__(self, service: Service, group: int, desk: RequestRunner | None = None) -> None:
        spec = service.spec
        self.service = service
        self.desk = desk or RequestRunner(
            service.name,
            service.handlers,
            service.hooks,
            timeout=spec.timeout,
            answers_failures=spec.auto_answer_on_fail,
            layout=spec.layout,
        )
        self.timers = service.timers
        self._wire, self._group = wire(spec.layout), group

    def start(self) -> None:
        """Run the start hooks."""
        drive(self.desk.start())

    def stop(self) -> None:
        """Run the stop hooks."""
        drive(self.desk.stop())

    def answer(self, number: int, left: int, parcel: bytes, send: Callable[[bytes], None]) -> None:
        """Answer one request; whatever happens, the last parcel about it reports that it is done."""
        asked, request = self.asked(number, parcel, send)
        try:
            if not self.desk.answer_at_once(request):
                drive(self.desk.answer(request))
        except Invalid as error:  # it waited for something, which only async functions may
            log.error("a handler failed", extra={"service": self.service.name, "cmd": request.cmd, "why": str(error)})
            request.is_over = True
            if self.service.spec.auto_answer_on_fail:
                request.write(Reply(ret=Ret.HANDLER_ERROR))
        finally:
            send(asked.end())

    def asked(self, number: int, parcel: bytes, send: Callable[[bytes], None]) -> tuple["_Asked", Request]:
        """The request in a parcel, and the way back for its answer."""
        layout = self._wire
        asked = _Asked(number, parcel, layout, send)
        cmd, sn = layout.cmd_and_sn(parcel, FRAME_AT)
        return asked, self.desk.request(cmd, sn, parcel[FRAME_AT + layout.size :], self._group, asked)


class _Asked:
    """The door of one request. An answer before the handler's end is sent at once, the one at its end with the end."""

    __slots__ = ("_is_ended", "_last", "_layout", "_number", "_parcel", "_send")

    def __init__(self, number: int, parcel: bytes, layout: FrameCodec, send: Callable[[bytes], None]) -> None:
        self._number, self._parcel, self._layout, self._send = number, parcel, layout, send
        self._last: bytes | None = None
        self._is_ended = False

    def reply(self, request: Request, reply: Reply) -> None:
        """Send an answer, or keep it for the end; Invalid if that was sent already."""
        self._check_open(request)
        packed = self._layout.reply(self._parcel, reply.ret, reply.body, reply.fields, FRAME_AT)
        if len(packed) > LARGEST:
            raise Invalid(f"cmd {request.cmd}: an answer of {len(packed)} bytes; at most {LARGEST} are sent")
        if request.is_over:
            self._last = packed
            self._check_open(request)  # another thread may have sent the end meanwhile
        else:
            self._send(returned(self._number, ANSWERED, packed))

    def _check_open(self, request: Request) -> None:
        if self._is_ended:
            raise Invalid(
                f"cmd {request.cmd}: its handler has returned, so no answer can be sent; answer before it returns, or "
                "write the handler with async def and await the work"
            )

    def end(self) -> bytes:
        """The last parcel about it; nothing can be sent after it."""
        self._is_ended = True
        if self._last is None:
            return returned(self._number, DONE)
        return returned(self._number, DONE | ANSWERED, self._last)

    def client(self) -> Client:
        """Who asks."""
        return _client(self._parcel)

    def fields(self) -> dict[str, Any]:
        """The header of its frame."""
        return self._layout.read(self._parcel[FRAME_AT:])


class _Router:
    """Where a router's worker says which group requests are for."""

    def __init__(self, service: Service) -> None:
        assert service.router is not None
        self.service, self.timers = service, ()
        self._router, self._wire = service.router, wire(service.spec.layout)

    def start(self) -> None:
        """Nothing is to be done first."""

    def stop(self) -> None:
        """Nothing is to be done last."""

    def answer(self, number: int, left: int, parcel: bytes, send: Callable[[bytes], None]) -> None:
        """Send the group as four bytes; nothing if the user's function failed."""
        asked = _Asked(number, parcel, self._wire, _no_answer)
        cmd, sn = self._wire.cmd_and_sn(parcel, FRAME_AT)
        request = Request(self.service.name, cmd, sn, parcel[FRAME_AT + self._wire.size :], ROUTER, asked)
        answer = b""
        try:
            answer = int(self._router(request)).to_bytes(4, "big", signed=True)
        except (Exception, SystemExit):  # one request is lost by it, not the worker
            log.exception("the routing function failed", extra={"service": self.service.name, "cmd": cmd})
        finally:
            send(returned(number, DONE, answer))


class _Sequential:
    """One request after the other, timers between them."""

    def __init__(
        self, brief: Brief, sock: socket.socket, line: socket.socket, counter: "_ParcelServer | _Router"
    ) -> None:
        self._brief, self._pipe, self._line, self._counter = brief, Pipe(sock), line, counter
        self.done = 0
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)
        self._due = {timer: time.monotonic() + timer.period for timer in counter.timers}

    def run(self) -> None:
        """Answer until the line ends."""
        line, counter = self._line, self._counter
        counter.start()
        arguments = (self._pipe, line, self._brief.beat, lambda: self.done)
        threading.Thread(target=_listen, args=arguments, name="rota", daemon=True).start()
        with contextlib.suppress(OSError):  # the proxy is gone, and no client waits any more
            line.sendall(READY)
            self._pipe.send(Registered())
            self._serve()
        counter.stop()

    def _serve(self) -> None:
        inbox = ParcelDecoder(GIVEN)
        while data := self._receive():
            for number, left, parcel in inbox.feed(data):
                if not number:
                    return
                self._answer(number, left, parcel)

    def _answer(self, number: int, left: int, parcel: bytes) -> None:
        self._counter.answer(number, left, parcel, self._line.sendall)
        self.done += 1

    def _receive(self) -> bytes:
        """What comes next; what is due is done meanwhile.

        We wait in `poll`, not in the read: a read that waits is woken also when the other end takes what we sent, finds
        nothing, and sleeps again. That would be a second wake-up for each request.
        """
        if not self._due:
            self._poll.poll()
            return receive(self._line)
        while True:
            wait = min(self._due.values()) - time.monotonic()
            if wait > 0 and self._poll.poll(wait * 1000):
                return receive(self._line)
            for timer, when in self._due.items():
                if when <= time.monotonic():
                    self._call(timer.function)
                    self._due[timer] = max(when + timer.period, time.monotonic())

    def _call(self, function: Callable[[], Any]) -> None:
        counter = self._counter
        assert isinstance(counter, _ParcelServer)
        drive(counter.desk.call("every", function))


class _Threaded(_Sequential):
    """Several requests at a time, each in a thread."""

    def __init__(self, brief: Brief, sock: socket.socket, line: socket.socket, counter: _ParcelServer) -> None:
        super().__init__(brief, sock, line, counter)
        self._waiting: queue.SimpleQueue[tuple[int, int, bytes] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, name=f"rota request {number}", daemon=True)
            for number in range(counter.service.spec.concurrency)
        ]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        super().run()

    def _answer(self, number: int, left: int, parcel: bytes) -> None:
        self._waiting.put((number, left, parcel))

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            with contextlib.suppress(OSError):  # the proxy is gone, and no client waits any more
                self._counter.answer(*job, self._send)
            self.done += 1

    def _send(self, parcel: bytes) -> None:
        with self._lock:
            self._line.sendall(parcel)


class _Looped:
    """An event loop: async functions in it, others in threads beside it."""

    def __init__(self, brief: Brief, service: Service) -> None:
        self._brief, self._service = brief, service
        self._threads = ThreadPoolExecutor(service.spec.concurrency, "rota request")
        spec = service.spec
        desk = RequestRunner(
            service.name,
            service.handlers,
            service.hooks,
            timeout=spec.timeout,
            answers_failures=spec.auto_answer_on_fail,
            layout=spec.layout,
            aside=self._aside,
        )
        self._counter = _ParcelServer(service, int(brief.group), desk)
        self._inbox = ParcelDecoder(GIVEN)
        self._out: list[bytes] = []
        self._unsent = b""
        self._waiting: deque[tuple[int, int, bytes]] = deque()
        """Requests that no clerk has taken yet."""

        self._clerks: set[asyncio.Task[None]] = set()
        self._idle: list[asyncio.Future[None]] = []
        """The futures of clerks without a request, which wait to be woken."""

        self._is_called = False
        """Was a clerk woken that has not run yet?"""

        self._done = 0

    async def run(self, sock: socket.socket, line: socket.socket) -> None:
        """Answer until the line ends."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._over = asyncio.Event()
        self._line = line
        line.setblocking(False)
        channel = Channel(sock, self._heard, self._over.set)
        desk = self._counter.desk
        await desk.start()
        self._context = copy_context()  # what each request finds: that of the hooks, and nothing of another request
        self._loop.add_reader(line.fileno(), self._read)
        self._send(READY)
        channel.send(Registered())
        beats = asyncio.create_task(self._beat(channel))
        timers = [asyncio.create_task(self._every(timer.period, timer.function)) for timer in self._service.timers]
        await self._over.wait()
        for task in timers:
            task.cancel()
        for idle in self._idle:
            idle.cancel()
        while self._clerks:
            await asyncio.wait(self._clerks)
        await desk.stop()
        beats.cancel()

    def _heard(self, message: object) -> None:
        if isinstance(message, Finish):
            self._over.set()

    def _read(self) -> None:
        try:
            data = receive(self._line)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            self._loop.remove_reader(self._line.fileno())
            self._over.set()
            return
        for number, left, parcel in self._inbox.feed(data):
            if not number:
                self._over.set()
                continue
            self._waiting.append((number, left, parcel))
        self._call()

    def _call(self) -> None:
        """Make sure that a clerk takes what waits."""
        if not self._waiting or self._is_called:
            return
        self._is_called = True
        if self._idle:
            self._idle.pop().set_result(None)
            return
        clerk = self._loop.create_task(self._be_clerk(), context=self._context.copy())
        self._clerks.add(clerk)
        clerk.add_done_callback(self._clerks.discard)

    async def _be_clerk(self) -> None:
        """Answer one request after the other, in one task: a task for each would take longer than most handlers.

        While this one's handler waits for something, the next clerk takes what has come meanwhile.
        """
        waiting, me = self._waiting, asyncio.current_task()
        assert me is not None
        while True:
            self._is_called = False
            while waiting:
                number, left, parcel = waiting.popleft()
                self._call()
                await self._answer(number, left, parcel)
                if me.cancelling() or self._is_marked():
                    self._call()
                    return
            if self._over.is_set():
                return
            idle = self._loop.create_future()
            self._idle.append(idle)
            await idle

    def _is_marked(self) -> bool:
        """Would the next request in this task find a context variable that the last one has set?"""
        try:
            return copy_context() != self._context
        except Exception:  # comparing a user's value failed, so it counts as changed
            return True

    async def _answer(self, number: int, left: int, parcel: bytes) -> None:
        asked, request = self._counter.asked(number, parcel, self._send_from_anywhere)
        try:
            await self._counter.desk.answer(request, None if left == NO_LIMIT else left / 1000)
        finally:
            self._send(asked.end())
            self._done += 1

    def _send_from_anywhere(self, parcel: bytes) -> None:
        """Send, from whatever thread; from the loop's own at once, or the end of its request would overtake it."""
        if threading.get_ident() == self._thread:
            self._send(parcel)
        else:
            self._loop.call_soon_threadsafe(self._send, parcel)

    def _send(self, parcel: bytes) -> None:
        """Send at once, with all else that is to go; at the end of this turn if more answers may come in it."""
        self._out.append(parcel)
        if self._unsent:  # the loop reports when the line takes more
            return
        if not self._waiting:
            self._flush()
        elif len(self._out) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if not self._out and not self._unsent:
            return
        data = self._unsent + b"".join(self._out) if self._unsent else b"".join(self._out)
        self._out.clear()
        was_stuck = bool(self._unsent)
        try:
            sent = self._line.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # the proxy is gone; its end is read
            sent = len(data)
        self._unsent = data[sent:]
        if self._unsent and not was_stuck:
            self._loop.add_writer(self._line.fileno(), self._flush)
        elif was_stuck and not self._unsent:
            self._loop.remove_writer(self._line.fileno())

    async def _aside(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await self._loop.run_in_executor(self._threads, _exits_as_error, function, *arguments)

    async def _beat(self, channel: Channel) -> None:
        while True:
            channel.send(Beat(self._done))
            await asyncio.sleep(self._brief.beat)

    async def _every(self, period: float, function: Callable[[], Any]) -> None:
        while True:
            await asyncio.sleep(period)
            await self._counter.desk.call("every", function)


class _Exited(Exception):
    """A function in a thread called sys.exit."""


def _exits_as_error(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except SystemExit as error:  # in a thread SystemExit ends nothing, and a future refuses to carry it
        raise _Exited(f"sys.exit({error.code!r})") from None


def _listen(pipe: Pipe, line: socket.socket, beat: float, done: Callable[[], int]) -> None:
    """Read the agent's messages while the main thread works; at Finish, or at the agent's end, the line is read no
    further."""
    for message in _words(pipe, beat, done):
        if isinstance(message, Finish):
            break
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RD)


def _words(pipe: Pipe, beat: float, done: Callable[[], int]) -> Iterator[object]:
    """The agent's messages, one after the other. Beats are sent meanwhile, however many messages come."""
    due = time.monotonic() + beat
    while True:
        has_come = _has_something(pipe.sock, max(0.0, due - time.monotonic()))
        if time.monotonic() >= due:
            due = time.monotonic() + beat
            pipe.send(Beat(done()))
        if has_come:
            if not pipe.read():
                return
            yield from pipe.ready()


def _has_something(sock: socket.socket, seconds: float) -> bool:
    """Is there something to read now or within `seconds`? Works for descriptors of any number, unlike `select`."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _client(parcel: bytes) -> Client:
    version, port, host = ADDRESS.unpack_from(parcel)
    if version & 15 == 6:  # IPv6
        return Client(socket.inet_ntop(socket.AF_INET6, host), port)
    return Client(socket.inet_ntop(socket.AF_INET, host[:4]), port)


def _no_answer(parcel: bytes) -> None:
    raise Invalid("a routing function answers nothing; it returns the number of a group")
