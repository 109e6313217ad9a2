"""Nodes that have fewer slots than tasks, because an operator lowered them: which tasks to take from them."""

from functools import partial

from rota.model.ids import Key
from rota.placement.fleet.view import FleetView
from rota.resources.core.coverage import AssignedTask

EVICTED = 10
"""Slots that are freed in one step, at least, on a node that has fewer than it needs."""


def overfull(view: FleetView) -> set[Key]:
    """Tasks to take now from nodes that have fewer slots than tasks: of low priority and new ones first.

    Tasks that are moving away already come before all others, or more would leave than have to. Not all at once: a
    tenth of those that are too many, or ten. By their assignments.
    """
    evicted: set[Key] = set()
    for node_id in view.nodes:
        if view.used[node_id] <= view.slots(node_id):
            continue  # so it is with nearly all of them, and their tasks need no look
        staying = [hold for hold in view.on_node[node_id].values() if not hold.assignment.stopping]
        surplus = sum(hold.assignment.cost for hold in staying) - view.slots(node_id)
        step = min(surplus, max(EVICTED, surplus // 10))
        for hold in sorted(staying, key=partial(_worth, view)) if surplus > 0 else ():
            if step <= 0:
                break
            evicted.add(hold.key)
            step -= hold.assignment.cost
    return evicted


def _worth(view: FleetView, hold: AssignedTask) -> tuple[bool, int, int]:
    record = view.resources.get(hold.resource)
    return (hold.key not in view.leaving, record.priority if record else -1, -hold.epoch)
