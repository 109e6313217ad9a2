"""Why a resource is where it is, and the result of querying a source."""

from contextlib import aclosing
from datetime import timedelta

from rota.doors.limits import SHOWN
from rota.doors.verbs import verb
from rota.doors.why_answers import Why
from rota.fleet.core.access.gate import Access
from rota.kit.record import replace
from rota.model import keys
from rota.model.ids import NodeId
from rota.placement.fleet.outlook import outlook
from rota.resources.core.listing import ORIGIN, explain, is_failing
from rota.resources.core.records import Listing, Query, ResourceStatus, Trouble
from rota.resources.core.trouble import GIVEN_BACK, sentence
from rota.resources.doors.answers import ResourceView
from rota.resources.doors.operations import get_resource
from rota.resources.doors.parameters import KindName, ResourceId
from rota.resources.doors.reading import kind_record
from rota.store.port import Store
from rota.store.records import understood
from rota.store.scanning import scan_all

LATELY = timedelta(days=1)
"""How long `why` reports that a node gave a resource back."""


@verb("GET", "/v1/why/{kind}/{id}", Access.VIEW, rpc="Resources.Why", heavy=True, codes=("resource_not_found",))
async def why_resource(store: Store, kind: KindName, id: ResourceId) -> Why:
    """Explain which nodes hold a resource and why, or why each node does not."""
    view = await get_resource(store, kind, id)
    status = view.status
    if status is None:
        return Why(thing=view.name, says=await _why_unplaced(store, view))
    says = f"{status.assigned} of {status.replicas} tasks are placed"
    if status.not_running:
        says += f" and {status.running} run"
    if status.AssignedNode:
        says += f", on {', '.join(each.partition('|')[0] for each in status.AssignedNode.split(','))}"
    if status.pending:
        says += f"; {status.pending}"
    if status.moving:
        says += f"; {status.moving}"
    hints: tuple[str, ...] = ()
    if view.origin == ORIGIN and is_failing(understood(Listing, await store.get(keys.listing(kind)))):
        hints = (f"its source: {(await why_source(store, kind)).says}",)
    hints += tuple(f"fails on {node}: {why}" for node, why in _fails_now(status).items())
    hints += tuple(await _given_back(store, kind, id))
    answer = Why(thing=view.name, says=says, chosen=status.chosen, refusals=status.refusals, reasons=hints)
    if not status.pending and not status.moving:
        return answer
    seen = await outlook(store, view.name)
    return replace(answer, refusals={**answer.refusals, **seen.refusals}, remedies=seen.remedies)


def _fails_now(status: ResourceStatus) -> dict[str, str]:
    """Where tasks fail that have not been given back: what was, `_given_back` reads from the nodes' own notes."""
    return {node: why for node, why in (status.failing or {}).items() if not why.startswith(GIVEN_BACK)}


async def _given_back(store: Store, kind: str, id: str) -> list[str]:
    """Which nodes could not keep a resource's task alive lately, the last one first."""
    async with aclosing(scan_all(store, keys.trouble(kind, id, NodeId("")))) as entries:
        found = [understood(Trouble, entry) async for entry in entries]
    now = await store.now()
    lately = [each for each in found if each is not None and now - each.at < LATELY]
    lately.sort(key=lambda each: each.at, reverse=True)
    return [sentence(each) for each in lately[:SHOWN]]


@verb("GET", "/v1/sources/{kind}/why", Access.VIEW, rpc="Resources.WhySource", codes=("unknown_kind",))
async def why_source(store: Store, kind: KindName) -> Why:
    """Explain which node queried the source of a kind last, when, and with what result."""
    record = await kind_record(store, kind)
    listing = understood(Listing, await store.get(keys.listing(kind)))
    says = explain(record, understood(Query, await store.get(keys.query(kind))), listing)
    if await store.get(keys.LEADER) is None:
        says += "; no node leads, so the source is not queried"
    return Why(thing=f"source of {kind}", says=says)


async def _why_unplaced(store: Store, view: ResourceView) -> str:
    """Why a resource has no status yet."""
    if await store.get(keys.LEADER) is None:
        return "no node leads, so nothing is placed; start a node that may lead"
    return "the leader has not looked at it yet; ask again in a moment"
