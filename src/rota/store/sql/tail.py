"""Tail: the end of the log, read once for all watches of a process.

A node has dozens of watches, and every commit wakes all of them. If each asked the database what is new below its
prefix, a commit would cost dozens of queries on every node. So the first that wakes reads everything that is new, and
the others pick theirs from it. The price: values are read here that no watch of this process wants, so a process with
few watches does without it.

What is kept are the commits of the last while, without a gap. Whoever is behind them reads for itself, and so does
everybody when the common read fails: each then learns in its own words what is wrong.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from rota.model.errors import RotaError
from rota.model.ids import Key, Revision
from rota.store.port import Commit
from rota.store.sql.transactions import Page

KEPT = 500
"""Commits that are kept."""

Read = Callable[[Revision], Awaitable[Page]]
"""Reads what is past a revision, whatever its keys."""


class Tail:
    """The newest commits, as far as they were read."""

    def __init__(self, read: Read, count: Callable[[], int]) -> None:
        self._read, self._count = read, count
        self._commits: deque[Commit] = deque()
        self._start: Revision | None = None
        """Every commit past this one, up to `_end`, is kept."""

        self._end = Revision(0)
        self._beat = -1
        """The pulse's count when the last read that came to the end began."""

        self._turn = asyncio.Lock()

    def begin(self, newest: Revision) -> None:
        """Somebody has read up to the end by itself: from there on it can be read for all."""
        if self._start is None:
            self._start = self._end = newest

    async def past(self, after: Revision, prefix: Key, beat: int) -> Page | None:
        """What is new below a prefix, with all that came before that beat; None if one must read for oneself."""
        if not self._covers(after):
            return None
        if self._end <= after and self._beat < beat:
            async with self._turn:
                if self._covers(after) and self._end <= after and self._beat < beat:
                    await self._go_on()
            if not self._covers(after) or self._end < after:
                return None
        found = [part for commit in self._commits if commit.revision > after and (part := _below(prefix, commit))]
        return Page(found, max(after, self._end), is_last=self._beat >= beat)

    def _covers(self, after: Revision) -> bool:
        return self._start is not None and self._start <= after

    async def _go_on(self) -> None:
        beat = self._count()
        try:
            page = await self._read(self._end)
        except RotaError:
            self._start = None
            self._commits.clear()
            return
        self._commits.extend(page.commits)
        self._end = page.reached
        if page.is_last:
            self._beat = beat
        while len(self._commits) > KEPT:
            self._start = self._commits.popleft().revision


def _below(prefix: Key, commit: Commit) -> Commit | None:
    """What a commit changed below a prefix, if anything."""
    changes = tuple(change for change in commit.changes if change.key.startswith(prefix))
    return Commit(commit.revision, changes) if changes else None
