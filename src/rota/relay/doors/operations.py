"""What can be asked about relays: how they are, whether they have published everything, what a resource has sent.

A relay's status is written into the store by its node, so any node can report it. The counts of a resource's messages
are known only to the relay at which they meet; `Tallies` asks it.
"""

from datetime import datetime

import msgspec

from rota.doors.parameters import OfNode
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound
from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap, RelayStatus, ResourceTally, Tallies
from rota.resources.doors.operations import get_resource
from rota.resources.doors.parameters import KindName, ResourceId
from rota.store.port import Entry, Store
from rota.store.records import understood


class RelayView(msgspec.Struct, frozen=True, kw_only=True):
    """One node's relay."""

    node: NodeId
    """The node it belongs to."""

    is_home: bool
    """Do messages meet here, by the relay map?"""

    status: RelayStatus | None = None
    """What the relay reports of itself; null if it has not reported."""

    age_s: int | None = None
    """How long its process has been there, by the store's clock."""

    not_understood: str | None = None
    """What is wrong with its record, if a newer Rota wrote it."""

    @property
    def is_idle(self) -> bool:
        """Is nothing left to publish, as far as is known?"""
        return self.status is not None and self.status.is_idle


class RelayList(msgspec.Struct, frozen=True, kw_only=True):
    """Every relay, in the order of its node's id."""

    relays: tuple[RelayView, ...]
    """The relays."""

    map: RelayMap | None
    """None: no leader has written one yet."""

    as_of: datetime
    """The store's clock."""

    @property
    def is_idle(self) -> bool:
        """Is nothing left to publish anywhere?"""
        return all(relay.is_idle for relay in self.relays)


@verb("GET", "/v1/relays", Access.VIEW, rpc="Relays.List", codes=("not_found",))
async def list_relays(store: Store, *, node: OfNode = None) -> RelayList:
    """Every relay of the fleet, or that of one node: its sinks, what was published and what is spooled."""
    now = await store.now()
    relay_map = understood(RelayMap, await store.get(keys.RELAY_MAP))
    homes = frozenset(relay_map.nodes) if relay_map else frozenset[NodeId]()
    views = [_view(entry, homes, now) for entry in (await store.scan(keys.RELAY_STATUS)).entries]
    if node is not None:
        views = [view for view in views if view.node == node] or _no_relay(node, views)
    return RelayList(relays=tuple(views), map=relay_map, as_of=now)


@verb(
    "GET",
    "/v1/resources/{kind}/{id}/messages",
    Access.VIEW,
    rpc="Resources.CountMessages",
    codes=("resource_not_found",),
)
async def count_messages(store: Store, tallies: Tallies, kind: KindName, id: ResourceId) -> ResourceTally:
    """What was counted of a resource's messages: how many, how many copies, how many only one replica sent."""
    await get_resource(store, kind, id)
    return await tallies(kind, id)


def _view(entry: Entry, homes: frozenset[NodeId], now: datetime) -> RelayView:
    node = NodeId(entry.key.removeprefix(keys.RELAY_STATUS))
    is_home = node in homes
    try:
        status = codec.decode(RelayStatus, entry.value)
    except Invalid as error:
        return RelayView(node=node, is_home=is_home, not_understood=str(error))
    age = max(0, round((now - status.since).total_seconds()))
    return RelayView(node=node, is_home=is_home, status=status, age_s=age)


def _no_relay(node: str, there: list[RelayView]) -> list[RelayView]:
    names = f"there are some on {', '.join(view.node for view in there)}" if there else "there are none at the moment"
    raise NotFound(f'node "{node}" has no relay; {names}')
