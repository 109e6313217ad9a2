"""Planning without doing: what the leader would do.

It is worked out here, by the leader's own rules, from what the store has; no node is asked, and nothing is written.
"""

from functools import partial

from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.kit.aside import in_thread
from rota.model.errors import Invalid
from rota.placement.doors.parameters import Added, Like, Rebalance, Without
from rota.placement.fleet.outlook import how_placed
from rota.placement.fleet.preview import Preview, preview
from rota.placement.fleet.rests import suppose_rests
from rota.placement.fleet.view import read_fleet
from rota.store.port import Store

MOST_ADDED = 1_000
"""Nodes that a plan can suppose to be there: each costs memory and time, here."""


@verb("GET", "/v1/plan", Access.VIEW, rpc="Placement.Plan", heavy=True, codes=("node_not_found",))
async def plan(
    store: Store,
    *,
    rebalance: Rebalance = False,
    without: Without = (),
    add: Added = 0,
    like: Like = "",
) -> Preview:
    """Preview what the leader would do now, carried out to the end.

    With `rebalance` the nodes are balanced too; `without` supposes nodes gone, `add` that many more nodes, like `like`.
    """
    if not 0 <= add <= MOST_ADDED:
        raise Invalid(f"add is {add}; a plan can suppose from 0 to {MOST_ADDED:,} more nodes")
    view = await read_fleet(store)
    how = await how_placed(store)
    now = await store.now()
    suppose_rests(view, now)
    work = partial(preview, view, how, now, rebalance=rebalance, without=without, add=add, like=like)
    return await in_thread(work)  # a large fleet takes a while, and others are served meanwhile
