"""How a node is called for what only it can answer, from any node of the fleet."""

from collections.abc import Awaitable
from enum import StrEnum
from typing import Any, Protocol

from rota.model.ids import NodeId

PASSED_ON = "rota-passed-on"
"""The header that marks a request passed on by a node."""


class SteerVerb(StrEnum):
    """The requests that one node can answer, as its control socket names them."""

    SERVICES = "services"
    RELOAD = "reload"
    ROLLBACK = "rollback"
    CLEAR = "service.clear"
    RESIZE = "service.resize"
    PRINTED = "printed"


class Steer(Protocol):
    """Calls a node; Unavailable if it does not answer, Unknown if the outcome is not known."""

    def __call__(
        self, node: NodeId, verb: SteerVerb, /, *, was_passed_on: bool = False, **fields: Any
    ) -> Awaitable[Any]:
        """The node's answer."""
