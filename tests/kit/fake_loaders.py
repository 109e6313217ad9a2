"""Loaders without processes: a crew with its real plan, whose workers live and fall as a test says."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.compose import wanted
from rota.kit.time.clock import SYSTEM
from rota.model.config import RuntimeConfig
from rota.runtime.core.restart import RestartPolicy
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.posts import Post, canaries
from rota.runtime.crew.runner import CrewRunner
from rota.runtime.crew.watch import CrewWatch
from rota.runtime.loader import generations
from rota.runtime.loader.generations import Generations
from rota.runtime.loader.processes import LoaderListener, LoadError, LoadTarget
from rota.runtime.loader.reload import Reloads
from rota.runtime.pipes.brief import Brief, Order
from rota.runtime.pipes.channel import Pipe
from rota.runtime.pipes.loader import Loaded
from rota.runtime.pipes.worker import Registered
from rota.runtime.worker.stacks import Stacks
from rota.sdk.app import App

LIVES = "lives"
FAILS = "fails"
"""It registers and then ends, as the worker of a task that raises does."""

CANNOT_START = "cannot start"

QUICK = RestartPolicy(first=timedelta(milliseconds=1), most=timedelta(milliseconds=5))


class Imports:
    """What loaders find when they import the app."""

    def __init__(self) -> None:
        self.count = 0
        self.code = "1"
        self.gate = asyncio.Event()
        """Imports end while it is set."""

        self.gate.set()
        self.error = ""


class FakeLoader:
    """A loader that needs no process; what its workers do, `fate` says of their pool and generation."""

    spawns = False
    is_alive = True
    has_room = True
    why = "killed by SIGKILL"

    async def sources(self, timeout: float) -> bytes:
        return b""

    def __init__(
        self, generation: int, listener: LoaderListener, imports: Imports, app: App, fate: Callable[[str, int], str]
    ) -> None:
        self.generation, self.pid, self.born = generation, -generation, SYSTEM.monotonic()
        self.app: Loaded | None = None
        self._listener, self._imports, self._fate = listener, imports, fate
        self._summary = app.summary()
        self._pipes: list[Pipe] = []

    @property
    def can_fork(self) -> bool:
        return self.is_alive and self.app is not None

    async def loaded(self, timeout: float) -> Loaded:
        self._imports.count += 1
        code, error = self._imports.code, self._imports.error
        gate = self._imports.gate
        await gate.wait()
        if error:
            raise LoadError(error)
        self.app = Loaded(self._summary, code)
        self._listener.loader_changed(self)  # type: ignore[arg-type]
        return self.app

    def fork(self, brief: Brief, channel: int, *others: int) -> None:
        for fd in others:
            os.close(fd)
        pipe = Pipe(socket.socket(fileno=channel))
        self._pipes.append(pipe)
        fate = self._fate(brief.pool, brief.generation)
        if fate != CANNOT_START:
            pipe.send(Registered())
        if fate != LIVES:
            asyncio.get_running_loop().call_soon(self._listener.refused, brief.worker, "exit code 0")

    def leave(self) -> None:
        self.kill()

    def kill(self) -> None:
        self.is_alive = False
        for pipe in self._pipes:
            pipe.close()
        self._listener.loader_changed(self)  # type: ignore[arg-type]

    def ended(self, status: int) -> None:
        self.kill()


class FakeNode:
    """A crew with its generations and reloads, on fake loaders."""

    def __init__(
        self,
        folder: Path,
        patch: pytest.MonkeyPatch,
        app: App,
        fate: Callable[[str, int], str],
        policy: RestartPolicy = QUICK,
    ) -> None:
        self.imports = Imports()
        self.told: list[tuple[str, str]] = []
        self.orders: list[Order] = []
        config = RuntimeConfig(canary=timedelta(0))
        patch.setattr(
            generations, "Loader", lambda _, number, ear, __: FakeLoader(number, ear, self.imports, app, fate)
        )
        self.generations = Generations(
            LoadTarget("app.py", "a"), config.load_timeout, policy, SYSTEM, self._tell, self._code_changed
        )
        self.crew = Crew(self.generations, config, policy, SYSTEM)
        self.watch = CrewWatch(self.crew, SYSTEM, self._tell, Stacks(folder, SYSTEM))
        self._runner = CrewRunner(self.crew, self.watch, config, SYSTEM, self._tell)
        self.reloads = Reloads(self.crew, self.watch, config, self._tell, self.post, self._canaries)
        self._config, self._app = config, app

    async def __aenter__(self) -> "FakeNode":
        self._turning = asyncio.create_task(self._runner.run())
        number = self.reloads.number()
        await self.generations.load(number, self.watch)
        self.generations.settle_on(number, None)
        self.post()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.reloads.close()
        self._turning.cancel()
        await asyncio.wait([self._turning])
        for worker in list(self.crew.workers):
            self.watch.refused(worker, "the test is over")
        self.generations.close()

    def order(self, kind: str, names: Iterable[str], *, exclusive: bool = False) -> None:
        """Order tasks."""
        self.orders += [Order(f"{kind}/{name}#0", 1, kind, name, 0, is_exclusive=exclusive) for name in names]
        self.post()

    def post(self) -> None:
        """Want what the app and the orders ask for."""
        self.crew.man({**self._wanted(), **self.reloads.canaries})

    def kill_loader(self) -> None:
        """End the current generation's loader."""
        self.generations.able()[self.generations.current].kill()

    def _wanted(self) -> Mapping[str, Post]:
        return wanted.posts(self._app.summary(), self.orders, 0, self._config)

    def _canaries(self, _: Loaded, number: int) -> dict[str, Post]:
        return canaries(self._wanted(), number, self._config)

    def _tell(self, kind: str, subject: str, **fields: Any) -> None:
        self.told.append((kind, subject))

    def _code_changed(self) -> None:
        self.told.append(("code", "changed"))
