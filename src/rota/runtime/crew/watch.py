"""Reports about a node's workers: from their loaders, from themselves, and of their ends.

It changes the crew's state, notifies the witnesses, and wakes the loop. A worker's end is reported by the first to
notice: the agent that reaps it, the loader that does, the handle that becomes readable, the channel that closes. All
lead to `gone`, once.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Protocol

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import Clock
from rota.model.ids import Instant
from rota.runtime.core.restart import Falls
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.posts import CANARY
from rota.runtime.crew.worker import Worker
from rota.runtime.loader.processes import Loader, describe
from rota.runtime.pipes.worker import Beat, Registered, StartFailed
from rota.runtime.system import kernel
from rota.runtime.worker.stacks import Stacks

STATUS_WAIT = 0.3
"""Seconds to wait for the exit status of a worker, from the process that reaps it."""

REASON = 1000
"""Characters of a reason that are kept: an app's error may be of any length, and this one goes into the store."""

KEEP_STATUS = 5.0
"""Seconds to keep the status of an unknown child: the message of its birth may still be on its way."""


class Witness(Protocol):
    """Gets the events of workers."""

    def registered(self, worker: Worker) -> None:
        """The worker can work."""

    def said(self, worker: Worker, message: Any) -> None:
        """The worker sent a message that the crew has no use for."""

    def draining(self, worker: Worker) -> None:
        """The worker should take nothing new; the witness that gave it work sends Finish when it may end."""

    def ended(self, worker: Worker, why: str) -> None:
        """The worker has ended."""


class CrewWatch:
    """Receives the reports about the workers of one node. The Listener of its loaders."""

    def __init__(
        self,
        crew: Crew,
        clock: Clock,
        tell: Tell,
        stacks: Stacks,
        witnesses: Iterable[Witness] = (),
        excuses: Iterable[Callable[[Worker], bool]] = (),
    ) -> None:
        """`excuses` say whether a worker fell because of the work it was given: its successor then starts without a
        wait."""
        self.witnesses = list(witnesses)
        self._crew, self._clock, self._tell, self._stacks = crew, clock, tell, stacks
        self._excuses = tuple(excuses)
        self._by_pid: dict[int, Worker] = {}
        self._statuses: dict[int, tuple[kernel.EndedProcess, Instant]] = {}

    # Reports of the operating system

    def reap(self) -> None:
        """Take the exit status of every child that has ended."""
        for ended in kernel.ended_children():
            if not self._crew.generations.has_reaped(ended.pid, ended.status):
                self.reaped(ended)

    # Reports of loaders (a Listener)

    def forked(self, worker: int, pid: int) -> None:
        """A worker was forked."""
        found = self._crew.workers.get(worker)
        if found is None:
            return
        found.handle = kernel.ProcessHandle(pid)
        if found.why_killed:
            found.handle.kill()
        self.known(found)

    def refused(self, worker: int, why: str) -> None:
        """A worker could not be forked, for this reason."""
        if found := self._crew.workers.get(worker):
            self.gone(found, why, "not forked")

    def reaped(self, ended: kernel.EndedProcess) -> None:
        """A child of a loader, or of the agent, has ended."""
        if worker := self._by_pid.get(ended.pid):
            worker.end = ended
            self.gone(worker, worker.why_killed or describe(ended.status), _sort(worker, ended.status))
            return
        now = self._clock.monotonic()
        self._statuses = {each: known for each, known in self._statuses.items() if now - known[1] < KEEP_STATUS}
        self._statuses[ended.pid] = (ended, now)

    def loader_changed(self, loader: Loader) -> None:
        """The loader has loaded its app, or has ended; then the workers it was asked for will not come."""
        if not loader.is_alive:
            self._crew.generations.ended(loader)
            for worker in list(self._crew.workers.values()):
                if worker.handle is None and worker.brief.generation == loader.generation:
                    self.gone(worker, "its loader ended", "not forked")
        self._crew.wake()

    # Reports of workers

    def heard(self, worker: Worker, message: Any) -> None:
        """A message came on a worker's channel."""
        worker.heard = self._clock.monotonic()
        match message:
            case Beat(done=done):
                worker.done = max(worker.done, done)
            case Registered() if worker.phase == WorkerPhase.STARTING:
                worker.enter(WorkerPhase.READY, worker.heard)
                if self._crew.deadline and worker.brief.order is not None:
                    worker.send(self._crew.deadline)
                for witness in self.witnesses:
                    witness.registered(worker)
                self._crew.wake()
            case StartFailed(why=why):
                worker.why_killed = why
            case _:
                for witness in self.witnesses:
                    witness.said(worker, message)

    def silent(self, worker: Worker) -> None:
        """The channel ended: the worker has ended, or is about to. A worker that became a program closed it then, and
        works on."""
        if worker.brief.attempt is not None and worker.brief.attempt.argv:
            return
        asyncio.get_running_loop().call_later(STATUS_WAIT, self._gone_for_sure, worker)

    # Ends

    def known(self, worker: Worker) -> None:
        """The process id is known: watch for its end."""
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
        if worker.id in self._crew.workers:
            worker.kill("closed its channel")  # if it lives, it can no longer be reached
            self.gone(worker, worker.why_killed, "lost")

    def gone(self, worker: Worker, why: str, sort: str) -> None:
        """A worker has ended, or was not started; `sort` is the sort of reason."""
        if worker.id not in self._crew.workers:
            return
        if worker.channel is not None:
            worker.channel.drain()  # its last messages may report that its work was done, or why it failed
        why = (worker.last_words or worker.why_killed or why)[:REASON]
        if self._crew.workers.pop(worker.id, None) is None:
            return
        if worker.handle is not None:
            if (fd := worker.handle.fileno()) is not None:
                asyncio.get_running_loop().remove_reader(fd)
            self._by_pid.pop(worker.handle.pid, None)
        stacks = worker.read_stacks()
        worker.let_go()
        if not worker.is_errand:
            self._crew.generations.target.enclosure.worker_ended(worker.brief.generation, worker.id)
        if worker.phase != WorkerPhase.DRAINING and not worker.is_errand:
            self._crew.exits[worker.brief.pool.partition(":")[0], sort] += 1
            self._fell(worker, why, stacks)
        elif worker.is_cut_short:
            self._report_end("worker.killed", worker, why, stacks)
        for witness in self.witnesses:
            witness.ended(worker, why)
        self._crew.wake()

    def _fell(self, worker: Worker, why: str, stacks: str) -> None:
        brief, now = worker.brief, self._clock.monotonic()
        key = (brief.pool, brief.slot)
        self._report_end("worker.exited", worker, why, stacks)
        if any(excuse(worker) for excuse in self._excuses):
            return
        stood = timedelta(seconds=now - worker.since) if worker.phase == WorkerPhase.READY else timedelta()
        falls = self._crew.falls.get(key, Falls()).add(now, stood, why, self._crew.policy)
        if brief.pool in self._crew.posts:
            self._crew.falls[key] = falls
        if falls.count == self._crew.policy.loop_after and not brief.pool.startswith(CANARY):
            self._tell("worker.crash_loop", _name(worker), pool=brief.pool, falls=falls.count, why=why)

    def _report_end(self, kind: str, worker: Worker, why: str, stacks: str) -> None:
        brief, subject = worker.brief, _name(worker)
        where = self._stacks.save(subject, brief.worker, stacks) if stacks else None
        self._tell(kind, subject, pool=brief.pool, why=why, generation=brief.generation, stacks=where)


def _name(worker: Worker) -> str:
    """The worker's name in events."""
    return f"{worker.brief.pool}/{worker.brief.slot}"


def _sort(worker: Worker, status: int) -> str:
    """The category of the reason a worker ended for; there are few, so that ends can be counted by it."""
    if worker.why_killed:
        return "killed by us"
    return "signal" if os.WIFSIGNALED(status) else "exit"
