"""Reload: a new generation takes the place of the old one, or nothing happens.

New code is imported by a new loader; one worker of each sort (the canary) must come up and live for a moment; then the
node switches, and `runtime.crew.plan` flips pool by pool when all new workers of a pool are ready. Whatever fails on
the way, the old generation serves on, or is gone back to, and the reason is reported. The generation before stays
loaded, so that `rollback` needs no import.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from rota.fleet.members.journal import Tell
from rota.model.config import RuntimeConfig
from rota.model.errors import Conflict, RotaError
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.posts import CANARY, Post
from rota.runtime.crew.watch import CrewWatch
from rota.runtime.loader.processes import LoadError
from rota.runtime.loader.trial import FALLS, GenerationTrial
from rota.runtime.pipes.loader import Loaded

log = logging.getLogger(__name__)

SOURCES_WAIT = 5.0
"""Seconds for a loader to say what it imported."""

KEPT = (
    "the files on disk are still those of the other generation; this code is kept, also when the node starts anew, "
    "until they change or a reload succeeds"
)
NOT_KEPT = (
    "the files on disk are still those of the other generation, and a node that starts anew imports them: put "
    "the files right before that"
)


class ReloadFailed(RotaError):
    """The new generation did not come up; the old one serves on."""


class Reloaded(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of a reload. Without a note it is encoded as older nodes know it."""

    generation: int
    previous: int
    note: str = ""
    """A remark for the caller; empty if there is none."""


class Reloads:
    """One reload at a time."""

    def __init__(
        self,
        crew: Crew,
        watch: CrewWatch,
        config: RuntimeConfig,
        tell: Tell,
        post: Callable[[], None],
        canaries: Callable[[Loaded, int], dict[str, Post]],
    ) -> None:
        self.stage = ""
        """The present stage of a reload; empty if none runs."""

        self.canaries: dict[str, Post] = {}
        """Posts of the canaries, while they are tried."""

        self.outcomes: dict[str, int] = {}
        self._crew, self._watch, self._generations = crew, watch, crew.generations
        self._config, self._tell = config, tell
        self._post, self._canaries = post, canaries
        self._last = 0
        self._task: asyncio.Task[Any] | None = None
        self._soon: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[str] | None = None
        self._is_wanted = False
        """Must a reload begin that no caller waits for?"""

        self._is_closed = False

    def number(self) -> int:
        """The next generation's number."""
        self._last += 1
        return self._last

    async def reload(self) -> Reloaded:
        """Load the present code; ReloadFailed has the reason why not."""
        self._begin("import")
        number, old = self.number(), self._generations.current
        self._tell("reload.begun", f"generation {number}", previous=old)
        try:
            async with asyncio.timeout(self._config.reload_timeout.total_seconds()):
                loaded = await self._generations.load(number, self._watch)
                await self._try_canaries(loaded, number)
                await self._flip(number, old)
        except (LoadError, ReloadFailed, TimeoutError) as error:
            raise self._failed(number, old, error) from None
        except BaseException:
            self._undo(number, old)
            raise
        finally:
            self._end()
        self._generations.target.kept.drop()
        self._succeeded("reload.done", number, old)
        return Reloaded(number, old)

    def reload_soon(self) -> None:
        """Load the present code without a caller waiting for it; after the reload that is under way, if there is one.

        That one may have read the files before they changed. Several requests made meanwhile are one reload.
        """
        self._is_wanted = True
        if self._soon is None:
            self._soon = asyncio.get_running_loop().create_task(self._reload_while_wanted(), name="reload")

    async def rollback(self) -> Reloaded:
        """Go back to the previous generation; Conflict if there is none."""
        number, old = self._generations.previous, self._generations.current
        if number is None or number not in self._generations.able():
            raise Conflict("there is no previous generation to go back to; it is kept from one reload to the next")
        self._begin("flip")
        try:
            async with asyncio.timeout(self._config.reload_timeout.total_seconds()):
                await self._flip(number, old)
        except (ReloadFailed, TimeoutError) as error:
            raise self._failed(None, old, error) from None
        except BaseException:
            self._undo(None, old)
            raise
        finally:
            self._end()
        self._succeeded("reload.rolled_back", number, old)
        self._keeping = asyncio.create_task(self._keep_code(number), name="kept code")  # also if no caller waits for it
        return Reloaded(number, old, await asyncio.shield(self._keeping))

    async def _keep_code(self, number: int) -> str:
        """Keep this generation's code for the node's next start; returns a remark for the caller."""
        kept, loader = self._generations.target.kept, self._generations.able().get(number)
        data = await loader.sources(SOURCES_WAIT) if loader is not None else b""
        if self._generations.current != number:  # another reload was faster, and its files count
            return ""
        if kept.keep(data, number):
            return KEPT if kept.is_used else ""
        log.warning("the code that was gone back to is not kept: a restart of the node takes in the files on disk")
        return NOT_KEPT

    async def close(self) -> None:
        """Start no reload any more; one that is under way is given up."""
        self._is_closed = True
        self._crew.wake()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=1)

    async def _reload_while_wanted(self) -> None:
        try:
            while self._is_wanted:
                await self._crew.until(lambda: self._is_closed or (not self.stage and self._generations.current > 0))
                self._is_wanted = False
                await self._reload_unasked()
        finally:
            self._soon = None

    async def _reload_unasked(self) -> None:
        try:
            await self.reload()
        except RotaError as error:
            log.warning("not reloaded", extra={"why": str(error).splitlines()[0]})

    def _begin(self, stage: str) -> None:
        if self.stage:
            raise Conflict(f"a reload is under way ({self.stage}); wait for it")
        if self._is_closed:
            raise Conflict("the node is stopping; it takes in no new code")
        if not self._generations.current:
            raise Conflict("the app is still being loaded for the first time; wait for it")
        self.stage, self._task = stage, asyncio.current_task()

    def _end(self) -> None:
        self.stage, self.canaries, self._task = "", {}, None
        self._crew.wake()

    async def _try_canaries(self, loaded: Loaded, number: int) -> None:
        self.stage = "canary"
        self.canaries = self._canaries(loaded, number)
        crew = self._crew
        self._post()
        await crew.until(lambda: bool(self._has_failed(CANARY)) or self._are_canaries_ready())
        self._raise_if_failed(CANARY)
        await asyncio.sleep(self._config.canary.total_seconds())
        self._raise_if_failed(CANARY)
        self.canaries = {}

    async def _flip(self, number: int, old: int) -> None:
        self.stage = "flip"
        crew = self._crew
        self._generations.current = number
        crew.forgive()
        self._post()
        with self._trying_tasks(number) as trial:
            await crew.until(lambda: bool(self._has_failed("") or trial.why) or self._has_flipped(trial))
        self._raise_if_failed("", trial.why)
        self._generations.settle_on(number, old)

    @contextlib.contextmanager
    def _trying_tasks(self, number: int) -> Iterator[GenerationTrial]:
        trial = GenerationTrial(number, self._crew.posts)
        self._watch.witnesses.append(trial)
        try:
            yield trial
        finally:
            self._watch.witnesses.remove(trial)

    def _has_flipped(self, trial: GenerationTrial) -> bool:
        return self._crew.is_settled() and trial.is_over(self._crew.posts)

    def _are_canaries_ready(self) -> bool:
        return all(
            any(worker.phase == WorkerPhase.READY for worker in self._crew.of_pool(name)) for name in self.canaries
        )

    def _has_failed(self, prefix: str) -> str:
        """Why the new generation cannot be used; empty if it can. Tasks have a trial of their own."""
        limit = 1 if prefix else FALLS
        posts = self._crew.posts
        for (pool, slot), falls in self._crew.falls.items():
            if pool.startswith(prefix) and falls.count >= limit and not posts[pool].pool.is_task:
                return f"{pool}/{slot}: {falls.why}"
        return ""

    def _raise_if_failed(self, prefix: str, task: str = "") -> None:
        if why := self._has_failed(prefix) or task:
            raise ReloadFailed(why)

    def _failed(self, number: int | None, old: int, error: Exception) -> ReloadFailed:
        timed_out = f"not done within {self._config.reload_timeout.total_seconds():g} s (stage: {self.stage})"
        why = timed_out if isinstance(error, TimeoutError) else str(error)
        left = self._left(old)
        self._undo(number, old)
        self._count("failed")
        self._tell("reload.failed", f"generation {number}" if number else "rollback", why=why)
        text = f"generation {old} {left}: {why}"
        if isinstance(error, LoadError) and error.details:
            text += "\n" + error.details.rstrip()
        return ReloadFailed(text)

    def _left(self, old: int) -> str:
        """What is left of the old generation. Once the new one was given work, the old one is started again."""
        workers = self._crew.workers.values()
        is_ready = any(each.phase == WorkerPhase.READY and each.brief.generation == old for each in workers)
        if self.stage == "flip" or is_ready or not self._crew.posts:
            return "keeps running"
        return "stays, and none of its workers is ready"

    def _undo(self, number: int | None, old: int) -> None:
        """Go back to the old generation; what the new one had started drains or is killed."""
        self.canaries = {}
        if self._generations.current != old:
            self._generations.current = old
            self._crew.forgive()
        if number is not None:
            self._generations.drop(number)
        self._post()

    def _succeeded(self, kind: str, number: int, old: int) -> None:
        self._count("done")
        self._tell(kind, f"generation {number}", previous=old)

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
