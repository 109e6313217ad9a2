"""Preview: what the leader would do, carried out to the end in its view and nowhere else.

The plan is made by the leader's own code, taken for written, confirmed and running, and made again, until there is
nothing to do. So what is shown is what would come of it, also of chains of moves. The view is used up by that.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound
from rota.model.ids import NodeId, Revision
from rota.placement.fleet.moves import shifts
from rota.placement.fleet.overfull import overfull
from rota.placement.fleet.plan import How, PlannedChange, plan
from rota.placement.fleet.view import FleetView
from rota.resources.core.records import Relief
from rota.store.port import Change, Commit, Delete, Entry, Put, Write

ROUNDS = 10_000
"""More than any fleet needs; a plan that never ends is a mistake of ours."""

ALL = 1_000_000_000


class PlannedMove(msgspec.Struct, frozen=True):
    """A task that would come to a node, go to another, or end."""

    task: str
    """The id of the task."""

    source: NodeId | None
    """The node that has it now; null if none."""

    target: NodeId | None
    """The node that would get it; null if it ends."""

    why: str
    """Why it would move."""


class PlannedNode(msgspec.Struct, frozen=True):
    """How much a node would have."""

    id: NodeId
    """The id of the node."""

    slots: int
    """Its slots."""

    before: int
    """Slots in use now."""

    after: int
    """Slots in use afterwards."""


class Preview(msgspec.Struct, frozen=True):
    """What would change."""

    moves: tuple[PlannedMove, ...]
    """Tasks that would start, move or end."""

    pending: dict[str, str]
    """Resources that would have too few tasks, and why."""

    nodes: tuple[PlannedNode, ...]
    """How much each node would have."""


def preview(
    view: FleetView,
    how: How,
    now: datetime,
    *,
    rebalance: bool = False,
    without: Collection[str] = (),
    add: int = 0,
    like: str = "",
) -> Preview:
    """What planning now would change, as if nodes were gone, or `add` more were there, like another one."""
    there = _tasks(view)
    before = {node: view.used[node] for node in view.nodes}
    _suppose(view, without, add, like)
    _carry_out(view, how, now, rebalance)
    after = _tasks(view)
    moves = [
        PlannedMove(task, there.get(task), after.get(task), _why(view, task, after.get(task)))
        for task in sorted(there.keys() | after.keys())
        if there.get(task) != after.get(task)
    ]
    working = sorted(node for node in {*before, *view.nodes} if node not in view.nodes or _works(view, node))
    return Preview(
        moves=tuple(moves),
        pending={
            name: status.pending
            for name, status in sorted(view.statuses.items())
            if status.pending and status.assigned < status.replicas
        },
        nodes=tuple(
            PlannedNode(node, view.slots(node), before.get(node, 0), view.used[node] if node in view.nodes else 0)
            for node in working
        ),
    )


def _works(view: FleetView, node: NodeId) -> bool:
    return view.nodes[node].role.may_work


def _tasks(view: FleetView) -> dict[str, NodeId]:
    """Each task and its node; of one that moves already, where it goes."""
    return {
        hold.task: hold.node
        for holds in view.holds.values()
        for key, hold in holds.items()
        if key not in view.leaving or hold.assignment.stopping
    }


def _why(view: FleetView, task: str, target: NodeId | None) -> str:
    name = task.rpartition("#")[0]
    status = view.statuses.get(name)
    if target is not None:
        return status.chosen.get(target, "") if status else ""
    return "the resource was removed" if name not in view.resources else (status.pending if status else "")


def _suppose(view: FleetView, without: Collection[str], add: int, like: str) -> None:
    """Apply the suppositions (nodes gone, nodes added) to the view."""
    for name in without:
        if name not in view.nodes:
            raise NotFound(
                f'there is no node "{name}"; there are {", ".join(sorted(view.nodes)) or "none"}', code="node_not_found"
            )
    gone: list[Write] = [Delete(keys.node(NodeId(name))) for name in without]
    if gone:
        _fold(view, gone)
    if add < 0:
        raise Invalid(f"add is {add}; it must be 0 or more")
    if add:
        _fold(view, _more(view, add, _model(view, like)))


def _model(view: FleetView, like: str) -> NodeId:
    working = sorted(node for node in view.nodes if _works(view, node))
    if like and like not in view.nodes:
        raise NotFound(f'there is no node "{like}"; there are {", ".join(working) or "none"}', code="node_not_found")
    if not working:
        raise Invalid("there is no node that works, so none can be added like it; start one first")
    return NodeId(like) if like else working[0]


def _more(view: FleetView, add: int, like: NodeId) -> list[Write]:
    node, work = view.nodes[like], view.work.get(like)
    writes: list[Write] = []
    for number in range(1, add + 1):
        id = NodeId(f"new-{number}")
        writes.append(Put(keys.node(id), codec.encode(replace(node, id=id, slots=view.slots(like)))))
        if work is not None:
            writes.append(Put(keys.status(id), codec.encode(work)))
    return writes


def _carry_out(view: FleetView, how: How, now: datetime, rebalance: bool) -> None:
    for _ in range(ROUNDS):
        dirty, view.dirty = view.dirty | view.retried(), set()
        changes = plan(view, dirty, how, now, overfull(view)).changes
        view.tick()
        if not changes and view.has_retries:
            continue
        if not changes and rebalance:
            changes = plan(view, (), how, now, shifts=shifts(view, how, now, ALL)).changes
        if not changes:
            return
        _fold(view, _writes(changes))
        _fold(view, _confirmations(view))
    raise AssertionError("planning does not come to an end")


def _writes(changes: Iterable[PlannedChange]) -> list[Write]:
    return [write for change in changes for write in change.writes]


def _confirmations(view: FleetView) -> list[Write]:
    """What nodes would write: that they have stopped what they were to stop, and that they run what relieves others."""
    stopped: list[Write] = [Delete(key) for key, hold in view.leaving.items() if hold.assignment.stopping]
    running: list[Write] = [
        Put(keys.relief(hold.node, hold.task), codec.encode(Relief(epoch=hold.epoch)))
        for name in {hold.resource for hold in view.leaving.values()}
        for hold in view.holds.get(name, {}).values()
        if hold.assignment.relieves is not None and not hold.is_running
    ]
    return stopped + running


def _fold(view: FleetView, writes: Iterable[Write]) -> None:
    revision = Revision(view.revision + 1)
    changes = [
        Change(write.key, Entry(write.key, write.value, revision, revision) if isinstance(write, Put) else None)
        for write in writes
    ]
    view.fold(Commit(revision, tuple(changes)))
