"""A node's part in jobs, for the length of one session.

It puts together what the session needs: the view, the store's clock, the owner of what is bound here, the scheduler.
The node's runs and outcomes are passed in, because they outlive sessions.
"""

import asyncio
from collections.abc import Callable
from random import random

import msgspec

from rota.jobs.fleet.ends import PendingOutcomes
from rota.jobs.fleet.notify import Bound, LinkTo, Notifier, order_of
from rota.jobs.fleet.owner import AttemptRunner, RunOwner
from rota.jobs.fleet.scheduler import NodeStandings, Scheduler
from rota.jobs.fleet.view import JobsView, is_at
from rota.jobs.fleet.writing import StepWriter
from rota.kit.time.clock import Clock
from rota.link.records import Accepted, AttemptRefused, StartAttempt
from rota.model.ids import NodeId
from rota.model.node import Node
from rota.store.clock import StoreClock
from rota.store.port import At, Store

Tell = Callable[..., None]


class JobsDependencies(msgspec.Struct, frozen=True):
    """What a node's part in jobs needs from the rest of the node."""

    runs: AttemptRunner
    outcomes: PendingOutcomes
    clock: Clock
    tell: Tell
    link_to: LinkTo = lambda _: None
    """Gives the link to another node; without one that node finds by itself what is bound to it."""

    strike: Callable[[NodeId, str], None] = lambda node, why: None
    """Called when a node could not be reached."""

    standing: NodeStandings = msgspec.field(default_factory=NodeStandings)
    jitter: Callable[[], float] = random


class JobsPart:
    """A node's part in jobs during one session."""

    def __init__(
        self,
        store: Store,
        me: Node,
        incarnation: At,
        may_act: Callable[[], bool],
        around: JobsDependencies,
        writer: type[StepWriter] = StepWriter,
    ) -> None:
        self.me = me
        self.view = JobsView()
        self.clock = StoreClock(store, around.clock)
        writing = writer(store, incarnation, self.view)
        self.owner = RunOwner(
            me.id,
            me.session,
            around.runs,
            around.outcomes,
            writing,
            self.view,
            self.clock,
            around.clock,
            may_act,
            around.tell,
        )
        self.notifier = Notifier(around.link_to, self._is_bound, around.clock, around.strike)
        self.scheduler = Scheduler(
            store,
            me,
            self.view,
            writing,
            self.owner,
            self.notifier,
            self.clock,
            around.clock,
            around.tell,
            around.standing,
            around.jitter,
        )
        self.owner.has_room = self.notifier.news.ring

    async def run(self) -> None:
        """Take part, until cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self.clock.run(), name="the store's clock")
            parts.create_task(self.owner.run(), name="owner")
            parts.create_task(self.scheduler.run(), name="scheduler")

    def dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        """Another node reports a run that is bound to this one."""
        order = order_of(start)
        (why,) = self.owner.begin([order])
        return AttemptRefused(why=why) if why else Accepted()

    def _is_bound(self, bound: Bound) -> bool:
        """Is a run still bound where it was? (Also true while that is not known here yet.)"""
        live, run = self.view.live.get(bound.order.run), bound.live.run
        if self.view.revision < bound.order.epoch and live is None:
            return True
        return (
            run.node is not None and run.session is not None and is_at(live, run.node, run.session, bound.order.epoch)
        )
