"""Relays: the next relay map.

A relay that is gone is left out at once: its messages wait for another home, and there is nothing to ship. Every other
change is a planned move: relays that joined, or want to leave, wait until no relay is moving and all use the present
map. So what one relay knows is always shipped to one place. Pure.
"""

from collections.abc import Mapping

from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap, RelayStatus


def next_map(current: RelayMap | None, relays: Mapping[NodeId, RelayStatus]) -> RelayMap | None:
    """The map to write, given the status of each relay; None if the present map stays."""
    wanted = tuple(sorted(node for node, status in relays.items() if not status.is_leaving))
    if current is None:
        return RelayMap(version=1, nodes=wanted) if wanted else None
    stay = tuple(node for node in current.nodes if node in relays)
    if len(stay) < len(current.nodes):
        nodes = stay or wanted
        return RelayMap(version=current.version + 1, nodes=nodes) if nodes else None
    if not wanted or wanted == current.nodes:
        return None
    if any(status.is_moving or status.map_version != current.version for status in relays.values()):
        return None
    return RelayMap(version=current.version + 1, nodes=wanted, before=current.nodes)
