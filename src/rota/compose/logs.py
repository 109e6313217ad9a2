"""Reading a log at the node that has it, where nodes do not share the place for logs.

If it is this node, it reads the log itself. If not, that node is asked over the node link.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from rota.fleet.members.peers import Peers
from rota.link.records import AttemptId, LogPiece
from rota.model.errors import RotaError, Unavailable
from rota.model.ids import NodeId

Own: TypeAlias = Callable[[AttemptId, int], Awaitable[LogPiece]]
"""Reads what this node has."""


class FleetLogs:
    """Asks the node that has the log."""

    def __init__(self, node: NodeId, own: Own, peers: Callable[[], Peers | None]) -> None:
        self._node, self._own, self._peers = node, own, peers

    async def __call__(self, node: NodeId, attempt: AttemptId, offset: int) -> LogPiece:
        """A piece of the log of an attempt; Unavailable, with the next step, if `node` does not deliver it."""
        if node == self._node:
            return await self._own(attempt, offset)
        peers = self._peers()
        if peers is None:
            raise Unavailable(
                "this node is not in the fleet yet; try again in a moment, or ask another node", code="not_joined"
            )
        where = f"the log of {attempt} is kept at node {node}"
        member, link = peers.members.get(node), peers.link(node)
        if member is None:
            raise Unavailable(
                f"{where}, which this node does not see in the fleet; start it again with its data folder"
            )
        there = f"ask that node itself, at its door {member.http}" if member.http else "ask that node itself"
        if link is None:
            raise Unavailable(f"{where}, to which this node has no node link now (both need rota[grpc]); {there}")
        try:
            return await link.read_log(attempt, offset)
        except RotaError as error:
            raise Unavailable(f"{where}, which did not give it ({error}); try again, or {there}") from error
