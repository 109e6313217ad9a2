"""The counts of a resource's messages, from the relay at which they meet, wherever that runs.

Only that relay knows the counts. If it is this node's, it is asked directly; otherwise the node that runs it is asked
at its gRPC door, with the token that the nodes of a fleet share.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from rota.link.channel import open_channel
from rota.link.settings import TlsFiles
from rota.model import keys
from rota.model.errors import NotFound, Unavailable
from rota.model.ids import NodeId
from rota.model.node import Node
from rota.relay.core.records import RelayMap, ResourceTally
from rota.store.port import Store
from rota.store.records import understood

PATIENCE = 5.0
"""Seconds that another node may take to answer."""


Own: TypeAlias = Callable[[str, str], Awaitable[tuple[ResourceTally, ...]]]
"""The counts of this node's relay; empty if it has seen none of the resource's messages."""


class FleetTallies:
    """Asks the relay that has the counts."""

    def __init__(
        self,
        node: NodeId,
        store: Callable[[], Store | None],
        own: Own,
        token: Callable[[], str],
        tls: TlsFiles | None = None,
    ) -> None:
        self._node, self._store, self._own, self._token, self._tls = node, store, own, token, tls

    async def __call__(self, kind: str, resource: str) -> ResourceTally:
        """The tally; NotFound if the messages meet at no relay yet, Unavailable if the relay's node does not answer."""
        store = self._store()
        if store is None:
            raise Unavailable("this node is not in the fleet yet; retry in a moment, or use another node")
        relay_map = understood(RelayMap, await store.get(keys.RELAY_MAP))
        home = relay_map.home(kind, resource) if relay_map else None
        if home is None:
            raise NotFound(
                f"no relay counts messages of {kind}/{resource}: no node has a relay; does its kind have a sink?"
            )
        if home != self._node:
            return await self._ask(home, await _address(store, home), kind, resource)
        none = ResourceTally(kind=kind, resource=resource, unique=0, duplicates=0, seen_by_one=0)
        return next(iter(await self._own(kind, resource)), none)

    async def _ask(self, node: NodeId, address: str, kind: str, resource: str) -> ResourceTally:
        import grpc  # noqa: PLC0415  # an extra

        from rota.doors.grpc import wire  # noqa: PLC0415
        from rota.doors.grpc.pb import api_pb2 as pb  # noqa: PLC0415

        request = pb.CountMessagesRequest(kind=kind, id=resource)
        shown = (("authorization", f"Bearer {self._token()}"),)
        async with open_channel(address, self._tls) as channel:
            ask = channel.unary_unary(
                "/rota.v1.Resources/CountMessages",
                request_serializer=pb.CountMessagesRequest.SerializeToString,
                response_deserializer=pb.ResourceTally.FromString,
            )
            try:
                return wire.from_tally(await ask(request, timeout=PATIENCE, metadata=shown))
            except grpc.aio.AioRpcError as error:
                why = error.details() or error.code().name
                raise Unavailable(
                    f"the messages of {kind}/{resource} are counted on node {node}, which gave no answer ({why})"
                ) from None


async def _address(store: Store, node: NodeId) -> str:
    """The address of a node's gRPC door."""
    record = understood(Node, await store.get(keys.node(node)))
    if record is None or not record.grpc:
        raise Unavailable(f"the messages are counted on node {node}, which has no gRPC door at the moment; try again")
    return record.grpc
