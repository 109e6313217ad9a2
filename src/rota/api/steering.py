"""What is asked of one node alone: its services, and that it takes in new code or goes back.

Only that node can answer; `Steer` asks it, wherever it is. The node that was asked passes a request on at most once.
"""

import asyncio
from datetime import datetime
from typing import Any

import msgspec
from starlette.responses import Response

from rota.api import calls
from rota.api.calls import Call, Endpoint
from rota.api.forwarded import address_of
from rota.api.operations import list_nodes, needs
from rota.api.steer import PASSED_ON, Steer, Verb
from rota.decide.access import Access
from rota.model.errors import Invalid, NotFound, RotaError
from rota.model.ids import NodeId
from rota.store.port import Store


class NodeServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services of one node."""

    node: NodeId
    """The id of the node."""

    services: list[Any]
    """As `rota services ls -o json` has them."""

    error: str = ""
    """Why nothing is known of them, if so."""


class ServiceList(msgspec.Struct, frozen=True, kw_only=True):
    """The services of every node that has some, in the order of its id."""

    nodes: tuple[NodeServices, ...]
    """The nodes that have services."""

    as_of: datetime
    """The store's clock."""


@needs(Access.VIEW)
async def list_services(store: Store, steer: Steer) -> ServiceList:
    """The services of all nodes: their groups, how busy they are, and how long requests take."""
    listed = await list_nodes(store)
    working = [node.id for node in listed.nodes if node.is_up and node.app]
    asked = await asyncio.gather(*(_of_node(node, steer) for node in working))
    return ServiceList(nodes=tuple(each for each in asked if each is not None), as_of=listed.as_of)


@needs(Access.VIEW)
async def node_services(steer: Steer, node: str, *, was_passed_on: bool = False) -> Any:
    """The services of one node."""
    return await steer(NodeId(node), Verb.SERVICES, was_passed_on=was_passed_on)


@needs(Access.OPERATE)
async def reload_node(steer: Steer, node: str, *, was_passed_on: bool = False) -> Any:
    """Have a node take in the code of its app as it is now; if that fails, the old code keeps running."""
    return await steer(NodeId(node), Verb.RELOAD, was_passed_on=was_passed_on)


@needs(Access.OPERATE)
async def rollback_node(steer: Steer, node: str, *, was_passed_on: bool = False) -> Any:
    """Have a node go back to the code before its last reload."""
    return await steer(NodeId(node), Verb.ROLLBACK, was_passed_on=was_passed_on)


@needs(Access.OPERATE)
async def clear_service(
    steer: Steer, node: str, service: str, groups: list[int] | None, *, was_passed_on: bool = False
) -> Any:
    """Drop the requests that wait for a service of a node, in these groups or in all."""
    return await steer(NodeId(node), Verb.CLEAR, was_passed_on=was_passed_on, service=service, groups=groups)


@needs(Access.OPERATE)
async def resize_service(
    steer: Steer, node: str, service: str, group: object, count: object, *, was_passed_on: bool = False
) -> Any:
    """Give a group of a service of a node so many workers, until the next reload."""
    return await steer(
        NodeId(node), Verb.RESIZE, was_passed_on=was_passed_on, service=service, group=group, count=count
    )


async def _of_node(node: NodeId, steer: Steer) -> NodeServices | None:
    """One node in the list; None if it has no services, and the reason if it does not answer."""
    try:
        return NodeServices(node=node, services=list(await steer(node, Verb.SERVICES)))
    except NotFound:
        return None
    except RotaError as error:
        return NodeServices(node=node, services=[], error=str(error))


# Over HTTP


async def _list(call: Call) -> Response:
    return calls.json(await list_services(call.store, call.behind.steer))


async def _services(call: Call) -> Response:
    found = await node_services(call.behind.steer, call.path["node"], was_passed_on=_was_passed_on(call))
    return calls.json({"services": found})


async def _reload(call: Call) -> Response:
    await calls.fields(call)
    _note(call, "reload_node", call.path["node"])
    return calls.json(await reload_node(call.behind.steer, call.path["node"], was_passed_on=_was_passed_on(call)))


async def _rollback(call: Call) -> Response:
    await calls.fields(call)
    _note(call, "rollback_node", call.path["node"])
    return calls.json(await rollback_node(call.behind.steer, call.path["node"], was_passed_on=_was_passed_on(call)))


async def _clear(call: Call) -> Response:
    groups = (await calls.fields(call, "groups")).get("groups")
    if groups is not None and not isinstance(groups, list):
        raise Invalid("groups must be a list of numbers; leave it out for all groups")
    node, service = call.path["node"], call.path["service"]
    _note(call, "clear_service", node, service, str(groups or "all"))
    done = await clear_service(call.behind.steer, node, service, groups, was_passed_on=_was_passed_on(call))
    return calls.json(done)


async def _resize(call: Call) -> Response:
    fields = await calls.fields(call, "group", "count")
    node, service = call.path["node"], call.path["service"]
    group, count = fields.get("group"), fields.get("count")
    _note(call, "resize_service", node, service, str(group), str(count))
    done = await resize_service(call.behind.steer, node, service, group, count, was_passed_on=_was_passed_on(call))
    return calls.json(done)


def _note(call: Call, *what: str) -> None:
    """It changes nothing in the store, and must be found on the audit trail all the same."""
    call.behind.note(by=call.caller.name, origin=f"http {address_of(call.request)}", what=" ".join(what))


def _was_passed_on(call: Call) -> bool:
    return PASSED_ON in call.request.headers


ENDPOINTS = (
    Endpoint("GET", "/v1/services", "list_services", _list),
    Endpoint("GET", "/v1/nodes/{node}/services", "node_services", _services),
    Endpoint("POST", "/v1/nodes/{node}/reload", "reload_node", _reload),
    Endpoint("POST", "/v1/nodes/{node}/rollback", "rollback_node", _rollback),
    Endpoint("POST", "/v1/nodes/{node}/services/{service}/clear", "clear_service", _clear),
    Endpoint("POST", "/v1/nodes/{node}/services/{service}/resize", "resize_service", _resize),
)
