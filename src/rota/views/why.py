"""Why a thing is as it is, whether it is a resource or a node."""

from rota.doors.verbs import needs
from rota.doors.why_answers import Why
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.nodes.why import why_node
from rota.resources.doors.why import why_resource
from rota.store.port import Store


@needs(Access.VIEW, heavy=True)
async def why(store: Store, thing: str) -> Why:
    """Explain why `kind/id` is on its nodes, or why a node has its tasks."""
    kind, slash, id = thing.partition("/")
    return await why_resource(store, kind, id) if slash else await why_node(store, thing)
