"""How a piece of an attempt's log is read at the node that has it, wherever it is in the fleet."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from rota.link.records import AttemptId, LogPiece
from rota.model.ids import NodeId

LogAt: TypeAlias = Callable[[NodeId, AttemptId, int], Awaitable[LogPiece]]
"""The piece from an offset on; Unavailable, with the node and what to do, if the node does not give it."""
