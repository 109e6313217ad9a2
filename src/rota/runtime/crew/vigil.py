"""Vigil: which workers are stuck, and which are worn.

A worker with an event loop must send beats; one that is silent for `stall_after` is made to write down its stacks and
is then killed. Time in which the agent's own loop was late, or the machine asleep, does not count.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import Clock
from rota.model.config import RuntimeConfig
from rota.model.ids import Instant
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.posts import Post
from rota.runtime.crew.wear import Wear, worn
from rota.runtime.crew.worker import Worker
from rota.runtime.worker.stacks import STACKS_WAIT

OWN_DELAY = 2.0
"""Seconds without a turn of the agent's own loop after which the silence of workers does not count."""

WEIGH = 2.0
"""Seconds between two checks of age, count and memory."""


class Vigil:
    """Checks all workers, periodically."""

    def __init__(self, config: RuntimeConfig, clock: Clock, tell: Tell) -> None:
        self._config, self._clock, self._tell = config, clock, tell
        self._looked = self._weighed = clock.monotonic()
        self.beat = min(1.0, config.stall_after.total_seconds() / 4)
        """Seconds between the beats of a worker."""

    def look(self, workers: Iterable[Worker], posts: Mapping[str, Post]) -> None:
        """Kill the workers that are stuck; mark those that are worn."""
        now = self._clock.monotonic()
        was_deaf = now - self._looked > OWN_DELAY
        is_time_to_weigh = now - self._weighed >= min(WEIGH, self.beat)
        self._looked = now
        if is_time_to_weigh:
            self._weighed = now
        for worker in list(workers):
            if was_deaf:
                worker.heard = now
            if worker.phase == WorkerPhase.STARTING or worker.why_killed or worker.is_errand:
                continue
            if self._stands_still(worker, posts, now):
                self._end(worker, now)
            elif is_time_to_weigh and worker.phase == WorkerPhase.READY and not worker.worn:
                self._weigh(worker, now)

    def _stands_still(self, worker: Worker, posts: Mapping[str, Post], now: Instant) -> bool:
        post = posts.get(worker.brief.pool)
        owes_beats = post.has_loop if post else worker.brief.role == "host"
        return owes_beats and now - worker.heard > self._config.stall_after.total_seconds()

    def _end(self, worker: Worker, now: Instant) -> None:
        why = f"its loop stood still for {now - worker.heard:.1f} s"
        worker.why_killed = why
        worker.ask_for_stacks()
        asyncio.get_running_loop().call_later(STACKS_WAIT, worker.kill, why)
        brief = worker.brief
        self._tell("worker.stalled", f"{brief.pool}/{brief.slot}", pool=brief.pool, pid=worker.pid, why=why)

    def _weigh(self, worker: Worker, now: Instant) -> None:
        wear = Wear(age=timedelta(seconds=now - worker.born), done=worker.done, pid=worker.pid)
        if why := worn(wear, self._config):
            worker.worn = why
            brief = worker.brief
            self._tell("worker.recycled", f"{brief.pool}/{brief.slot}", pool=brief.pool, why=why)
