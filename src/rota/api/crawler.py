"""The doors of seed 001 as it wrote them: a resource is added by its name, and the answer is the node that got it.

`POST /crawler/resource` and `DELETE /crawler/resource` take the seed's fields (`id`, `name`, `assigned_node`,
`creation_time`) and heed the name alone, as the seed did. The kind is the only one the fleet has, or the one named
`crawler`. Adding a name that is there answers with the node that has it.

What is better than in the seed: a resource that no node can take is kept, and placed when one can.
"""

from datetime import timedelta

import msgspec
from starlette.responses import Response

from rota.api import operations
from rota.api.calls import Call, Endpoint, body, json
from rota.api.operations import needs
from rota.api.schema import ResourceView
from rota.decide.access import Access
from rota.kit import durations
from rota.kit.clock import Clock
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable, Unknown
from rota.store.port import Store

KIND = "crawler"
"""Which kind is meant if there are several."""

WAIT = timedelta(seconds=10)
"""How long a caller waits for the leader."""


class NoWorkerNodes(Unavailable):
    """No node can take a resource now; what was added is kept, and asking again is harmless."""

    code = "no_node"


class NodeSpec(msgspec.Struct, frozen=True):
    """The node that got a resource; its fields are named as the seed named them."""

    id: str
    """The id of the node."""

    Address: str
    """Where the node is reached."""


@needs(Access.OPERATE)
async def add_resource(store: Store, clock: Clock, name: object, wait: timedelta = WAIT) -> NodeSpec:
    """Add a resource by its name, and return the node that has it."""
    fields = {"kind": await _kind(store), "id": _name(name)}
    try:
        view = await operations.create_resource(store, clock, fields, wait=wait)
    except Conflict:
        view = await operations.get_resource(store, fields["kind"], fields["id"])
        view = await operations.await_placement(store, view, wait)
    return _node(view, wait)


@needs(Access.OPERATE)
async def remove_resource(store: Store, name: object) -> None:
    """Delete a resource by its name."""
    kind, id = await _kind(store), _name(name)
    try:
        await operations.delete_resource(store, kind, id)
    except NotFound:
        raise NotFound(f"no such task: there is no resource {kind}/{id}", code="resource_not_found") from None


async def _kind(store: Store) -> str:
    kinds = [kind.name for kind in await operations.list_kinds(store)]
    if not kinds:
        raise NoWorkerNodes("no worker nodes: no node has declared a kind of resources yet; start one with an app")
    if len(kinds) > 1 and KIND not in kinds:
        raise Invalid(
            f"this door knows no kinds, and the fleet has {', '.join(kinds)}; name one of them {KIND}, "
            "or use /v1/resources"
        )
    return KIND if KIND in kinds else kinds[0]


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise Invalid(f"name is {name!r}; it must be a text that is not empty")
    return name


def _node(view: ResourceView, wait: timedelta) -> NodeSpec:
    """The first node that holds a resource."""
    status = view.status
    if status is not None and status.AssignedNode:
        id, _, address = status.AssignedNode.partition(",")[0].partition("|")
        return NodeSpec(id, address)
    if status is not None and status.pending:
        raise NoWorkerNodes(f"no worker nodes: {status.pending}; {view.name} is kept, and placed when one can take it")
    raise Unknown(f"{view.name} is kept, but was not placed within {durations.render(wait)}; ask again later")


async def _add(call: Call) -> Response:
    fields = await body(call.request)
    return json(await add_resource(call.store, call.clock, fields.get("name")))


async def _remove(call: Call) -> Response:
    fields = await body(call.request)
    await remove_resource(call.store, fields.get("name"))
    return json({})


ENDPOINTS = (
    Endpoint("POST", "/crawler/resource", "add_resource", _add),
    Endpoint("DELETE", "/crawler/resource", "remove_resource", _remove),
)
