"""A node at the other end of a link, for tests: `python -m tests.kit.link_server ADDRESS` as a process of its own.

`Desk` answers and writes down what it was asked; tests block, break and change it. As a process it prints the address
it got, and a line for each start; a start of the run `STUCK` stops its event loop for good.
"""

import asyncio
import signal
import sys
from datetime import timedelta

import click

from rota.link import LinkSettings, NodeLink, serve_link
from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt, Whom
from rota.model.ids import NodeId, Revision, SessionId

NODE, SESSION = NodeId("b"), SessionId("b-1")
ATTEMPT = AttemptId("nightly/2026-11-15", 1)
BEFORE = Whom(node=NODE, session=SessionId("b-0"))
STUCK = "stuck"

PATIENT = timedelta(seconds=20)
CALM = LinkSettings(check=PATIENT, dispatch=PATIENT, read_log=PATIENT)
"""Settings under which a busy machine is no fault."""

QUICK = LinkSettings(keepalive=timedelta(milliseconds=500), keepalive_timeout=timedelta(milliseconds=300))
"""Settings under which faults are noticed within a second."""


class Desk:
    """A handler that writes down what it is asked."""

    def __init__(self) -> None:
        self.is_at = Presence(node=NODE, session=SESSION)
        self.starts: list[StartAttempt] = []
        self.reads: list[tuple[AttemptId, int]] = []
        self.answer: Accepted | AttemptRefused | Exception = Accepted()
        self.log = b""
        self.log_has_ended = False
        self.open = asyncio.Event()
        """While it is shut, starts and reads wait."""
        self.open.set()

    @property
    def was_asked(self) -> bool:
        """Whether anything but a check got here."""
        return bool(self.starts or self.reads)

    def presence(self) -> Presence:
        return self.is_at

    async def dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        self.starts.append(start)
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def read_log(self, attempt: AttemptId, offset: int) -> LogPiece:
        self.reads.append((attempt, offset))
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return LogPiece(self.log[offset:], self.log_has_ended)


class PrintingDesk(Desk):
    """A desk that says aloud what it is asked."""

    async def dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        click.echo(f"start {start.attempt.run}")
        if start.attempt.run == STUCK:
            signal.pause()
        return await super().dispatch(start)


def start(run: str = "nightly/1", *, attempt: int = 1, epoch: int = 5, payload: bytes = b"{}") -> StartAttempt:
    """A start of an attempt."""
    return StartAttempt(attempt=AttemptId(run, attempt), epoch=Revision(epoch), payload=payload)


async def dispatch(
    link: NodeLink, start: StartAttempt, *, timeout: timedelta | None = None
) -> Accepted | AttemptRefused:
    """The answer to a start that travels alone."""
    (answer,) = await link.dispatch_many([start], timeout=timeout)
    return answer


async def main(address: str) -> None:
    """Serve until killed."""
    async with serve_link(address, PrintingDesk(), settings=QUICK) as server:
        click.echo(server.address)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
