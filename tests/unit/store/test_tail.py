"""The end of the log, read once for all watches."""

import asyncio

import pytest

from rota.model.errors import Unavailable
from rota.model.ids import Revision
from rota.store.port import Change, Commit
from rota.store.sql import tail as tails
from rota.store.sql.tail import Tail
from rota.store.sql.transactions import CommitPage


class Log:
    """A log with a pulse, which counts how often it is read."""

    def __init__(self, page: int = 100) -> None:
        self.commits: list[Commit] = []
        self.beat = self.reads = 0
        self.page = page
        self.trouble: Exception | None = None
        self.tail = Tail(self.read, lambda: self.beat)
        self.tail.begin(Revision(0))

    def commit(self, *keys: str) -> None:
        self.commits.append(Commit(Revision(len(self.commits) + 1), tuple(Change(key, None) for key in keys)))
        self.beat += 1

    def write(self, *keys: str) -> None:
        """A commit of this process."""
        self.commits.append(Commit(Revision(len(self.commits) + 1), tuple(Change(key, None) for key in keys)))
        self.tail.add(self.commits[-1:])
        self.beat += 1

    async def read(self, after: Revision) -> CommitPage:
        self.reads += 1
        newest = [commit for commit in self.commits if commit.revision > after]
        await asyncio.sleep(0)
        if self.trouble:
            raise self.trouble
        found = newest[: self.page]
        return CommitPage(found, found[-1].revision if found else after, is_last=len(found) == len(newest))

    async def past(self, after: int, prefix: str = "/") -> list[tuple[int, list[str]]] | None:
        page = await self.tail.past(Revision(after), prefix, self.beat)
        if page is None:
            return None
        return [(commit.revision, [change.key for change in commit.changes]) for commit in page.commits]


async def test_many_watches_read_once_and_each_gets_its_own() -> None:
    log = Log()
    log.commit("/a/1", "/b/1")
    log.commit("/b/2")
    found = await asyncio.gather(*(log.past(0, prefix) for prefix in ("/a/", "/b/", "/c/", "/")))
    assert found == [[(1, ["/a/1"])], [(1, ["/b/1"]), (2, ["/b/2"])], [], [(1, ["/a/1", "/b/1"]), (2, ["/b/2"])]]
    assert log.reads == 1
    log.commit("/a/2")
    assert await log.past(2, "/a/") == [(3, ["/a/2"])]
    assert await log.past(2, "/b/") == []
    assert log.reads == 2


async def test_nothing_is_read_again_while_the_pulse_is_still() -> None:
    log = Log()
    log.commit("/a")
    await log.past(0)
    assert await log.past(1) == []
    assert log.reads == 1


async def test_a_commit_during_a_read_is_read_by_the_next() -> None:
    log = Log()
    log.commit("/a")
    reading = asyncio.create_task(log.past(0))
    await asyncio.sleep(0)
    log.commit("/b")
    assert await reading == [(1, ["/a"])]
    assert await log.past(1) == [(2, ["/b"])]


async def test_a_page_that_is_not_the_last_says_so() -> None:
    log = Log(page=2)
    for _ in range(3):
        log.commit("/a")
    page = await log.tail.past(Revision(0), "/", log.beat)
    assert page is not None
    assert (page.reached, page.is_last) == (2, False)
    page = await log.tail.past(page.reached, "/", log.beat)
    assert page is not None
    assert (page.reached, page.is_last) == (3, True)


async def test_who_is_behind_reads_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "KEPT", 2)
    log = Log()
    for _ in range(5):
        log.commit("/a")
    assert await log.past(0) is None, "what it needs is not kept any more"
    assert await log.past(3) == [(4, ["/a"]), (5, ["/a"])]


async def test_who_is_ahead_of_the_log_reads_for_itself() -> None:
    log = Log()
    log.commit("/a")
    assert await log.past(7) is None, "it must learn that the store has gone back"


async def test_when_the_common_read_fails_everybody_reads_for_itself_until_somebody_has_come_to_the_end() -> None:
    log = Log()
    log.commit("/a")
    log.trouble = Unavailable("away")
    assert await asyncio.gather(log.past(0), log.past(0)) == [None, None]
    log.trouble = None
    assert await log.past(0) is None
    log.tail.begin(Revision(1))
    log.commit("/b")
    assert await log.past(1) == [(2, ["/b"])]


async def test_what_this_process_committed_is_not_read() -> None:
    log = Log()
    log.commit("/a")
    await log.past(0)
    log.write("/b")
    assert await log.past(1) == [(2, ["/b"])]
    assert log.reads == 1


async def test_own_commits_behind_somebody_elses_are_read_with_it() -> None:
    log = Log()
    log.commit("/theirs")
    log.write("/ours")
    assert await log.past(0) == [(1, ["/theirs"]), (2, ["/ours"])]
    assert log.reads == 1


async def test_an_own_commit_does_not_hide_that_somebody_else_has_told_of_one() -> None:
    log = Log()
    log.beat += 1  # theirs comes after ours, and is told before
    log.write("/ours")
    log.commit("/theirs")
    assert await log.past(0) == [(1, ["/ours"])]
    assert await log.past(1) == [(2, ["/theirs"])]


async def test_an_own_commit_while_the_log_is_read_is_there_once() -> None:
    log = Log()
    log.commit("/a")
    reading = asyncio.create_task(log.past(0))
    await asyncio.sleep(0)
    log.tail.add(log.commits)
    assert await reading == [(1, ["/a"])]
    assert await log.past(0) == [(1, ["/a"])]


async def test_a_watch_rests_until_something_may_be_below_its_prefix() -> None:
    log = Log()
    resting = asyncio.create_task(log.tail.rest("/a/", Revision(0)))
    await asyncio.wait_for(log.tail.is_wanted.wait(), 60)
    log.write("/b/1")
    await log.tail.go_on(log.beat)
    assert not resting.done()
    log.commit("/a/1")
    await log.tail.go_on(log.beat)
    assert await resting == 1, "there is nothing for it up to here"
    assert await log.past(1, "/a/") == [(2, ["/a/1"])]
    assert not log.tail.is_wanted.is_set()


async def test_nobody_rests_who_is_behind() -> None:
    log = Log()
    log.write("/a")
    assert await log.tail.rest("/", Revision(0)) == 0


async def test_who_rests_is_woken_when_it_must_read_for_itself() -> None:
    log = Log()
    resting = asyncio.create_task(log.tail.rest("/a/", Revision(0)))
    await asyncio.wait_for(log.tail.is_wanted.wait(), 60)
    log.commit("/b")
    log.trouble = Unavailable("away")
    await log.tail.go_on(log.beat)
    assert await resting == 0
    assert await log.past(0) is None


async def test_somebody_who_has_read_further_wakes_those_who_rest() -> None:
    log = Log()
    resting = asyncio.create_task(log.tail.rest("/a/", Revision(0)))
    await asyncio.wait_for(log.tail.is_wanted.wait(), 60)
    log.commit("/a/1")
    log.tail.begin(Revision(1))
    assert await resting == 0
    assert await log.past(0) is None, "what it needs was never kept"
