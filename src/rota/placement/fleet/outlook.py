"""Outlook: what would have to change for a resource that waits to be placed, by the leader's own rules."""

from datetime import datetime
from functools import partial

import msgspec

from rota.kit.aside import in_thread
from rota.kit.record import replace
from rota.model import keys
from rota.model.config import SupervisorConfig
from rota.placement.core import place, remedies
from rota.placement.fleet.plan import How, chosen_by, coverage_of, demand_of, places
from rota.placement.fleet.rests import suppose_rests
from rota.placement.fleet.rules import load_rules
from rota.placement.fleet.view import FleetView, read_fleet
from rota.resources.core.records import PlacingRecord
from rota.store.port import Store
from rota.store.records import understood


class Outlook(msgspec.Struct, frozen=True):
    """Why each node refuses a resource, and what would make it take it."""

    refusals: dict[str, str]
    remedies: dict[str, str]
    """Both by node."""


async def how_placed(store: Store) -> How:
    """How the leader chooses nodes, as it said last."""
    record = understood(PlacingRecord, await store.get(keys.PLACING))
    return chosen_by(record or SupervisorConfig(), load_rules(record.rules if record else ()))


async def outlook(store: Store, name: str) -> Outlook:
    """The outlook of one resource, `kind/id`, as things are now."""
    view, how = await read_fleet(store), await how_placed(store)
    if name not in view.resources or view.resources[name].kind not in view.kinds:
        return Outlook({}, {})
    now = await store.now()
    suppose_rests(view, now)
    return await in_thread(partial(_outlook, view, how, name, now))  # a large fleet takes a while


def _outlook(view: FleetView, how: How, name: str, now: datetime) -> Outlook:
    demand = replace(demand_of(view, name, coverage_of(view, name, (), now), how, now), missing=1)
    there = places(view)
    waiting = place([demand], there, how.policy, rules=how.rules).pending
    refusals = dict(waiting[0].refusals) if waiting else {}
    return Outlook(
        {str(node): why for node, why in sorted(refusals.items()) if node not in demand.holders},
        {str(node): what for node, what in remedies(demand, there, how.rules).items()} if waiting else {},
    )
