"""Identities of nodes."""

from datetime import timedelta

from rota.fleet.members.session import Identity
from rota.model.ids import NodeId
from rota.model.node import Role

TTL = timedelta(seconds=10)


def identity(name: str = "a", home: str = "h1") -> Identity:
    return Identity(node=NodeId(name), home=home, role=Role.BOTH, lease_ttl=TTL)
