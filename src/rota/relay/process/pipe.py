"""Agent and relay: what the relay must know of the fleet, the lines of workers, and how the relay is."""

from rota.relay.core.records import RelayMap, RelayStatus, ResourceTally
from rota.runtime.pipes.channel import PipeMessage


class BeRelay(PipeMessage, frozen=True):
    """To a relay, first: what it is to be."""

    node: str
    address: str
    """Where other relays reach it."""

    folder: str
    """Where its spools are."""

    token: str
    spool_bytes: int
    window: int
    """Messages under way to a sink or to another relay at most."""

    held_messages: int
    held_bytes: int
    """How much it has in memory for each of them."""

    tls: str = ""
    """The folder with its certificates; empty if relays speak without TLS."""


class Revoked(PipeMessage, frozen=True):
    """To a relay: the certificates that were taken back, by serial; all of them."""

    serials: list[str]


class Tokens(PipeMessage, frozen=True):
    """To a relay: the token to show to others, and the digests in hex of those that others may show."""

    token: str
    taken: list[str]

    def __repr__(self) -> str:
        return f"Tokens({len(self.taken)} taken)"


class TakeLine(PipeMessage, frozen=True):
    """To a relay: this worker's line comes along."""

    sender: str


class SenderGone(PipeMessage, frozen=True):
    """To a relay: this worker has ended."""

    sender: str


class RelaysAre(PipeMessage, frozen=True, tag="Fleet"):
    """To a relay: the relay map, and where each relay of the fleet is reached."""

    relay_map: RelayMap | None
    members: dict[str, str]


class Fences(PipeMessage, frozen=True):
    """To a relay: kind, resource and epoch of exclusive tasks as they are assigned now."""

    fences: tuple[tuple[str, str, int], ...]


class AskTallies(PipeMessage, frozen=True):
    """To a relay: what was counted of this kind's resources, or of one?"""

    number: int
    kind: str
    resource: str | None = None


class AskRest(PipeMessage, frozen=True):
    """To a relay: is there anything left?"""

    number: int


class RelayTold(PipeMessage, frozen=True):
    """From a relay: the answer to what was asked under this number."""

    number: int
    tallies: tuple[ResourceTally, ...] = ()
    is_idle: bool = False
    """Has the sink everything?"""

    is_safe: bool = False
    """Is everything in the sink or on disk?"""


class RelayIs(PipeMessage, frozen=True):
    """From a relay: how it is."""

    status: RelayStatus
