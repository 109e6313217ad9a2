"""The crew of a node: its loaders and workers, kept as `decide.crew` plans.

Everything that happens (a worker registered, ended, fell silent; a loader came or went; other posts are wanted) only
changes the state and wakes the one loop that plans again and acts. Nothing here waits for a process.

`loaders` hold generations: the current one forks, the previous one is kept warm to be rolled back to. A loader that
dies is started again and leaves the workers alone; a worker that dies is started again under `decide.restart`.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import signal
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from rota.decide import crew as plans
from rota.decide.crew import Drain, Kill, Phase, Start
from rota.decide.restart import Falls, RestartPolicy
from rota.kit.clock import Clock
from rota.model.config import RuntimeConfig
from rota.model.ids import Instant
from rota.node import kernel
from rota.node.loaders import Loader, LoadError, Target, describe, start_process
from rota.node.pipes import (
    Beat,
    Brief,
    Channel,
    Deadline,
    Finish,
    Loaded,
    Registered,
    StartFailed,
    pair,
)
from rota.node.posts import CANARY, Post
from rota.node.stacks import Stacks
from rota.node.wear import Wear, worn
from rota.node.workers import Worker

log = logging.getLogger(__name__)

TICK = 0.5
"""Seconds between looks at beats and wear."""

STATUS_WAIT = 0.3
"""Seconds to wait for the status of a worker that has ended, from whoever reaps it."""

STACKS_WAIT = 0.3
"""Seconds a stalled worker gets to write down its stacks."""


class Witness(Protocol):
    """Who is told what happens to workers."""

    def registered(self, worker: Worker) -> None:
        """It can work."""

    def said(self, worker: Worker, message: Any) -> None:
        """It said something that the crew has no use for."""

    def draining(self, worker: Worker) -> None:
        """It should take nothing new; whoever gave it work sends Finish when it may end."""

    def ended(self, worker: Worker, why: str) -> None:
        """It is gone."""


Tell = Callable[..., None]
"""tell(kind, subject, **fields): an event of the node."""


class Crew:
    """The processes of one node."""

    def __init__(
        self, target: Target, config: RuntimeConfig, clock: Clock, tell: Tell, stacks: Stacks, policy: RestartPolicy
    ) -> None:
        self.target = target
        self.generation = 0
        """The one that works; 0 before the first was loaded."""

        self.previous: int | None = None
        self.posts: dict[str, Post] = {}
        self.workers: dict[int, Worker] = {}
        self.loaders: dict[int, Loader] = {}
        self.falls: dict[tuple[str, int], Falls] = {}
        self.loader_falls = Falls()
        self.exits: dict[tuple[str, str], int] = {}
        """How many workers ended, by pool and reason."""

        self.witnesses: list[Witness] = []
        self._config, self._clock, self._tell, self._stacks, self.policy = config, clock, tell, stacks, policy
        self._wake = asyncio.Event()
        self._changed = asyncio.Condition()
        self._numbers = itertools.count(1)
        self._statuses: dict[int, int] = {}
        self._recent: deque[int] = deque()
        self._by_pid: dict[int, Worker] = {}
        self._loader_pids: dict[int, Loader] = {}
        self._deadline: Deadline | None = None
        self._last_tick = clock.monotonic()
        self._loading: asyncio.Task[None] | None = None
        self._is_stopping = False

    # What it looks like

    @property
    def app(self) -> Loaded | None:
        """The app of the current generation."""
        loader = self.loaders.get(self.generation)
        return loader.app if loader else None

    def of_pool(self, name: str) -> list[Worker]:
        """The workers of one pool."""
        return [worker for worker in self.workers.values() if worker.brief.pool == name]

    def snapshot(self) -> plans.Crew:
        """As the plan sees it."""
        return plans.Crew(
            pools={name: post.pool for name, post in self.posts.items()},
            target=self.generation,
            members=tuple(worker.member for worker in self.workers.values()),
            loaders=frozenset(number for number, loader in self.loaders.items() if loader.can_fork),
            falls=self.falls,
            start_timeout=self._config.start_timeout,
            restart=self.policy,
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; looked at after every change."""
        async with self._changed:
            await self._changed.wait_for(condition)

    # What is wanted of it

    def man(self, posts: dict[str, Post]) -> None:
        """Want these posts from now on."""
        self.posts = posts
        for key in [key for key in self.falls if key[0] not in posts]:
            del self.falls[key]
        self.wake()

    async def load(self, generation: int, timeout: float) -> Loaded:
        """A loader of a new generation; LoadError if the app cannot be imported, and nothing of it stays."""
        loader = self._start_loader(generation)
        try:
            loaded = await loader.loaded(timeout)
        except BaseException:
            loader.kill()
            self.loaders.pop(generation, None)
            raise
        for warning in loaded.warnings:
            log.warning("loaded with a warning", extra={"generation": generation, "why": warning})
        self.wake()
        return loaded

    def switch(self, generation: int) -> None:
        """Work with another generation, whose loader is there; the plan does the rest."""
        self.generation = generation
        self.falls = {key: falls for key, falls in self.falls.items() if key[0] not in self.posts}
        self.wake()

    def dismiss_loaders(self, keep: set[int]) -> None:
        """Let go of generations nobody will go back to; their workers stay until they have drained."""
        for generation in self.loaders.keys() - keep:
            self.loaders.pop(generation).leave()

    def extend(self, deadline: Deadline) -> None:
        """Pass on until when this node's exclusive work may go on."""
        self._deadline = deadline
        for worker in self.workers.values():
            worker.send(deadline)

    def kill_all(self, why: str) -> None:
        """End every process now."""
        self._is_stopping = True
        for worker in self.workers.values():
            worker.kill(why)
        for loader in list(self.loaders.values()):
            loader.kill()

    def release(self) -> None:
        """Let go of everything; processes that are left die of their lifelines."""
        for worker in list(self.workers.values()):
            worker.let_go()
        self.workers.clear()
        for loader in list(self.loaders.values()):
            loader.kill()
        self.loaders.clear()

    def wake(self) -> None:
        """Something changed: plan again."""
        self._wake.set()

    # The loop

    async def run(self, progress: Callable[[], None] = lambda: None) -> None:
        """Plan and act, for ever; `progress` is called at each turn."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self.reap)
        self.reap()
        try:
            while True:
                self._wake.clear()
                progress()
                self._tick()
                look_again = self._act()
                async with self._changed:
                    self._changed.notify_all()
                wait = TICK if look_again is None else max(0.0, min(TICK, look_again - self._clock.monotonic()))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
        finally:
            loop.remove_signal_handler(signal.SIGCHLD)

    def _act(self) -> Instant | None:
        if self.generation and not self._can_load() and not self._is_stopping:
            self._mend_loader()
        plan = plans.plan(self.snapshot(), self._clock.monotonic())
        for action in plan.actions:
            match action:
                case Start(pool=pool, slot=slot, generation=generation):
                    self._start(self.posts[pool], slot, generation)
                case Drain(member=number, why=why):
                    self._drain(self.workers[number], why)
                case Kill(member=number, why=why):
                    self.workers[number].kill(why)
        return plan.look_again

    def _start(self, post: Post, slot: int, generation: int) -> None:
        number = next(self._numbers)
        stop_at = self._deadline.stop_at if self._deadline else None
        brief = Brief(
            worker=number,
            role=post.role,
            pool=post.pool.name,
            slot=slot,
            generation=generation,
            node=self.target.node,
            service=post.service,
            group=post.group,
            order=post.order,
            stop_at=stop_at,
            beat=min(1.0, self._config.stall_after.total_seconds() / 4),
        )
        worker = Worker(brief, post.drain, self._clock.monotonic())
        self.workers[number] = worker
        mine, theirs = pair()
        worker.channel = Channel(mine, partial(self._heard, worker), partial(self._silent, worker))
        worker.stacks = kernel.scratch_file(f"stacks of {number}")
        loader = self.loaders[generation]
        assert loader.app is not None
        if loader.app.app.start == "spawn":
            with theirs:
                worker.handle, worker.lifeline = start_process(
                    self.target, generation, theirs.fileno(), worker.stacks, brief
                )
            self._known(worker)
            return
        lifeline, worker.lifeline = os.pipe()
        loader.fork(brief, theirs.detach(), lifeline, os.dup(worker.stacks))

    def _drain(self, worker: Worker, why: str) -> None:
        if worker.phase == Phase.STARTING:
            worker.enter(Phase.DRAINING, self._clock.monotonic())
            worker.kill(why)
            return
        worker.enter(Phase.DRAINING, self._clock.monotonic())
        log.debug("draining", extra={"worker": worker.id, "pool": worker.brief.pool, "why": why})
        if worker.brief.role == "host":
            for witness in self.witnesses:
                witness.draining(worker)
        else:
            worker.send(Finish())

    # What loaders say (Listener)

    def forked(self, worker: int, pid: int) -> None:
        found = self.workers.get(worker)
        if found is None:
            return
        found.handle = kernel.Handle(pid)
        if found.why_killed:
            found.handle.kill()
        self._known(found)

    def refused(self, worker: int, why: str) -> None:
        if found := self.workers.get(worker):
            self._gone(found, why)

    def reaped(self, pid: int, status: int) -> None:
        worker = self._by_pid.get(pid)
        if worker is not None:
            self._gone(worker, worker.why_killed or describe(status))
        else:
            self._remember(pid, status)

    def loader_ended(self, loader: Loader) -> None:
        for worker in list(self.workers.values()):
            if worker.handle is None and worker.brief.generation == loader.generation:
                self._gone(worker, "its loader ended")
        if self.loaders.get(loader.generation) is loader:
            del self.loaders[loader.generation]
            if loader.generation == self.previous:
                self.previous = None
            if loader.app is not None and not self._is_stopping:
                self._tell("worker.exited", f"loader {loader.generation}", pool="loader", why="ended")
        self.wake()

    # What workers say

    def _heard(self, worker: Worker, message: Any) -> None:
        worker.heard = self._clock.monotonic()
        match message:
            case Beat(done=done):
                worker.done = max(worker.done, done)
            case Registered():
                if worker.phase == Phase.STARTING:
                    worker.enter(Phase.READY, worker.heard)
                    if self._deadline:
                        worker.send(self._deadline)
                    for witness in self.witnesses:
                        witness.registered(worker)
                    self.wake()
            case StartFailed(why=why):
                worker.why_killed = why
            case _:
                for witness in self.witnesses:
                    witness.said(worker, message)

    def _silent(self, worker: Worker) -> None:
        """Its channel ended: it has, or will at once."""
        if worker.id in self.workers:
            asyncio.get_running_loop().call_later(STATUS_WAIT, self._gone_for_sure, worker)

    # Ends

    def reap(self) -> None:
        """Take the status of every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if loader := self._loader_pids.pop(pid, None):
                loader.ended(status)
            else:
                self.reaped(pid, status)

    def _known(self, worker: Worker) -> None:
        """Its process id is known: watch for its end."""
        assert worker.handle is not None
        pid = worker.handle.pid
        self._by_pid[pid] = worker
        if pid in self._statuses:
            self._gone(worker, worker.why_killed or describe(self._statuses.pop(pid)))
            return
        fd = worker.handle.fileno()
        if fd is not None:
            asyncio.get_running_loop().add_reader(fd, self._has_ended, worker, fd)

    def _has_ended(self, worker: Worker, fd: int) -> None:
        asyncio.get_running_loop().remove_reader(fd)
        asyncio.get_running_loop().call_later(STATUS_WAIT, self._gone_for_sure, worker)

    def _gone_for_sure(self, worker: Worker) -> None:
        if worker.id in self.workers:
            worker.kill("closed its channel")  # if it lives, it cannot be told anything
            self._gone(worker, worker.why_killed)

    def _gone(self, worker: Worker, why: str) -> None:
        if self.workers.pop(worker.id, None) is None:
            return
        now = self._clock.monotonic()
        if worker.handle is not None:
            if (fd := worker.handle.fileno()) is not None:
                asyncio.get_running_loop().remove_reader(fd)
            self._by_pid.pop(worker.handle.pid, None)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.handle.pid, signal.SIGKILL)  # what it started and left behind
        stacks = worker.read_stacks()
        worker.let_go()
        if worker.phase != Phase.DRAINING:
            self._fell(worker, now, why, stacks)
        for witness in self.witnesses:
            witness.ended(worker, why)
        self.wake()

    def _fell(self, worker: Worker, now: Instant, why: str, stacks: str) -> None:
        brief = worker.brief
        key = (brief.pool, brief.slot)
        stood = timedelta(seconds=now - worker.since) if worker.phase == Phase.READY else timedelta()
        falls = self.falls[key] = self.falls.get(key, Falls()).add(now, stood, why, self.policy)
        self.exits[brief.pool, why] = self.exits.get((brief.pool, why), 0) + 1
        subject = f"{brief.pool}/{brief.slot}"
        where = self._stacks.save(subject, worker.pid, stacks) if stacks else None
        self._tell("worker.exited", subject, pool=brief.pool, why=why, generation=brief.generation, stacks=where)
        if falls.count == self.policy.loop_after and not brief.pool.startswith(CANARY):
            self._tell("worker.crash_loop", subject, pool=brief.pool, falls=falls.count, why=why)

    def _remember(self, pid: int, status: int) -> None:
        """A status may come before the word of its worker's birth; orphans of workers come here too."""
        self._statuses[pid] = status
        self._recent.append(pid)
        if len(self._recent) > 256:
            self._statuses.pop(self._recent.popleft(), None)

    # Loaders

    def _start_loader(self, generation: int) -> Loader:
        loader = self.loaders[generation] = Loader(self.target, generation, self)
        self._loader_pids[loader.pid] = loader
        return loader

    def _can_load(self) -> bool:
        return self.generation in self.loaders or self._loading is not None

    def _mend_loader(self) -> None:
        """Start the current generation's loader again, when its turn has come."""
        if self.loader_falls.start_at(self.policy) <= self._clock.monotonic():
            self._loading = asyncio.get_running_loop().create_task(self._reload_current(), name="loader")

    async def _reload_current(self) -> None:
        generation, before = self.generation, self._code
        try:
            loaded = await self.load(generation, self._config.reload_timeout.total_seconds())
            if before and loaded.code != before:
                log.warning(
                    "the code has changed since this generation was loaded; run: rota reload",
                    extra={"generation": generation},
                )
            self._code = loaded.code
        except LoadError as error:
            now = self._clock.monotonic()
            self.loader_falls = self.loader_falls.add(now, timedelta(), str(error), self.policy)
            self._tell("app.failed", self.target.app, why=str(error), generation=generation)
        finally:
            self._loading = None
            self.wake()

    _code = ""

    def loaded_as(self, loaded: Loaded) -> None:
        """Remember what the current generation was made of."""
        self._code = loaded.code
        self.loader_falls = Falls()

    # Beats and wear

    def _tick(self) -> None:
        now = self._clock.monotonic()
        was_late = now - self._last_tick > 3 * TICK  # then it is us who were deaf
        self._last_tick = now
        for worker in list(self.workers.values()):
            if worker.phase == Phase.STARTING or worker.why_killed:
                continue
            if not was_late and self._has_stalled(worker, now):
                self._end_stalled(worker, now)
            elif (
                worker.phase == Phase.READY and not worker.worn and (why := worn(self._wear(worker, now), self._config))
            ):
                worker.worn = why
                self._tell("worker.recycled", f"{worker.brief.pool}/{worker.brief.slot}", why=why)
                self.wake()

    def _has_stalled(self, worker: Worker, now: Instant) -> bool:
        post = self.posts.get(worker.brief.pool)
        has_loop = post.has_loop if post else worker.brief.role == "host"
        return has_loop and now - worker.heard > self._config.stall_after.total_seconds()

    def _end_stalled(self, worker: Worker, now: Instant) -> None:
        why = f"its loop stood still for {now - worker.heard:.1f} s"
        worker.why_killed = why
        worker.ask_for_stacks()
        asyncio.get_running_loop().call_later(STACKS_WAIT, worker.kill, why)
        self._tell("worker.stalled", f"{worker.brief.pool}/{worker.brief.slot}", why=why, pid=worker.pid)

    def _wear(self, worker: Worker, now: Instant) -> Wear:
        return Wear(age=timedelta(seconds=now - worker.born), done=worker.done, pid=worker.pid)
