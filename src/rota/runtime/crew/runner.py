"""Keeps a node's crew as `runtime.crew.plan` plans: starts, drains and kills workers.

One loop plans and acts, after everything that happens and twice a second besides. Nothing here waits for a process.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import secrets
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import Clock
from rota.model.config import RuntimeConfig
from rota.model.errors import Unavailable
from rota.model.ids import Instant
from rota.runtime.crew import plan as plans
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.plan import DrainWorker, KillWorker, StartWorker, WorkerPhase, WorkerPool
from rota.runtime.crew.posts import RUN, Post
from rota.runtime.crew.vigil import Vigil
from rota.runtime.crew.watch import CrewWatch
from rota.runtime.crew.worker import Worker
from rota.runtime.loader.processes import Loader, start_process
from rota.runtime.pipes.brief import MARK, Attempt, Brief, Emitting, Order
from rota.runtime.pipes.channel import Channel, pair
from rota.runtime.pipes.worker import Finish
from rota.runtime.system import kernel

log = logging.getLogger(__name__)

TICK = 0.5
"""Seconds between looks when nothing happens."""


class Switch(Protocol):
    """Connects workers of services with their proxies."""

    def can_connect(self, post: Post, slot: int, generation: int) -> bool:
        """Is the proxy running that a worker would get its requests from?"""

    def connect(self, brief: Brief) -> int | None:
        """The worker's end of a line to its proxy; None if there is no proxy now."""


class CrewRunner:
    """Brings one node's crew to what is wanted of it."""

    def __init__(
        self,
        crew: Crew,
        watch: CrewWatch,
        config: RuntimeConfig,
        clock: Clock,
        tell: Tell,
        *,
        switch: Switch | None = None,
        outfit: Callable[[Brief], Sequence[int]] = lambda brief: (),
        recalled: Callable[[Order], Order] = lambda order: order,
        emitting: Emitting | None = None,
        letters: str = "",
        printed: str = "",
    ) -> None:
        """What workers get besides their orders.

        `outfit` gives the descriptors that a worker needs beside the usual ones; they are closed here. `recalled` gives
        the order of a task that is started alone with what its task saved last. `emitting` is how workers hand messages
        over to the relay, `letters` the folder for records that streams could not read, `printed` that for lines that
        workers print.
        """
        self.crew = crew
        self._watch, self._clock, self._switch = watch, clock, switch
        self._outfit, self._recalled = outfit, recalled
        self._emitting, self._letters, self._printed = emitting or Emitting(), letters, printed
        self._vigil = Vigil(config, clock, tell)
        self._numbers = itertools.count(1)

    # The loop

    async def run(self, progress: Callable[[], None] = lambda: None) -> None:
        """Plan and act, until cancelled; `progress` is called at each turn."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._watch.reap)
        self._watch.reap()
        try:
            while True:
                self.crew.woken.clear()
                progress()
                self._vigil.look(self.crew.workers.values(), self.crew.posts)
                self._forget_falls_of_the_recovered()
                self._end_what_is_left()
                look_again = self._act()
                async with self.crew.changed:
                    self.crew.changed.notify_all()
                wait = TICK if look_again is None else max(0.0, min(TICK, look_again - self._clock.monotonic()))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self.crew.woken.wait()
        finally:
            loop.remove_signal_handler(signal.SIGCHLD)

    def send_out(self, attempt: Attempt) -> int:
        """Start a worker for one attempt, outside all pools, and return its number; Unavailable if that fails now."""
        generation = self.crew.generations.current
        loader = self.crew.generations.able().get(generation)
        if loader is None:
            raise Unavailable("the app's loader is being started again; try again")
        brief = self._brief(Post(WorkerPool(RUN, 1), RUN), 0, generation)
        worker = Worker(msgspec.structs.replace(brief, attempt=attempt), 0, None, self._clock.monotonic())
        self.crew.workers[worker.id] = worker
        self.crew.generations.target.enclosure.begin(generation)
        try:
            self._bring_up(worker, loader)
        except OSError as error:
            self._watch.gone(worker, f"it could not be started: {error.strerror}", "not forked")
            raise Unavailable(f"no process could be started: {error.strerror}; try again") from error
        if worker.id not in self.crew.workers:  # the loader had ended
            raise Unavailable("the app's loader is being started again; try again")
        return worker.id

    def _forget_falls_of_the_recovered(self) -> None:
        """Drop the falls of slots that have stood long enough, so that they no longer count or show as crash loops."""
        since = self._clock.monotonic() - self.crew.policy.settled_after.total_seconds()
        for worker in self.crew.workers.values() if self.crew.falls else ():
            if worker.since <= since and self._is_wanted(worker):
                self.crew.falls.pop((worker.brief.pool, worker.brief.slot), None)

    def _end_what_is_left(self) -> None:
        """End the daemons of generations that were replaced and have no worker any more."""
        generations = self.crew.generations
        busy = {worker.brief.generation for worker in self.crew.workers.values()} | {generations.current}
        generations.target.enclosure.tidy(busy | generations.on_trial(), generations.kept())

    def _is_wanted(self, worker: Worker) -> bool:
        """Does a worker fill its slot? If not, the slot's falls are those of its successors."""
        post = self.crew.posts.get(worker.brief.pool)
        is_current = worker.brief.generation == self.crew.generations.current
        is_fit = post is not None and post.pool.version == worker.version and not worker.worn
        return worker.phase == WorkerPhase.READY and is_current and is_fit

    def _act(self) -> Instant | None:
        mend_at = self.crew.generations.mend(self._watch)
        plan = plans.plan(self.crew.snapshot(), self._clock.monotonic())
        for action in plan.actions:
            # A step may end what a later one is about: a loader that is asked to fork may have ended.
            match action:
                case StartWorker(pool=pool, slot=slot, generation=generation):
                    if (post := self.crew.posts.get(pool)) and (loader := self.crew.generations.able().get(generation)):
                        if post.has_line and not (self._switch and self._switch.can_connect(post, slot, generation)):
                            continue  # the next turn retries
                        if not loader.has_room:
                            loader.when_room(self.crew.wake)
                            continue
                        self._start(post, slot, loader)
                case DrainWorker(member=number, why=why):
                    if worker := self.crew.workers.get(number):
                        self._drain(worker, why)
                case KillWorker(member=number, why=why):
                    if worker := self.crew.workers.get(number):
                        self._kill(worker, why)
        return min((when for when in (mend_at, plan.look_again) if when is not None), default=None)

    def _start(self, post: Post, slot: int, loader: Loader) -> None:
        brief = self._brief(post, slot, loader.generation)
        worker = Worker(brief, post.pool.version, post.drain, self._clock.monotonic())
        self.crew.workers[worker.id] = worker
        self.crew.generations.target.enclosure.begin(loader.generation)
        try:
            self._bring_up(worker, loader)
        except OSError as error:  # out of descriptors, most likely
            self._watch.gone(worker, f"it could not be started: {error.strerror}", "not forked")

    def _bring_up(self, worker: Worker, loader: Loader) -> None:
        extras = list(self._outfit(worker.brief))
        if worker.brief.has_line:
            assert self._switch is not None
            extras = [fd for fd in [self._switch.connect(worker.brief)] if fd is not None]
            if not extras:
                self._watch.gone(worker, "its proxy is not there", "not forked")
                return
        try:
            self._connect(worker, loader, extras)
        finally:
            for fd in extras:
                os.close(fd)

    def _connect(self, worker: Worker, loader: Loader, extras: list[int]) -> None:
        mine, theirs = pair()
        worker.channel = Channel(mine, partial(self._watch.heard, worker), partial(self._watch.silent, worker))
        worker.stacks = kernel.scratch_file(f"stacks of {worker.id}")
        if loader.spawns:
            with theirs:
                worker.handle, worker.lifeline = start_process(
                    self.crew.generations.target,
                    loader.generation,
                    theirs.fileno(),
                    worker.stacks,
                    worker.brief,
                    extras,
                )
            self._watch.known(worker)
        else:
            with theirs:
                lifeline, worker.lifeline = os.pipe()
                more = [os.dup(fd) for fd in extras]
                loader.fork(worker.brief, os.dup(theirs.fileno()), lifeline, os.dup(worker.stacks), *more)

    def _kill(self, worker: Worker, why: str) -> None:
        if worker.phase == WorkerPhase.DRAINING and worker.handle is not None:
            worker.cut_short(why)
            return
        worker.kill(why)
        if worker.handle is None and (loader := self.crew.generations.able().get(worker.brief.generation)):
            log.warning("loader does not fork", extra={"generation": loader.generation, "pid": loader.pid})
            loader.kill()

    def _brief(self, post: Post, slot: int, generation: int) -> Brief:
        return Brief(
            worker=next(self._numbers),
            role=post.role,
            pool=post.pool.name,
            slot=slot,
            generation=generation,
            node=self.crew.generations.target.node,
            service=post.service,
            group=post.group,
            has_line=post.has_line,
            order=None if post.order is None else self._recalled(post.order),
            mark=secrets.token_bytes(MARK),
            deadline=self.crew.deadline,
            beat=self._vigil.beat,
            emitting=self._emitting,
            letters=self._letters,
            printed=self._printed,
        )

    def _drain(self, worker: Worker, why: str) -> None:
        was, now = worker.phase, self._clock.monotonic()
        worker.enter(WorkerPhase.DRAINING, now)
        log.debug("draining", extra={"worker": worker.id, "pool": worker.brief.pool, "why": why})
        if was == WorkerPhase.STARTING:
            worker.kill(why)
        elif worker.brief.role in ("host", "executor") or worker.brief.has_line:
            for witness in self._watch.witnesses:
                witness.draining(worker)
        else:
            worker.send(Finish())
