"""Clients of a fleet's services, whose requests have names of their own, and what became of each request.

A client asks one thing after the other over one connection, and connects again when that has ended. A request whose
connection ended under it is excused only if the proxy at its other end was killed about then: that is the one loss
which services allow for.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.kit.boxes import HEADER, box
from tests.kit.chaos.app import ECHO

PAUSE = 0.1
"""Seconds from an answer to the next request."""

PATIENCE = 120.0
"""Seconds after which a request counts as never answered; whatever happened meanwhile is over long before."""

ABOUT = 5.0
"""Seconds by which the death of a proxy may be noted earlier or later than a connection's end; loops may be late."""

REFUSALS = frozenset({-10002, -10003, -10005, -10006})
"""Answers that an honest service may give: worker lost, queue full, deadline, stopping."""


@dataclass(frozen=True)
class Death:
    """A node's proxies were killed, alone or with their agent."""

    node: str
    at: float


@dataclass(frozen=True)
class Break:
    """A connection ended under a request."""

    node: str
    request: str
    sent: float
    ended: float

    def is_excused(self, deaths: Iterable[Death]) -> bool:
        """Was its proxy killed then?"""
        return any(death.node == self.node and self.sent - ABOUT <= death.at <= self.ended + ABOUT for death in deaths)


@dataclass
class Requests:
    """What became of all requests."""

    sent: int = 0
    rets: Counter[int] = field(default_factory=Counter)
    breaks: list[Break] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Answers to something else, or with a ret that no service should give here."""

    done: set[str] = field(default_factory=set)
    """Requests whose answer says that they ran."""


@dataclass(frozen=True)
class Served:
    """The account of requests."""

    sent: int
    done: int
    refused: int
    excused: int
    """Lost with the proxy that had them."""

    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    """Requests that ran more than once."""

    wrong: tuple[str, ...]


def settle(requests: Requests, noted: Counter[str], deaths: Iterable[Death]) -> Served:
    """Hold what clients saw against what handlers noted."""
    deaths = list(deaths)
    excused = sum(each.is_excused(deaths) for each in requests.breaks)
    lost = [each.request for each in requests.breaks if not each.is_excused(deaths)]
    invented = [f"{name} was answered, and did not run" for name in sorted(requests.done - noted.keys())]
    return Served(
        sent=requests.sent,
        done=requests.rets[0],
        refused=requests.rets.total() - requests.rets[0],
        excused=excused,
        lost=(*lost, *requests.unanswered),
        doubled=tuple(sorted(name for name, count in noted.items() if count > 1)),
        wrong=(*requests.wrong, *invented),
    )


class Client:
    """One client of one node's service."""

    def __init__(self, name: str, node: str, port: int, told: Requests) -> None:
        self._name, self._node, self._port, self._told = name, node, port, told
        self._numbers = itertools.count(1)
        self._is_over = False

    def stop(self) -> None:
        """Ask nothing new."""
        self._is_over = True

    async def run(self) -> None:
        """Ask until told to stop."""
        while not self._is_over:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    await self._converse(reader, writer)
                finally:
                    writer.close()
            await asyncio.sleep(PAUSE)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ask over one connection until it ends."""
        while not (self._is_over or reader.at_eof()):
            number = next(self._numbers)
            if not await self._ask(reader, writer, number):
                return
            await asyncio.sleep(PAUSE)

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        """Ask one thing; was it answered?"""
        name, sent = f"{self._name}-{number}", time.monotonic()
        self._told.sent += 1
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(box(ECHO, name.encode(), number))
                header = HEADER.unpack(await reader.readexactly(HEADER.size))
                body = await reader.readexactly(header[3] - HEADER.size)
        except TimeoutError:
            self._told.unanswered.append(name)
            return False
        except (OSError, asyncio.IncompleteReadError):
            self._told.breaks.append(Break(self._node, name, sent, time.monotonic()))
            return False
        self._note(name, number, ret=header[5], sn=header[6], body=body.decode())
        return True

    def _note(self, name: str, number: int, *, ret: int, sn: int, body: str) -> None:
        self._told.rets[ret] += 1
        if sn != number or (ret == 0 and body != name) or (ret != 0 and ret not in REFUSALS):
            self._told.wrong.append(f"{name} was answered with ret {ret}, sn {sn}, {body!r}")
        elif ret == 0:
            self._told.done.add(name)
