"""A host worker: one event loop, many resource tasks."""

import asyncio
import signal
import socket
from contextvars import copy_context
from functools import partial

from rota.kit.time.clock import SYSTEM
from rota.relay.node.emitting import Emitter
from rota.relay.node.pipe import EmitTo, LineLost, Unsent
from rota.resources.node.offers import offer_of, silence_of
from rota.resources.node.reports import Reports
from rota.resources.node.run_task import Life, TaskOutcome, run_task
from rota.resources.node.task_lines import work_of
from rota.resources.pipe import Save, StartTask, StopTask, TaskEnded, TaskStarted
from rota.runtime.pipes.brief import Brief, Order
from rota.runtime.pipes.channel import Channel
from rota.runtime.pipes.worker import Beat, Finish, Registered
from rota.runtime.worker.roles import Setup
from rota.runtime.worker.tee import about
from rota.sdk.app import App

LAST_WORDS = 1.0
"""Seconds that tasks get to end when the worker itself has to."""


def be_host(app: App, setup: Setup) -> None:
    """Run what the agent orders, until it says that there is no more."""
    asyncio.run(Host(app, setup.brief).run(setup.sock))


class Host:
    """The tasks of one host worker, by id and epoch."""

    def __init__(self, app: App, brief: Brief) -> None:
        self._app, self._brief = app, brief
        self._emitter = Emitter(brief.emitting, lambda: self._channel.send(LineLost()))
        self._tasks: dict[tuple[str, int], asyncio.Task[TaskOutcome]] = {}
        self._lives: dict[tuple[str, int], Life] = {}
        self._is_finishing = False
        self._ended = 0
        self._failure: BaseException | None = None
        """Why this worker cannot go on, if so."""

    async def run(self, sock: socket.socket) -> None:
        """Live until the agent is gone or has nothing more to do."""
        self._over = asyncio.Event()
        self._channel = Channel(sock, self._heard, self._over.set, takes_fds=True)
        self._reports = Reports(self._channel)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._over.set)
        self._channel.send(Registered())
        async with asyncio.TaskGroup() as parts:
            running = [
                parts.create_task(self._beat(), name="beat"),
                parts.create_task(self._emitter.run(), name="emitter"),
            ]
            await self._over.wait()
            await self._end_all()
            if unsent := await self._emitter.flush():
                self._channel.send(Unsent(unsent))
            await self._reports.flush()
            for part in running:
                part.cancel()
        self._emitter.close()
        self._channel.close()
        if self._failure is not None:
            raise self._failure

    def _heard(self, message: object) -> None:
        match message:
            case StartTask(order=order):
                if (order.task, order.epoch) not in self._tasks and not self._is_finishing:
                    self._start(order)
            case StopTask(task=task, epoch=epoch):
                found = self._tasks.get((task, epoch))
                if found is not None and not found.cancelling():  # once: its cleaning up is not to be cut short
                    found.cancel()
            case EmitTo():
                self._emitter.connect(socket.socket(fileno=self._channel.fds.popleft()))
            case Finish():
                self._is_finishing = True
                self._leave_if_done()

    def _start(self, order: Order) -> None:
        kind, started = self._app.resources.get(order.kind), TaskStarted(order.task, order.epoch)
        life = self._lives[order.task, order.epoch] = Life(SYSTEM.monotonic)
        offer = offer_of(self._brief, life, partial(self._save, order), self._emitter)
        running = run_task(kind, order, offer, lambda: self._channel.send(started))
        context = copy_context()
        context.run(about.set, work_of(order))  # its output is kept separate from that of other tasks
        task = self._tasks[order.task, order.epoch] = asyncio.create_task(running, name=order.task, context=context)
        task.add_done_callback(partial(self._done, order))

    def _save(self, order: Order, state: bytes) -> None:
        self._reports.add(Save(order.task, order.epoch, state))

    def _done(self, order: Order, task: asyncio.Task[TaskOutcome]) -> None:
        """Called once when a task ends in any way, also if it was cancelled before its first step."""
        try:
            outcome = TaskOutcome(True) if task.cancelled() else task.result()
            self._reports.add(TaskEnded(order.task, order.epoch, outcome.was_asked, outcome.error))
        except BaseException as error:  # else the agent would believe that the task still runs
            self._failure = error
            self._over.set()
        self._ended += 1
        del self._tasks[order.task, order.epoch]
        self._lives.pop((order.task, order.epoch), None)
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        if self._is_finishing and not self._tasks:
            self._over.set()

    async def _beat(self) -> None:
        while True:
            self._channel.send(Beat(self._ended))
            self._report_silent()
            await asyncio.sleep(self._brief.beat)

    def _report_silent(self) -> None:
        """Report each silent task once; the agent decides what to do about it."""
        for (task, epoch), life in list(self._lives.items()):
            if silent := silence_of(self._app, task, epoch, life):
                del self._lives[task, epoch]
                self._channel.send(silent)

    async def _end_all(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_WORDS)
