"""Reasons: why nodes refuse some needs, and what to say of a resource that waits.

A sentence names what is in the way and what would help. It is made once per class of demand and number of holders,
the refusals once per class.
"""

from collections.abc import Mapping

from rota.model.ids import NodeId
from rota.placement.core.demand import Place
from rota.placement.core.fleet import FleetCapacity, Needs, numbers
from rota.placement.core.rules import Rulings
from rota.placement.core.ties import Ties, shown


class Reasons:
    """Why things wait at the end of a round."""

    def __init__(self, fleet: FleetCapacity, ties: Ties, rulings: Rulings) -> None:
        self.fleet, self._ties, self._rulings = fleet, ties, rulings
        self._refusals: dict[Needs, Mapping[NodeId, str]] = {}
        self._sentences: dict[tuple[Needs, int, int], str] = {}

    def refusals(self, needs: Needs) -> Mapping[NodeId, str]:
        """Each node that does not take a task with these needs, and why."""
        if needs not in self._refusals:
            fleet = self.fleet
            asked = (
                fleet.places if needs.pin is None else [fleet.places[n] for n in numbers(fleet.set_of((needs.pin,)))]
            )
            pairs = ((place.id, self.refusal(needs, place)) for place in asked)
            self._refusals[needs] = {node: why for node, why in pairs if why}
        return self._refusals[needs]

    def refusal(self, needs: Needs, place: Place) -> str:
        """Why a node does not take a task with these needs; empty if it would."""
        if why := _unlike(needs, place):
            return why
        if not place.is_open:
            return place.why_closed or "it is closed to new tasks"
        if place.id in needs.resting:
            return "it has just failed there, and is tried there again later"
        if why := self._rulings.refusal(needs.about, place) if needs.about else "":
            return why
        return (self._ties.refusal(needs, place) if needs.is_tied else "") or self._full(needs, place)

    def _full(self, needs: Needs, place: Place) -> str:
        """Why a node has no room; empty if it has."""
        free = self.fleet.free[self.fleet.index[place.id]]
        if free >= needs.cost:
            return ""
        if place.ramp is not None and needs.cost <= place.slots - place.used:
            return "it has been given as many tasks as it gets at a time"
        taken = max(place.slots, place.used) - free
        if needs.cost == 1:
            return f"all its slots are taken ({taken} of {place.slots})"
        return f"it has {_slots(free)} free of {place.slots}, and the task takes {needs.cost}"

    def sentence(self, needs: Needs, holding: int, wanted: int) -> str:
        """What prevents a resource from being on all the nodes it needs, given how many of those that fit hold it
        already."""
        known = (needs, holding, wanted)
        if known not in self._sentences:
            self._sentences[known] = self._sentence(needs, holding, wanted)
        return self._sentences[known]

    def _sentence(self, needs: Needs, holding: int, wanted: int) -> str:
        if needs.pin is not None:
            return self._of_the_pin(needs, needs.pin, holding, wanted)
        return self._of_the_fleet(needs) or self._of_the_slots(needs, holding, wanted)

    def _of_the_pin(self, needs: Needs, pin: NodeId, holding: int, wanted: int) -> str:
        fleet = self.fleet
        if pin not in fleet.index:
            return f"it is pinned to node {pin}, which is not there; start that node or change the pin"
        if not holding:
            return f"it is pinned to node {pin}: {self.refusal(needs, fleet.places[fleet.index[pin]])}"
        return f"it is pinned to node {pin}, which holds it already; for {wanted} replicas, change the pin"

    def _of_the_fleet(self, needs: Needs) -> str:
        """What the fleet as a whole lacks; empty if nothing."""
        fleet = self.fleet
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
            return self._of_the_eligible(needs)
        return self._of_the_rules(needs) or self._of_the_ties(needs)

    def _of_the_eligible(self, needs: Needs) -> str:
        """Why no node with the kind and the labels takes the resource."""
        fleet = self.fleet
        if fleet.eligible(needs) & fleet.opened:
            return "it has just failed on every node that could take it, and is tried again later; see its task's log"
        closed = numbers(fleet.eligible(needs))
        why = fleet.places[closed[0]].why_closed or "closed"
        return f"{_each(len(closed))} that could take it gets no new tasks ({why}); open one or add one"

    def _of_the_rules(self, needs: Needs) -> str:
        """Which rule refuses every node, if rules do."""
        fit = numbers(self.fleet.fitting(needs)) if needs.about else []
        why = [self._rulings.refusal(needs.about, self.fleet.places[number]) for number in fit]
        if not why or not all(why):
            return ""
        return f"a rule refuses {_each(len(fit))} that could take it ({why[0]}); add another node, or change the rule"

    def _of_the_ties(self, needs: Needs) -> str:
        """The tags it must be near to or apart from, if those leave no node."""
        fleet, ties = self.fleet, self._ties
        if not needs.is_tied or fleet.fitting(needs) & ties.allowed(needs):
            return ""
        for tag in needs.near:
            if not ties.tagged(tag):
                return f"nothing with the tag {shown([tag])} is placed, which it is to be near to; add that first"
        whom = " and ".join(
            [f"near to {shown([tag])}" for tag in needs.near] + [f"apart from {shown([tag])}" for tag in needs.apart]
        )
        if not whom:
            return f"others are to be apart from the tag {shown(needs.tags)}, and are on every node; add a node"
        return f"no node that could take it leaves it {whom}; add a node, or ask for less"

    def _is_about_slots(self, needs: Needs, number: int) -> bool:
        """Is a lack of slots, or already holding the resource, the only reason why a node does not take it?"""
        place = self.fleet.places[number]
        if needs.about and self._rulings.refusal(needs.about, place):
            return False
        return not needs.is_tied or not self._ties.refusal(needs, place)

    def _of_the_slots(self, needs: Needs, holding: int, wanted: int) -> str:
        fleet = self.fleet
        fit = [number for number in numbers(fleet.fitting(needs)) if self._is_about_slots(needs, number)]
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


def _unlike(needs: Needs, place: Place) -> str:
    """What a node lacks of what its tasks must find there; empty if it has all."""
    if needs.kind not in place.kinds:
        return f'its app does not declare kind "{needs.kind}"'
    for name, value in needs.labels:
        if place.labels.get(name) != value:
            has = f", but {name}={place.labels[name]}" if name in place.labels else ""
            return f"it has no label {name}={value}{has}"
    return ""


def _each(count: int) -> str:
    return "the only node" if count == 1 else f"each of the {count} nodes"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"
