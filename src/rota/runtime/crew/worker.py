"""The agent's side of one worker process."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from datetime import timedelta

from rota.model.ids import Instant
from rota.runtime.crew.plan import CrewMember, WorkerPhase
from rota.runtime.pipes.brief import Brief
from rota.runtime.pipes.channel import Channel, PipeMessage
from rota.runtime.system import kernel
from rota.runtime.worker.stacks import SIGNAL, STACKS_WAIT


class Worker:
    """One worker, from the request to fork it until it is reaped."""

    def __init__(self, brief: Brief, version: int, drain: timedelta | None, now: Instant) -> None:
        self.brief, self.version, self.drain = brief, version, drain
        self.phase = WorkerPhase.STARTING
        self.since = self.born = self.heard = now
        self.worn = ""
        self.why_killed = ""
        self.is_cut_short = False
        """Is it killed in the middle of its work, although it was to end by itself?"""

        self.held_up = ""
        """What keeps it from ending; empty if nothing does."""

        self.last_words = ""
        """Why its task failed, if it has a single task."""

        self.done = 0
        """Pieces of work it finished."""

        self.end: kernel.EndedProcess | None = None
        """How it ended and what it used; None until the process that reaped it has reported that."""

        self.handle: kernel.ProcessHandle | None = None
        self.channel: Channel | None = None
        self.lifeline: int | None = None
        self.stacks: int | None = None

    @property
    def id(self) -> int:
        """Its number, never used twice."""
        return self.brief.worker

    @property
    def is_errand(self) -> bool:
        """Is it there for one attempt only, outside of the plan?"""
        return self.brief.attempt is not None

    @property
    def pid(self) -> int | None:
        """Its process id, once it is known."""
        return self.handle.pid if self.handle else None

    @property
    def member(self) -> CrewMember:
        """The worker as `plan` sees it."""
        brief = self.brief
        return CrewMember(
            id=brief.worker,
            pool=brief.pool,
            slot=brief.slot,
            generation=brief.generation,
            phase=self.phase,
            since=self.since,
            worn=self.worn,
            drain=self.drain,
            version=self.version,
        )

    @property
    def can_work(self) -> bool:
        """Can it be given work? One that was killed still counts as ready until it is reaped."""
        return self.phase == WorkerPhase.READY and not self.why_killed

    def enter(self, phase: WorkerPhase, now: Instant) -> None:
        """Enter a phase."""
        self.phase, self.since = phase, now

    def send(self, message: PipeMessage, fds: list[int] | None = None) -> None:
        """Send it a message; does nothing if it is gone. Descriptors are closed here."""
        if self.channel is not None:
            self.channel.send(message, fds)
        else:
            for fd in fds or ():
                os.close(fd)

    @property
    def has_room(self) -> bool:
        """Has it read most of what was sent? A caller with more to send waits until it has."""
        return self.channel is not None and self.channel.has_room

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once, when it has read most of what was sent; never if it ends before."""
        if self.channel is not None:
            self.channel.when_room(callback)

    def kill(self, why: str) -> None:
        """Kill it and its group now; `why` is reported when it has ended."""
        self.why_killed = self.why_killed or why
        if self.handle is not None:
            self.handle.kill()
        if self.lifeline is not None:  # also ends a worker whose process id is not known yet
            os.close(self.lifeline)
            self.lifeline = None

    def cut_short(self, why: str) -> None:
        """Kill it during its work; it writes down its stacks first, to show what it was doing."""
        if not self.why_killed:
            self.why_killed, self.is_cut_short = why, True
            self.ask_for_stacks()
            asyncio.get_running_loop().call_later(STACKS_WAIT, self.kill, why)

    def ask_for_stacks(self) -> None:
        """Make it write down the stacks of its threads."""
        if self.handle is not None:
            self.handle.send(SIGNAL)

    def read_stacks(self) -> str:
        """What it wrote down."""
        if self.stacks is None:
            return ""
        size = os.fstat(self.stacks).st_size
        return os.pread(self.stacks, size, 0).decode(errors="replace")

    def let_go(self) -> None:
        """Close everything that belongs to it."""
        if self.channel is not None:
            self.channel.close()
        if self.handle is not None:
            self.handle.close()
        for fd in (self.lifeline, self.stacks):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self.channel = self.handle = self.lifeline = self.stacks = None
