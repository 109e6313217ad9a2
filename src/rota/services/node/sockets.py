"""The sockets of a node's services: where each listens, and why one does not."""

import logging
from collections.abc import Iterator, Mapping

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import Clock
from rota.services.core.spec import ServiceSpec
from rota.services.node.listening import Bind, CannotListen, Listening, Wanted, listen
from rota.services.node.pipe import SharedAddress
from rota.services.node.shared_sockets import NotYet, SocketBorrower

log = logging.getLogger(__name__)

TRY_AGAIN = 1.0
"""Seconds between tries to get an address that is taken."""


class ServiceSockets:
    """The sockets of all services of one node."""

    def __init__(self, clock: Clock, tell: Tell) -> None:
        self._clock, self._tell = clock, tell
        self._listening: dict[str, Listening] = {}
        self._refused: dict[str, tuple[str, float]] = {}
        """Service → why it cannot listen, and when to try again."""

        self.borrower: SocketBorrower | None = None
        """Where fixed ports are borrowed, if this node shares them with others of its machine."""

    def get(self, name: str) -> Listening | None:
        """What a service listens with."""
        return self._listening.get(name)

    def addresses(self, name: str) -> tuple[str, ...]:
        """Where a service listens; none if it does not."""
        return self._listening[name].addresses if name in self._listening else ()

    def refusal(self, name: str) -> str | None:
        """Why a service cannot listen, if that was tried."""
        return self._refused[name][0] if name in self._refused else None

    def why_not(self, service: ServiceSpec) -> str:
        """Why a service does not listen where it says; nothing if it does."""
        listening = self._listening.get(service.name)
        if service.name in self._refused:
            return self._refused[service.name][0]
        if listening is None or listening.wanted != Wanted.of(service):
            return f'service "{service.name}" does not listen yet'
        return ""

    def listen(self, name: str, service: ServiceSpec) -> None:
        """Listen where a service says, if that is not so yet and nobody else has the address."""
        wanted = Wanted.of(service)
        now = self._clock.monotonic()
        old = self._listening.get(name)
        if old is not None and old.wanted == wanted:
            return
        if name in self._refused and self._refused[name][1] > now:
            return
        try:
            fresh = listen(name, wanted, old, self._bind(wanted))
        except NotYet:
            return
        except CannotListen as error:
            if old is not None and old.wanted.port == wanted.port and (kept := old.kept_for(wanted)) != old:
                # It may be we who have the address, by another name: let go, and try again.
                self._listening[name] = kept
                old.close(but=kept)
            else:
                self._is_refused(name, str(error), now)
            return
        if old is not None:
            old.close(but=fresh)
        self._listening[name] = fresh
        self._refused.pop(name, None)
        self._tell("service.listening", name, at=", ".join(fresh.addresses))

    def give_back(self, declared: Mapping[str, ServiceSpec]) -> None:
        """Keep only the shared sockets that are used, or wanted; all that are wanted are named in one message."""
        if self.borrower is None:
            return
        wanted = [(name, Wanted.of(service)) for name, service in declared.items()]
        wanted += [(name, listening.wanted) for name, listening in self._listening.items()]
        self.borrower.want({place for name, each in wanted for place in _places(name, each)})

    def forget(self, name: str) -> None:
        """The app does not have this service any more."""
        self._refused.pop(name, None)
        if listening := self._listening.pop(name, None):
            listening.close()

    def close(self) -> None:
        """Listen nowhere."""
        for listening in self._listening.values():
            listening.close()
        self._listening.clear()
        if self.borrower is not None:
            self.borrower.close()

    def _bind(self, wanted: Wanted) -> Bind | None:
        """How sockets are bound: a fixed port of a node of `rota up` is shared, and so borrowed."""
        return self.borrower.bind if self.borrower is not None and wanted.port else None

    def _is_refused(self, name: str, why: str, now: float) -> None:
        if name not in self._refused or self._refused[name][0] != why:
            self._tell("service.refused", name, why=why)
            log.error("a service cannot listen", extra={"service": name, "why": why})
        self._refused[name] = (why, now + TRY_AGAIN)


def _places(name: str, wanted: Wanted) -> Iterator[SharedAddress]:
    """The shared sockets of a service; none if its port is any free one."""
    if wanted.port:
        sorts = [sort for sort, is_wanted in (("tcp", wanted.tcp), ("udp", wanted.udp)) if is_wanted]
        yield from (SharedAddress(name, host, wanted.port, sort) for host in wanted.hosts for sort in sorts)
