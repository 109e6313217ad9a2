"""The laws of the node link, on every adapter: the numbers are those of `rota.rpc.port.Link`.

gRPC is also tried behind a bad network and before a process that is frozen or killed. The link in memory has a network
that can be as bad, in virtual time: `tests/unit/rpc/test_memory.py`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from rota.decide.access import Access, Gate, TurnedAway, known
from rota.kit.record import replace
from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, Revision, SessionId, TermNumber
from rota.model.link import (
    Accepted,
    AttemptId,
    Batch,
    Chunk,
    Control,
    NotLeader,
    Refused,
    Verb,
    Whom,
)
from rota.rpc import Link, NotMe, OtherMap, StaleEpoch, TlsFiles, open_link, serve_link
from tests.kit.certificates import Authority, serial
from tests.kit.faultproxy import FaultProxy
from tests.kit.link_server import (
    ATTEMPT,
    BEFORE,
    CALM,
    MAP,
    NODE,
    QUICK,
    SESSION,
    STUCK,
    Desk,
    batch,
    change,
    report,
    start,
    stop,
)
from tests.kit.process import Script
from tests.kit.waiting import eventually

MEBIBYTE = 1024 * 1024
KIBIBYTE = 1024
SHORT = timedelta(milliseconds=300)
"""A time-out for calls that will not be answered."""

SILENCE = timedelta(seconds=4)
"""A silence that a test can wait for."""

TELL = 30.0
"""Seconds in which a call with a time-out of SHORT, or a stream of QUICK, must have ended; the machine may be busy."""

A = NodeId("a")


@pytest.fixture
def desk() -> Desk:
    """The other node."""
    return Desk()


@dataclass
class Place:
    """Where the other node answers."""

    address: str

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.address.rpartition(":")[2])


@pytest.fixture(params=["memory", "grpc"])
async def place(request: pytest.FixtureRequest, desk: Desk) -> AsyncIterator[Place]:
    """The other node's door, on every adapter."""
    address = "memory://b" if request.param == "memory" else "grpc://127.0.0.1:0"
    async with serve_link(address, desk, settings=CALM, grace=timedelta(seconds=1)) as server:
        yield Place(server.address)


@pytest.fixture
async def link(place: Place) -> AsyncIterator[Link]:
    """A link to it."""
    async with open_link(place.address, settings=CALM) as link:
        yield link


async def each(*batches: Batch) -> AsyncIterator[Batch]:
    for one in batches:
        yield one


async def acks_of(
    link: Link,
    batches: AsyncIterator[Batch],
    *,
    relay_map: int = MAP,
    silence: timedelta | None = None,
    seen: Callable[[int], object] = lambda acked: None,
) -> list[int]:
    """Hand over, and return the acks; `seen` is told of each as it comes."""
    acked = []
    async with aclosing(link.hand_over(A, relay_map, batches, silence=silence)) as acks:
        async for ack in acks:
            seen(ack)
            acked.append(ack)
    return acked


async def handed_over(link: Link, *batches: Batch, relay_map: int = MAP) -> list[int]:
    return await acks_of(link, each(*batches), relay_map=relay_map)


async def read(link: Link, offset: int = 0) -> list[Chunk]:
    async with aclosing(link.follow_log(ATTEMPT, offset)) as chunks:
        return [chunk async for chunk in chunks]


async def everything(link: Link) -> list[object]:
    """What each operation of a link returns or raises."""
    answers = await asyncio.gather(
        link.check(),
        link.report(report()),
        link.dispatch(start()),
        link.dispatch_many([start()]),
        link.control(stop()),
        handed_over(link, batch(1)),
        read(link),
        return_exceptions=True,
    )
    return list(answers)


# Law 1: a link may say whom it means; another node or session refuses everything, and nothing happens.


async def test_law_1_a_check_says_who_answers_and_how_it_is(link: Link, desk: Desk) -> None:
    assert await link.check() == desk.is_at


@pytest.mark.parametrize("meant", [Whom(node=NODE), Whom(node=NODE, session=SESSION)], ids=str)
async def test_law_1_the_one_that_is_meant_answers(place: Place, desk: Desk, meant: Whom) -> None:
    async with open_link(place.address, meant=meant, settings=CALM) as link:
        assert (await link.check()).node == NODE
        assert isinstance(await link.dispatch(start()), Accepted)


@pytest.mark.parametrize("meant", [Whom(node=NodeId("c")), BEFORE], ids=str)
async def test_law_1_another_node_or_session_refuses_everything(place: Place, desk: Desk, meant: Whom) -> None:
    desk.write(b"log", is_last=True)
    async with open_link(place.address, meant=meant, settings=CALM) as link:
        for refusal in await everything(link):
            assert isinstance(refusal, NotMe)
            assert (refusal.meant, refusal.node, refusal.session) == (meant, NODE, SESSION)
    assert not desk.was_asked


async def test_law_1_a_node_that_begins_a_new_session_is_not_the_one_any_more(place: Place, desk: Desk) -> None:
    meant = Whom(node=NODE, session=SESSION)
    async with open_link(place.address, meant=meant, settings=CALM) as link:
        await link.check()
        desk.is_at = replace(desk.is_at, session=SessionId("b-2"))
        with pytest.raises(NotMe, match="session b-2 is here; look its address up again"):
            await link.check()


# Law 2: reports of a session reach the handler in order and at most once; who does not lead says so.


async def test_law_2_a_report_arrives_whole(link: Link, desk: Desk) -> None:
    sent = replace(report(changes=(change("a/1"), change("ü/2"))), resync="nonce 1")
    assert await link.report(sent) is None
    assert desk.reports == [sent]


async def test_law_2_a_report_that_comes_after_a_later_one_is_dropped(link: Link, desk: Desk) -> None:
    for sequence in (1, 3, 2, 3, 4):
        assert await link.report(report(sequence)) is None
    assert [each.sequence for each in desk.reports] == [1, 3, 4]


async def test_law_2_each_session_counts_for_itself(link: Link, desk: Desk) -> None:
    for sequence, session in ((5, "a-1"), (1, "a-2"), (4, "a-1"), (2, "a-2")):
        await link.report(report(sequence, session=session))
    assert [(each.session, each.sequence) for each in desk.reports] == [("a-1", 5), ("a-2", 1), ("a-2", 2)]


async def test_law_2_reports_sent_at_once_arrive_in_order(link: Link, desk: Desk) -> None:
    await asyncio.gather(*(link.report(report(sequence)) for sequence in range(1, 51)))
    sequences = [each.sequence for each in desk.reports]
    assert sequences == sorted(set(sequences))
    assert sequences[-1] == 50


@pytest.mark.parametrize(
    "known", [NotLeader(), NotLeader(term=TermNumber(99)), NotLeader(term=TermNumber(99), leader=NodeId("c"))]
)
async def test_law_2_a_deposed_leader_says_what_it_knows(link: Link, desk: Desk, known: NotLeader) -> None:
    desk.not_leader = known
    assert await link.report(report()) == known


# Law 3: a start reaches the handler once per run, attempt and epoch.


async def test_law_3_a_start_arrives_whole(link: Link, desk: Desk) -> None:
    sent = start(payload=bytes(range(256)))
    assert await link.dispatch(sent) == Accepted(reservation="executor 3")
    assert await link.dispatch(replace(start("other"), timeout=None)) == Accepted(reservation="executor 3")
    assert desk.starts == [sent, replace(start("other"), timeout=None)]


async def test_law_3_the_same_start_again_gets_the_same_answer(link: Link, desk: Desk) -> None:
    first = await link.dispatch(start())
    desk.answer = Refused(why="full")
    assert await link.dispatch(start()) == first
    assert len(desk.starts) == 1


async def test_law_3_a_refusal_is_an_answer_like_another(link: Link, desk: Desk) -> None:
    desk.answer = Refused(why="no free executor")
    assert await link.dispatch(start()) == Refused(why="no free executor")
    desk.answer = Accepted(reservation="executor 1")
    assert await link.dispatch(start()) == Refused(why="no free executor")
    assert await link.dispatch(start(attempt=2)) == Accepted(reservation="executor 1")


async def test_law_3_starts_that_travel_together_have_their_own_answers(link: Link, desk: Desk) -> None:
    await link.dispatch(start("old", epoch=7))
    known = await link.dispatch(start("known"))
    desk.answer = Refused(why="full")
    sent = [start("new"), start("known"), start("old", epoch=6), start("new", attempt=2)]
    new, again, stale, other = await link.dispatch_many(sent)
    assert (new, again, other) == (Refused(why="full"), known, Refused(why="full"))
    assert isinstance(stale, Refused)
    assert "the present one is 7" in stale.why
    assert [each.attempt.run for each in desk.starts] == ["old", "known", "new", "new"]
    assert await link.dispatch(start("new")) == new, "alone or together, it is the same start"


async def test_law_3_what_one_start_would_raise_is_a_refusal_among_others(link: Link, desk: Desk) -> None:
    desk.answer = Unavailable("no executors today")
    assert await link.dispatch_many([start("a"), start("b")]) == [Refused(why="no executors today")] * 2
    desk.answer = Accepted(reservation="executor 1")
    assert await link.dispatch_many([start("a")]) == [desk.answer], "what failed was not an answer"
    assert await link.dispatch_many([]) == []


async def test_law_3_starts_at_the_same_time_are_one(place: Place, link: Link, desk: Desk) -> None:
    desk.open.clear()
    async with open_link(place.address, settings=CALM) as other:
        asked = [asyncio.ensure_future(way.dispatch(start())) for way in (link, other, link)]
        await eventually(lambda: desk.starts)
        assert not any(one.done() for one in asked)
        desk.open.set()
        assert await asyncio.gather(*asked) == [Accepted(reservation="executor 3")] * 3
    assert len(desk.starts) == 1


async def test_law_3_a_start_goes_on_when_its_caller_gave_up(link: Link, desk: Desk) -> None:
    desk.open.clear()
    with pytest.raises(Unknown):
        await link.dispatch(start(), timeout=SHORT)
    desk.open.set()
    assert await link.dispatch(start()) == Accepted(reservation="executor 3")
    assert len(desk.starts) == 1


async def test_law_3_an_older_epoch_is_stale_and_a_later_one_new(link: Link, desk: Desk) -> None:
    await link.dispatch(start(epoch=5))
    with pytest.raises(StaleEpoch) as stale:
        await link.dispatch(start(epoch=4))
    assert (stale.value.epoch, stale.value.current) == (4, 5)
    desk.answer = Refused(why="full")
    assert await link.dispatch(start(epoch=6)) == Refused(why="full")
    assert [each.epoch for each in desk.starts] == [5, 6]


async def test_law_3_an_error_is_no_answer_and_the_next_try_is_a_new_one(link: Link, desk: Desk) -> None:
    desk.answer = Unavailable("the loader is starting; try again")
    with pytest.raises(Unavailable, match="the loader is starting; try again"):
        await link.dispatch(start())
    desk.answer = Accepted(reservation="executor 1")
    assert await link.dispatch(start()) == Accepted(reservation="executor 1")


# Law 4: a control under an older epoch is StaleEpoch, naming the present one.


@pytest.mark.parametrize("verb", list(Verb))
@pytest.mark.parametrize("what", ["room/1/0", AttemptId("nightly/1", 2)], ids=str)
async def test_law_4_a_control_arrives_whole(link: Link, desk: Desk, verb: Verb, what: str | AttemptId) -> None:
    desk.epochs[what] = Revision(5)
    sent = Control(verb=verb, what=what, epoch=Revision(5), why="drained")
    assert await link.control(sent) is True
    assert desk.controls == [sent]


async def test_law_4_what_is_not_there_cannot_be_controlled(link: Link) -> None:
    assert await link.control(stop("room/9/0")) is False


async def test_law_4_an_older_epoch_is_refused_with_the_present_one(link: Link, desk: Desk) -> None:
    desk.epochs["room/1/0"] = Revision(8)
    with pytest.raises(StaleEpoch, match="room/1/0: epoch 5 is over, the present one is 8") as stale:
        await link.control(stop(epoch=5))
    assert (stale.value.epoch, stale.value.current) == (5, 8)


# Law 5: batches reach the handler in order, at most `window` are under way, and an ack of n stands for all up to n.


async def test_law_5_batches_arrive_whole_and_in_order_and_are_acked(link: Link, desk: Desk) -> None:
    batches = [batch(number, b"x" * number, bytes(range(256))) for number in range(1, 101)]
    acks = await handed_over(link, *batches)
    assert desk.batches == batches
    assert acks == sorted(set(acks))
    assert acks[-1] == 100


async def test_law_5_nothing_to_hand_over_is_handed_over(link: Link, desk: Desk) -> None:
    assert await handed_over(link) == []


async def test_law_5_an_empty_batch_is_acked_too(link: Link) -> None:
    assert await handed_over(link, Batch(sequence=3, messages=())) == [3]


async def test_law_5_a_slow_receiver_slows_the_sender_down(link: Link, desk: Desk) -> None:
    desk.open.clear()
    drawn: list[int] = []

    async def source() -> AsyncIterator[Batch]:
        for number in range(1, 21):
            drawn.append(number)
            yield batch(number)

    draining = asyncio.ensure_future(acks_of(link, source(), silence=SILENCE))
    await eventually(lambda: len(desk.batches) == CALM.window)
    await link.check()  # a round trip: if more were coming, it would have come
    assert (len(drawn), len(desk.batches), desk.safe) == (CALM.window, CALM.window, [])
    await asyncio.wait({draining}, timeout=1.25 * SILENCE.total_seconds())
    assert not draining.done()  # waiting is not silence
    desk.open.set()
    assert (await draining)[-1] == 20
    assert desk.safe == list(range(1, 21))


async def test_law_5_an_ack_never_runs_ahead_of_what_is_safe(link: Link, desk: Desk) -> None:
    early: list[int] = []

    def check(acked: int) -> None:
        early.extend(set(range(1, acked + 1)) - set(desk.safe))

    assert (await acks_of(link, each(*map(batch, range(1, 31))), seen=check))[-1] == 30
    assert early == []


async def test_law_5_a_source_that_fails_fails_the_hand_over(link: Link) -> None:
    async def source() -> AsyncIterator[Batch]:
        yield batch(1)
        raise LookupError("the spool is torn")

    with pytest.raises(LookupError, match="the spool is torn"):
        await acks_of(link, source())


async def test_law_5_a_receiver_that_fails_leaves_the_rest_unknown(link: Link, desk: Desk) -> None:
    async def fail(source: NodeId, batch: Batch) -> None:
        if batch.sequence == 3:
            raise Unavailable("the spool is full; try again")

    desk.hand_over = fail  # type: ignore[method-assign]
    seen: list[int] = []
    with pytest.raises(Unknown, match=r"broke off after batch 2 was acked \(.*the spool is full"):
        await acks_of(link, each(*map(batch, range(1, 6))), seen=seen.append)
    assert seen[-1] == 2


# Law 6: a hand-over by another version of the relay map is refused, and its batches do not reach the handler.


@pytest.mark.parametrize("relay_map", [MAP - 1, MAP + 1])
async def test_law_6_another_relay_map_is_refused(link: Link, desk: Desk, relay_map: int) -> None:
    with pytest.raises(OtherMap) as other:
        await handed_over(link, batch(1), relay_map=relay_map)
    assert (other.value.version, other.value.current) == (relay_map, MAP)
    assert desk.batches == []


async def test_law_6_a_map_that_changes_ends_the_hand_over(link: Link, desk: Desk) -> None:
    go_on = asyncio.Event()

    async def source() -> AsyncIterator[Batch]:
        yield batch(1)
        await go_on.wait()
        yield batch(2)

    def move(_: int) -> None:
        desk.is_at = replace(desk.is_at, relay_map=MAP + 1)
        go_on.set()

    with pytest.raises(OtherMap, match=f"relay map {MAP} .* but {MAP + 1} is in force"):
        await acks_of(link, source(), seen=move)
    assert [each.sequence for each in desk.batches] == [1]


# Law 7: the chunks of a log fit on to each other from the offset asked for, each at most 64 KiB.


@pytest.mark.parametrize("offset", [0, 1, 65_536, 200_000, 300_000])
async def test_law_7_chunks_fit_on_to_each_other(link: Link, desk: Desk, offset: int) -> None:
    desk.write(bytes(range(250)) * 1200, is_last=True)
    chunks = await read(link, offset)
    assert b"".join(chunk.data for chunk in chunks) == desk.log[offset:]
    assert all(0 < len(chunk.data) <= 64 * KIBIBYTE for chunk in chunks)
    place = offset
    for chunk in chunks:
        assert chunk.offset == place
        place += len(chunk.data)


async def test_law_7_a_log_is_followed_as_it_grows(link: Link, desk: Desk) -> None:
    async with aclosing(link.follow_log(ATTEMPT)) as chunks:
        for line in (b"one\n", b"two\n"):
            desk.write(line)
            assert (await anext(chunks)).data == line
        desk.write(b"", is_last=True)
        assert [chunk async for chunk in chunks] == []


async def test_law_7_a_quiet_log_is_not_a_silent_peer(link: Link, desk: Desk) -> None:
    async with aclosing(link.follow_log(ATTEMPT, silence=SILENCE)) as chunks:
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.wait({waiting}, timeout=1.25 * SILENCE.total_seconds())
        assert not waiting.done()
        desk.write(b"at last", is_last=True)
        assert await waiting == Chunk(0, b"at last")


async def test_law_7_a_reader_that_leaves_is_let_go(link: Link, desk: Desk) -> None:
    desk.write(b"one")
    async with aclosing(link.follow_log(ATTEMPT)) as chunks:
        await anext(chunks)
        assert desk.readers == 1
    await eventually(lambda: desk.readers == 0)


async def test_law_7_a_log_that_is_not_there_is_said_so(link: Link, desk: Desk) -> None:
    async def nothing(attempt: AttemptId, offset: int) -> AsyncIterator[bytes]:
        if offset == 0:
            raise Invalid(f"no log of {attempt} here; ask the node that ran it")
        yield b""

    desk.follow_log = nothing  # type: ignore[method-assign,assignment]
    with pytest.raises(Invalid, match="no log of run nightly/2026-11-15, attempt 1 here"):
        await read(link)


# Law 8: every call ends within its time-out; what certainly did not happen is Unavailable, the rest Unknown.


async def test_law_8_what_was_sent_and_not_answered_is_unknown(link: Link, desk: Desk) -> None:
    await link.check()
    desk.open.clear()
    began, enough = time.monotonic(), timedelta(seconds=1)  # to get there
    calls = link.dispatch(start(), timeout=enough), link.dispatch_many([start()], timeout=enough)
    for call in (*calls, link.control(stop(), timeout=enough)):
        with pytest.raises(Unknown):
            await call
    assert time.monotonic() - began < TELL
    assert (len(desk.starts), len(desk.controls)) == (1, 1)
    desk.open.set()


@pytest.mark.parametrize("address", ["memory://nobody", "grpc://127.0.0.1:9", "grpc://[::1]:9"])
async def test_law_8_nobody_there_is_unavailable(address: str) -> None:
    async with open_link(address, settings=CALM) as link:
        answers = await asyncio.wait_for(everything(link), TELL)
    assert [type(answer) for answer in answers] == [Unavailable] * 7
    assert all(address in str(answer) for answer in answers)


@pytest.mark.parametrize("family", [Invalid, Denied, Conflict, Unavailable, Unknown])
async def test_law_8_what_the_handler_raises_reaches_the_caller(
    link: Link, desk: Desk, family: type[RotaError]
) -> None:
    desk.answer = family("no; do something else")
    with pytest.raises(family, match=r"^no; do something else$") as raised:
        await link.dispatch(start())
    assert type(raised.value) is family


async def test_law_8_a_handler_with_a_bug_is_unknown_and_logged(
    link: Link, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.answer = ZeroDivisionError("secret detail")
    with pytest.raises(Unknown) as told:
        await link.dispatch(start())
    assert "secret" not in str(told.value)
    assert "secret detail" in caplog.text
    await link.check()


async def test_law_8_a_closed_link_says_so(place: Place) -> None:
    async with open_link(place.address, settings=CALM) as link:
        await link.check()
    for answer in await everything(link):
        assert isinstance(answer, Unavailable)
        assert "closed" in str(answer)


async def test_law_8_closing_a_link_ends_what_is_under_way(place: Place, desk: Desk) -> None:
    desk.open.clear()
    async with open_link(place.address, settings=CALM) as link:
        starting = asyncio.ensure_future(link.dispatch(start()))
        reading = asyncio.ensure_future(read(link))
        handing = asyncio.ensure_future(handed_over(link, batch(1)))
        await eventually(lambda: desk.starts and desk.readers and desk.batches)
    ended = await asyncio.wait_for(asyncio.gather(starting, reading, handing, return_exceptions=True), TELL)
    assert [type(each) for each in ended] == [Unknown, Unavailable, Unknown]
    desk.open.set()


async def test_law_8_a_cancelled_call_is_cancelled(link: Link, desk: Desk) -> None:
    desk.open.clear()
    starting = asyncio.ensure_future(link.dispatch(start()))
    await eventually(lambda: desk.starts)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    desk.open.set()
    await link.check()


# Law 9 on both adapters: a door that closes and opens again; on gRPC: bad networks, frozen and killed peers.


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0"])
async def test_law_9_a_door_that_closes_finishes_calls_and_ends_streams(address: str) -> None:
    desk = Desk()
    desk.open.clear()
    async with serve_link(address, desk, settings=QUICK, grace=timedelta(seconds=60)) as server:
        async with open_link(server.address, settings=QUICK) as link:
            starting = asyncio.ensure_future(link.dispatch(start(), timeout=timedelta(seconds=60)))
            reading = asyncio.ensure_future(read(link))
            await eventually(lambda: desk.starts and desk.readers)
            closing = asyncio.ensure_future(server.close(timedelta(seconds=60)))
            with pytest.raises(Unavailable):
                await reading
            assert not starting.done()
            desk.open.set()
            assert await starting == Accepted(reservation="executor 3")
            await closing
            with pytest.raises(Unavailable):
                await link.check()


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0"])
async def test_law_9_a_door_that_closes_does_not_wait_for_ever(address: str) -> None:
    desk = Desk()
    desk.open.clear()
    async with serve_link(address, desk, settings=QUICK) as server:
        async with open_link(server.address, settings=QUICK) as link:
            starting = asyncio.ensure_future(link.dispatch(start(), timeout=timedelta(seconds=60)))
            await eventually(lambda: desk.starts)
            await asyncio.wait_for(server.close(timedelta(milliseconds=100)), 30)
            with pytest.raises(Unknown):
                await starting


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0"])
async def test_law_9_the_link_works_again_when_the_door_is_open_again(address: str, desk: Desk) -> None:
    async with serve_link(address, desk, settings=QUICK) as server:
        address = server.address
        async with open_link(address, settings=QUICK) as link:
            await link.check()
            await server.close(timedelta())
            with pytest.raises(Unavailable):
                await link.check()
            async with serve_link(address, desk, settings=QUICK):
                await eventually(link.check, within=30, despite=(Unavailable,))


@pytest.fixture
async def served(desk: Desk) -> AsyncIterator[Place]:
    """A door on gRPC."""
    async with serve_link("grpc://127.0.0.1:0", desk, settings=QUICK) as server:
        yield Place(server.address)


@pytest.fixture
async def network(served: Place) -> AsyncIterator[FaultProxy]:
    """A bad network before it."""
    async with FaultProxy(served.port) as proxy:
        yield proxy


@pytest.fixture
async def far(network: FaultProxy) -> AsyncIterator[Link]:
    """A link through it, connected."""
    async with open_link(f"grpc://127.0.0.1:{network.port}", settings=QUICK) as link:
        await link.check()
        yield link


async def test_law_9_a_cut_ends_streams_and_the_link_comes_back(far: Link, network: FaultProxy, desk: Desk) -> None:
    desk.write(b"one\n")
    async with aclosing(far.follow_log(ATTEMPT)) as chunks:
        first = await anext(chunks)
        network.cut()
        with pytest.raises(Unavailable):
            await anext(chunks)
    desk.write(b"two\n", is_last=True)
    rest = await eventually(lambda: read(far, first.offset + len(first.data)), within=30, despite=(Unavailable,))
    assert b"".join(chunk.data for chunk in [first, *rest]) == desk.log


async def test_law_9_a_refusing_network_is_unavailable_and_the_link_comes_back(far: Link, network: FaultProxy) -> None:
    await network.refuse()
    await eventually(lambda: _fails(far, Unavailable))
    with pytest.raises((Unavailable, Unknown)):
        await far.dispatch(start(), timeout=SHORT)
    await network.heal()
    await eventually(far.check, within=30, despite=(Unavailable,))


async def _fails(link: Link, family: type[RotaError]) -> bool:
    try:
        await link.check(timeout=SHORT)
    except family:
        return True
    return False


@pytest.mark.parametrize("fault", ["freeze", "hold_requests", "hold_answers"])
async def test_law_9_a_frozen_or_half_cut_network_costs_no_more_than_the_time_out(
    far: Link, network: FaultProxy, fault: str
) -> None:
    getattr(network, fault)()
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await far.check(timeout=SHORT)
    with pytest.raises((Unknown, Unavailable)):
        await far.dispatch(start(), timeout=SHORT)
    assert time.monotonic() - began < TELL
    await network.heal()
    await eventually(far.check, within=30, despite=(Unavailable,))


@pytest.mark.parametrize("fault", ["freeze", "hold_requests", "hold_answers", "strand"])
async def test_law_9_streams_notice_a_frozen_or_half_cut_network(
    far: Link, network: FaultProxy, desk: Desk, fault: str
) -> None:
    desk.open.clear()
    reading = asyncio.ensure_future(read(far))
    handing = asyncio.ensure_future(handed_over(far, batch(1)))
    await eventually(lambda: desk.readers and desk.batches)
    getattr(network, fault)()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(reading, TELL)
    with pytest.raises(Unknown, match="broke off after batch 0"):
        await asyncio.wait_for(handing, TELL)
    await eventually(lambda: desk.readers == 0)  # the other side notices, too
    await network.heal()
    desk.open.set()
    acks = await eventually(lambda: handed_over(far, batch(1)), within=30, despite=(Unavailable, Unknown))
    assert acks == [1]


async def test_law_9_a_long_way_is_no_fault(network: FaultProxy) -> None:
    network.latency = 0.15
    async with open_link(f"grpc://127.0.0.1:{network.port}", settings=CALM) as link:
        assert (await link.check()).node == NODE


async def test_law_9_a_late_report_does_not_pass_for_a_new_one(far: Link, network: FaultProxy, desk: Desk) -> None:
    network.hold_requests()
    with pytest.raises((Unknown, Unavailable)):
        await far.report(report(1), timeout=SHORT)
    network.strand()  # the old connection and what is in it are stuck; new ones are fine
    await eventually(lambda: _reported(far, 2), within=30)
    await network.heal()
    await eventually(lambda: _reported(far, 3))
    sequences = [each.sequence for each in desk.reports]
    assert sequences == sorted(set(sequences))
    assert sequences[-2:] == [2, 3]


async def _reported(link: Link, sequence: int) -> bool:
    try:
        await link.report(report(sequence), timeout=SHORT)
    except (Unavailable, Unknown):
        return False
    return True


async def test_law_9_a_frozen_process_is_noticed_and_welcome_back(tmp_path: Path) -> None:
    with Script("link_server", "grpc://127.0.0.1:0", output=tmp_path / "server") as server:
        address = (await eventually(lambda: server.lines() or None))[0]
        async with open_link(address, settings=QUICK) as link:
            reading = asyncio.ensure_future(read(link))
            await link.check()
            server.freeze()
            began = time.monotonic()
            with pytest.raises((Unknown, Unavailable)):  # it was sent, or the connection counted as dead before
                await link.dispatch(start("frozen"), timeout=SHORT)
            with pytest.raises(Unavailable):
                await reading
            assert time.monotonic() - began < TELL
            # by now the connection itself counts as dead: what is asked next is not sent at all
            await eventually(lambda: _is_not_sent(link), within=30)
            server.thaw()
            await eventually(link.check, within=30, despite=(Unavailable,))


async def _is_not_sent(link: Link) -> bool:
    try:
        await link.dispatch(start("not sent"), timeout=SHORT)
    except Unavailable:
        return True
    except Unknown:
        return False
    raise AssertionError("a frozen process answered")


async def test_law_9_a_process_whose_loop_stands_still_is_noticed_by_streams(tmp_path: Path) -> None:
    with Script("link_server", "grpc://127.0.0.1:0", output=tmp_path / "server") as server:
        address = (await eventually(lambda: server.lines() or None))[0]
        async with open_link(address, settings=QUICK) as link:
            reading = asyncio.ensure_future(read(link))
            await link.check()
            with pytest.raises(Unknown):
                await link.dispatch(start(STUCK), timeout=timedelta(seconds=2))  # in which it must get there
            with pytest.raises(Unavailable, match="not a word for 1 s"):
                await asyncio.wait_for(reading, TELL)


async def test_law_9_a_killed_process_is_noticed_at_once_and_its_successor_found(tmp_path: Path) -> None:
    with Script("link_server", "grpc://127.0.0.1:0", output=tmp_path / "first") as first:
        address = (await eventually(lambda: first.lines() or None))[0]
        async with open_link(address, settings=QUICK) as link:
            reading = asyncio.ensure_future(read(link))
            await link.check()
            first.kill()
            with pytest.raises(Unavailable):
                await asyncio.wait_for(reading, TELL)
            with Script("link_server", address, output=tmp_path / "second"):
                await eventually(link.check, within=30, despite=(Unavailable,))


# Law 10: a record beyond the limits is Invalid, naming the limit, before anything is sent.


async def test_law_10_four_mebibytes_pass(link: Link, desk: Desk) -> None:
    assert await link.dispatch(start(payload=bytes(4 * MEBIBYTE)))
    assert await handed_over(link, batch(1, *[bytes(MEBIBYTE - 200)] * 4)) == [1]
    await link.report(report(changes=tuple(change(f"{number:0200}") for number in range(10_000))))
    assert len(desk.reports[0].changes) == 10_000


async def test_law_10_more_is_refused_with_its_size(link: Link, desk: Desk) -> None:
    size = 4 * MEBIBYTE + 1
    with pytest.raises(Invalid, match=rf"payload of run nightly/1, attempt 1 has {size} bytes; at most 4194304 pass"):
        await link.dispatch(start(payload=bytes(size)))
    with pytest.raises(Invalid, match=r"batch 1 with 1 messages has \d+ bytes"):
        await handed_over(link, batch(1, bytes(size)))
    with pytest.raises(Invalid, match=r"report 1 with 20000 changes has \d+ bytes; .* send fewer changes"):
        await link.report(report(changes=tuple(change(f"{number:0200}") for number in range(20_000))))
    assert not desk.was_asked


async def test_law_10_what_makes_no_sense_is_refused(link: Link, desk: Desk) -> None:
    for bad in (start(""), start("x" * 513), start(attempt=0), start(epoch=-1), start(epoch=2**63), start("\ud800")):
        with pytest.raises(Invalid):
            await link.dispatch(bad)
    for timeout in (timedelta(), timedelta(days=36_501)):
        with pytest.raises(Invalid, match="must be above zero, and at most 100 years"):
            await link.dispatch(replace(start(), timeout=timeout))
    with pytest.raises(Invalid, match="says no time zone"):
        await link.report(report(changes=(replace(change(), at=change().at.replace(tzinfo=None)),)))
    with pytest.raises(Invalid, match="batch 1 follows 2"):
        await handed_over(link, batch(2), batch(1))
    with pytest.raises(Invalid, match="log offset is -1"):
        await read(link, -1)
    assert (desk.starts, desk.reports) == ([], [])


# Law 11: a slow handler, a slow stream or a slow reader holds up nothing but itself.


async def test_law_11_slow_ones_hold_up_nobody_else(link: Link, desk: Desk) -> None:
    desk.open.clear()
    starting = asyncio.ensure_future(link.dispatch(start()))
    handing = asyncio.ensure_future(handed_over(link, *map(batch, range(1, 20))))
    desk.write(bytes(8 * MEBIBYTE), is_last=True)
    async with aclosing(link.follow_log(ATTEMPT)) as chunks:
        first = await anext(chunks)  # and then the reader takes its time
        await eventually(lambda: desk.starts and desk.batches)
        for number in range(1, 51):
            await link.check(timeout=timedelta(seconds=60))
            await link.report(report(number), timeout=timedelta(seconds=60))
        desk.open.set()
        assert isinstance(await starting, Accepted)
        assert (await handing)[-1] == 19
        assert len(first.data) + sum([len(chunk.data) async for chunk in chunks]) == 8 * MEBIBYTE


# Law 12: what the door does not admit is Denied, and nothing reaches the handler.


@pytest.mark.parametrize("address", ["memory://guarded", "grpc://127.0.0.1:0"])
async def test_law_12_what_the_door_does_not_admit_is_denied(desk: Desk, address: str) -> None:
    desk.write(b"log", is_last=True)
    gate = Gate((known("rota_boss", Access.NODE),), "see: cat data/token")

    def admit(_: str, authorization: str | None) -> TurnedAway | None:
        judged = gate.judge(authorization, Access.NODE, datetime.now(UTC))
        return judged if isinstance(judged, TurnedAway) else None

    async with serve_link(address, desk, settings=CALM, admit=admit) as server:
        for token, words in ((None, "needs a token"), ("rota_other", "is not known here")):
            async with open_link(server.address, token=token, settings=CALM) as link:
                for refusal in await everything(link):
                    assert isinstance(refusal, Denied), refusal
                    assert words in str(refusal)
        assert not desk.was_asked
        async with open_link(server.address, token="rota_boss", settings=CALM) as link:
            assert (await link.check()).node == NODE


# Opening: what concerns one adapter only.


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0", "grpc://[::1]:0", "grpc://localhost:0"])
async def test_a_door_says_where_it_is(address: str) -> None:
    async with serve_link(address, Desk()) as server:
        assert not server.address.endswith(":0")
        async with open_link(server.address) as link:
            assert (await link.check()).node == NODE


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0"])
async def test_a_place_that_is_taken_is_a_conflict(address: str) -> None:
    async with serve_link(address, Desk()) as server:
        with pytest.raises(Conflict, match=f"{server.address} is taken; .* choose another"):
            async with serve_link(server.address, Desk()):
                pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
async def test_a_place_of_another_machine_is_invalid(host: str) -> None:
    with pytest.raises(Invalid, match=host):
        async with serve_link(f"grpc://{host}:0", Desk()):
            pass


def tls_files(folder: Path, authority: trustme.CA, name: str) -> TlsFiles:
    """A node's certificate for `name`, signed by `authority`."""
    folder.mkdir()
    issued = authority.issue_cert(name)
    issued.private_key_pem.write_to_path(folder / "key.pem")
    for number, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(folder / "cert.pem", append=number > 0)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return TlsFiles(cert=folder / "cert.pem", key=folder / "key.pem", ca=folder / "ca.pem")


@pytest.fixture
def authority() -> trustme.CA:
    """Who signs the fleet's certificates."""
    return trustme.CA()


async def test_nodes_of_one_authority_talk_over_tls(tmp_path: Path, authority: trustme.CA) -> None:
    ours, theirs = (tls_files(tmp_path / name, authority, "127.0.0.1") for name in "ab")
    async with serve_link("grpc://127.0.0.1:0", Desk(), tls=theirs) as server:
        async with open_link(server.address, tls=ours) as link:
            assert (await link.check()).node == NODE
            assert await handed_over(link, batch(1)) == [1]


async def test_a_certificate_of_another_name_needs_that_name(tmp_path: Path, authority: trustme.CA) -> None:
    ours, theirs = tls_files(tmp_path / "a", authority, "a.fleet"), tls_files(tmp_path / "b", authority, "b.fleet")
    async with serve_link("grpc://127.0.0.1:0", Desk(), tls=theirs) as server:
        async with open_link(server.address, tls=ours, settings=QUICK) as link:
            with pytest.raises(Unavailable):
                await link.check()
        async with open_link(server.address, tls=replace(ours, server_name="b.fleet")) as link:
            assert (await link.check()).node == NODE


async def test_a_stranger_and_the_unencrypted_are_turned_away(tmp_path: Path, authority: trustme.CA) -> None:
    theirs = tls_files(tmp_path / "b", authority, "127.0.0.1")
    stranger = tls_files(tmp_path / "s", trustme.CA(), "127.0.0.1")
    knows_ca = replace(stranger, ca=theirs.ca)
    desk = Desk()
    async with serve_link("grpc://127.0.0.1:0", desk, tls=theirs) as server:
        for shown in (None, stranger, knows_ca):
            async with open_link(server.address, tls=shown, settings=QUICK) as link:
                answers = await everything(link)
                assert all(isinstance(answer, Unavailable | Unknown) for answer in answers)
    assert not desk.was_asked


async def test_certificates_that_do_not_fit_are_invalid(tmp_path: Path, authority: trustme.CA) -> None:
    ours, theirs = (tls_files(tmp_path / name, authority, "127.0.0.1") for name in "ab")
    with pytest.raises(Invalid, match="must be PEM files that fit together"):
        async with open_link("grpc://127.0.0.1:1", tls=replace(ours, key=theirs.key)):
            pass
    with pytest.raises(Invalid, match=r"cannot read ca .*nowhere.pem: No such file"):
        async with serve_link("grpc://127.0.0.1:0", Desk(), tls=replace(ours, ca=tmp_path / "nowhere.pem")):
            pass
    with pytest.raises(Invalid, match="no TLS within one process"):
        async with open_link("memory://b", tls=ours):
            pass


async def test_a_node_whose_certificate_was_revoked_is_not_called_any_more(tmp_path: Path) -> None:
    root = Authority(tmp_path)
    ours, theirs = (_files(root.issue(name)) for name in ("a", NODE))
    revoked: set[str] = set()
    async with serve_link("grpc://127.0.0.1:0", Desk(), tls=theirs) as server:
        async with open_link(server.address, tls=ours, is_revoked=revoked.__contains__) as link:
            assert (await link.check()).node == NODE
            revoked.add(serial(theirs.cert.parent))
            with pytest.raises(Unavailable, match=f"was revoked; give {NODE} another"):
                await link.check()
            revoked.clear()
            assert (await link.check()).node == NODE


async def test_a_node_with_anothers_certificate_is_not_called(tmp_path: Path) -> None:
    root, desk = Authority(tmp_path), Desk()
    ours, theirs = (_files(root.issue(name)) for name in ("a", "c"))
    async with serve_link("grpc://127.0.0.1:0", desk, tls=theirs) as server:
        async with open_link(server.address, meant=Whom(node=NODE, session=SESSION), tls=ours) as link:
            with pytest.raises(Unavailable, match=f"its certificate is of node c, not of {NODE}"):
                await link.dispatch(start())
    assert not desk.was_asked


def _files(folder: Path) -> TlsFiles:
    return TlsFiles(cert=folder / "cert.pem", key=folder / "key.pem", ca=folder / "ca.pem")
