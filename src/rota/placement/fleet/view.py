"""The leader's view of the fleet: everything it plans by, kept true by the watch.

`load` reads it whole at one revision, `fold` takes in one commit. Both note in `dirty` which resources have to be
looked at again: planning costs what changed, not what there is.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from rota.kit.record import replace
from rota.model import keys
from rota.model.errors import Compacted
from rota.model.ids import Key, NodeId, Revision
from rota.model.node import Node, NodeLoad, NodeStatus
from rota.placement.core import Tag
from rota.placement.fleet.retries import FEW, Retries
from rota.placement.fleet.tag_counts import TagCounts
from rota.resources.core.assignment import Assignment
from rota.resources.core.coverage import AssignedTask, being_relieved
from rota.resources.core.records import (
    NO_AFFINITY,
    Affinity,
    Cordon,
    Drain,
    KindRecord,
    LabelsSet,
    Relief,
    ResourceRecord,
    ResourceStatus,
    SlotsSet,
    Trouble,
    both,
    labelled,
)
from rota.store.port import Commit, Entry, Store
from rota.store.records import understood

log = logging.getLogger(__name__)

T = TypeVar("T")
PAGE = 1000
RETRY = 0.5
"""Seconds until a fleet is read again whose history was compacted meanwhile."""


async def read_fleet(store: Store) -> "FleetView":
    """The fleet as it is now, all at one revision; read anew whenever that is compacted away meanwhile."""
    while True:
        view = FleetView()
        with suppress(Compacted):
            await view.load(store)
            return view
        log.warning("history was compacted while the fleet was read, reading it anew")
        await asyncio.sleep(RETRY)


class FleetView:
    """Nodes, kinds, resources and who holds them. A resource is named `kind/id`."""

    def __init__(self) -> None:
        self._sights = self._sights_by_prefix()
        self.revision = self.changed = Revision(0)
        """Up to where it is read, and the last commit that was about something in it."""

        self.nodes: dict[NodeId, Node] = {}
        self.work: dict[NodeId, NodeStatus] = {}
        self.loads: dict[NodeId, NodeLoad] = {}
        self.cordons: dict[NodeId, Cordon] = {}
        self.drains: dict[NodeId, Drain] = {}
        self.slots_set: dict[NodeId, SlotsSet] = {}
        self.labels_set: dict[NodeId, LabelsSet] = {}
        self.trouble: defaultdict[str, dict[NodeId, Trouble]] = defaultdict(dict)
        """By resource: nodes that could not keep it alive."""

        self.resting: dict[str, frozenset[NodeId]] = {}
        """By resource: nodes that do not get it now because it has just failed there; the leader fills this in."""

        self.unwell: dict[str, dict[NodeId, Trouble]] = {}
        """By resource: what nodes gave back lately that still counts; the leader fills this in."""

        self.failing: defaultdict[str, dict[NodeId, str]] = defaultdict(dict)
        """By resource: nodes that report that its task fails now, and why."""

        self.kinds: dict[str, KindRecord] = {}
        self.resources: dict[str, ResourceRecord] = {}
        self.versions: dict[str, Revision] = {}
        """When each resource's record was last written."""

        self.statuses: dict[str, ResourceStatus] = {}
        self.planned: dict[str, Revision] = {}
        """When each resource's status was last written: what was planned later expects it so."""

        self.holds: defaultdict[str, dict[Key, AssignedTask]] = defaultdict(dict)
        """By resource: its assignments, by key."""

        self.on_node: defaultdict[NodeId, dict[Key, AssignedTask]] = defaultdict(dict)
        self.used: defaultdict[NodeId, int] = defaultdict(int)
        """Slots that are taken on each node."""

        self.counts = TagCounts()
        self.leaving: dict[Key, AssignedTask] = {}
        """Tasks that are being stopped, or end when another runs in their place; by their assignments."""

        self.reliefs: defaultdict[str, dict[Key, Relief]] = defaultdict(dict)
        """By resource: the nodes' reports that a relieving task runs."""

        self.dirty: set[str] = set()
        self.pending: set[str] = set()
        """Resources that could not be placed, or moved: to be tried again when there is room."""

        self.promised: dict[str, NodeId] = {}
        """Where a task is to go that stops first, because it is exclusive; a new leader decides anew."""

        self.seeking: set[str] = set()
        """Those of them that are to be near to others: to be tried again when anything is placed."""

        self._room, self._company = Retries(), Retries()
        """Of those that are pending and of those that seek, if they are many."""

    def _sights_by_prefix(self) -> Mapping[Key, Callable[[str, Entry | None], None]]:
        """What the view is made of, by prefix, in the order in which it is read: what others speak of comes first."""
        return {
            keys.NODES: self._see_node,
            keys.STATUS: self._see_work,
            keys.NODE_LOADS: self._see_load,
            keys.CORDONS: self._see_cordon,
            keys.DRAINS: self._see_drain,
            keys.SLOTS: self._see_slots,
            keys.LABELS: self._see_labels,
            keys.TROUBLE: self._see_trouble,
            keys.KINDS: self._see_kind,
            keys.RESOURCES: self._see_resource,
            keys.RESOURCE_STATUS: self._see_status,
            keys.ASSIGNMENTS: self._see_assignment,
            keys.RELIEFS: self._see_relief,
        }

    async def load(self, store: Store) -> None:
        """Read everything, at one revision; Compacted if that is gone before the end."""
        at: Revision | None = None
        for prefix in self._sights:
            after: Key | None = None
            while True:
                listing = await store.scan(prefix, after=after, limit=PAGE, at=at)
                at = listing.revision
                for entry in listing.entries:
                    self._see(entry.key, entry)
                await asyncio.sleep(0)  # also where the store answers at once: there may be thousands of pages
                if not listing.more:
                    break
                after = listing.entries[-1].key
        assert at is not None
        self.revision = self.changed = at
        self.dirty = {*self.resources, *self.holds, *self.statuses}

    def fold(self, commit: Commit) -> None:
        """Take in one commit."""
        for change in commit.changes:
            if self._see(change.key, change.entry):
                self.changed = commit.revision
        self.revision = commit.revision

    @property
    def has_retries(self) -> bool:
        """Is there something pending that should be tried again now, and is not dirty?"""
        return self._room.is_due or self._company.is_due

    def tick(self) -> None:
        """Let more of what is pending be tried again."""
        self._room.tick()
        self._company.tick()

    def retried(self) -> set[str]:
        """Pending resources to be tried again now, beside those that are dirty."""
        if not self.has_retries:
            return set()
        closed = {*self.cordons, *self.drains}
        free = sum(max(0, self.slots(node) - self.used[node]) for node in self.nodes if node not in closed)
        placed = self._room.take(self.pending, free, self._priority)
        return placed | self._company.take(self.seeking, free, self._priority)

    def _priority(self, name: str) -> int:
        record = self.resources.get(name)
        return record.priority if record else 0

    def slots(self, node_id: NodeId) -> int:
        """How many slots a node has: as an operator set them, or as its settings say."""
        if (given := self.slots_set.get(node_id)) is not None:
            return given.slots
        return self.nodes[node_id].slots if node_id in self.nodes else 0

    def labels(self, node_id: NodeId) -> Mapping[str, str]:
        """The labels of a node that is there: of its settings, and over them what an operator set."""
        given = self.labels_set.get(node_id)
        return self.nodes[node_id].labels if given is None else labelled(self.nodes[node_id].labels, given)

    def affinity(self, record: ResourceRecord) -> Affinity:
        """The affinity of a resource, merged with that of its kind."""
        kind = self.kinds.get(record.kind)
        return both(kind.affinity, record.affinity) if kind else record.affinity

    def _see(self, key: Key, entry: Entry | None) -> bool:
        """Take in one entry; is it part of the view?"""
        begins = key.find("/", 1) + 1
        if see := self._sights.get(key[:begins]):
            see(key[begins:], entry)
        return see is not None

    def _see_resource(self, name: str, entry: Entry | None) -> None:
        _put(self.resources, name, _sane(understood(ResourceRecord, entry, log)))
        _put(self.versions, name, entry.modified if entry else None)
        self._count_again(name)
        self.dirty.add(name)

    def _see_status(self, name: str, entry: Entry | None) -> None:
        _put(self.statuses, name, understood(ResourceStatus, entry, log))
        _put(self.planned, name, entry.modified if entry else None)

    def _see_kind(self, name: str, entry: Entry | None) -> None:
        before, after = self.kinds.get(name), understood(KindRecord, entry, log)
        _put(self.kinds, name, after)
        of_kind = {each for each, record in self.resources.items() if record.kind == name}
        if (before.affinity if before else None) != (after.affinity if after else None):
            for each in of_kind:
                self._count_again(each)
        self.dirty |= of_kind

    def _see_trouble(self, name: str, entry: Entry | None) -> None:
        resource, _, node = name.rpartition("/")
        _put(self.trouble[resource], NodeId(node), understood(Trouble, entry, log))

    def _see_load(self, name: str, entry: Entry | None) -> None:
        _put(self.loads, NodeId(name), understood(NodeLoad, entry, log))

    def _see_cordon(self, name: str, entry: Entry | None) -> None:
        _put(self.cordons, NodeId(name), understood(Cordon, entry, log))
        self._room_may_have_come()

    def _see_node(self, name: str, entry: Entry | None) -> None:
        node_id, node = NodeId(name), understood(Node, entry, log)
        before = self.nodes.get(node_id)
        _put(self.nodes, node_id, node)
        held = self._held_by(node_id)
        if node is None or (before is not None and node.slots < before.slots):
            self.dirty |= held
        if node is not None and node != before:
            self._room_may_have_come()
            if before is None or before.session != node.session:
                self._see_again_what_failed_on(node_id)
            if before is None:
                self.dirty |= held

    def _see_slots(self, name: str, entry: Entry | None) -> None:
        node_id = NodeId(name)
        before = self.slots(node_id)
        _put(self.slots_set, node_id, understood(SlotsSet, entry, log))
        if self.slots(node_id) < before:
            self.dirty |= self._held_by(node_id)
        elif self.slots(node_id) > before:
            self._room_may_have_come()

    def _see_labels(self, name: str, entry: Entry | None) -> None:
        _put(self.labels_set, NodeId(name), understood(LabelsSet, entry, log))
        self._room_may_have_come()

    def _see_drain(self, name: str, entry: Entry | None) -> None:
        _put(self.drains, NodeId(name), understood(Drain, entry, log))
        self.dirty |= self._held_by(NodeId(name))
        self._room_may_have_come()

    def _see_relief(self, of: str, entry: Entry | None) -> None:
        relief = understood(Relief, entry, log)
        node, _, task = of.partition("/")
        name = task.rpartition("#")[0]
        _put(self.reliefs[name], keys.RELIEFS + of, relief)
        if not self.reliefs[name]:
            del self.reliefs[name]
        assigned = keys.assignment(NodeId(node), task)
        hold = self.holds[name].get(assigned) if name in self.holds else None
        if hold is not None and relief is not None and hold.epoch == relief.epoch:
            self.holds[name][assigned] = self.on_node[hold.node][assigned] = replace(hold, is_running=True)
        if relief is not None:
            self.dirty.add(name)

    def _held_by(self, node_id: NodeId) -> set[str]:
        return {hold.resource for hold in self.on_node[node_id].values()}

    def _see_work(self, name: str, entry: Entry | None) -> None:
        node_id, work = NodeId(name), understood(NodeStatus, entry, log)
        before = self.work.get(node_id)
        _put(self.work, node_id, work)
        if work is not None and (before is None or (before.kinds, before.generation) != (work.kinds, work.generation)):
            self._room_may_have_come()
            self._see_again_what_failed_on(node_id)
        self._note_failing(node_id, before.failing if before else {}, work.failing if work else {})

    def _note_failing(self, node_id: NodeId, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Take in which tasks a node reports as failing; what changed is looked at again, for its status."""
        for task in [task for task in {*before, *now} if before.get(task) != now.get(task)]:
            name = task.rpartition("#")[0]
            _put(self.failing[name], node_id, now.get(task))
            if not self.failing[name]:
                del self.failing[name]
            self.dirty.add(name)

    def _see_again_what_failed_on(self, node_id: NodeId) -> None:
        """Look again at what failed on a node that has other code now, or was started again."""
        self.dirty |= {name for name, nodes in self.trouble.items() if node_id in nodes}

    def _see_assignment(self, of: str, entry: Entry | None) -> None:
        key = keys.ASSIGNMENTS + of
        node, _, task = of.partition("/")
        node_id, name = NodeId(node), task.rpartition("#")[0]
        if old := self.holds[name].pop(key, None):
            self.used[node_id] -= old.assignment.cost
            self.on_node[node_id].pop(key, None)
            self.counts.remove(key)
            self.leaving.pop(key, None)
            self._room_may_have_come()
        if not self.holds[name]:
            del self.holds[name]
        assignment = understood(Assignment, entry, log)
        if assignment is not None and entry is not None:
            hold = AssignedTask(task, node_id, entry.modified, assignment)
            self.holds[name][key] = self.on_node[node_id][key] = hold
            self.used[node_id] += assignment.cost
            self._count(key, hold)
            self._try_again(self.seeking, self._company)
        self._note_leaving(name)
        self.dirty.add(name)

    def _note_leaving(self, name: str) -> None:
        leaving = _leaving(holds := self.holds.get(name, {}))
        for key, hold in holds.items():
            _put(self.leaving, key, hold if key in leaving else None)

    def _count(self, key: Key, hold: AssignedTask) -> None:
        """Take a task's tags into account on its node."""
        record = self.resources.get(hold.resource)
        affinity = self.affinity(record) if record else NO_AFFINITY
        self.counts.add(key, hold.node, tags_of(record) if record else (), affinity.apart.items())

    def _count_again(self, name: str) -> None:
        for key, hold in self.holds[name].items() if name in self.holds else ():
            self.counts.remove(key)
            self._count(key, hold)

    def _room_may_have_come(self) -> None:
        self._try_again(self.pending, self._room)

    def _try_again(self, waiting: set[str], retries: Retries) -> None:
        """Plan these again: at once if they are few, otherwise a portion at a time."""
        if len(waiting) <= FEW:
            self.dirty |= waiting
        else:
            retries.begin(len(waiting))


def _leaving(holds: Mapping[Key, AssignedTask]) -> set[Key]:
    """The assignments of a resource whose tasks are being stopped, or end when another runs in their place."""
    if not any(hold.assignment.relieves or hold.assignment.stopping for hold in holds.values()):
        return set()  # nearly all, and there may be a million
    relieved = being_relieved(tuple(holds.values()))
    return {key for key, hold in holds.items() if hold.assignment.stopping or key in relieved}


def tags_of(record: ResourceRecord) -> set[Tag]:
    """The tags of a resource: its kind, and those it was given."""
    return {("kind", record.kind), *record.tags.items()}


def _sane(record: ResourceRecord | None) -> ResourceRecord | None:
    """The record, unless it was written by hand and cannot be placed."""
    if record is None or (record.cost >= 1 and (record.replicas is None or record.replicas >= 1)):
        return record
    log.warning("resource not understood", extra={"resource": f"{record.kind}/{record.id}"})
    return None


def _put(into: dict[Any, T], key: Any, value: T | None) -> None:
    if value is None:
        into.pop(key, None)
    else:
        into[key] = value
