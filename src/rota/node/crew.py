"""The crew of a node: its worker processes, kept as `decide.crew` plans.

Everything that happens (a worker registered, ended, fell silent; a loader came or went; other posts are wanted) only
changes the state and wakes the one loop that plans again and acts. Nothing here waits for a process.

A worker's end is known from whoever notices first: the agent that reaps it, the loader that does, the handle that
becomes readable, the channel that closes. All lead to `_gone`, once.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import secrets
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import msgspec

from rota.decide import crew as plans
from rota.decide.crew import Drain, Kill, Phase, Pool, Start
from rota.decide.restart import Falls, RestartPolicy
from rota.kit.clock import Clock
from rota.model.config import RuntimeConfig
from rota.model.errors import Unavailable
from rota.model.ids import Instant
from rota.node import kernel
from rota.node.generations import Generations
from rota.node.journal import Tell
from rota.node.loaders import Loader, describe, start_process
from rota.node.output import MARK
from rota.node.pipes import (
    Attempt,
    Beat,
    Brief,
    Channel,
    Deadline,
    Emitting,
    Finish,
    Order,
    Registered,
    StartFailed,
    pair,
)
from rota.node.posts import CANARY, RUN, Post
from rota.node.stacks import Stacks
from rota.node.vigil import STACKS_WAIT, Vigil
from rota.node.workers import Worker

log = logging.getLogger(__name__)

TICK = 0.5
"""Seconds between looks when nothing happens."""

STATUS_WAIT = 0.3
"""Seconds to wait for the status of a worker that has ended, from whoever reaps it."""

REASON = 1000
"""Characters of a reason: an app's error may be of any length, and this one goes into the store."""

KEEP_STATUS = 5.0
"""Seconds to keep the status of a child that nobody knows: its birth may not have been told yet."""


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


class Switch(Protocol):
    """Who connects workers of services with their proxies."""

    def can_connect(self, post: Post, slot: int, generation: int) -> bool:
        """Is the proxy there that a worker would get its requests from?"""

    def connect(self, brief: Brief) -> int | None:
        """The worker's end of a line to its proxy; None if there is no proxy now."""


class Crew:
    """The workers of one node."""

    def __init__(
        self,
        generations: Generations,
        config: RuntimeConfig,
        policy: RestartPolicy,
        clock: Clock,
        tell: Tell,
        stacks: Stacks,
    ) -> None:
        self.posts: dict[str, Post] = {}
        self.workers: dict[int, Worker] = {}
        self.falls: dict[tuple[str, int], Falls] = {}
        self.exits: Counter[tuple[str, str]] = Counter()
        """How many workers ended without being asked to, by sort of pool and sort of reason."""

        self.witnesses: list[Witness] = []
        self.switch: Switch | None = None
        self.emitting = Emitting()
        """How workers hand messages over to the relay."""

        self.letters = ""
        """The folder for records that streams could not read."""

        self.printed = ""
        """The folder for lines that workers print."""

        self.excuses: list[Callable[[Worker], bool]] = []
        """Did a worker fall because of what it was given to do? Then its successor need not wait for that."""

        self.recalled: Callable[[Order], Order] = lambda order: order
        """The order of a task that is started alone, with what its task saved last."""

        self.outfit: Callable[[Brief], Sequence[int]] = lambda brief: ()
        """The descriptors that a worker needs beside the usual ones; the crew closes them here."""

        self.generations, self.policy = generations, policy
        self._config, self._clock, self._tell, self._stacks = config, clock, tell, stacks
        self._vigil = Vigil(config, clock, tell)
        self._wake = asyncio.Event()
        self._changed = asyncio.Condition()
        self._numbers = itertools.count(1)
        self._by_pid: dict[int, Worker] = {}
        self._statuses: dict[int, tuple[kernel.Ended, Instant]] = {}
        self._deadline: Deadline | None = None

    # What it looks like

    def of_pool(self, name: str) -> list[Worker]:
        """The workers of one pool."""
        return [worker for worker in self.workers.values() if worker.brief.pool == name]

    def snapshot(self) -> plans.Crew:
        """As the plan sees it."""
        return plans.Crew(
            pools={name: post.pool for name, post in self.posts.items()},
            target=self.generations.current,
            members=tuple(worker.member for worker in self.workers.values() if not worker.is_errand),
            loaders=frozenset(self.generations.able()),
            safe_until=Instant(self._deadline.stop_at) if self._deadline else None,
            falls=self.falls,
            start_timeout=self._start_timeout(),
            restart=self.policy,
        )

    def _start_timeout(self) -> timedelta:
        """How long a worker may take to register; one that imports the app itself has the time of an import, too."""
        config, imports = self._config, any(loader.spawns for loader in self.generations.able().values())
        return max(config.start_timeout, config.load_timeout) if imports else config.start_timeout

    def is_settled(self) -> bool:
        """Is everything but tasks manned by the current generation?"""
        current = self.generations.current
        return current > 0 and plans.is_settled(self.snapshot(), current)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; looked at after every change."""
        async with self._changed:
            await self._changed.wait_for(condition)

    # What is wanted of it

    def man(self, posts: dict[str, Post]) -> None:
        """Want these posts from now on."""
        self.posts = posts
        self.falls = {key: falls for key, falls in self.falls.items() if key[0] in posts}
        self.wake()

    def forgive(self) -> None:
        """Forget all falls: another generation is tried."""
        self.falls = {}
        self.wake()

    def extend(self, deadline: Deadline | None) -> None:
        """Pass on until when this node's exclusive work may go on; None: it may not."""
        was_over = self._deadline is None
        self._deadline = deadline
        if deadline is not None:
            for worker in self.workers.values():
                if worker.brief.order is not None:
                    worker.send(deadline)
            if was_over:
                self.wake()

    def kill_exclusive(self, why: str) -> None:
        """End every worker whose work nobody else may do at the same time."""
        for worker in self.workers.values():
            if worker.brief.order is not None and worker.brief.order.is_exclusive:
                worker.kill(why)

    def replace(self, number: int, why: str, *, now: bool) -> None:
        """Put another in a worker's place: after it, or at once if it need not finish what it has. That is no fall."""
        worker = self.workers.get(number)
        if worker is None or worker.why_killed:
            return
        if not now:
            worker.worn = worker.worn or why
        else:
            worker.enter(Phase.DRAINING, self._clock.monotonic())
            self._cut_short(worker, why)
        self.wake()

    def send_out(self, attempt: Attempt) -> int:
        """Start a worker for one attempt, beside all pools; its number. Unavailable if nobody can be started now."""
        generation = self.generations.current
        loader = self.generations.able().get(generation)
        if loader is None:
            raise Unavailable("the app's loader is being started again; try again")
        brief = self._brief(Post(Pool(RUN, 1), RUN), 0, generation)
        worker = Worker(msgspec.structs.replace(brief, attempt=attempt), 0, None, self._clock.monotonic())
        self.workers[worker.id] = worker
        self.generations.target.enclosure.begin(generation)
        try:
            self._bring_up(worker, loader)
        except OSError as error:
            self._gone(worker, f"it could not be started: {error.strerror}", "not forked")
            raise Unavailable(f"no process could be started: {error.strerror}; try again") from error
        return worker.id

    def dismiss(self, number: int, *, is_limited: bool = False) -> None:
        """A worker will end by itself; that is no fall. If it `is_limited`, it has `drain` for that from now on."""
        worker = self.workers.get(number)
        if worker is None:
            return
        is_new_limit = is_limited and worker.drain is None
        if is_new_limit:
            worker.drain = self._config.drain
        if worker.phase != Phase.DRAINING or is_new_limit:
            worker.enter(Phase.DRAINING, self._clock.monotonic())

    def kill_all(self, why: str) -> None:
        """End every process now."""
        self.posts = {}
        for worker in self.workers.values():
            worker.kill(why)
        self.generations.close()

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
                self._vigil.look(self.workers.values(), self.posts)
                self._forget_falls_of_the_recovered()
                self._end_what_is_left()
                look_again = self._act()
                async with self._changed:
                    self._changed.notify_all()
                wait = TICK if look_again is None else max(0.0, min(TICK, look_again - self._clock.monotonic()))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
        finally:
            loop.remove_signal_handler(signal.SIGCHLD)

    def reap(self) -> None:
        """Take the status of every child that has ended."""
        for ended in kernel.ended_children():
            if not self.generations.has_reaped(ended.pid, ended.status):
                self.reaped(ended)

    def _forget_falls_of_the_recovered(self) -> None:
        """What has stood long enough is in no crash loop any more, and is not shown as if it were."""
        since = self._clock.monotonic() - self.policy.settled_after.total_seconds()
        for worker in self.workers.values() if self.falls else ():
            if worker.since <= since and self._is_wanted(worker):
                self.falls.pop((worker.brief.pool, worker.brief.slot), None)

    def _end_what_is_left(self) -> None:
        """End the daemons of generations that were replaced and have no worker any more."""
        generations = self.generations
        busy = {worker.brief.generation for worker in self.workers.values()} | {generations.current}
        generations.target.enclosure.tidy(busy | generations.on_trial(), generations.kept())

    def _is_wanted(self, worker: Worker) -> bool:
        """Does a worker fill its slot? If not, the slot's falls are those of its successors."""
        post = self.posts.get(worker.brief.pool)
        is_current = worker.brief.generation == self.generations.current
        is_fit = post is not None and post.pool.version == worker.version and not worker.worn
        return worker.phase == Phase.READY and is_current and is_fit

    def _act(self) -> Instant | None:
        mend_at = self.generations.mend(self)
        plan = plans.plan(self.snapshot(), self._clock.monotonic())
        for action in plan.actions:
            # Each step may end what a later one is about: a loader that is told to fork may turn out to be gone.
            match action:
                case Start(pool=pool, slot=slot, generation=generation):
                    if (post := self.posts.get(pool)) and (loader := self.generations.able().get(generation)):
                        if post.has_line and not (self.switch and self.switch.can_connect(post, slot, generation)):
                            continue  # the next turn asks again
                        if not loader.has_room:
                            loader.when_room(self.wake)
                            continue
                        self._start(post, slot, loader)
                case Drain(member=number, why=why):
                    if worker := self.workers.get(number):
                        self._drain(worker, why)
                case Kill(member=number, why=why):
                    if worker := self.workers.get(number):
                        self._kill(worker, why)
        return min((when for when in (mend_at, plan.look_again) if when is not None), default=None)

    def _start(self, post: Post, slot: int, loader: Loader) -> None:
        brief = self._brief(post, slot, loader.generation)
        worker = Worker(brief, post.pool.version, post.drain, self._clock.monotonic())
        self.workers[worker.id] = worker
        self.generations.target.enclosure.begin(loader.generation)
        try:
            self._bring_up(worker, loader)
        except OSError as error:  # out of descriptors, most likely
            self._gone(worker, f"it could not be started: {error.strerror}", "not forked")

    def _bring_up(self, worker: Worker, loader: Loader) -> None:
        extras = list(self.outfit(worker.brief))
        if worker.brief.has_line:
            assert self.switch is not None
            extras = [fd for fd in [self.switch.connect(worker.brief)] if fd is not None]
            if not extras:
                self._gone(worker, "its proxy is not there", "not forked")
                return
        try:
            self._connect(worker, loader, extras)
        finally:
            for fd in extras:
                os.close(fd)

    def _connect(self, worker: Worker, loader: Loader, extras: list[int]) -> None:
        mine, theirs = pair()
        worker.channel = Channel(mine, partial(self._heard, worker), partial(self._silent, worker))
        worker.stacks = kernel.scratch_file(f"stacks of {worker.id}")
        if loader.spawns:
            with theirs:
                worker.handle, worker.lifeline = start_process(
                    self.generations.target, loader.generation, theirs.fileno(), worker.stacks, worker.brief, extras
                )
            self._known(worker)
        else:
            with theirs:
                lifeline, worker.lifeline = os.pipe()
                more = [os.dup(fd) for fd in extras]
                loader.fork(worker.brief, os.dup(theirs.fileno()), lifeline, os.dup(worker.stacks), *more)

    def _cut_short(self, worker: Worker, why: str) -> None:
        """Kill a worker that works for too long; it writes down its stacks before, to show at what."""
        if not worker.why_killed:
            worker.why_killed, worker.is_cut_short = why, True
            worker.ask_for_stacks()
            asyncio.get_running_loop().call_later(STACKS_WAIT, worker.kill, why)

    def _kill(self, worker: Worker, why: str) -> None:
        if worker.phase == Phase.DRAINING and worker.handle is not None:
            self._cut_short(worker, why)
            return
        worker.kill(why)
        if worker.handle is None and (loader := self.generations.able().get(worker.brief.generation)):
            log.warning("loader does not fork", extra={"generation": loader.generation, "pid": loader.pid})
            loader.kill()

    def _brief(self, post: Post, slot: int, generation: int) -> Brief:
        return Brief(
            worker=next(self._numbers),
            role=post.role,
            pool=post.pool.name,
            slot=slot,
            generation=generation,
            node=self.generations.target.node,
            service=post.service,
            group=post.group,
            has_line=post.has_line,
            order=None if post.order is None else self.recalled(post.order),
            mark=secrets.token_bytes(MARK),
            deadline=self._deadline,
            beat=self._vigil.beat,
            emitting=self.emitting,
            letters=self.letters,
            printed=self.printed,
        )

    def _drain(self, worker: Worker, why: str) -> None:
        was, now = worker.phase, self._clock.monotonic()
        worker.enter(Phase.DRAINING, now)
        log.debug("draining", extra={"worker": worker.id, "pool": worker.brief.pool, "why": why})
        if was == Phase.STARTING:
            worker.kill(why)
        elif worker.brief.role in ("host", "executor") or worker.brief.has_line:
            for witness in self.witnesses:
                witness.draining(worker)
        else:
            worker.send(Finish())

    # What loaders say (a Listener)

    def forked(self, worker: int, pid: int) -> None:
        """A worker is there."""
        found = self.workers.get(worker)
        if found is None:
            return
        found.handle = kernel.Handle(pid)
        if found.why_killed:
            found.handle.kill()
        self._known(found)

    def refused(self, worker: int, why: str) -> None:
        """A worker is not there, and why."""
        if found := self.workers.get(worker):
            self._gone(found, why, "not forked")

    def reaped(self, ended: kernel.Ended) -> None:
        """Somebody's child ended."""
        if worker := self._by_pid.get(ended.pid):
            worker.end = ended
            self._gone(worker, worker.why_killed or describe(ended.status), _sort(worker, ended.status))
            return
        now = self._clock.monotonic()
        self._statuses = {each: known for each, known in self._statuses.items() if now - known[1] < KEEP_STATUS}
        self._statuses[ended.pid] = (ended, now)

    def loader_changed(self, loader: Loader) -> None:
        """It has loaded, or it is gone; then those it was asked for will not come."""
        if not loader.is_alive:
            self.generations.ended(loader)
            for worker in list(self.workers.values()):
                if worker.handle is None and worker.brief.generation == loader.generation:
                    self._gone(worker, "its loader ended", "not forked")
        self.wake()

    # What workers say

    def _heard(self, worker: Worker, message: Any) -> None:
        worker.heard = self._clock.monotonic()
        match message:
            case Beat(done=done):
                worker.done = max(worker.done, done)
            case Registered() if worker.phase == Phase.STARTING:
                worker.enter(Phase.READY, worker.heard)
                if self._deadline and worker.brief.order is not None:
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
        """Its channel ended: it has, or will at once. One that became a program closed it then, and works on."""
        if worker.brief.attempt is not None and worker.brief.attempt.argv:
            return
        asyncio.get_running_loop().call_later(STATUS_WAIT, self._gone_for_sure, worker)

    # Ends

    def _known(self, worker: Worker) -> None:
        """Its process id is known: watch for its end."""
        assert worker.handle is not None
        pid = worker.handle.pid
        self._by_pid[pid] = worker
        status = self._statuses.pop(pid, None)
        if status is not None and status[1] >= worker.born:  # before that the number was another process's
            self.reaped(status[0])
        elif (fd := worker.handle.fileno()) is not None:
            asyncio.get_running_loop().add_reader(fd, self._has_ended, worker, fd)

    def _has_ended(self, worker: Worker, fd: int) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(fd)
        loop.call_later(STATUS_WAIT, self._gone_for_sure, worker)

    def _gone_for_sure(self, worker: Worker) -> None:
        if worker.id in self.workers:
            worker.kill("closed its channel")  # if it lives, it cannot be told anything
            self._gone(worker, worker.why_killed, "lost")

    def _gone(self, worker: Worker, why: str, sort: str) -> None:
        if worker.id not in self.workers:
            return
        if worker.channel is not None:
            worker.channel.drain()  # its last words may say that its work was done, or why it could not be
        why = (worker.last_words or worker.why_killed or why)[:REASON]
        if self.workers.pop(worker.id, None) is None:
            return
        if worker.handle is not None:
            if (fd := worker.handle.fileno()) is not None:
                asyncio.get_running_loop().remove_reader(fd)
            self._by_pid.pop(worker.handle.pid, None)
        stacks = worker.read_stacks()
        worker.let_go()
        if not worker.is_errand:
            self.generations.target.enclosure.worker_ended(worker.brief.generation, worker.id)
        if worker.phase != Phase.DRAINING and not worker.is_errand:
            self.exits[worker.brief.pool.partition(":")[0], sort] += 1
            self._fell(worker, why, stacks)
        elif worker.is_cut_short:
            self._report_end("worker.killed", worker, why, stacks)
        for witness in self.witnesses:
            witness.ended(worker, why)
        self.wake()

    def _fell(self, worker: Worker, why: str, stacks: str) -> None:
        brief, now = worker.brief, self._clock.monotonic()
        key = (brief.pool, brief.slot)
        self._report_end("worker.exited", worker, why, stacks)
        if any(excuse(worker) for excuse in self.excuses):
            return
        stood = timedelta(seconds=now - worker.since) if worker.phase == Phase.READY else timedelta()
        falls = self.falls.get(key, Falls()).add(now, stood, why, self.policy)
        if brief.pool in self.posts:
            self.falls[key] = falls
        if falls.count == self.policy.loop_after and not brief.pool.startswith(CANARY):
            self._tell("worker.crash_loop", _name(worker), pool=brief.pool, falls=falls.count, why=why)

    def _report_end(self, kind: str, worker: Worker, why: str, stacks: str) -> None:
        brief, subject = worker.brief, _name(worker)
        where = self._stacks.save(subject, brief.worker, stacks) if stacks else None
        self._tell(kind, subject, pool=brief.pool, why=why, generation=brief.generation, stacks=where)


def _name(worker: Worker) -> str:
    """The worker, as events name it."""
    return f"{worker.brief.pool}/{worker.brief.slot}"


def _sort(worker: Worker, status: int) -> str:
    """The sort of reason a worker ended for; few, so that they can be counted by it."""
    if worker.why_killed:
        return "killed by us"
    return "signal" if os.WIFSIGNALED(status) else "exit"
