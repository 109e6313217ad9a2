"""Generations: the loaders of a node, each with the code it imported.

The current generation's loader forks; the one before is kept, so that going back needs no import. A loader that dies
is started again with waits that grow; its workers live on meanwhile, and what the app declares stays known. What the
new loader imports is what the files say now: if that is not what the generation was made of, it is another generation,
and has to come in by a reload like any other.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import Clock
from rota.model.ids import Instant
from rota.runtime.core.restart import Falls, RestartPolicy
from rota.runtime.loader.import_report import report_import
from rota.runtime.loader.processes import Loader, LoaderListener, LoadError, LoadTarget
from rota.runtime.pipes.loader import Loaded

log = logging.getLogger(__name__)


class Generations:
    """Loaders by number."""

    def __init__(
        self,
        target: LoadTarget,
        timeout: timedelta,
        policy: RestartPolicy,
        clock: Clock,
        tell: Tell,
        code_changed: Callable[[], None],
    ) -> None:
        self.target = target
        self.current = 0
        """The one that works; 0 before the first was loaded."""

        self.previous: int | None = None
        """The generation to go back to."""

        self._timeout, self._policy, self._clock, self._tell = timeout.total_seconds(), policy, clock, tell
        self._code_changed = code_changed
        self._loaders: dict[int, Loader] = {}
        self._apps: dict[int, Loaded] = {}
        self._by_pid: dict[int, Loader] = {}
        self._falls = Falls()
        self._mending: asyncio.Task[None] | None = None
        self._is_closing = False

    @property
    def app(self) -> Loaded | None:
        """The app of the current generation."""
        return self.app_of(self.current)

    def app_of(self, number: int | None) -> Loaded | None:
        """The app as one generation imported it."""
        return self._apps.get(number) if number else None

    def able(self) -> dict[int, Loader]:
        """Those that can fork now."""
        return {number: loader for number, loader in sorted(self._loaders.items()) if loader.can_fork}

    def kept(self) -> dict[int, int]:
        """The process id of the loader to go back to, by its generation."""
        loader = self._loaders.get(self.previous or 0)
        return {} if loader is None else {loader.generation: loader.pid}

    def on_trial(self) -> set[int]:
        """Generations that have a loader and are neither the current nor the previous one."""
        return self._loaders.keys() - {self.current, self.previous}

    async def load(self, number: int, listener: LoaderListener) -> Loaded:
        """Import the app for a new generation; raises LoadError if it fails, and then nothing of it stays."""
        loader = self._loaders[number] = Loader(self.target, number, listener, self._clock.monotonic())
        self._by_pid[loader.pid] = loader
        reporting = asyncio.create_task(report_import(self.target.app, number, loader.pid), name="import")
        try:
            loaded = await loader.loaded(self._timeout)
        except BaseException:
            self.drop(number)
            raise
        finally:
            reporting.cancel()
        self._apps.setdefault(number, loaded)
        self.target.enclosure.loaded(number)
        for warning in loaded.warnings:
            log.warning("loaded with a warning", extra={"generation": number, "why": warning})
        return loaded

    async def load_kept_or_files(self, number: int, listener: LoaderListener) -> None:
        """Import the app's files; or the code an earlier life went back to, if the files have not changed since."""
        kept, app = self.target.kept, self.target.app
        if not kept.find(app, number):
            await self.load(number, listener)
        elif not kept.is_outdated:
            log.warning("the code that was gone back to is loaded, not the files on disk; rota reload takes those in")
            try:
                await self.load(number, listener)
            except LoadError as error:
                log.warning("the code that was kept cannot be loaded", extra={"why": str(error)})
                kept.drop()
                await self.load(number, listener)
        else:
            kept.pass_over()
            try:
                await self.load(number, listener)
            except LoadError as error:
                kept.find(app, number)
                log.error("the app cannot be loaded; the code that was gone back to is", extra={"why": str(error)})
                await self.load(number, listener)
            else:
                kept.drop()

    def settle_on(self, number: int, previous: int | None) -> None:
        """Make this generation the current one; drop those that cannot be gone back to. Their workers drain without a
        loader."""
        self.previous = previous if previous in self._loaders else None
        self.current, self._falls = number, Falls()
        for other in self._loaders.keys() - {number, previous}:
            self._loaders.pop(other).leave()
        self._apps = {each: app for each, app in self._apps.items() if each in (number, previous)}

    def drop(self, number: int) -> None:
        """End a loader, now."""
        if number != self.current:
            self._apps.pop(number, None)
        if loader := self._loaders.pop(number, None):
            loader.kill()

    def close(self) -> None:
        """End them all, now."""
        self._is_closing = True
        for number in list(self._loaders):
            self.drop(number)

    def has_reaped(self, pid: int, status: int) -> bool:
        """Was this process one of the loaders? If so, it is notified."""
        loader = self._by_pid.pop(pid, None)
        if loader is not None:
            loader.ended(status)
        return loader is not None

    def ended(self, loader: Loader) -> None:
        """A loader has ended."""
        if self._loaders.get(loader.generation) is not loader:
            return
        del self._loaders[loader.generation]
        if loader.generation == self.previous:
            self.previous = None
        if loader.generation == self.current:
            self._fell(timedelta(seconds=self._clock.monotonic() - loader.born), loader.why)
        if loader.app is not None and not self._is_closing:
            self._tell("loader.exited", f"loader {loader.generation}", generation=loader.generation, why=loader.why)

    def mend(self, listener: LoaderListener) -> Instant | None:
        """Restart the current generation's loader if it is gone; returns when to call again if it is too early for
        that."""
        is_there = not self.current or self.current in self._loaders or self._mending is not None
        if is_there or self._is_closing:
            return None
        start_at = self._falls.start_at(self._policy)
        if start_at > self._clock.monotonic():
            return start_at
        self._mending = asyncio.get_running_loop().create_task(self._load_again(listener), name="loader")
        return None

    async def _load_again(self, listener: LoaderListener) -> None:
        number = self.current
        before = self._apps[number].code
        try:
            loaded = await self.load(number, listener)
        except (LoadError, OSError) as error:
            if number == self.current:
                self._fell(timedelta(), str(error))
                self._tell("app.failed", self.target.app, why=str(error), generation=number)
        else:
            if loaded.code != before:
                self._has_other_code(number)
        finally:
            self._mending = None

    def _has_other_code(self, number: int) -> None:
        """The restarted loader has other code than its generation had. A reload may have replaced that meanwhile."""
        self.drop(number)
        if number == self.previous:
            self.previous = None
        if number == self.current:
            self._fell(timedelta(), "the code has changed")
            log.warning("the code has changed since this generation was loaded", extra={"generation": number})
            self._code_changed()

    def _fell(self, stood: timedelta, why: str) -> None:
        self._falls = self._falls.add(self._clock.monotonic(), stood, why, self._policy)
