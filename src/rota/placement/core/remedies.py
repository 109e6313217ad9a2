"""Remedies: what would have to change on each node for it to take a resource that waits.

For each node one obstacle after the other is removed, in a copy, until it would take a task; the steps are the answer.
Where the obstacle is a rule, or a tag to be near to or apart from, no change of the node would help.
"""

import shlex
from collections.abc import Iterator, Sequence

from rota.kit.record import replace
from rota.model.ids import NodeId
from rota.placement.core.demand import Demand, Place
from rota.placement.core.place import place
from rota.placement.core.rules import NO_RULES, Rules


def remedies(demand: Demand, places: Sequence[Place], rules: Rules = NO_RULES) -> dict[NodeId, str]:
    """By node: what to do so that it takes one more task of the resource. Nodes that no step helps are left out."""
    found: dict[NodeId, str] = {}
    for here in places:
        if here.id in demand.holders or demand.pin not in (None, here.id):
            continue
        steps = list(_steps(demand, here))
        remedied = steps[-1][1] if steps else here
        others = [remedied if each.id == here.id else replace(each, is_open=False) for each in places]
        if steps and place([replace(demand, missing=1)], others, rules=rules).binds:
            found[here.id] = " and ".join(text for text, _ in steps)
    return found


def _steps(demand: Demand, here: Place) -> Iterator[tuple[str, Place]]:
    """What to do about a node, step by step, and the node after each."""
    if demand.kind not in here.kinds:
        here = replace(here, kinds=here.kinds | {demand.kind})
        yield f'start an app there that declares kind "{demand.kind}"', here
    lacking = {name: value for name, value in demand.labels.items() if here.labels.get(name) != value}
    if lacking:
        here = replace(here, labels={**here.labels, **lacking})
        pairs = [f"{name}={value}" for name, value in lacking.items()]
        yield f"label it {' and '.join(pairs)} ({_command('label', here, *pairs)})", here
    if not here.is_open:
        verb = "undrain" if here.why_closed.startswith("it is drained") else "uncordon"
        here = replace(here, is_open=True)
        yield f"{verb} it ({_command(verb, here)})", here
    if here.slots - here.used < demand.cost:
        more = here.used + demand.cost - here.slots
        here = replace(here, slots=here.slots + more)
        slots = _command("slots", here, str(here.slots))
        yield f"give it {more} more {'slot' if more == 1 else 'slots'} ({slots})", here


def _command(verb: str, here: Place, *more: str) -> str:
    return shlex.join(["rota", "nodes", verb, here.id, *more])
