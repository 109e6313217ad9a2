"""Trial: can tasks that run alone start under a new generation?

Such a task has no canary, for it would run twice; so a flip waits until a worker of each has registered once. That
shows all that can be known of the code: the process starts and its hooks run. What happens afterwards does not count. A
device that is away makes its task fail with the old code as with the new, and must not keep a fix from coming in.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.posts import Post
from rota.runtime.crew.worker import Worker

FALLS = 3
"""Falls of one new worker that make a reload fail."""


class GenerationTrial:
    """Watches the workers of tasks alone while a generation is tried."""

    def __init__(self, generation: int, posts: Mapping[str, Post]) -> None:
        self._generation = generation
        self._awaited = {name for name, post in posts.items() if post.order is not None}
        self._falls: dict[str, int] = {}
        self.why = ""
        """Why the generation cannot be used; empty while nothing speaks against it."""

    def is_over(self, wanted: Iterable[str]) -> bool:
        """Has each task registered that was there at the beginning and is still wanted?"""
        return self._awaited.isdisjoint(wanted)

    # Witness

    def registered(self, worker: Worker) -> None:
        """A worker can work."""
        if worker.brief.generation == self._generation:
            self._awaited.discard(worker.brief.pool)

    def said(self, worker: Worker, message: Any) -> None:
        """A worker sent a message; none of them is about the code."""

    def draining(self, worker: Worker) -> None:
        """A worker takes nothing new; that is no failure."""

    def ended(self, worker: Worker, why: str) -> None:
        """A worker has ended; if it never registered, that counts against the code."""
        brief = worker.brief
        if brief.order is None or brief.generation != self._generation or worker.phase != WorkerPhase.STARTING:
            return
        self._falls[brief.pool] = self._falls.get(brief.pool, 0) + 1
        if self._falls[brief.pool] >= FALLS:
            self.why = self.why or f"{brief.pool}/{brief.slot}: {why}"
