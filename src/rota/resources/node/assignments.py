"""Assignments: what the store says this node should run, as whole sets of orders.

They are read at one revision and watched from there; each commit makes a new set. While the store is away, running
tasks go on. After a gap the whole set is read again, so no change is missed, and the leader is not asked.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from datetime import datetime
from random import random
from typing import Protocol

import msgspec

from rota.kit.time.backoff import delays
from rota.model import codec, keys
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.ids import NodeId, Revision
from rota.resources.core import trouble
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import Relief, SavedState, Trouble
from rota.runtime.pipes.brief import Order
from rota.store.follow import RETRY, follow_all
from rota.store.port import At, Delete, Entry, Put, Store, Write
from rota.store.records import understood

log = logging.getLogger(__name__)


MANY = 500
"""From this many assignments on, changes are taken together."""

TOGETHER = 0.1
"""Seconds that the first of them waits for the others."""

TOLD = 100
"""Tasks reported as running in one commit."""

CONFIRM = 0.2
"""Seconds between looks at whether a task that must be confirmed has stopped."""


class TaskRunner(Protocol):
    """What runs the tasks of a node."""

    def want(self, orders: Iterable[Order]) -> None:
        """Run exactly these."""

    def runs(self, task: str) -> bool:
        """Does a process run this task, or is it about to?"""

    def running(self) -> Collection[str]:
        """Tasks that run, as they are ordered now."""

    def returned(self) -> Mapping[str, str]:
        """Tasks that are given back, and why."""


async def follow_assignments(
    store: Store,
    node: NodeId,
    work: TaskRunner,
    jitter: Callable[[], float] = random,
    *,
    look: float = CONFIRM,
) -> None:
    """Have `work` run what the store says, now and after each change, until cancelled.

    An assignment that is to be confirmed is no order. It is deleted when its task has ended; so is one whose task
    `work` gives back, together with a note why. `look`: seconds between checks of such tasks.
    """
    async with asyncio.TaskGroup() as parts:
        known = AssignmentOrders(node)
        parts.create_task(_give_back(store, node, known, work, look), name="give back")
        parts.create_task(_report_reliefs(store, known, work, look), name="reliefs")
        await _follow(store, known, work, jitter)


async def _follow(store: Store, known: "AssignmentOrders", work: TaskRunner, jitter: Callable[[], float]) -> None:
    waits, memory = delays(*RETRY, jitter), SavedStates()
    while True:
        try:
            async with aclosing(_sets(store, keys.assignments(known.node), jitter)) as sets:
                async for found in sets:
                    orders = await memory.recall(store, known.read(found))
                    known.adopt()  # together with the work: what is given back must belong to what is known
                    work.want(orders)
                    waits = delays(*RETRY, jitter)
        except Unavailable as error:  # while recalling
            log.debug("following assignments again", extra={"node": known.node, "why": str(error)})
        await asyncio.sleep(next(waits).total_seconds())


class AssignmentOrders:
    """Assignments as orders; each is read once, however often the set is looked at."""

    def __init__(self, node: NodeId) -> None:
        self.node = node
        self._held: dict[str, _HeldOrder] = {}
        self._read: dict[str, _HeldOrder] = {}

    def read(self, entries: Iterable[Entry]) -> list[Order]:
        """What the node should run, in the order of the keys."""
        self._read = {}
        for entry in entries:
            task = entry.key.removeprefix(keys.assignments(self.node))
            seen = self._held.get(task)
            self._read[task] = seen if seen and seen.entry.modified == entry.modified else _held(task, entry)
        return [held.order for held in self._read.values() if held.order is not None]

    def adopt(self) -> None:
        """Use what was read last."""
        self._held = self._read

    def leaving(self, returned: Mapping[str, str]) -> list[tuple[str, Entry, Assignment]]:
        """The assignments that are to end here: as the leader says, or because their task is given back."""
        return [
            (task, held.entry, held.assignment)
            for task, held in self._held.items()
            if held.assignment is not None and (held.assignment.stopping or task in returned)
        ]

    def relieving(self) -> dict[str, Entry]:
        """Assignments of tasks that take the place of one on another node."""
        return {
            task: held.entry
            for task, held in self._held.items()
            if held.order is not None and held.assignment is not None and held.assignment.relieves is not None
        }


class _HeldOrder(msgspec.Struct, frozen=True):
    entry: Entry
    assignment: Assignment | None
    """None if a newer Rota wrote it."""

    order: Order | None
    """None if it is to end."""


def _held(task: str, entry: Entry) -> _HeldOrder:
    assignment = understood(Assignment, entry, log)
    return _HeldOrder(entry, assignment, _order(task, entry, assignment))


class SavedStates:
    """What the tasks before saved, looked up once for each new order."""

    def __init__(self) -> None:
        self._known: dict[str, Order] = {}

    async def recall(self, store: Store, orders: Iterable[Order]) -> list[Order]:
        """The orders, each with what its task's last life saved."""
        listed = list(orders)
        fresh = [order for order in listed if self._epoch(order.task) != order.epoch]
        for kind in sorted({order.kind for order in fresh}):
            of_kind = [order for order in fresh if order.kind == kind]
            if (await store.scan(f"{keys.SAVED}{kind}/", limit=1)).entries:  # most kinds save nothing
                of_kind = await asyncio.gather(*(_with_saved(store, order) for order in of_kind))
            self._known.update({order.task: order for order in of_kind})
        self._known = {order.task: self._known[order.task] for order in listed}
        return list(self._known.values())

    def _epoch(self, task: str) -> int | None:
        return self._known[task].epoch if task in self._known else None


async def _with_saved(store: Store, order: Order) -> Order:
    saved = understood(SavedState, await store.get(keys.SAVED + order.task), log)
    return msgspec.structs.replace(order, saved=msgspec.json.encode(saved.state if saved else {}))


async def _give_back(store: Store, node: NodeId, known: AssignmentOrders, work: TaskRunner, look: float) -> None:
    """Delete assignments whose task was to end here and has ended."""
    while True:
        await asyncio.sleep(look)
        returned = work.returned()
        for task, entry, assignment in known.leaving(returned):
            if work.runs(task):
                continue
            try:
                writes: list[Write] = [Delete(entry.key)]
                if task in returned:
                    writes.append(
                        await _trouble(store, node, assignment, entry.modified, await store.now(), returned[task])
                    )
                await store.commit(*writes, expect=[At(entry.key, entry.modified)])
                log.info("task given back", extra={"node": node, "task": task, "why": returned.get(task, "asked to")})
            except (Conflict, Unavailable, Unknown) as error:
                log.debug("task not given back yet", extra={"task": task, "why": str(error)})


async def _trouble(store: Store, node: NodeId, assignment: Assignment, epoch: Revision, now: datetime, why: str) -> Put:
    """The note that this node could not keep a task alive, once more if it was so before."""
    key = keys.trouble(assignment.kind, assignment.resource, node)
    before = understood(Trouble, await store.get(key), log)
    return Put(key, codec.encode(trouble.again(before, node, now, why, epoch)))


async def _report_reliefs(store: Store, known: AssignmentOrders, work: TaskRunner, look: float) -> None:
    """Report once for each task that is to relieve another that it runs."""
    reported: dict[str, int] = {}
    while True:
        await asyncio.sleep(look)
        relieving = known.relieving()
        reported = {task: epoch for task, epoch in reported.items() if task in relieving}
        if all(reported.get(task) == entry.modified for task, entry in relieving.items()):
            continue
        running = work.running()
        new = [
            (task, entry)
            for task, entry in relieving.items()
            if task in running and reported.get(task) != entry.modified
        ]
        for start in range(0, len(new), TOLD):
            some = new[start : start + TOLD]
            puts = [
                Put(keys.relief(known.node, task), codec.encode(Relief(epoch=entry.modified))) for task, entry in some
            ]
            try:
                await store.commit(*puts, expect=[At(entry.key, entry.modified) for _, entry in some])
                reported |= {task: entry.modified for task, entry in some}
            except (Conflict, Unavailable, Unknown) as error:  # the assignments changed, or it is tried again
                log.debug("relief not reported yet", extra={"node": known.node, "why": str(error)})


async def _sets(store: Store, prefix: str, jitter: Callable[[], float]) -> AsyncGenerator[Iterable[Entry], None]:
    """The whole set of assignments, now and after each change; changes in quick succession are taken together."""
    entries: dict[str, Entry] = {}
    news = asyncio.Event()

    async def watch() -> None:
        async with aclosing(follow_all(store, prefix, jitter)) as coming:
            async for new in coming:
                if new.is_whole:
                    entries.clear()
                for change in new.changes:
                    if change.entry is None:
                        entries.pop(change.key, None)
                    else:
                        entries[change.key] = change.entry
                news.set()

    watching = asyncio.create_task(watch(), name="assignments")
    try:
        while True:
            waiting = asyncio.create_task(news.wait())
            try:
                await asyncio.wait([watching, waiting], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            if watching.done():
                watching.result()
            news.clear()
            if len(entries) > MANY:
                await asyncio.sleep(TOGETHER)
            yield list(entries.values())
    finally:
        watching.cancel()
        await asyncio.wait([watching])


def _order(task: str, entry: Entry, assignment: Assignment | None) -> Order | None:
    """What the node should run for an assignment; nothing if that is to end."""
    if assignment is None or assignment.stopping:
        return None
    return Order(
        task=task,
        epoch=entry.modified,
        kind=assignment.kind,
        resource=assignment.resource,
        slot=assignment.slot,
        spec=msgspec.json.encode(assignment.spec),
        is_exclusive=assignment.exclusive,
    )
