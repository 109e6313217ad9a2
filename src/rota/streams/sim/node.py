"""One node of a simulated fleet that runs streams: its workers, and what kills them.

A worker is the product's own stream task on a lent store, as in a process of its own. `Perils` kill the writer of a
record that others depend on before the write is sent, while it is under way, or when it is done: a task at its publish,
a whole node, the leader in the middle of an agreement. Or the writer lives and gets no answer, and its write arrives
much later, after it has decided anew.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn

import msgspec

from rota.model import keys
from rota.model.errors import RotaError, Unknown
from rota.model.ids import Key, LeaseId, NodeId, Revision
from rota.model.node import NodeStatus
from rota.outputs.catalogue import PublishedCatalogue
from rota.outputs.memory import MemoryCommitter
from rota.outputs.verdict import Moves, PublishVerdict, Turn
from rota.runtime.pipes.brief import Order
from rota.sim.network import TIMEOUT, SimStore
from rota.sim.world import Machine, World
from rota.sources.open import open_source
from rota.sources.port import Batch as Read
from rota.store.port import Expect, Write
from rota.streams.core.context import Batch
from rota.streams.core.manifest import Manifest
from rota.streams.core.records import kind_of
from rota.streams.core.spec import StreamSpec
from rota.streams.node.lent import OWN, Lender, LentStore
from rota.streams.task.assigned import Assigned, SequenceLimits
from rota.streams.task.progress import GROUP_GONE, TaskProgress
from rota.streams.task.run import StreamTask
from rota.streams.task.transform import Transform

STEPS: Mapping[Key, tuple[str, float]] = {
    keys.MANIFESTS: ("publish", 0.05),
    keys.STREAM_GROUPS: ("group", 0.08),
    keys.STREAM_TASKS: ("status", 0.002),
}
"""Prefix of the key written → how likely the writer is struck while faults rage."""

MOMENTS = ("before", "during", "after", "late", "late")
LATE = (2.5, 8.0)
"""Seconds after which a commit arrives that its writer has given up."""


class Perils:
    """Kills writers at chosen steps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.until = 0.0
        self.strikes: Counter[str] = Counter()
        """Moment and step → how often it struck."""

    def strike(self, writes: Iterable[Write]) -> tuple[str, str] | None:
        """The step and the moment at which something happens to the writer, if it does."""
        if self._world.time >= self.until:
            return None
        for write in writes:
            for prefix, (step, chance) in STEPS.items():
                if write.key.startswith(prefix) and self._world.random.random() < chance:
                    return step, self._world.random.choice(MOMENTS)
        return None

    def struck(self, step: str, moment: str) -> None:
        """Count a writer that was struck."""
        self.strikes[f"{moment} {step}"] += 1


class PerilousStore(SimStore):
    """A node's connection to the store; a commit through it may kill the node."""

    def __init__(self, world: World, machine: Machine, perils: Perils) -> None:
        super().__init__(world.network, machine.name, machine.clock)
        self._world, self._machine, self._perils = world, machine, perils

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        struck = self._perils.strike(writes)
        if struck is None:
            return await super().commit(*writes, expect=expect)
        step, moment = struck
        self._perils.struck(step, moment)
        if moment == "late":
            _nobody_hears(asyncio.ensure_future(self._later(*writes, expect=tuple(expect))))
            await asyncio.sleep(TIMEOUT)
            raise Unknown("store sim://: no answer in time")
        if moment == "during":
            _nobody_hears(asyncio.ensure_future(super().commit(*writes, expect=expect)))
            await asyncio.sleep(0)
        elif moment == "after":
            with suppress(RotaError):
                await super().commit(*writes, expect=expect)
        return await self._die(f"{moment} {step}")

    async def _later(self, *writes: Write, expect: Iterable[Expect]) -> Revision:
        await asyncio.sleep(self._world.random.uniform(*LATE))
        return await super().commit(*writes, expect=expect)

    async def _die(self, where: str) -> NoReturn:
        if not self._machine.process.is_dead:
            self._world.tell(f"{self._machine.name} dies {where}")
            self._machine.crash()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("the dead do not go on")


def _nobody_hears(sent: "asyncio.Future[Revision]") -> None:
    sent.add_done_callback(lambda done: done.cancelled() or done.exception())


class SimStreams:
    """The stream tasks of a machine, in one life of its program."""

    def __init__(
        self,
        machine: Machine,
        store: SimStore,
        spec: StreamSpec,
        broken: str | None,
        lease: Callable[[], LeaseId | None],
        *,
        tell_every: float,
    ) -> None:
        self._machine, self._store, self._spec, self._broken, self._lease = machine, store, spec, broken, lease
        self._tell_every = timedelta(seconds=tell_every)
        self._orders: dict[str, Order] = {}
        self._running: dict[str, tuple[Order, asyncio.Task[None]]] = {}
        self._returned: dict[str, str] = {}

    # What a node's session asks of its work

    def want(self, orders: Iterable[Order]) -> None:
        """Run exactly these."""
        self._orders = {order.task: order for order in orders}
        self._returned = {task: why for task, why in self._returned.items() if task in self._orders}
        for task, (order, worker) in list(self._running.items()):
            if self._orders.get(task) != order:
                worker.cancel()
                del self._running[task]
                self._returned.pop(task, None)
        for task, order in self._orders.items():
            if task not in self._running:
                self._running[task] = order, asyncio.create_task(self._live(order), name=task)

    def runs(self, task: str) -> bool:
        """Does it run?"""
        return task in self.running()

    def running(self) -> set[str]:
        """Tasks that run as they are ordered."""
        return {task for task, (_, worker) in self._running.items() if not worker.done()}

    def returned(self) -> Mapping[str, str]:
        """Tasks that failed, and why."""
        return self._returned

    def status(self) -> NodeStatus:
        """The status as a node reports it."""
        return NodeStatus(
            app="sim",
            generation=1,
            previous=None,
            reloading=None,
            pools=[],
            tasks_ordered=len(self._orders),
            tasks_running=len(self._running),
            kinds=[kind_of(self._spec.name)],
        )

    def kill(self, choose: Callable[[list[str]], str]) -> str | None:
        """Kill a worker: it says nothing more, and is given back."""
        alive = sorted(self.running())
        if not alive:
            return None
        task = choose(alive)
        self._running[task][1].cancel()
        self._returned[task] = "it was killed"
        return task

    # A worker

    async def _live(self, order: Order) -> None:
        assigned = Assigned(
            stream=self._spec.name,
            group=order.resource,
            slot=order.slot,
            epoch=Revision(order.epoch),
            node=NodeId(self._machine.name),
        )

        def ask(frame: bytes) -> None:
            lender.heard(frame)

        lent = LentStore(ask)
        lender = Lender(lambda: self._store, self._lease, keys.stream_prefixes(self._spec.name), lent.heard)
        try:
            error = await self._run(assigned, lent)
        finally:
            lent.lost()
            await lender.close()
        if error and error != GROUP_GONE:
            self._returned[order.task] = error

    async def _run(self, assigned: Assigned, store: LentStore) -> str:
        clock, spec = self._machine.clock, self._spec
        committer = MemoryCommitter(spec.sink.removeprefix("memory://"), spec.name, store, clock)
        if self._broken == "offsets":
            committer._catalogue = _BlindCatalogue(store, spec.name)
        tell = self._tell_every
        limits = SequenceLimits(time=spec.checkpoint_every, batch=spec.batch, tell=tell, repeat=4 * tell)
        kind = {"end": _Greedy, "resume": _Skipping}.get(self._broken or "", StreamTask)
        while True:
            with suppress(RotaError):  # the source is away
                async with open_source(spec.source) as source:
                    task = kind(assigned, Transform(rows_of), store, source, committer, clock, limits=limits, lease=OWN)
                    return await task.run()
            await asyncio.sleep(1)


def rows_of(batch: Batch) -> Iterable[dict[str, Any]]:
    """A row for each record, by which it is known."""
    return [{"part": record.partition, "at": record.offset} for record in batch]


# Without a safeguard


class _BlindCatalogue(PublishedCatalogue):
    """Publishes without looking at whose turn it is."""

    async def publish(self, manifest: Manifest, seen: Moves | None = None) -> PublishVerdict:
        await self._store.commit(*self._writes(manifest))
        return PublishVerdict(Turn.PUBLISHED)


class _Greedy(StreamTask):
    """Takes whole batches, even past the end of its sequence."""

    async def _take(self, progress: TaskProgress, batch: Read) -> None:
        if progress.ends is not None:
            batch = msgspec.structs.replace(batch, next=min(batch.next, progress.ends[batch.partition]))
        await super()._take(progress, batch)


class _Skipping(StreamTask):
    """Goes on one record behind the last published one."""

    async def _begin(self) -> TaskProgress:
        progress = await super()._begin()
        if progress.group.sequences:
            progress.offsets = {partition: at + 1 for partition, at in progress.offsets.items()}
        return progress
