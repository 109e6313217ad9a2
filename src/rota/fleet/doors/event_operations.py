"""The operation on events: reading them."""

from rota.doors.parameters import OfNode, Since, TokenBack, Until
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.event_answers import EventPage
from rota.fleet.doors.parameters import KindsOfEvents, LimitOfEvents
from rota.fleet.events import event_log as events
from rota.model.errors import Invalid
from rota.store.port import Store

MAX_EVENTS = 1000


@verb("GET", "/v1/events", Access.VIEW, rpc="Events.List", answer=EventPage)
async def read_events(
    store: Store,
    *,
    since: Since = None,
    until: Until = None,
    kinds: KindsOfEvents = (),
    node: OfNode = None,
    limit: LimitOfEvents = 50,
    token: TokenBack = None,
) -> events.EventSlice:
    """List events, the newest last; `token` is the `next` of the page before, and leads further back."""
    if not 0 <= limit <= MAX_EVENTS:
        raise Invalid(f"limit is {limit}; it must be from 0 to {MAX_EVENTS}")
    return await events.read(store, since=since, until=until, kinds=kinds, node=node, limit=limit, before=token or None)
