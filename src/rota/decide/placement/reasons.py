"""Reasons: why nodes refuse some needs, and what to say of a resource that waits.

A sentence names what is in the way and what would help. It is made once per class of demand and number of holders,
the refusals once per class.
"""

from collections.abc import Mapping

from rota.decide.placement.demand import Place
from rota.decide.placement.fleet import Fleet, Needs, numbers
from rota.model.ids import NodeId


class Reasons:
    """Why things wait at the end of a round."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._refusals: dict[Needs, Mapping[NodeId, str]] = {}
        self._sentences: dict[tuple[Needs, int, int], str] = {}

    def refusals(self, needs: Needs) -> Mapping[NodeId, str]:
        """Each node that does not take a task with these needs, and why."""
        if needs not in self._refusals:
            fleet = self._fleet
            asked = (
                fleet.places if needs.pin is None else [fleet.places[n] for n in numbers(fleet.set_of((needs.pin,)))]
            )
            pairs = ((place.id, self.refusal(needs, place)) for place in asked)
            self._refusals[needs] = {node: why for node, why in pairs if why}
        return self._refusals[needs]

    def refusal(self, needs: Needs, place: Place) -> str:
        """Why a node does not take a task with these needs; empty if it would."""
        if needs.kind not in place.kinds:
            return f'its app does not declare kind "{needs.kind}"'
        for name, value in needs.labels:
            if place.labels.get(name) != value:
                has = f", but {name}={place.labels[name]}" if name in place.labels else ""
                return f"it has no label {name}={value}{has}"
        if not place.is_open:
            return place.why_closed or "it is closed to new tasks"
        free = self._fleet.free[self._fleet.index[place.id]]
        if free < needs.cost:
            taken = max(place.slots, place.used) - free
            if needs.cost == 1:
                return f"all its slots are taken ({taken} of {place.slots})"
            return f"it has {_slots(free)} free of {place.slots}, and the task takes {needs.cost}"
        return ""

    def sentence(self, needs: Needs, holding: int, wanted: int) -> str:
        """What is in the way of a resource that is wanted on so many nodes, when so many of those that fit hold it."""
        known = (needs, holding, wanted)
        if known not in self._sentences:
            self._sentences[known] = self._sentence(needs, holding, wanted)
        return self._sentences[known]

    def _sentence(self, needs: Needs, holding: int, wanted: int) -> str:
        if needs.pin is not None:
            return self._of_the_pin(needs, needs.pin, holding, wanted)
        return self._of_the_fleet(needs) or self._of_the_slots(needs, holding, wanted)

    def _of_the_pin(self, needs: Needs, pin: NodeId, holding: int, wanted: int) -> str:
        fleet = self._fleet
        if pin not in fleet.index:
            return f"it is pinned to node {pin}, which is not there; start that node or change the pin"
        if not holding:
            return f"it is pinned to node {pin}: {self.refusal(needs, fleet.places[fleet.index[pin]])}"
        return f"it is pinned to node {pin}, which holds it already; for {wanted} replicas, change the pin"

    def _of_the_fleet(self, needs: Needs) -> str:
        """What is wrong with the fleet as a whole, if something is."""
        fleet = self._fleet
        labels = " and ".join(f"{name}={value}" for name, value in needs.labels)
        if not fleet.places:
            return 'there is no node that works; start one with "rota node"'
        if not fleet.with_kind(needs.kind):
            return f'no node declares kind "{needs.kind}"; start one whose app does'
        for name, value in needs.labels:
            if not fleet.with_label(name, value):
                return f"no node has label {name}={value}; label one, or ask for another"
        if not fleet.eligible(needs):
            return f'no node declares kind "{needs.kind}" and has {labels}; add one, or ask for less'
        if not fleet.fitting(needs):
            closed = numbers(fleet.eligible(needs))
            why = fleet.places[closed[0]].why_closed or "closed"
            which = "the only node" if len(closed) == 1 else f"each of the {len(closed)} nodes"
            return f"{which} that could take it gets no new tasks ({why}); open one or add one"
        return ""

    def _of_the_slots(self, needs: Needs, holding: int, wanted: int) -> str:
        fleet = self._fleet
        fit = numbers(fleet.fitting(needs))
        others = len(fit) - holding
        if not others:
            whose = "the only node that can take it holds" if holding == 1 else f"its {holding} nodes hold"
            return f"{whose} it already; it needs {wanted} distinct nodes: add one, or ask for fewer replicas"
        held = f"{_nodes(holding)} {'holds' if holding == 1 else 'hold'} it already, and " if holding else ""
        which = f"the other {others}" if holding else _nodes(others)
        slots = sum(fleet.places[number].slots for number in fit)
        free = sum(fleet.free[number] for number in fit)
        if needs.cost > 1:
            return (
                f"{held}none of {which} has {needs.cost} slots free, which its task takes "
                f"({free} of {slots} are free in all); add slots or nodes"
            )
        taken = sum(max(fleet.places[n].slots, fleet.places[n].used) - fleet.free[n] for n in fit)
        figures = f" ({taken} of {slots})" if not holding else ""
        return f"{held}all slots of {which} are taken{figures}; add slots or nodes"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"
