"""How a node is asked what only it can answer, wherever it is in the fleet."""

from collections.abc import Awaitable
from enum import StrEnum
from typing import Any, Protocol

from rota.model.ids import NodeId

PASSED_ON = "rota-passed-on"
"""The header by which a node says that it passes a request on."""


class SteerVerb(StrEnum):
    """What a node can be asked, as its control socket has it."""

    SERVICES = "services"
    RELOAD = "reload"
    ROLLBACK = "rollback"
    CLEAR = "service.clear"
    RESIZE = "service.resize"
    PRINTED = "printed"


class Steer(Protocol):
    """Asks a node; Unavailable if it does not answer, Unknown if nobody knows what became of it."""

    def __call__(
        self, node: NodeId, verb: SteerVerb, /, *, was_passed_on: bool = False, **fields: Any
    ) -> Awaitable[Any]:
        """What the node says."""
