"""Doors whose doorkeeper knows one token of each role."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from starlette.routing import Route

from rota.compose.metrics import NodeFigures, registry
from rota.doors.behind import NodeBackend
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http.door import door
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, Gate, by_digest, digest
from rota.fleet.core.access.logins import Failures
from rota.fleet.core.access.token import TokenRecord
from rota.kit.record import replace
from rota.web.routes import is_page, pages
from tests.kit.hand_clock import HandClock
from tests.kit.relay_records import count

CLOCK = HandClock()


NOW = CLOCK.wall()


TOKENS = {access: f"rota_{access}_0123456789" for access in Access}


EXPIRED, REVOKED = "rota_expired_0123456789", "rota_revoked_0123456789"


def record(name: str, token: str, access: Access = Access.NODE) -> TokenRecord:
    return TokenRecord(name=name, access=access, digest=digest(token).hex(), made=NOW, by="ada")


RECORDS = [
    *(record(access, token, access) for access, token in TOKENS.items()),
    replace(record("expired", EXPIRED), expires=NOW - timedelta(seconds=1)),
    replace(record("revoked", REVOKED), revoked=NOW),
]


@dataclass(frozen=True)
class Noted:
    by: str
    origin: str
    what: str
    refused: str


class Guarded:
    """Doors whose doorkeeper knows one token of each role; and what it noted."""

    def __init__(self) -> None:
        self.notes: list[Noted] = []
        gate = Gate(tuple(by_digest(RECORDS).values()), "see: cat data/token")
        self.keeper = Doorkeeper(gate, CLOCK, note=self._note, failures=Failures(100_000))
        self.behind = NodeBackend(lambda: None, CLOCK, Watches(), count)
        more = [*resources.routes(self.behind), *pages()]
        self.app = door(
            HealthChecks(CLOCK), registry(NodeFigures), dict, gate=self.keeper, more=more, is_page=is_page, clock=CLOCK
        )

    def _note(self, *, by: str, origin: str, what: str, refused: str) -> None:
        self.notes.append(Noted(by, origin, what, refused))

    def take_notes(self) -> list[Noted]:
        taken, self.notes = self.notes, []
        return taken


def routes() -> Iterator[tuple[str, str]]:
    """Every method of every path that the application has."""
    for route in Guarded().app.routes:
        assert isinstance(route, Route), f"{route} is no route; say here who may ask it"
        for method in sorted(route.methods or ()):
            yield method, route.path
