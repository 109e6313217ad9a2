"""The resource tasks of a node: what is ordered, and which worker runs it.

Orders come as whole sets; `runtime.core.handover` says which host worker starts or stops which. Tasks that run alone
are posts of their own (`runtime.crew.posts`) and are only kept account of here.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import Clock
from rota.model.ids import Instant
from rota.resources.core.apart import Apart
from rota.resources.core.setbacks import Setbacks, Version
from rota.resources.node.posts import APART, HOST, kinds_alone
from rota.resources.pipe import StartTask, StopTask, TaskEnded, TaskSilent, TaskStarted
from rota.runtime.core import handover
from rota.runtime.core.handover import Copy, CopyPhase, StartCopy, StopCopy
from rota.runtime.core.restart import Falls, RestartPolicy
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.watch import REASON
from rota.runtime.crew.worker import Worker
from rota.runtime.pipes.brief import Order
from rota.runtime.pipes.worker import Finish

log = logging.getLogger(__name__)

RESTS = 3.0
"""The pause between two reconciles, as a multiple of the time that the last one took."""

LONGEST_REST = 0.5
"""Seconds."""


class Returned(msgspec.Struct, frozen=True):
    """Why a task is given back."""

    epoch: int
    why: str


@dataclass
class _Copy:
    phase: CopyPhase
    since: Instant


class Tasks:
    """Orders and copies."""

    def __init__(
        self,
        crew: Crew,
        clock: Clock,
        policy: RestartPolicy,
        grace: timedelta,
        changed: Callable[[], None],
        newest: Callable[[str, int], bytes | None],
        tell: Tell,
    ) -> None:
        self.orders: dict[str, Order] = {}
        """What is to run."""

        self.returned: dict[str, Returned] = {}
        """Assigned tasks that this node gives back."""

        self._crew, self._clock, self._policy, self._grace = crew, clock, policy, grace.total_seconds()
        self._changed, self._newest, self._tell = changed, newest, tell
        self._copies: dict[tuple[str, int, int], _Copy] = {}
        self._setbacks = Setbacks(policy)
        self._apart = Apart(policy)
        self._held: set[str] = set()
        """Tasks that came back to this node, where they failed before, and wait."""

        self._look_again: Instant | None = None
        self._is_due = False
        self._rests_until = 0.0

    def want(self, orders: Iterable[Order]) -> None:
        """Run exactly these from now on, but not what was given back and is still on its way."""
        assigned = {order.task: order for order in orders}
        epochs = {task: order.epoch for task, order in assigned.items()}
        self.returned = {task: each for task, each in self.returned.items() if epochs.get(task) == each.epoch}
        before, now = self.orders, self._clock.monotonic()
        self.orders = {task: order for task, order in assigned.items() if task not in self.returned}
        self._setbacks.forget(now, but=self.orders.keys())
        new = {task for task, order in self.orders.items() if task not in before or before[task].epoch != order.epoch}
        self._held = {task for task in (self._held & self.orders.keys()) | new if self._start_at(task) > now}
        self._apart.keep(self.orders.keys(), now)
        self._reconcile_soon()

    def due(self) -> list[Order]:
        """What is to run, without tasks that failed here under an earlier placement and still wait."""
        return [order for task, order in self.orders.items() if task not in self._held]

    def portions(self) -> list[int]:
        """The numbers of the portions of suspects that need a process each."""
        return sorted(self._apart.portions)

    def running(self) -> set[str]:
        """The ordered tasks that run now."""
        return {
            task
            for (task, epoch, _), copy in self._copies.items()
            if copy.phase == CopyPhase.RUNNING and task in self.orders and self.orders[task].epoch == epoch
        }

    def failing(self) -> dict[str, str]:
        """The ordered tasks that failed more than once in a row and have not recovered since, and why."""
        now = self._clock.monotonic()
        fell = {task: self._falls(task, now) for task in self._setbacks.tasks() if task in self.orders}
        again = {task: falls for task, falls in fell.items() if falls.count > 1}
        if not again:
            return {}
        settled = {
            task
            for (task, epoch, _), copy in self._copies.items()
            if task in again
            and copy.phase == CopyPhase.RUNNING
            and self.orders[task].epoch == epoch
            and now - copy.since >= self._policy.settled_after.total_seconds()
        }
        return {task: again[task].why for task in sorted(again.keys() - settled)}

    def has_copy(self, task: str) -> bool:
        """Does a worker have the task, whatever is ordered?"""
        return any(each == task for each, _, _ in self._copies)

    def tick(self) -> None:
        """Start again what has waited long enough after a fall; give up hosts with tasks that will not stop."""
        now = self._clock.monotonic()
        for (task, _, number), copy in self._hosted_copies():
            worker = self._crew.workers[number]
            if copy.phase == CopyPhase.STOPPING and now - copy.since > self._grace and not worker.worn:
                worker.worn = f"task {task} does not stop"
                log.warning("task does not stop", extra={"task": task, "worker": number})
                self._crew.wake()
        if self._look_again is not None and now >= self._look_again:
            self.reconcile()
        if innocent := self._apart.clear(now, self._portions_that_run()):
            log.info("suspects go back to the shared hosts", extra={"count": len(innocent)})
            self._changed()
            self.reconcile()
        if over := {task for task in self._held if self._start_at(task) <= now}:
            self._held -= over
            self._changed()

    def _reconcile_soon(self) -> None:
        """Reconcile once for all that comes at a time.

        A reconcile goes through every task of the node. With thousands of tasks, starting a hundred at a time, this
        took most of the agent's time; so the next one waits for a few times as long as the last one took.
        """
        if not self._is_due:
            self._is_due = True
            loop = asyncio.get_running_loop()
            loop.call_later(max(0.0, self._rests_until - self._clock.monotonic()), self._reconcile_now)

    def _reconcile_now(self) -> None:
        began = self._clock.monotonic()
        self.reconcile()
        ended = self._clock.monotonic()
        self._rests_until = ended + min(LONGEST_REST, RESTS * (ended - began))

    def reconcile(self) -> None:
        """Bring the host workers closer to the orders."""
        self._is_due = False
        hosts = {worker.id for worker in self._crew.of_pool(HOST) if worker.can_work}
        if self._crew.generations.app is None:
            return  # nobody knows yet which of them run alone
        alone = kinds_alone(self._crew.generations.app.app)
        waiting = self._apart.held()
        hosted = {
            task: order.epoch
            for task, order in self.orders.items()
            if not order.is_exclusive and order.kind not in alone and task not in waiting
        }
        copies = [Copy(task, epoch, worker, copy.phase) for (task, epoch, worker), copy in self._hosted_copies()]
        now = self._clock.monotonic()
        falls = {task: self._falls(task, now) for task in hosted if task in self._setbacks}
        moves, self._look_again = handover.plan(hosted, copies, hosts, falls, self._policy, now, self._places_apart())
        for move in moves:
            match move:
                case StartCopy(task=task, worker=worker):
                    self._start(self.orders[task], self._crew.workers[worker], now)
                case StopCopy(task=task, epoch=epoch, worker=worker, why=why):
                    self._stop(task, epoch, worker, why)
        self._let_empty_hosts_go()

    # Witness

    def registered(self, worker: Worker) -> None:
        if _is_host(worker):
            self.reconcile()
        elif (order := worker.brief.order) is not None:
            self._copies[order.task, order.epoch, worker.id] = _Copy(CopyPhase.STARTING, self._clock.monotonic())

    def draining(self, worker: Worker) -> None:
        if _is_host(worker):
            self.reconcile()
        elif not worker.brief.has_line:
            worker.send(Finish())  # a canary has nothing to hand over

    def said(self, worker: Worker, message: Any) -> None:
        now = self._clock.monotonic()
        match message:
            case TaskStarted(task=task, epoch=epoch):
                copy = self._copies.setdefault((task, epoch, worker.id), _Copy(CopyPhase.STARTING, now))
                if copy.phase == CopyPhase.STARTING:  # one that was asked to stop meanwhile stays so
                    copy.phase, copy.since = CopyPhase.RUNNING, now
                self._reconcile_soon()
            case TaskSilent(task=task, epoch=epoch, why=why):
                if self._is_ordered(task, epoch):
                    self._give_back(task, self._fell(task, self._copies.get((task, epoch, worker.id)), why), why)
            case TaskEnded(task=task, epoch=epoch, was_asked=was_asked, error=error):
                why = "" if was_asked else error or "its function returned"
                if worker.brief.order is not None:
                    worker.last_words = why
                self._ended(task, epoch, worker.id, why)
                self._reconcile_soon()

    def ended(self, worker: Worker, why: str) -> None:
        # A host's end is no fault of its tasks, unless it is known which of them it was. A task alone is its worker.
        copies = [key for key in self._copies if key[2] == worker.id]
        at_fault = self._at_fault(worker, [task for task, epoch, _ in copies if self._is_ordered(task, epoch)], why)
        for task, epoch, number in copies:
            self._ended(task, epoch, number, why if task in at_fault else "")
        self.reconcile()

    def _at_fault(self, worker: Worker, tasks: list[str], why: str) -> set[str]:
        """Those of a worker's tasks that are at fault for its end; hosts that died are looked into."""
        now = self._clock.monotonic()
        stood = timedelta(seconds=now - worker.since)
        if worker.phase == WorkerPhase.DRAINING:
            return set()
        if worker.brief.order is not None:
            return {worker.brief.order.task}
        if worker.phase != WorkerPhase.READY or not _is_host(worker):
            return set()
        if worker.brief.pool == HOST:
            if suspects := self._apart.host_died(tasks, stood, now):
                extra = {"suspects": len(suspects), "portions": len(self._apart.portions), "why": why}
                log.warning("a host died again: its tasks start apart, to find the one that ends it", extra=extra)
                self._changed()
            return set()
        guilty = self._apart.portion_died(_portion(worker), stood, now)
        self._changed()
        if guilty is None:
            return set()
        if guilty in tasks and guilty not in self._setbacks:
            self._tell("task.set_apart", guilty, epoch=self.orders[guilty].epoch, why=why)
        return {guilty}

    def _give_back(self, task: str, falls: Falls, why: str) -> None:
        """Stop a task for good: the leader shall find it another node."""
        order = self.orders.pop(task)
        if _is_news(falls, self._policy):
            self._tell("task.given_back", task, epoch=order.epoch, falls=falls.count, why=why)
        self.returned[task] = Returned(order.epoch, why[:REASON])
        self._apart.keep(self.orders.keys(), self._clock.monotonic())
        self._changed()
        self.reconcile()

    # Steps

    def _start(self, order: Order, worker: Worker, now: Instant) -> None:
        """Order a host to run a task; later, if it has not read most of the orders before."""
        if not worker.has_room:
            worker.when_room(self._reconcile_soon)
            return
        self._copies[order.task, order.epoch, worker.id] = _Copy(CopyPhase.STARTING, now)
        worker.send(StartTask(self.recalled(order)))

    def recalled(self, order: Order) -> Order:
        """The order with what its task saved last under this epoch, if it saved anything."""
        saved = self._newest(order.task, order.epoch)
        return order if saved is None else msgspec.structs.replace(order, saved=saved)

    def _stop(self, task: str, epoch: int, number: int, why: str) -> None:
        self._copies[task, epoch, number] = _Copy(CopyPhase.STOPPING, self._clock.monotonic())
        if worker := self._crew.workers.get(number):
            worker.send(StopTask(task, epoch))
        log.debug("task stops", extra={"task": task, "epoch": epoch, "worker": number, "why": why})

    def _ended(self, task: str, epoch: int, number: int, why: str) -> None:
        copy = self._copies.pop((task, epoch, number), None)
        if copy is None or copy.phase == CopyPhase.STOPPING or not why or not self._is_ordered(task, epoch):
            return
        log.warning("task ended", extra={"task": task, "epoch": epoch, "why": why})
        falls = self._fell(task, copy, why)
        if falls.is_crash_loop(self._policy):
            self._give_back(task, falls, f"it ends again and again: {why}")

    def _fell(self, task: str, copy: _Copy | None, why: str) -> Falls:
        """The failures of an ordered task in a row, now that it failed once more."""
        now = self._clock.monotonic()
        stood = now - copy.since if copy is not None and copy.phase == CopyPhase.RUNNING else 0.0
        return self._setbacks.add(task, self._version(task), now, timedelta(seconds=stood), why)

    def _falls(self, task: str, now: Instant) -> Falls:
        return self._setbacks.of(task, self._version(task), now) if task in self._setbacks else Falls()

    def _start_at(self, task: str) -> Instant:
        return self._falls(task, self._clock.monotonic()).start_at(self._policy)

    def _version(self, task: str) -> Version:
        return Version(self.orders[task].spec, self._crew.generations.current)

    def _is_ordered(self, task: str, epoch: int) -> bool:
        return task in self.orders and self.orders[task].epoch == epoch

    def _let_empty_hosts_go(self) -> None:
        busy = {worker for _, _, worker in self._copies}
        for worker in self._crew.workers.values():
            if _is_host(worker) and worker.phase == WorkerPhase.DRAINING and worker.id not in busy:
                worker.send(Finish())

    def _hosted_copies(self) -> list[tuple[tuple[str, int, int], _Copy]]:
        workers = self._crew.workers
        return [(key, copy) for key, copy in self._copies.items() if key[2] in workers and _is_host(workers[key[2]])]

    def _places_apart(self) -> dict[str, list[int]]:
        """The hosts of suspects, by task."""
        hosts: dict[int, list[int]] = {number: [] for number in self._apart.portions}
        for worker in self._crew.workers.values() if hosts else ():
            if worker.can_work and _is_host(worker) and (number := _portion(worker)) in hosts:
                hosts[number].append(worker.id)
        return {task: hosts[number] for task, number in self._apart.placed().items()}

    def _portions_that_run(self) -> set[int]:
        workers = self._crew.workers.values() if self._apart.portions else ()
        busy = {number for (_, _, number), copy in self._copies.items() if copy.phase == CopyPhase.RUNNING}
        return {_portion(worker) for worker in workers if worker.id in busy and _is_host(worker)}


def _is_host(worker: Worker) -> bool:
    """Does it run tasks that it is ordered to, one or many?"""
    return worker.brief.pool == HOST or worker.brief.pool.startswith(APART)


def _portion(worker: Worker) -> int:
    """The number of the portion that a host is for; 0: it is a shared one."""
    pool = worker.brief.pool
    return int(pool.removeprefix(APART)) if pool.startswith(APART) else 0


def was_apart(worker: Worker) -> bool:
    """Did it run suspects? Then the tasks wait before they start again, not the host."""
    return worker.phase == WorkerPhase.READY and _portion(worker) > 0


def _is_news(falls: Falls, policy: RestartPolicy) -> bool:
    """Is a give-back worth an event? Of a task that keeps failing only the first, second, fourth, … is."""
    rounds = falls.count - policy.loop_after + 1
    return rounds <= 1 or rounds & (rounds - 1) == 0
