"""The doors of seed 001 as it wrote them: a resource is added by its name, and the answer is the node that got it.

`POST /crawler/resource` and `DELETE /crawler/resource` take the seed's fields (`id`, `name`, `assigned_node`,
`creation_time`) and heed the name alone, as the seed did. The kind is the only one the fleet has, or the one named
`crawler`. Adding a name that is there answers with the node that has it.

What is better than in the seed: a resource that no node can take is kept, and placed when one can.
"""

from datetime import timedelta

import msgspec

from rota.doors.verbs import PATIENCE, verb
from rota.fleet.core.access.gate import Access
from rota.kit.time import durations
from rota.kit.time.clock import Clock
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable, Unknown
from rota.resources.doors import operations as resource_operations
from rota.resources.doors.answers import ResourceView
from rota.resources.doors.bodies import NameBody, Nothing
from rota.store.port import Store

KIND = "crawler"
"""Which kind is meant if there are several."""


class NoWorkerNodes(Unavailable):
    """No node can take a resource now; what was added is kept, and asking again is harmless."""

    code = "no_node"


class NodeSpec(msgspec.Struct, frozen=True):
    """The node that got a resource; its fields are named as the seed named them."""

    id: str
    """The id of the node."""

    Address: str
    """Where the node is reached."""


@verb("POST", "/crawler/resource", Access.OPERATE, rpc="CrawlerMaster.AddResource", body=NameBody, codes=("no_node",))
async def add_resource(store: Store, clock: Clock, name: object = None, *, patience: timedelta = PATIENCE) -> NodeSpec:
    """Add a resource by its name, and return the node that has it."""
    fields = {"kind": await _kind(store), "id": _name(name)}
    try:
        view = await resource_operations.create_resource(store, clock, fields, wait=patience)
    except Conflict:
        view = await resource_operations.get_resource(store, fields["kind"], fields["id"])
        view = await resource_operations.await_placement(store, view, patience)
    return _node(view, patience)


@verb(
    "DELETE",
    "/crawler/resource",
    Access.OPERATE,
    rpc="CrawlerMaster.DeleteResource",
    body=NameBody,
    answer=Nothing,
    codes=("resource_not_found",),
)
async def remove_resource(store: Store, name: object = None) -> None:
    """Delete a resource by its name."""
    kind, id = await _kind(store), _name(name)
    try:
        await resource_operations.delete_resource(store, kind, id)
    except NotFound:
        raise NotFound(f"no such task: there is no resource {kind}/{id}", code="resource_not_found") from None


async def _kind(store: Store) -> str:
    kinds = [kind.name for kind in await resource_operations.list_kinds(store)]
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
