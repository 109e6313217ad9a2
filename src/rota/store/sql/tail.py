"""Tail: the end of the log, read once for all watches of a process.

A node has dozens of watches. If each queried the database after every commit for changes below its prefix, a commit
would cost dozens of queries on every node. So all new commits are read once, and the watches pick theirs from them; a
resting watch is woken only when there may be something for it. Commits of this process are not read at all as long as
no other process's commit came in between. The price: values are read here that no watch of this process needs, so a
process with few watches does without it.

The latest commits are kept, without a gap. A watch that is behind them reads for itself, and so does every watch when
the common read fails: each then gets the error itself.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rota.model.ids import Key, Revision
from rota.store.port import Commit
from rota.store.sql.transactions import CommitPage

KEPT = 500
"""Commits that are kept."""

Read = Callable[[Revision], Awaitable[CommitPage]]
"""Reads what is past a revision, whatever its keys."""


@dataclass(eq=False)
class _Resting:
    """A watch that has everything below its prefix up to a revision."""

    prefix: Key
    after: Revision
    woken: asyncio.Future[None]


class Tail:
    """The newest commits, as far as they were read."""

    def __init__(self, read: Read, count: Callable[[], int]) -> None:
        self._read, self._count = read, count
        self._commits: deque[Commit] = deque()
        self._start: Revision | None = None
        """Every commit past this one, up to `end`, is kept."""

        self.end = Revision(0)
        """Up to where it was read."""

        self._beat = -1
        """The pulse's count up to which everything is here."""

        self._turn = asyncio.Lock()
        self._resting: set[_Resting] = set()
        self.is_wanted = asyncio.Event()
        """Does a watch rest? Then `go_on` must be called after each beat."""

    def begin(self, newest: Revision) -> None:
        """A watch has read up to this revision by itself: from there on the log can be read for all."""
        if self._start is None or self.end < newest:
            self._start = self.end = newest
            self._commits.clear()
            self._wake(lambda _: True)

    def add(self, commits: Sequence[Commit]) -> None:
        """Add what this process has committed, just before the beat that announces it."""
        if self._start is None or not commits or commits[0].revision != self.end + 1:
            return
        if self._beat == self._count():
            self._beat += 1
        self._take_in(commits, commits[-1].revision)

    async def past(self, after: Revision, prefix: Key, beat: int) -> CommitPage | None:
        """What is new below a prefix, including all commits before that beat; None if the watch must read for
        itself."""
        if not self._covers(after):
            return None
        if self.end <= after and self._beat < beat:
            await self.go_on(beat, after)
            if not self._covers(after) or self.end < after:
                return None
        found: list[Commit] = []
        for commit in reversed(self._commits):
            if commit.revision <= after:
                break
            if part := _below(prefix, commit):
                found.append(part)
        return CommitPage(found[::-1], max(after, self.end), is_last=self._beat >= beat)

    async def rest(self, prefix: Key, after: Revision) -> Revision:
        """Wait until something may be new below a prefix, or the watch must read for itself; returns where nothing was
        new until."""
        if not self._covers(after) or self.end > after:
            return after
        resting = _Resting(prefix, after, asyncio.get_running_loop().create_future())
        self._resting.add(resting)
        self.is_wanted.set()
        try:
            await resting.woken
        finally:
            self._resting.discard(resting)
            if not self._resting:
                self.is_wanted.clear()
        return resting.after

    async def go_on(self, beat: int, after: Revision | None = None) -> bool:
        """Read the commits before that beat, if they are not here; with `after`, only until there is something past it.

        Returns whether anything was read.
        """
        is_read = False
        async with self._turn:
            while self._start is not None and self._beat < beat and (after is None or self.end <= after):
                await self._read_on()
                is_read = True
                if after is not None:
                    break
        return is_read

    async def _read_on(self) -> None:
        beat = self._count()
        try:
            page = await self._read(self.end)
        except Exception:  # each watch meets the error by itself
            self._start = None
            self._commits.clear()
            self._wake(lambda _: True)
            return
        if page.is_last:
            self._beat = max(self._beat, beat)
        self._take_in([commit for commit in page.commits if commit.revision > self.end], page.reached)

    def _take_in(self, commits: Sequence[Commit], reached: Revision) -> None:
        self._commits.extend(commits)
        self.end = max(self.end, reached)
        while len(self._commits) > KEPT:
            self._start = self._commits.popleft().revision
        heads = {_head(change.key) for commit in commits for change in commit.changes}
        self._wake(lambda prefix: any(head.startswith(prefix) or prefix.startswith(head) for head in heads))

    def _wake(self, concerns: Callable[[Key], bool]) -> None:
        """Wake the watches on a prefix that this commit touches; for the others nothing is new up to here."""
        for resting in self._resting:
            if resting.woken.done():
                continue
            if concerns(resting.prefix):
                resting.woken.set_result(None)
            else:
                resting.after = max(resting.after, self.end)

    def _covers(self, after: Revision) -> bool:
        return self._start is not None and self._start <= after


def _head(key: Key) -> Key:
    """The first part of a key: a cheap test that two keys or prefixes are unrelated."""
    return key[: key.find("/", 1) + 1] or key


def _below(prefix: Key, commit: Commit) -> Commit | None:
    """What a commit changed below a prefix, if anything."""
    changes = tuple(change for change in commit.changes if change.key.startswith(prefix))
    return Commit(commit.revision, changes) if changes else None
