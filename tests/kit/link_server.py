"""A node at the other end of a link, for tests: `python -m tests.kit.link_server ADDRESS` as a process of its own.

`Desk` answers and writes down what it was asked; tests block, break and change it. As a process it prints the address
it got, and a line for each report and each start; a start of the run `STUCK` stops its event loop for good.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import click

from rota.model.ids import NodeId, Revision, SessionId
from rota.model.link import (
    Accepted,
    AttemptId,
    Batch,
    Control,
    Load,
    Message,
    NotLeader,
    Presence,
    Refused,
    Report,
    Start,
    TaskChange,
    Verb,
    Whom,
)
from rota.rpc import LinkSettings, StaleEpoch, serve_link

NODE, SESSION = NodeId("b"), SessionId("b-1")
NOON = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)
LOAD = Load(score=12.34, slots=10, slots_used=3, executors=8, executors_used=1)
ATTEMPT = AttemptId("nightly/2026-11-15", 1)
BEFORE = Whom(node=NODE, session=SessionId("b-0"))
MAP = 7
STUCK = "stuck"

PATIENT = timedelta(seconds=20)
CALM = LinkSettings(check=PATIENT, report=PATIENT, dispatch=PATIENT, control=PATIENT, silence=PATIENT, window=4)
"""Settings under which a busy machine is no fault."""

QUICK = LinkSettings(
    keepalive=timedelta(milliseconds=500),
    keepalive_timeout=timedelta(milliseconds=300),
    silence=timedelta(seconds=1),
    window=4,
)
"""Settings under which faults are noticed within a second."""


class Desk:
    """A handler that writes down what it is asked."""

    def __init__(self) -> None:
        self.is_at = Presence(node=NODE, session=SESSION, wall=NOON, load=LOAD, relay_map=MAP)
        self.reports: list[Report] = []
        self.starts: list[Start] = []
        self.controls: list[Control] = []
        self.batches: list[Batch] = []
        self.safe: list[int] = []
        self.not_leader: NotLeader | None = None
        self.answer: Accepted | Refused | Exception = Accepted(reservation="executor 3")
        self.epochs: dict[str | AttemptId, Revision] = {}
        self.log = b""
        self.log_has_ended = False
        self.readers = 0
        self.open = asyncio.Event()
        """While it is shut, starts, controls and batches wait."""
        self.open.set()
        self.log_grew = asyncio.Event()

    @property
    def was_asked(self) -> bool:
        """Whether anything but a check got here."""
        return bool(self.reports or self.starts or self.controls or self.batches or self.readers)

    def presence(self) -> Presence:
        return self.is_at

    def report(self, report: Report) -> NotLeader | None:
        self.reports.append(report)
        return self.not_leader

    async def dispatch(self, start: Start) -> Accepted | Refused:
        self.starts.append(start)
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def control(self, control: Control) -> bool:
        self.controls.append(control)
        await self.open.wait()
        current = self.epochs.get(control.what)
        if current is not None and control.epoch < current:
            raise StaleEpoch(str(control.what), control.epoch, current)
        return current is not None

    async def hand_over(self, source: NodeId, batch: Batch) -> None:
        self.batches.append(batch)
        await self.open.wait()
        self.safe.append(batch.sequence)

    async def follow_log(self, attempt: AttemptId, offset: int) -> AsyncGenerator[bytes, None]:
        self.readers += 1
        try:
            while offset < len(self.log) or not self.log_has_ended:
                self.log_grew.clear()
                if offset < len(self.log):
                    piece, offset = self.log[offset:], len(self.log)
                    yield piece
                else:
                    await self.log_grew.wait()
        finally:
            self.readers -= 1

    def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Let the log grow, and end if this was the last of it."""
        self.log += data
        self.log_has_ended = is_last
        self.log_grew.set()


class PrintingDesk(Desk):
    """A desk that says aloud what it is asked."""

    def report(self, report: Report) -> NotLeader | None:
        click.echo(f"report {report.sequence}")
        return super().report(report)

    async def dispatch(self, start: Start) -> Accepted | Refused:
        click.echo(f"start {start.attempt.run}")
        if start.attempt.run == STUCK:
            signal.pause()
        return await super().dispatch(start)


def report(sequence: int = 1, *, session: str = "a-1", changes: tuple[TaskChange, ...] = ()) -> Report:
    """A report of node a."""
    return Report(
        node=NodeId("a"),
        session=SessionId(session),
        sequence=sequence,
        load=LOAD,
        changes=changes,
        digest=bytes(range(16)),
    )


def change(task: str = "room/1/0") -> TaskChange:
    """A change of a task's phase."""
    return TaskChange(task=task, epoch=Revision(41), phase="running", at=NOON, why="bound")


def start(run: str = "nightly/1", *, attempt: int = 1, epoch: int = 5, payload: bytes = b"{}") -> Start:
    """A start of an attempt."""
    return Start(
        attempt=AttemptId(run, attempt),
        epoch=Revision(epoch),
        job="nightly",
        payload=payload,
        timeout=timedelta(hours=1),
    )


def stop(what: str | AttemptId = "room/1/0", *, epoch: int = 5) -> Control:
    """A control that stops something."""
    return Control(verb=Verb.STOP, what=what, epoch=Revision(epoch), why="drained")


def batch(sequence: int, *payloads: bytes) -> Batch:
    """A batch of messages of one resource."""
    messages = (
        Message(id=bytes([number]) * 16, resource="room/1", epoch=Revision(5), payload=payload, to="room.1")
        for number, payload in enumerate(payloads or (b"hello",))
    )
    return Batch(sequence=sequence, messages=tuple(messages))


async def main(address: str) -> None:
    """Serve until killed."""
    async with serve_link(address, PrintingDesk(), settings=QUICK) as server:
        click.echo(server.address)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
