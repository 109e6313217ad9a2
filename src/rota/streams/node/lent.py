"""A store that is lent: the agent's connection, for a worker, and only below the keys that the worker needs.

A worker runs the user's code. It gets no address and no password of the store: it asks the agent, over the socket they
have anyway, and the agent looks at each key before it asks the store. What is not below the prefixes is Denied.

`Lender` answers, `LentStore` asks; both send bytes with `send` and receive bytes in `heard`. A lent store keeps the
store's laws except those on leases, which it cannot grant. What is put under `OWN` vanishes with the lender's session.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import NoReturn, TypeAlias

import msgspec

from rota.kit.decoding import UNREADABLE
from rota.model.errors import Compacted, Conflict, Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import Instant, Key, LeaseId, Revision
from rota.store import rules
from rota.store.port import Absent, At, Commit, Delete, Entry, Expect, Lease, Put, ScanResult, Store, Write

OWN = LeaseId("own")
"""The lease of the lender's session."""

MOST_ASKED = 200
"""Questions, and watches, that may be open at a time."""

GONE = "the agent is gone"


class _Ask(msgspec.Struct, frozen=True, tag=True):
    number: int


class _Get(_Ask, frozen=True):
    key: Key


class _Scan(_Ask, frozen=True):
    prefix: Key
    after: Key | None
    limit: int | None
    at: Revision | None


class _Write(_Ask, frozen=True):
    puts: list[Put]
    deletes: list[Delete]
    at: list[At]
    absent: list[Absent]


class _Watch(_Ask, frozen=True):
    prefix: Key
    after: Revision


class _Now(_Ask, frozen=True):
    pass


class _Newest(_Ask, frozen=True):
    pass


class _Leave(_Ask, frozen=True):
    """The answer to this number is not wanted any more."""


class _Answer(msgspec.Struct, frozen=True):
    number: int
    entry: Entry | None = None
    listing: ScanResult | None = None
    revision: Revision | None = None
    commit: Commit | None = None
    time: datetime | None = None
    family: str = ""
    """The type of the error, if the answer is one."""

    error: str = ""
    keys: tuple[Key, ...] = ()
    revisions: tuple[Revision, ...] = ()


_Asked: TypeAlias = _Get | _Scan | _Write | _Watch | _Now | _Newest | _Leave
_encoder = msgspec.msgpack.Encoder()
_asks: msgspec.msgpack.Decoder[_Asked] = msgspec.msgpack.Decoder(_Asked)
_answers = msgspec.msgpack.Decoder(_Answer)
_FAMILIES: dict[str, type[RotaError]] = {each.__name__: each for each in (Invalid, Denied, Unavailable, Unknown)}


class Lender:
    """Answers what one worker asks."""

    def __init__(
        self,
        store: Callable[[], Store | None],
        lease: Callable[[], LeaseId | None],
        prefixes: Iterable[Key],
        send: Callable[[bytes], None],
    ) -> None:
        self._store, self._lease, self._prefixes, self._send = store, lease, tuple(prefixes), send
        self._open: dict[int, asyncio.Task[None]] = {}

    def heard(self, frame: bytes) -> None:
        """The worker asks something."""
        try:
            asked = _asks.decode(frame)
        except UNREADABLE as error:
            raise Invalid(f"a worker asked something of the store that is no question: {error}") from None
        if isinstance(asked, _Leave):
            if (task := self._open.pop(asked.number, None)) is not None:
                task.cancel()
        elif len(self._open) >= MOST_ASKED:
            self._refuse(asked.number, Unavailable(f"{MOST_ASKED} questions are open already; wait for their answers"))
        else:
            self._open[asked.number] = asyncio.create_task(self._answer(asked), name="lent store")

    async def close(self) -> None:
        """The worker is gone."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _answer(self, asked: _Asked) -> None:
        try:
            store = self._store()
            if store is None:
                raise Unavailable("this node has no store at the moment; try again")
            await self._do(store, asked)
        except RotaError as error:
            self._refuse(asked.number, error)
        finally:
            self._open.pop(asked.number, None)

    async def _do(self, store: Store, asked: _Asked) -> None:
        number = asked.number
        match asked:
            case _Get():
                self._check(asked.key)
                self._send_answer(_Answer(number, entry=await store.get(asked.key)))
            case _Scan():
                self._check(asked.prefix)
                listing = await store.scan(asked.prefix, after=asked.after, limit=asked.limit, at=asked.at)
                self._send_answer(_Answer(number, listing=listing))
            case _Write():
                self._send_answer(_Answer(number, revision=await self._commit(store, asked)))
            case _Watch():
                self._check(asked.prefix)
                async with aclosing(store.watch(asked.prefix, asked.after)) as commits:
                    async for commit in commits:
                        self._send_answer(_Answer(number, commit=commit))
            case _Now():
                self._send_answer(_Answer(number, time=await store.now()))
            case _:
                self._send_answer(_Answer(number, revision=await store.revision()))

    async def _commit(self, store: Store, asked: _Write) -> Revision:
        expect: list[Expect] = [*asked.at, *asked.absent]
        for each in (*asked.puts, *asked.deletes, *expect):
            self._check(each.key)
        puts = [Put(put.key, put.value, self._granted(put.lease)) for put in asked.puts]
        return await store.commit(*puts, *asked.deletes, expect=expect)

    def _granted(self, lease: LeaseId | None) -> LeaseId | None:
        if lease is None:
            return None
        if lease != OWN:
            raise Denied(f"lease {lease} is not the worker's; put under {OWN}, or under none")
        own = self._lease()
        if own is None:
            raise Unavailable("this node has no session at the moment; try again")
        return own

    def _check(self, key: Key) -> None:
        if not key.startswith(self._prefixes):
            raise Denied(f"{key} is none of this worker's; it may use {', '.join(self._prefixes)}")

    def _refuse(self, number: int, error: RotaError) -> None:
        said = str(error)
        match error:
            case Conflict():
                answer = _Answer(number, family="Conflict", error=said, keys=tuple(sorted(error.keys)))
            case Compacted():
                answer = _Answer(number, family="Compacted", error=said, revisions=(error.asked, error.oldest))
            case _:
                family = next((name for name, each in _FAMILIES.items() if isinstance(error, each)), "Unavailable")
                answer = _Answer(number, family=family, error=said)
        self._send_answer(answer)

    def _send_answer(self, answer: _Answer) -> None:
        self._send(_encoder.encode(answer))


class LentStore:
    """A Store that asks a lender."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._number = 0
        self._waiting: dict[int, asyncio.Future[_Answer]] = {}
        self._watching: dict[int, asyncio.Queue[_Answer]] = {}
        self._is_over = False

    def heard(self, frame: bytes) -> None:
        """The lender answers."""
        answer = _answers.decode(frame)
        if (queue := self._watching.get(answer.number)) is not None:
            queue.put_nowait(answer)
        elif (waiting := self._waiting.get(answer.number)) is not None and not waiting.done():
            waiting.set_result(answer)

    def lost(self) -> None:
        """The lender is gone: fail all open requests."""
        self._is_over = True
        for number in (*self._waiting, *self._watching):
            self.heard(_encoder.encode(_Answer(number, family="Unknown", error=GONE)))

    async def get(self, key: Key) -> Entry | None:
        return (await self._ask(_Get(self._next(), key))).entry

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        listing = (await self._ask(_Scan(self._next(), prefix, after, limit, at))).listing
        assert listing is not None
        return listing

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        expected = rules.check_commit(writes, expect)
        asked = _Write(
            self._next(),
            [write for write in writes if isinstance(write, Put)],
            [write for write in writes if isinstance(write, Delete)],
            [each for each in expected if isinstance(each, At)],
            [each for each in expected if isinstance(each, Absent)],
        )
        revision = (await self._ask(asked)).revision
        assert revision is not None
        return revision

    async def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        number = self._next()
        queue: asyncio.Queue[_Answer] = asyncio.Queue()
        self._watching[number] = queue
        try:
            self._say(_Watch(number, prefix, after))
            while True:
                answer = await queue.get()
                if answer.commit is None:
                    _raise(answer)
                yield answer.commit
        finally:
            del self._watching[number]
            self._leave(number)

    async def now(self) -> datetime:
        time = (await self._ask(_Now(self._next()))).time
        assert time is not None
        return time

    async def revision(self) -> Revision:
        revision = (await self._ask(_Newest(self._next()))).revision
        assert revision is not None
        return revision

    async def grant(self, ttl: timedelta) -> Lease:
        raise _not_lent("leases")

    async def renew(self, lease: Lease) -> Instant:
        raise _not_lent("leases")

    async def revoke(self, lease: LeaseId) -> None:
        raise _not_lent("leases")

    async def compact(self, before: Revision) -> None:
        raise _not_lent("compaction")

    async def close(self) -> None:
        """The store is the lender's."""

    async def _ask(self, asked: _Asked) -> _Answer:
        number = asked.number
        waiting: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        is_answered = False
        try:
            self._say(asked)
            answer = await waiting
            is_answered = True
        finally:
            del self._waiting[number]
            if not is_answered:
                self._leave(number)
        if answer.family:
            _raise(answer)
        return answer

    def _say(self, asked: _Asked) -> None:
        if self._is_over:
            raise Unavailable(f"the store is out of reach: {GONE}")
        self._send(_encoder.encode(asked))

    def _leave(self, number: int) -> None:
        if not self._is_over:
            self._send(_encoder.encode(_Leave(number)))

    def _next(self) -> int:
        self._number += 1
        return self._number


def _raise(answer: _Answer) -> NoReturn:
    match answer.family:
        case "Conflict":
            raise Conflict(answer.error, answer.keys)
        case "Compacted":
            raise Compacted(*answer.revisions)
        case family:
            raise _FAMILIES[family](answer.error)


def _not_lent(what: str) -> Invalid:
    return Invalid(f"a lent store has no {what}; the lender does that")
