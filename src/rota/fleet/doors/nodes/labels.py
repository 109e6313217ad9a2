"""Labels of a node, changed while it runs.

What an operator sets is a record of its own beside the node's (`resources.core.records.LabelsSet`), so it outlives the
node, and it overrides the node's settings, label by label. The leader follows these records and uses the new labels at
once; tasks that a node has already stay where they are.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from rota.doors.limits import TRIES
from rota.doors.parameters import NodeName
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.bodies import LabelsBody
from rota.fleet.doors.nodes.reading import no_node
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.config import check_labels
from rota.model.errors import Conflict, Invalid
from rota.model.ids import NodeId
from rota.model.node import Node
from rota.resources.core.records import LabelsSet, labelled
from rota.store.port import Absent, At, Delete, Put, Store
from rota.store.records import understood

MOST = 64
"""Labels of a node that can be set or taken away."""


NONE: Mapping[str, str | None] = MappingProxyType({})
"""No labels."""


class NodeLabels(msgspec.Struct, frozen=True, kw_only=True):
    """The labels of a node."""

    node: NodeId
    """The id of the node."""

    labels: dict[str, str]
    """The labels that count now."""

    labels_set: LabelsSet | None = None
    """What was set over its settings; null if nothing is."""


@verb("PATCH", "/v1/nodes/{node}/labels", Access.OPERATE, rpc="Nodes.Label", body=LabelsBody)
async def label_node(
    store: Store, clock: Clock, node: NodeName, labels: object = NONE, *, reset: object = False
) -> NodeLabels:
    """Set labels of a node, or remove them with null, in place of its settings; `reset` first undoes all that was
    set."""
    changes, id = _read(node, labels, reset), NodeId(node)
    for _ in range(TRIES):
        entry, of_node = await store.get(keys.labels(id)), await store.get(keys.node(id))
        if entry is None and of_node is None:
            raise await no_node(store, node)
        before, known = understood(LabelsSet, entry), understood(Node, of_node)
        configured = known.labels if known else {}
        wanted = {**(before.labels if before and not reset else {}), **changes}
        if known is not None:
            wanted = {name: value for name, value in wanted.items() if value is not None or name in configured}
        if len(wanted) > MOST:
            raise Invalid(
                f'node "{node}" would have {len(wanted)} labels set; at most {MOST} can be, so take some away'
            )
        given = LabelsSet(node=id, labels=wanted, since=clock.wall()) if wanted else None
        if (given.labels if given else {}) == (before.labels if before else {}):
            return NodeLabels(node=id, labels=labelled(configured, before), labels_set=before)
        write = Put(keys.labels(id), codec.encode(given)) if given else Delete(keys.labels(id))
        try:
            await store.commit(write, expect=[At(write.key, entry.modified) if entry else Absent(write.key)])
        except Conflict:
            continue
        return NodeLabels(node=id, labels=labelled(configured, given), labels_set=given)
    raise Conflict(f"the labels of node {node} are being changed all the time; try again", [keys.labels(id)])


def _read(node: str, labels: object, reset: object) -> dict[str, str | None]:
    """The requested changes; Invalid if they are malformed or empty."""
    if not isinstance(labels, Mapping):
        raise Invalid(f'node "{node}": labels is {labels!r}; it must be an object, like {{"zone": "b", "gpu": null}}')
    if not isinstance(reset, bool):
        raise Invalid(f'node "{node}": reset is {reset!r}; it must be true or false')
    if not labels and not reset:
        raise Invalid(f'node "{node}": nothing is to change; give labels, or reset for those that its settings say')
    for name, value in labels.items():
        if not isinstance(value, str | None):
            raise Invalid(f'node "{node}": label {name} is {value!r}; it must be a text, or null to take it away')
    check_labels({name: value or "" for name, value in labels.items()})
    return dict(labels)
