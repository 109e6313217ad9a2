"""Operations that one node alone can carry out: its services, reload and rollback.

Only that node can answer; `Steer` asks it, wherever it is. The node that got the request passes it on at most once.
"""

import asyncio
from datetime import datetime
from typing import Any

import msgspec

from rota.doors.parameters import NodeName
from rota.doors.steer import Steer, SteerVerb
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.bodies import ClearBody, ResizeBody
from rota.fleet.doors.nodes.operations import list_nodes
from rota.fleet.doors.parameters import ServiceName
from rota.model.errors import NotFound, RotaError
from rota.model.ids import NodeId
from rota.store.port import Store


class NodeServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services of one node."""

    node: NodeId
    """The id of the node."""

    services: list[Any]
    """As `rota services ls -o json` has them."""

    error: str = ""
    """Why they are not known, if so."""


class ServiceList(msgspec.Struct, frozen=True, kw_only=True):
    """The services of every node that has some, in the order of its id."""

    nodes: tuple[NodeServices, ...]
    """The nodes that have services."""

    as_of: datetime
    """The store's clock."""


class ServicesOfNode(msgspec.Struct, frozen=True, kw_only=True):
    """The services of one node."""

    services: list[Any]
    """As `rota services ls -o json` has them."""


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a reload."""

    generation: int
    """The generation of the code that serves now."""

    previous: int
    """The generation before."""


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that were dropped."""

    service: str
    """The name of the service."""

    dropped: dict[str, int]
    """Group → how many."""


class Resized(msgspec.Struct, frozen=True, kw_only=True):
    """A group with another number of workers."""

    service: str
    """The name of the service."""

    group: int
    """The number of the group."""

    before: int
    """How many workers it had."""

    count: int
    """How many it has now."""


@verb("GET", "/v1/services", Access.VIEW, rpc="Services.List")
async def list_services(store: Store, steer: Steer) -> ServiceList:
    """List the services of all nodes: their groups, how busy they are, and how long requests take."""
    listed = await list_nodes(store)
    working = [node.id for node in listed.nodes if node.is_up and node.app]
    asked = await asyncio.gather(*(_of_node(node, steer) for node in working))
    return ServiceList(nodes=tuple(each for each in asked if each is not None), as_of=listed.as_of)


@verb("GET", "/v1/nodes/{node}/services", Access.VIEW, rpc="Services.OfNode", answer=ServicesOfNode)
async def node_services(steer: Steer, node: NodeName, *, was_passed_on: bool = False) -> list[Any]:
    """List the services of one node."""
    told: list[Any] = await steer(NodeId(node), SteerVerb.SERVICES, was_passed_on=was_passed_on)
    return told


@verb("POST", "/v1/nodes/{node}/reload", Access.OPERATE, rpc="Services.Reload", answer=Reload, is_noted=True)
async def reload_node(steer: Steer, node: NodeName, *, was_passed_on: bool = False) -> Any:
    """Reload the app's code on a node; if that fails, the old code keeps running."""
    return await steer(NodeId(node), SteerVerb.RELOAD, was_passed_on=was_passed_on)


@verb("POST", "/v1/nodes/{node}/rollback", Access.OPERATE, rpc="Services.Rollback", answer=Reload, is_noted=True)
async def rollback_node(steer: Steer, node: NodeName, *, was_passed_on: bool = False) -> Any:
    """Go back to the code before the last reload on a node."""
    return await steer(NodeId(node), SteerVerb.ROLLBACK, was_passed_on=was_passed_on)


@verb(
    "POST",
    "/v1/nodes/{node}/services/{service}/clear",
    Access.OPERATE,
    rpc="Services.Clear",
    body=ClearBody,
    answer=Cleared,
    is_noted=True,
)
async def clear_service(
    steer: Steer, node: NodeName, service: ServiceName, groups: list[int] | None = None, *, was_passed_on: bool = False
) -> Any:
    """Drop the requests that wait for a service of a node, in these groups or in all."""
    return await steer(NodeId(node), SteerVerb.CLEAR, was_passed_on=was_passed_on, service=service, groups=groups)


@verb(
    "POST",
    "/v1/nodes/{node}/services/{service}/resize",
    Access.OPERATE,
    rpc="Services.Resize",
    body=ResizeBody,
    answer=Resized,
    is_noted=True,
)
async def resize_service(
    steer: Steer,
    node: NodeName,
    service: ServiceName,
    group: object = None,
    count: object = None,
    *,
    was_passed_on: bool = False,
) -> Any:
    """Set the number of workers of a group of a service on a node, until the next reload."""
    return await steer(
        NodeId(node), SteerVerb.RESIZE, was_passed_on=was_passed_on, service=service, group=group, count=count
    )


async def _of_node(node: NodeId, steer: Steer) -> NodeServices | None:
    """The entry of one node; None if it has no services, with the reason if it does not answer."""
    try:
        return NodeServices(node=node, services=list(await steer(node, SteerVerb.SERVICES)))
    except NotFound:
        return None
    except RotaError as error:
        return NodeServices(node=node, services=[], error=str(error))
