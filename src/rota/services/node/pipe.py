"""`rota up` and its nodes: sockets on addresses that nodes share."""

import msgspec

from rota.runtime.pipes.channel import PipeMessage


class SharedAddress(msgspec.Struct, frozen=True, order=True):
    """Where a service listens on an address that nodes share."""

    service: str
    host: str
    port: int
    sort: str
    """tcp or udp."""


class Borrow(PipeMessage, frozen=True):
    """From a node to `rota up`: all shared sockets that it wants. What it was lent and does not name goes back."""

    number: int
    places: tuple[SharedAddress, ...]


class Lent(PipeMessage, frozen=True):
    """From `rota up` to a node: a socket that it asked for, as a descriptor, or why it cannot have it."""

    number: int
    """Which `Borrow` this answers."""

    place: SharedAddress
    why: str = ""
