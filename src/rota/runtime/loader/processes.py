"""The agent's side of a loader process: start it, receive its messages, ask it for forks, end it."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

import msgspec

from rota.kit.time import durations
from rota.model.config import LogConfig
from rota.model.errors import Unavailable
from rota.model.ids import Instant
from rota.runtime.loader.kept import KeptFile
from rota.runtime.pipes.brief import Brief
from rota.runtime.pipes.loader import (
    AskSources,
    Fork,
    Forked,
    ForkRefused,
    Leave,
    Loaded,
    LoadFailed,
    Reaped,
    SourcesAre,
)
from rota.runtime.system import kernel
from rota.runtime.system.children import ChildProcess, start
from rota.runtime.system.confine import Commands, Confinement, cleaned
from rota.runtime.system.enclosure import Enclosure
from rota.runtime.system.leftovers import MARK


class LoadError(Exception):
    """The app could not be imported."""

    def __init__(self, why: str, details: str = "") -> None:
        super().__init__(why)
        self.details = details


class LoaderListener(Protocol):
    """Gets the messages of loaders."""

    def forked(self, worker: int, pid: int) -> None:
        """A worker was forked."""

    def refused(self, worker: int, why: str) -> None:
        """A worker could not be forked, for this reason."""

    def reaped(self, ended: kernel.EndedProcess) -> None:
        """A worker ended."""

    def loader_changed(self, loader: "Loader") -> None:
        """It has loaded the app, or it is gone."""


@dataclass(frozen=True)
class LoadTarget:
    """What loaders load, and with which settings."""

    app: str
    node: str
    log: LogConfig = field(default_factory=LogConfig)
    """How loaders and workers write their log."""

    confinement: Confinement = field(default_factory=Confinement)
    """The user and the limits of loaders and workers."""

    commands: Commands = field(default_factory=Commands)
    """How commands run that came over the API."""

    withheld: Collection[str] = ()
    """Variables that they do not get."""

    letters: str = ""
    """The folder of dead letters, if they cannot get there by themselves; loaders open it before they are confined."""

    printed: str = ""
    """The folder of printed lines, likewise."""

    home: str = ""
    """The home of the node's data folder, by which a later life of the node knows what they left behind."""

    enclosure: Enclosure = field(default_factory=Enclosure, compare=False)
    """Where they are kept together."""

    kept: KeptFile = field(default_factory=KeptFile, compare=False)
    """Code that a generation is loaded from in place of the app's files."""


class Loader(ChildProcess[SourcesAre]):
    """One loader process, of one generation."""

    def __init__(self, target: LoadTarget, generation: int, listener: LoaderListener, now: Instant) -> None:
        self.generation, self.born = generation, now
        self.app: Loaded | None = None
        self.why = "ended"
        """How it ended; empty while it runs."""

        self._listener = listener
        self._loaded: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
        super().__init__(f"loader {generation}", lambda control: start_process(target, generation, control))

    @property
    def can_fork(self) -> bool:
        """Has it imported the app, and is it running?"""
        return self.is_alive and self.app is not None

    @property
    def spawns(self) -> bool:
        """Does its app want fresh processes instead of forks?"""
        return self.app is not None and self.app.app.start == "spawn"

    async def loaded(self, timeout: float) -> Loaded:
        """The app, when it is imported; LoadError says why it is not."""
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._loaded)
        except TimeoutError:
            limit = durations.render(timedelta(seconds=timeout))
            raise LoadError(
                f"its import did not end within {limit}; load_timeout in [runtime] sets how long it may take"
            ) from None

    async def sources(self, timeout: float) -> bytes:
        """The app's modules as it imported them (`runtime.loader.kept`); empty if it does not say so in time."""
        with contextlib.suppress(Unavailable):
            return (await self.ask(AskSources, timeout)).data
        return b""

    def fork(self, brief: Brief, channel: int, lifeline: int, stacks: int, *extras: int) -> None:
        """Ask for a worker; the listener gets the outcome. The descriptors are closed here."""
        self.send(Fork(brief, len(extras)), [channel, lifeline, stacks, *extras])

    @property
    def has_room(self) -> bool:
        """Has it read most of what was sent? A worker's order may come with a large saved state."""
        return self._channel.has_room

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once, when it has read most of what was sent; never if it ends before."""
        self._channel.when_room(callback)

    def leave(self) -> None:
        """Ask it to end; its workers stay."""
        self.send(Leave())

    def ended(self, status: int) -> None:
        """The agent reaped it."""
        self._channel.drain()  # its last messages
        self.why = describe(status)
        if not self._loaded.done():
            self._loaded.set_exception(LoadError(f"its import ended the process ({describe(status)})"))
            self._loaded.exception()  # waiting callers get the error; without any, it is not logged as a bug
        self._lost()
        self.handle.close()

    def _hear(self, message: object) -> None:
        match message:
            case Loaded():
                self.app = message
                if not self._loaded.done():
                    self._loaded.set_result(message)
                self._listener.loader_changed(self)
            case LoadFailed(why=why, details=details):
                if not self._loaded.done():
                    self._loaded.set_exception(LoadError(why, details))
                    self._loaded.exception()
            case Forked(worker=worker, pid=pid):
                self._listener.forked(worker, pid)
            case ForkRefused(worker=worker, why=why):
                self._listener.refused(worker, why)
            case SourcesAre():
                self._answered(message)
            case Reaped(pid=pid, status=status, cpu_seconds=cpu, peak_memory=peak):
                self._listener.reaped(kernel.EndedProcess(pid, status, cpu, peak))

    def _ended(self) -> None:
        if not self._loaded.done():
            asyncio.get_running_loop().call_later(0.5, self._give_up)
        self._listener.loader_changed(self)

    def _give_up(self) -> None:
        """No status arrived in time to say how it ended."""
        if not self._loaded.done():
            self._loaded.set_exception(LoadError("its import ended the process"))
            self._loaded.exception()


def start_process(
    target: LoadTarget,
    generation: int,
    control: int,
    stacks: int | None = None,
    brief: Brief | None = None,
    extras: Sequence[int] = (),
) -> tuple[kernel.ProcessHandle, int]:
    """A new loader process, or with a brief a spawned worker; its handle, and the agent's end of its lifeline."""
    brief_file = source = None
    try:
        brief_file = None if brief is None else _written(brief)
        if (file := target.kept.of(generation)) is not None:
            source = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        flags = [f"--generation={generation}", f"--app={target.app}", f"--node={target.node}"]
        flags += [f"--log-level={target.log.level}", f"--log-format={target.log.format}"]
        flags += [f"--confinement={msgspec.json.encode(target.confinement).decode()}"]
        if target.commands.are_others:
            flags += [f"--commands={msgspec.json.encode(target.commands).decode()}"]
        if target.letters:
            flags += [f"--letters={target.letters}"]
        if target.printed:
            flags += [f"--printed={target.printed}"]
        if place := target.enclosure.place(generation):
            flags += [f"--cgroup={place}"]
        if source is not None:
            flags += [f"--sources={source}"]
        if brief_file is not None:
            flags += [f"--stacks={stacks}", f"--brief={brief_file}"]
        flags += [f"--extra={fd}" for fd in extras]
        env = cleaned(os.environ, target.confinement, target.withheld)
        return start(
            "rota.runtime.loader.main",
            control,
            flags,
            [fd for fd in (stacks, brief_file, source, *extras) if fd is not None],
            env={**env, MARK: target.home, **target.enclosure.environment(generation)},
            own_session=brief is not None and brief.attempt is not None,
        )
    finally:
        for fd in (brief_file, source):
            if fd is not None:
                os.close(fd)


def _written(brief: Brief) -> int:
    """A file with a brief. Not an argument, because it may hold passwords of sinks and payloads, and every user can
    read those."""
    brief_file = kernel.scratch_file("brief")
    with open(brief_file, "wb", closefd=False) as file:
        file.write(msgspec.json.encode(brief))
    os.lseek(brief_file, 0, os.SEEK_SET)
    return brief_file


def describe(status: int | None) -> str:
    """How a process ended, in words."""
    if status is None:
        return "ended"
    if os.WIFSIGNALED(status):
        import signal  # noqa: PLC0415

        try:
            return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
        except ValueError:
            return f"killed by signal {os.WTERMSIG(status)}"
    return f"exit code {os.WEXITSTATUS(status)}"
