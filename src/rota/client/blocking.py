"""A client of services for threads: each call takes a connection of its own from a pool, and gives it back.

A call that runs out of time leaves its connection whole: the late answer is dropped by its number when the connection
is used again. A connection that the service closed while it was idle is noticed before a request is sent on it.

`timeout` is for all of a call: waiting for a free connection, connecting, sending, and the answer. A request that was
not sent whole cannot have run, so every failure before that is `Unavailable`.
"""

import errno
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn, Self

from rota.client.answer import Answer, TimedOut
from rota.client.exchange import MAX_FRAME, AnswerParser, Body, Exchange, ServiceAddress, unreachable
from rota.client.redial import Redial
from rota.client.sockets import READ, close_gently, connect, reason
from rota.kit.time import durations
from rota.kit.time.clock import SYSTEM
from rota.model.errors import Invalid, RotaError, Unavailable, Unknown
from rota.model.spec.checks import Duration
from rota.services.core.frames import BOX, BadFrame, Layout

GLANCE = 0.2
"""Seconds between two checks of a waiting call whether its client was closed: a UDP socket cannot be woken."""


class ServiceClient:
    """Calls a service; threads may share it."""

    def __init__(
        self,
        address: str,
        *,
        timeout: Duration = "5s",
        size: int = 4,
        frame: Layout = BOX,
        numbered_by: str = "sn",
        max_frame: int = MAX_FRAME,
    ) -> None:
        """`address` is `host:port`, `tcp://host:port` or `udp://host:port`; `size` is how many calls run at a time."""
        self._exchange = Exchange(address, timeout, frame, numbered_by, max_frame)
        self._pool = _Pool(self._exchange, self._exchange.check.count("size", size))

    def call(
        self,
        cmd: int,
        body: Body = b"",
        *,
        json: object = None,
        timeout: Duration | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The answer to a request; `fields` sets more of its header."""
        number = self._exchange.number()
        frame = self._exchange.request(number, cmd, body, json, fields)
        deadline = _Deadline(self._exchange.within(timeout))
        with self._pool.lent(deadline) as connection:
            connection.send(frame, deadline)
            return connection.receive(cmd, number, deadline)

    def send(
        self,
        cmd: int,
        body: Body = b"",
        *,
        json: object = None,
        timeout: Duration | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> int:
        """Send a request; returns its number. An answer, if there is one, is dropped."""
        number = self._exchange.number()
        frame = self._exchange.request(number, cmd, body, json, fields)
        deadline = _Deadline(self._exchange.within(timeout))
        with self._pool.lent(deadline) as connection:
            connection.send(frame, deadline)
        return number

    def close(self) -> None:
        """Close all connections; calls under way end with Unknown."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Deadline:
    """The end of a call's time."""

    def __init__(self, within: timedelta) -> None:
        self.within = within
        self._at = SYSTEM.monotonic() + within.total_seconds()

    @property
    def left(self) -> float:
        """Seconds until then, above zero; TimeoutError when it has passed."""
        left = self._at - SYSTEM.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def __str__(self) -> str:
        return durations.render(self.within)


class _Ended(Exception):
    """The service ended the connection in order, so no answer will come."""


class _ClientClosed(Exception):
    """The client was closed; the connection itself is sound."""


class _BlockingConnection:
    """One socket; one call uses it at a time."""

    def __init__(self, sock: socket.socket, peer: ServiceAddress, intake: Callable[[], AnswerParser]) -> None:
        self._sock, self._peer, self._new_intake = sock, peer, intake
        self._intake = intake()
        self.is_sound = True
        """May it be used again?"""

        self.is_over = False
        """Was its client closed? A waiting call checks this every `GLANCE` seconds."""

    def is_stale(self) -> bool:
        """Has the service closed it meanwhile?"""
        self._sock.settimeout(0)
        try:
            return not self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send(self, frame: bytes, deadline: _Deadline) -> None:
        """Send the whole frame; Unavailable if that fails."""
        rest = memoryview(frame)
        try:
            while rest:
                self._sock.settimeout(deadline.left)
                rest = rest[self._sock.send(rest) :]
        except OSError as error:
            self.is_sound = False
            if error.errno == errno.EMSGSIZE:
                raise Invalid(f"{self._peer}: a request of {len(frame)} bytes is too long for UDP; use TCP") from error
            why = f"was not taken within {deadline}" if isinstance(error, TimeoutError) else f"failed: {reason(error)}"
            raise Unavailable(f"{self._peer}: sending {why}; nothing happened: retry later") from error

    def receive(self, cmd: int, number: int, deadline: _Deadline) -> Answer:
        """The answer of this number; earlier numbers came too late for their calls, and are dropped."""
        try:
            while True:
                for answer in self._feed(self._wait(deadline)):
                    if answer.sn == number:
                        return answer
        except TimeoutError as error:
            if error.errno is not None:  # not the call's deadline: the system gave up the connection
                self._lose(cmd, reason(error), error)
            # A late answer by UDP goes to a port that is closed by then.
            self.is_sound = not self._peer.is_udp
            raise TimedOut(
                f"{self._peer}: cmd {cmd} had no answer within {deadline}; it may have run: check before you retry"
            ) from error
        except OSError as error:
            self._lose(cmd, reason(error), error)
        except _Ended as error:
            self._lose(cmd, str(error), error)
        except _ClientClosed as error:
            raise self._unknown(cmd, "the client was closed") from error
        except BadFrame as error:
            self._lose(cmd, f"what came is no answer: {error}", error)

    @staticmethod
    def close(connections: "Iterable[_BlockingConnection]") -> None:
        """Give connections back to the system; what was sent still arrives."""
        gently = []
        for each in connections:
            if each._peer.is_udp or not each.is_sound:
                each._sock.close()
            else:
                gently.append(each._sock)
        close_gently(gently)

    def let_go(self) -> None:
        """Close this process's copy of it; the connection stays open for the process that it was forked from."""
        self._sock.close()

    def _wait(self, deadline: _Deadline) -> bytes:
        """The next bytes; TimeoutError without a number when the time is over."""
        while not self.is_over:
            self._sock.settimeout(min(deadline.left, GLANCE))
            try:
                return self._sock.recv(READ)
            except TimeoutError as error:
                if error.errno is not None:
                    raise
        raise _ClientClosed

    def _feed(self, data: bytes) -> list[Answer]:
        if not self._peer.is_udp:
            if not data:
                raise _Ended("closed by the service")
            return self._intake.feed(data)
        try:
            return self._new_intake().feed(data)  # the rest of an incomplete frame does not come in another datagram
        except BadFrame:
            return []  # its sender is not verified

    def _lose(self, cmd: int, why: str, error: Exception) -> NoReturn:
        self.is_sound = False
        raise self._unknown(cmd, why) from error

    def _unknown(self, cmd: int, why: str) -> Unknown:
        return Unknown(
            f"{self._peer}: the connection was lost with cmd {cmd} sent ({why}); it may have run: check before "
            "you retry"
        )


class _Pool:
    """At most `size` connections, opened as they are needed."""

    def __init__(self, exchange: Exchange, size: int) -> None:
        self._exchange, self._peer, self._size = exchange, exchange.peer, size
        self._changed = threading.Condition()
        self._redial = Redial(random.random)
        self._idle: list[_BlockingConnection] = []
        self._lent: set[_BlockingConnection] = set()
        self._opening = 0
        self._is_closed = False
        self._pid = os.getpid()

    @contextmanager
    def lent(self, deadline: _Deadline) -> Iterator[_BlockingConnection]:
        """A connection for the time of a call; Unavailable if there is none in time."""
        connection = self._take(deadline)
        try:
            yield connection
        except RotaError:
            raise
        except BaseException:  # interrupted anywhere, maybe within a frame
            connection.is_sound = False
            raise
        finally:
            self._give(connection)

    def _take(self, deadline: _Deadline) -> _BlockingConnection:
        while True:
            connection = self._idle_or_permit(deadline)
            if connection is None:
                return self._opened(deadline)
            if not connection.is_stale():
                return connection
            connection.is_sound = False
            self._give(connection)

    def _give(self, connection: _BlockingConnection) -> None:
        with self._changed:
            self._lent.discard(connection)
            stays = connection.is_sound and not self._is_closed
            if stays:
                self._idle.append(connection)
            self._changed.notify()
        if not stays:
            _BlockingConnection.close([connection])  # without the lock: it may wait for the service

    def close(self) -> None:
        """End all connections, those at work too."""
        with self._changed:
            self._is_closed = True
            idle, self._idle = self._idle, []
            for connection in self._lent:
                connection.is_over = True
            self._changed.notify_all()
        _BlockingConnection.close(idle)  # without the lock: it may wait for the service

    def _idle_or_permit(self, deadline: _Deadline) -> _BlockingConnection | None:
        """An idle connection; None is the permission to open one."""
        with self._changed:
            self._mind_a_fork()
            if not self._changed.wait_for(self._may_go_on, self._left(deadline)):
                raise Unavailable(
                    f"{self._peer}: all {self._size} connections were busy for {deadline}; retry later, or raise size="
                )
            self._check_open()
            if self._idle:
                connection = self._idle.pop()
                self._lent.add(connection)
                return connection
            self._opening += 1
            return None

    def _may_go_on(self) -> bool:
        return self._is_closed or bool(self._idle) or len(self._lent) + self._opening < self._size

    def _opened(self, deadline: _Deadline) -> _BlockingConnection:
        connection: _BlockingConnection | None = None
        try:
            connection = _BlockingConnection(self._dial(deadline), self._peer, self._exchange.intake)
        finally:
            with self._changed:
                self._opening -= 1
                if connection is not None:
                    connection.is_over = self._is_closed
                    self._lent.add(connection)
                self._changed.notify()
        return connection

    def _dial(self, deadline: _Deadline) -> socket.socket:
        """A connected socket; retries until the time is over."""
        try:
            while True:
                with self._changed:
                    self._check_open()
                    pause = self._redial.pause(SYSTEM.monotonic())
                if pause >= deadline.left:
                    raise TimeoutError
                time.sleep(pause)
                within = deadline.left
                try:
                    sock = connect(self._peer, within)
                except OSError as error:
                    with self._changed:
                        self._redial.failed(SYSTEM.monotonic(), reason(error))
                    continue
                with self._changed:
                    self._redial.succeeded()
                return sock
        except TimeoutError:
            raise unreachable(self._peer, deadline.within, self._redial.why) from None

    def _left(self, deadline: _Deadline) -> float:
        try:
            return deadline.left
        except TimeoutError:
            return 0.0

    def _check_open(self) -> None:
        if self._is_closed:
            raise Invalid(f"the client of {self._peer} is closed; make another one")

    def _mind_a_fork(self) -> None:
        """After a fork, leave the connections that were open then to the parent process."""
        if self._pid != os.getpid():
            for connection in (*self._idle, *self._lent):
                connection.let_go()
            self._idle.clear()
            self._lent.clear()
            self._opening, self._pid = 0, os.getpid()
