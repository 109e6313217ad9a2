"""The crew of a node: its worker processes, and what is wanted of them.

Everything that happens only changes this state and wakes the one loop that plans again and acts
(`runtime.crew.runner`). Messages from loaders and workers, and their ends, come in by `runtime.crew.watch`. The plan is
`runtime.crew.plan`'s.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from rota.kit.time.clock import Clock
from rota.model.config import RuntimeConfig
from rota.model.ids import Instant
from rota.runtime.core.restart import Falls, RestartPolicy
from rota.runtime.crew import plan as plans
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.posts import Post
from rota.runtime.crew.worker import Worker
from rota.runtime.loader.generations import Generations
from rota.runtime.pipes.brief import Deadline


class Crew:
    """The workers of one node, and what is wanted of them."""

    def __init__(self, generations: Generations, config: RuntimeConfig, policy: RestartPolicy, clock: Clock) -> None:
        self.posts: dict[str, Post] = {}
        self.workers: dict[int, Worker] = {}
        self.falls: dict[tuple[str, int], Falls] = {}
        self.exits: Counter[tuple[str, str]] = Counter()
        """How many workers ended without being asked to, by sort of pool and sort of reason."""

        self.deadline: Deadline | None = None
        """Until when exclusive work may go on; None: it may not."""

        self.woken = asyncio.Event()
        """Set when something changed and a plan is due."""

        self.changed = asyncio.Condition()
        """Notified after each plan was carried out."""

        self.generations, self.policy = generations, policy
        self._config, self._clock = config, clock

    # Views of the state

    def of_pool(self, name: str) -> list[Worker]:
        """The workers of one pool."""
        return [worker for worker in self.workers.values() if worker.brief.pool == name]

    def snapshot(self) -> plans.CrewState:
        """The state as `plan` sees it."""
        return plans.CrewState(
            pools={name: post.pool for name, post in self.posts.items()},
            target=self.generations.current,
            members=tuple(worker.member for worker in self.workers.values() if not worker.is_errand),
            loaders=frozenset(self.generations.able()),
            safe_until=Instant(self.deadline.stop_at) if self.deadline else None,
            falls=self.falls,
            start_timeout=self._start_timeout(),
            restart=self.policy,
        )

    def _start_timeout(self) -> timedelta:
        """How long a worker may take to register; one that imports the app itself also has the time of an import."""
        config, imports = self._config, any(loader.spawns for loader in self.generations.able().values())
        return max(config.start_timeout, config.load_timeout) if imports else config.start_timeout

    def is_settled(self) -> bool:
        """Has everything but tasks its workers, of the current generation?"""
        current = self.generations.current
        return current > 0 and plans.is_settled(self.snapshot(), current)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; it is checked after every change."""
        async with self.changed:
            await self.changed.wait_for(condition)

    # What is wanted of it

    def man(self, posts: dict[str, Post]) -> None:
        """Want these posts from now on."""
        self.posts = posts
        self.falls = {key: falls for key, falls in self.falls.items() if key[0] in posts}
        self.wake()

    def forgive(self) -> None:
        """Forget all falls: another generation is tried."""
        self.falls = {}
        self.wake()

    def extend(self, deadline: Deadline | None) -> None:
        """Send workers until when this node's exclusive work may go on; None: it may not."""
        was_over = self.deadline is None
        self.deadline = deadline
        if deadline is not None:
            for worker in self.workers.values():
                if worker.brief.order is not None:
                    worker.send(deadline)
            if was_over:
                self.wake()

    def kill_exclusive(self, why: str) -> None:
        """End every worker whose work must not run twice at the same time."""
        for worker in self.workers.values():
            if worker.brief.order is not None and worker.brief.order.is_exclusive:
                worker.kill(why)

    def replace(self, number: int, why: str, *, now: bool) -> None:
        """Replace a worker: after it has ended, or at once if it need not finish its work. That is no fall."""
        worker = self.workers.get(number)
        if worker is None or worker.why_killed:
            return
        if not now:
            worker.worn = worker.worn or why
        else:
            worker.enter(WorkerPhase.DRAINING, self._clock.monotonic())
            worker.cut_short(why)
        self.wake()

    def dismiss(self, number: int, *, is_limited: bool = False) -> None:
        """A worker will end by itself; that is no fall. With `is_limited` it must do so within `drain` from now on."""
        worker = self.workers.get(number)
        if worker is None:
            return
        is_new_limit = is_limited and worker.drain is None
        if is_new_limit:
            worker.drain = self._config.drain
        if worker.phase != WorkerPhase.DRAINING or is_new_limit:
            worker.enter(WorkerPhase.DRAINING, self._clock.monotonic())

    def kill_all(self, why: str) -> None:
        """End every process now."""
        self.posts = {}
        for worker in self.workers.values():
            worker.kill(why)
        self.generations.close()

    def wake(self) -> None:
        """Something changed: plan again."""
        self.woken.set()
