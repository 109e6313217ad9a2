"""Where functions of jobs run: executors, which are warm and do one attempt after another, and workers for one alone.

Orders reach an executor through a socket that keeps their bounds, one at a time: an order that it has not taken from
there, the agent can take back, whatever the executor is busy with. Answers go the way of the output
(`jobs.node.output`). The function has the main thread, and there is no other.

TERM asks the attempt that runs to stop; an executor takes nothing new after it. Whatever does not stop, the agent ends
with its whole process group.

Executors ask sources for their lists, too; those come back over the channel, for they may be long.
"""

import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
import sys
import time

import msgspec

from rota.jobs.node.output import AttemptAnswer, encode, shortened
from rota.jobs.node.run_attempt import AttemptStop, run_attempt
from rota.jobs.pipe import Listed
from rota.kit.faults import described, sendable
from rota.model.errors import Invalid
from rota.resources.core.collect import collect
from rota.resources.core.spec import Resource
from rota.runtime.pipes.brief import ORDERS, OUTPUT, Attempt
from rota.runtime.pipes.channel import Pipe
from rota.runtime.pipes.worker import Registered
from rota.runtime.system import kernel
from rota.runtime.worker.roles import Setup
from rota.sdk.app import App

log = logging.getLogger(__name__)

LONGEST_LIST = 16 * 1024 * 1024
"""Bytes of what a source may list, as JSON."""

LONGEST_ORDER = 128 * 1024
"""Bytes of one order to an executor."""

_order = msgspec.msgpack.Decoder(Attempt).decode


class _ExecutorStopped(BaseException):
    """Raised where an executor waits, when it is asked to end."""


def be_executor(app: App, setup: Setup) -> None:
    """Run attempts until there are to be no more, or until the agent is gone."""
    halt, extras = AttemptStop(), setup.extras
    desk = _AttemptLoop(app, setup.brief.mark, extras[OUTPUT], Pipe(setup.sock), halt)
    inbox = OrderQueue(socket.socket(fileno=extras[ORDERS]), halt)
    signal.signal(signal.SIGTERM, inbox.asked)
    desk.pipe.send(Registered())
    while order := inbox.next():
        desk.run(_order(order))


class OrderQueue:
    """Where the orders of an executor come from, until it is asked to end."""

    def __init__(self, sock: socket.socket, halt: AttemptStop) -> None:
        self._sock, self._halt = sock, halt
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._is_waiting = False

    def asked(self, *_: object) -> None:
        """The handler of the signal that asks for the end: stop what runs, or stop waiting."""
        self._halt.ask()
        if self._is_waiting:
            raise _ExecutorStopped

    def next(self) -> bytes:
        """The next order; nothing if there will be none: the agent is gone, or has asked for the end."""
        try:
            while not self._halt.stopping:
                self._is_waiting = True
                self._poll.poll()  # an order stays in the socket while the signal may end the wait
                self._is_waiting = False
                with contextlib.suppress(BlockingIOError):  # the agent took it back meanwhile
                    return self._sock.recv(LONGEST_ORDER, socket.MSG_DONTWAIT)
        except _ExecutorStopped:
            self._is_waiting = False
        return b""


def be_run(app: App, setup: Setup) -> None:
    """Run the one attempt of this worker."""
    brief, halt = setup.brief, AttemptStop()
    assert brief.attempt is not None
    signal.signal(signal.SIGTERM, lambda *_: halt.ask())
    _AttemptLoop(app, brief.mark, setup.extras[OUTPUT], None, halt).run(brief.attempt)


class _AttemptLoop:
    """Runs attempts and answers them."""

    def __init__(self, app: App, mark: bytes, output: int, pipe: Pipe | None, halt: AttemptStop) -> None:
        self._app, self._mark, self._halt = app, mark, halt
        self._output = os.dup(output)  # the app may close or redirect what it prints to
        self._pipe = pipe
        os.dup2(output, 1)
        os.dup2(output, 2)

    @property
    def pipe(self) -> Pipe:
        """The channel to the agent."""
        assert self._pipe is not None
        return self._pipe

    def run(self, attempt: Attempt) -> None:
        """Run one attempt, and write its answer behind its output."""
        started, began, used = time.time(), time.monotonic(), _used()
        if attempt.source:
            self.pipe.send(self._ask(attempt))
            error, code = "", None
        else:
            error, code = run_attempt(self._app, attempt, self._halt)
        _flush()
        answer = AttemptAnswer(
            attempt.attempt,
            shortened(error),
            code,
            started,
            time.monotonic() - began,
            max(0.0, _used() - used),
            kernel.peak_memory(),
        )
        os.set_blocking(self._output, True)  # a program that shares the pipe may have changed that
        os.write(self._output, encode(self._mark, answer))

    def _ask(self, attempt: Attempt) -> Listed:
        try:
            return Listed(attempt.attempt, result=ask_source(self._app, attempt.source))
        except Invalid as error:
            return Listed(attempt.attempt, sendable(str(error)))
        except (SystemExit, asyncio.CancelledError) as error:
            return Listed(attempt.attempt, f"it raised {type(error).__name__}")
        except BaseException as error:  # libraries have their own, beside Exception; the executor lives on
            log.exception("source failed", extra={"kind": attempt.source})
            return Listed(attempt.attempt, described(error))


def _used() -> float:
    """Processor seconds of this process, and of its children that it has waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the app closed it
            continue


def ask_source(app: App, name: str) -> bytes:
    """The resources that the source of a kind lists, as JSON; whatever it raises comes through."""
    kind = app.resources.get(name)
    if kind is None or kind.own_source is None:
        raise Invalid(f'the app has no source of resource "{name}"')
    size = 0

    def accept(item: object) -> Resource:
        # Looked at item by item: a source that never ends must not fill the memory until its time is up.
        nonlocal size
        resource = kind.listed(item)
        size += len(msgspec.json.encode(resource))
        if size > LONGEST_LIST:
            raise Invalid(f'source of resource "{name}": it lists more than {LONGEST_LIST} bytes; list less')
        return resource

    return msgspec.json.encode(asyncio.run(collect(kind.own_source.function, accept, name)))
