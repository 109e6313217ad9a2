"""What workers of resources, services and streams print: lines of every node that has such work, by time.

The lines are in files of the nodes (`runtime.printed`), so each node is asked for its own, through `Steer`. A place in
the lines of several nodes is a text, `n1=PLACE,n2=PLACE`, that callers only send back. `worker/NODE` is what the
workers of a node print outside of any task.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from rota.doors.parameters import BehindPlace, BehindPlaces, NodeName, OnNodes, Tail
from rota.doors.steer import Steer, SteerVerb
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.nodes.answers import NodeView
from rota.fleet.doors.nodes.operations import list_nodes
from rota.fleet.doors.nodes.reading import no_node
from rota.model import keys
from rota.model.errors import Invalid, NotFound, RotaError
from rota.model.ids import NodeId
from rota.model.node import NodeStatus
from rota.resources.doors.operations import get_resource
from rota.resources.doors.parameters import KindName, ResourceId
from rota.runtime.printed import Part
from rota.store.port import Store
from rota.store.records import understood
from rota.streams.core.records import kind_of
from rota.streams.doors.operations import get_stream

MOST_NODES = 32
"""Nodes that one call asks."""

TAIL = 1000
"""Lines of the end of a node's output that can be asked for."""

POLL = 1.0
"""Seconds between looks for new lines."""

LOOK = 10
"""After this number of looks, the nodes that have the work are looked up again."""


class PrintedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line that a worker printed."""

    node: NodeId
    """The id of the node."""

    at: datetime
    """When it was printed, by the clock of the node."""

    pid: int
    """The process id of the worker."""

    part: str
    """The number of the replica, the group of a service, or the group and slot of a stream; empty if none is known."""

    text: str
    """The line, without its end."""


class PrintedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Lines in the order of their times, as far as they were read."""

    lines: tuple[PrintedLine, ...]
    """The lines of all nodes that answered; of each at most 64 KiB, and none if there are none yet."""

    next: str
    """What to send as `after` to go on behind these lines; empty if nothing was printed yet."""

    unreached: dict[NodeId, str] = msgspec.field(default_factory=dict)
    """Why nodes that have such work did not answer, by node."""


class NodeLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of one node, in the order in which they were printed."""

    lines: tuple[PrintedLine, ...]
    """The lines, at most 64 KiB."""

    next: str
    """What to send as `after` to go on behind these lines; empty if nothing was printed yet."""


@verb("GET", "/v1/nodes/{node}/logs/{kind}/{id}", Access.VIEW, codes=("node_not_found", "not_found"))
async def node_printed(
    steer: Steer,
    node: NodeName,
    kind: KindName,
    id: ResourceId,
    *,
    after: BehindPlace = "",
    tail: Tail = None,
    was_passed_on: bool = False,
) -> NodeLines:
    """Read lines that workers of one node printed: after a place, the last `tail`, or from the first that is kept."""
    check_tail(tail)
    asked = {"kind": kind, "id": id, "after": after, "tail": tail}
    return read_part(NodeId(node), await steer(NodeId(node), SteerVerb.PRINTED, was_passed_on=was_passed_on, **asked))


@verb(
    "GET",
    "/v1/logs/{kind}/{id}",
    Access.VIEW,
    codes=("resource_not_found", "service_not_found", "stream_not_found", "node_not_found", "not_found"),
)
async def read_printed(
    store: Store,
    steer: Steer,
    kind: KindName,
    id: ResourceId,
    *,
    nodes: OnNodes = (),
    after: BehindPlaces = "",
    tail: Tail = None,
) -> PrintedPage:
    """Read lines that a resource, service or stream printed, on all nodes that have it or on those named."""
    check_tail(tail)
    found = await nodes_with(store, kind, id, nodes)
    places = _places(after)
    if len(found) == 1:
        part = await node_printed(steer, found[0], kind, id, after=places.get(found[0], ""), tail=tail)
        return PrintedPage(lines=part.lines, next=_place({**places, found[0]: part.next}))
    return await _gathered(steer, found, kind, id, places, tail)


@verb(
    "GET",
    "/v1/logs/{kind}/{id}/follow",
    Access.VIEW,
    goes_on="Events `printed`, whose data is a PrintedPage.",
    codes=("resource_not_found", "service_not_found", "stream_not_found", "node_not_found", "not_found"),
)
async def follow_printed(
    store: Store,
    steer: Steer,
    kind: KindName,
    id: ResourceId,
    *,
    nodes: OnNodes = (),
    after: BehindPlaces = "",
    tail: Tail = None,
) -> AsyncGenerator[PrintedPage, None]:
    """Follow printed lines until the client disconnects. The first answer is sent at once, with or without lines."""
    check_tail(tail)
    places, turn, unreached = _places(after), 0, dict[NodeId, str]()
    found = await nodes_with(store, kind, id, nodes)
    while True:
        page = await _gathered(steer, found, kind, id, places, tail)
        if turn == 0 or page.lines or page.unreached != unreached:
            yield page
        is_behind = bool(page.lines) and tail is None
        unreached, tail = page.unreached, None
        turn += 1
        if turn % LOOK == 0:
            found = await nodes_with(store, kind, id, nodes)
        if not is_behind:
            await asyncio.sleep(POLL)


async def nodes_with(store: Store, kind: str, id: str, nodes: Sequence[str] = ()) -> tuple[NodeId, ...]:
    """The nodes to read lines from; NotFound if the thing does not exist."""
    there = {view.id: view for view in (await list_nodes(store)).nodes}
    found = await _nodes_of(store, there, kind, id)
    if missing := [node for node in nodes if node not in there]:
        raise await no_node(store, missing[0])
    chosen = tuple(NodeId(node) for node in nodes) or tuple(sorted(found))
    if len(chosen) > MOST_NODES:
        raise Invalid(
            f"{kind}/{id} may have printed on {len(chosen)} nodes, and at most {MOST_NODES} are asked at a time; name "
            "those you mean with node"
        )
    return chosen


async def _nodes_of(store: Store, there: Mapping[NodeId, NodeView], kind: str, id: str) -> Collection[NodeId]:
    working = {name: view for name, view in there.items() if view.is_up and view.app}
    match kind:
        case "worker":
            if id not in there:
                raise await no_node(store, id)
            return [NodeId(id)]
        case "service":
            pools = await _pools(store, f"service:{id}:")
            if not pools:
                raise await _no_service(store, id)
            return pools
        case "stream":
            await get_stream(store, id)
            return await _pools(store, f"task:{kind_of(id)}/") or working
        case _:
            status = (await get_resource(store, kind, id)).status
            held = status.AssignedNode.split(",") if status and status.AssignedNode else ()
            return [NodeId(each.partition("|")[0]) for each in held] or [
                name for name, view in working.items() if kind in view.kinds
            ]


async def _statuses(store: Store) -> dict[NodeId, NodeStatus]:
    entries = (await store.scan(keys.STATUS)).entries
    seen = {NodeId(entry.key.removeprefix(keys.STATUS)): understood(NodeStatus, entry) for entry in entries}
    return {node: status for node, status in seen.items() if status is not None}


async def _pools(store: Store, prefix: str) -> list[NodeId]:
    """The nodes with workers in a pool whose name begins so."""
    statuses = await _statuses(store)
    return [node for node, status in statuses.items() if any(pool.name.startswith(prefix) for pool in status.pools)]


async def _no_service(store: Store, name: str) -> NotFound:
    pools = [pool.name for status in (await _statuses(store)).values() for pool in status.pools]
    known = sorted({pool.split(":")[1] for pool in pools if pool.startswith("service:")})
    return NotFound(
        f'no node has a service "{name}"; there are: {", ".join(known[:20]) or "none"}', code="service_not_found"
    )


async def _gathered(
    steer: Steer, nodes: Sequence[NodeId], kind: str, id: str, places: dict[NodeId, str], tail: int | None
) -> PrintedPage:
    """A page of these nodes; `places` are moved on."""

    async def ask(node: NodeId) -> NodeLines | str:
        after = places.get(node, "")
        try:
            return await node_printed(steer, node, kind, id, after=after, tail=None if after else tail)
        except Invalid:
            raise
        except RotaError as error:
            return str(error)

    answers = dict(zip(nodes, await asyncio.gather(*map(ask, nodes)), strict=True))
    parts = {node: answer for node, answer in answers.items() if isinstance(answer, NodeLines)}
    places.update((node, part.next) for node, part in parts.items())
    unreached = {node: answer for node, answer in answers.items() if isinstance(answer, str)}
    lines = by_time(line for part in parts.values() for line in part.lines)
    return PrintedPage(lines=lines, next=_place(places), unreached=unreached)


def by_time(lines: Iterable[PrintedLine]) -> tuple[PrintedLine, ...]:
    """Lines in the order of their times; those of one node stay in the order in which they were printed."""
    return tuple(sorted(lines, key=lambda line: line.at))


def read_part(node: NodeId, said: Any) -> NodeLines:
    """A node's answer: a record if it is this node, JSON if it is another."""
    part = said if isinstance(said, Part) else msgspec.convert(said, Part, strict=False)
    lines = (PrintedLine(node=node, at=each.at, pid=each.pid, part=each.part, text=each.text) for each in part.lines)
    return NodeLines(lines=tuple(lines), next=part.next)


def check_tail(tail: int | None) -> None:
    """Raises Invalid if `tail` is not from 1 to `TAIL`."""
    if tail is not None and not 1 <= tail <= TAIL:
        raise Invalid(f"tail is {tail}; it must be from 1 to {TAIL}")


def _places(after: str) -> dict[NodeId, str]:
    """The place in the lines of each node."""
    found = [each.partition("=") for each in after.split(",") if each]
    if len(found) > 2 * MOST_NODES or not all(node and place for node, _, place in found):
        raise Invalid(f'after is "{after[:200]}"; it must be the next of an earlier answer, or be left out')
    return {NodeId(node): place for node, _, place in found}


def _place(places: Mapping[NodeId, str]) -> str:
    return ",".join(f"{node}={place}" for node, place in sorted(places.items()) if place)
