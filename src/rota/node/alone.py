"""A task worker: one resource task in a process of its own, because it is exclusive or its function is not async.

An async function has the main thread's event loop, with the agent's channel beside it. A sync function has the main
thread to itself; another thread listens to the agent, and tells it through `task.stopping`.

Exclusive work is on a leash (`node.deadline`): it ends by itself when the agent has not renewed in time.
"""

import asyncio
import contextlib
import signal
import socket
import threading

from rota.kit.clock import SYSTEM
from rota.node.deadline import LOOK, Leash
from rota.node.pipes import (
    Beat,
    Brief,
    Channel,
    Deadline,
    Finish,
    Message,
    Pipe,
    Registered,
    StopTask,
    TaskEnded,
    TaskStarted,
)
from rota.sdk.app import App
from rota.workloads.context import Stopping
from rota.workloads.resources.run import Outcome, run_sync_task, run_task


def be_alone(app: App, brief: Brief, sock: socket.socket) -> None:
    """Run the one task of this worker to its end."""
    assert brief.order is not None
    leash = Leash()
    if brief.order.is_exclusive and brief.deadline is not None:
        leash.extend(brief.deadline)
    kind = app.resources.get(brief.order.kind)
    if kind is not None and kind.is_async:
        asyncio.run(Alone(app, brief, leash).run(sock))
    else:
        AloneSync(app, brief, leash).run(Pipe(sock))


class Alone:
    """One async task."""

    def __init__(self, app: App, brief: Brief, leash: Leash) -> None:
        assert brief.order is not None
        self._app, self._brief, self._order, self._leash = app, brief, brief.order, leash

    async def run(self, sock: socket.socket) -> None:
        """Live as long as the task."""
        loop = asyncio.get_running_loop()
        self._channel = Channel(sock, self._heard, self._stop)
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        self._channel.send(Registered())
        self._task = asyncio.create_task(self._run(), name=self._order.task)
        beat = asyncio.create_task(self._beat(), name="beat")
        outcome = await self._task
        beat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beat
        self._channel.send(TaskEnded(self._order.task, self._order.epoch, outcome.was_asked, outcome.error))
        self._channel.close()

    async def _run(self) -> Outcome:
        started = TaskStarted(self._order.task, self._order.epoch)
        return await run_task(
            self._app.resources.get(self._order.kind), self._order, lambda: self._channel.send(started)
        )

    def _heard(self, message: object) -> None:
        match message:
            case Deadline() if self._order.is_exclusive:
                self._leash.extend(message)
            case StopTask() | Finish():
                self._stop()

    def _stop(self) -> None:
        self._task.cancel()

    async def _beat(self) -> None:
        last = SYSTEM.monotonic()
        while True:
            await asyncio.sleep(LOOK)
            if self._leash.is_over:
                self._leash.end()
            if self._leash.must_stop:
                self._stop()
            if SYSTEM.monotonic() - last >= self._brief.beat:
                last = SYSTEM.monotonic()
                self._channel.send(Beat())


class AloneSync:
    """One sync task."""

    def __init__(self, app: App, brief: Brief, leash: Leash) -> None:
        assert brief.order is not None
        self._app, self._brief, self._order, self._leash = app, brief, brief.order, leash
        self._stopping = Stopping()

    def run(self, pipe: Pipe) -> None:
        """Live as long as the task."""
        signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())
        for body in (lambda: self._listen(pipe), self._look):
            threading.Thread(target=body, name="rota", daemon=True).start()
        pipe.send(Registered())
        started = TaskStarted(self._order.task, self._order.epoch)
        kind = self._app.resources.get(self._order.kind)
        outcome = run_sync_task(kind, self._order, self._stopping, lambda: pipe.send(started))
        pipe.send(TaskEnded(self._order.task, self._order.epoch, outcome.was_asked, outcome.error))

    def _listen(self, pipe: Pipe) -> None:
        while True:
            message: Message | None = pipe.receive()
            match message:
                case Deadline() if self._order.is_exclusive:
                    self._leash.extend(message)
                case None | StopTask() | Finish():
                    self._stopping.set()
            if message is None:
                return

    def _look(self) -> None:
        while True:
            if self._leash.is_over:
                self._leash.end()
            if self._leash.must_stop:
                self._stopping.set()
            threading.Event().wait(LOOK)
