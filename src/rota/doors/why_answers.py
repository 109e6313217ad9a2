"""The answer to every question why."""

import msgspec


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a resource is where it is, or why a node has what it has."""

    thing: str
    """The resource, node or source that was asked about."""

    says: str
    """The answer in a sentence."""

    chosen: dict[str, str] = msgspec.field(default_factory=dict)
    """Of a resource: its nodes, and why each was chosen."""

    refusals: dict[str, str] = msgspec.field(default_factory=dict)
    """Of a resource: nodes that do not take it. Of a node: resources that it does not take. Some of them."""

    holds: tuple[str, ...] = ()
    """Of a node: the tasks it has to run."""

    reasons: tuple[str, ...] = ()
    """Of a node: why it gets no new tasks; empty if it may. Of a resource: what is wrong with its source, and which
    nodes gave it back."""

    remedies: dict[str, str] = msgspec.field(default_factory=dict)
    """Of a resource that waits: what to do about each node so that it takes it."""
