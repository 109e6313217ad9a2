"""A task worker: one resource task in a process of its own, because it is exclusive or its function is not async.

An async function has the main thread's event loop, with the agent's channel beside it. A sync function has the main
thread to itself; another thread listens to the agent and sets `task.stopping`, and a third one takes its
messages to the relay.

What a task has emitted is acked, or its time is over, before its end is reported: after the report another task may be
placed, and messages of an exclusive task would be refused.

Exclusive work has a deadline (`runtime.worker.deadline`). It begins only when the agent has sent one: the deadline that
came with the fork may have passed by the time the app's hooks have run.
"""

import asyncio
import contextlib
import signal
import socket
import threading

from rota.kit.time.clock import SYSTEM
from rota.relay.node.emitting import Emitter, EmitterThread
from rota.relay.node.pipe import EmitTo, LineLost, Unsent
from rota.resources.node.offers import offer_of, silence_of
from rota.resources.node.reports import Reports
from rota.resources.node.run_task import Life, TaskOutcome, run_sync_task, run_task
from rota.resources.pipe import Save, StopTask, TaskEnded, TaskStarted
from rota.runtime.pipes.brief import Brief, Deadline, Order
from rota.runtime.pipes.channel import Channel, Pipe, PipeMessage
from rota.runtime.pipes.worker import Beat, Finish, Registered
from rota.runtime.worker.deadline import LOOK, LeaseDeadline
from rota.runtime.worker.roles import Setup
from rota.sdk.app import App
from rota.sdk.context import Stopping


def be_alone(app: App, setup: Setup) -> None:
    """Run the one task of this worker to its end."""
    brief = setup.brief
    assert brief.order is not None
    kind, leash = app.resources.get(brief.order.kind), LeaseDeadline(setup.guard)
    if kind is not None and kind.is_async:
        asyncio.run(Alone(app, brief, brief.order, leash).run(setup.sock))
    else:
        AloneSync(app, brief, brief.order, leash).run(Pipe(setup.sock))


class Alone:
    """One async task."""

    def __init__(self, app: App, brief: Brief, order: Order, leash: LeaseDeadline) -> None:
        self._app, self._brief, self._order, self._leash = app, brief, order, leash
        self._emitter = Emitter(brief.emitting, lambda: self._channel.send(LineLost()))
        self._task: asyncio.Task[TaskOutcome] | None = None
        self._may_begin = asyncio.Event()
        self._is_stopping = False
        self._life: Life | None = None

    async def run(self, sock: socket.socket) -> None:
        """Live as long as the task."""
        self._channel = Channel(sock, self._heard, self._stop, takes_fds=True)
        self._reports = Reports(self._channel)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop)
        self._channel.send(Registered())
        parts = [
            asyncio.create_task(self._beat(), name="beat"),
            asyncio.create_task(self._emitter.run(), name="emitter"),
        ]
        if self._order.is_exclusive:
            await self._may_begin.wait()
        outcome = TaskOutcome(True)
        if not self._is_stopping:
            self._task = asyncio.create_task(self._run(), name=self._order.task)
            await asyncio.wait([self._task])
            outcome = TaskOutcome(True) if self._task.cancelled() else self._task.result()
        if unsent := await self._emitter.flush():
            self._channel.send(Unsent(unsent))
        for part in parts:
            part.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await part
        self._emitter.close()
        self._reports.add(TaskEnded(self._order.task, self._order.epoch, outcome.was_asked, outcome.error))
        await self._reports.flush()
        self._channel.close()

    async def _run(self) -> TaskOutcome:
        started = TaskStarted(self._order.task, self._order.epoch)
        self._life = Life(SYSTEM.monotonic)
        kind = self._app.resources.get(self._order.kind)
        offer = offer_of(self._brief, self._life, self._save, self._emitter)
        return await run_task(kind, self._order, offer, lambda: self._channel.send(started))

    def _save(self, state: bytes) -> None:
        self._reports.add(Save(self._order.task, self._order.epoch, state))

    def _heard(self, message: object) -> None:
        match message:
            case Deadline() if self._order.is_exclusive:
                self._leash.extend(message)
                self._may_begin.set()
            case EmitTo():
                self._emitter.connect(socket.socket(fileno=self._channel.fds.popleft()))
            case StopTask() | Finish():
                self._stop()

    def _stop(self) -> None:
        """Cancel the task, once: its cleaning up is not to be cut short."""
        if not self._is_stopping:
            self._is_stopping = True
            self._may_begin.set()
            if self._task is not None:
                self._task.cancel()

    async def _beat(self) -> None:
        last = SYSTEM.monotonic()
        while True:
            await asyncio.sleep(LOOK)
            if self._leash.must_stop:
                self._stop()
            if SYSTEM.monotonic() - last >= self._brief.beat:
                last = SYSTEM.monotonic()
                self._channel.send(Beat())
                if self._life and (silent := silence_of(self._app, self._order.task, self._order.epoch, self._life)):
                    self._channel.send(silent)
                    self._life = None


class AloneSync:
    """One sync task."""

    def __init__(self, app: App, brief: Brief, order: Order, leash: LeaseDeadline) -> None:
        self._app, self._brief, self._order, self._leash = app, brief, order, leash
        self._stopping = Stopping()
        self._may_begin = False
        self._life: Life | None = None

    def run(self, pipe: Pipe) -> None:
        """Live as long as the task."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        self._aside = EmitterThread(self._brief.emitting, lambda: pipe.send(LineLost()))
        self._aside.start()
        pipe.send(Registered())
        if self._order.is_exclusive:
            self._wait_for_deadline(pipe)
        for body in (lambda: self._listen(pipe), lambda: self._look(pipe)):
            threading.Thread(target=body, name="rota", daemon=True).start()
        outcome = TaskOutcome(True)
        if not self._stopping:
            started = TaskStarted(self._order.task, self._order.epoch)
            kind = self._app.resources.get(self._order.kind)
            self._life = Life(SYSTEM.monotonic)
            order = self._order
            save = lambda state: pipe.send(Save(order.task, order.epoch, state))  # noqa: E731
            offer = offer_of(self._brief, self._life, save, self._aside.emitter)
            outcome = run_sync_task(kind, order, offer, self._stopping, self._aside.call, lambda: pipe.send(started))
        if unsent := self._aside.flush():
            pipe.send(Unsent(unsent))
        self._aside.stop()
        pipe.send(TaskEnded(self._order.task, self._order.epoch, outcome.was_asked, outcome.error))

    def _wait_for_deadline(self, pipe: Pipe) -> None:
        """Read until the agent has said how long we may act, or that we need not."""
        while not self._stopping and not self._may_begin:
            self._take(pipe, pipe.receive())

    def _listen(self, pipe: Pipe) -> None:
        while self._take(pipe, pipe.receive()):
            pass

    def _take(self, pipe: Pipe, message: PipeMessage | None) -> bool:
        """Handle one message; False if there will be no more."""
        match message:
            case Deadline() if self._order.is_exclusive:
                self._leash.extend(message)
                self._may_begin = True
            case EmitTo():
                self._aside.connect(socket.socket(fileno=pipe.fds.popleft()))
            case None | StopTask() | Finish():
                self._stop()
        return message is not None

    def _stop(self) -> None:
        """Ask the task to stop; the handler of a signal may do so, between any two steps of this thread."""
        self._stopping.set()

    def _look(self, pipe: Pipe) -> None:
        while not self._stopping.wait(LOOK):
            if self._leash.must_stop:
                self._stop()
            if self._life and (silent := silence_of(self._app, self._order.task, self._order.epoch, self._life)):
                self._life = None
                pipe.send(silent)
